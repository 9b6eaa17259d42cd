//! Timers, posted queues and slots as the loop uses them, for `benches/figures` alone.
//!
//! The figures compare single mechanisms with what an engineer would otherwise use, and those have
//! no public face of their own. Nothing here does more than call what the loop calls.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use nix::unistd;

use crate::backend::scripted::Script;
use crate::clock::Millis;
use crate::connection::{Connection, Holder};
use crate::core::{Core, Settings, Shared};
use crate::error::Error;
use crate::event::{Direction, Event, EventId, Flags};
use crate::posted::QueueName;
use crate::stats::Stats;
use crate::stream::Stream;
use crate::worker::Worker;

fn worker(connections: u32) -> Result<(Worker, Script), Error> {
    let script = Script::new();
    let settings = Settings { connections, ..Settings::default() };
    let stats = Stats::private().map_err(|source| Error::Install { backend: "scripted", source })?;
    let shared = Shared::alone(stats);
    let worker = Worker::scripted(settings, shared, &script)?;
    let mut guard = worker.core().state();
    let state = &mut *guard;
    state.events.ensure_row(connections - 1);
    for slot in 0..connections {
        state.events[event(slot)].handler = count;
        state.events[event(slot)].flags.set(Flags::WAITING);
    }
    drop(guard);
    Ok((worker, script))
}

fn event(slot: u32) -> EventId {
    EventId::of_slot(slot, Direction::Read)
}

/// The timers of as many slots as asked for, under a clock that is told to move.
pub struct Timers {
    worker: Worker,
    script: Script,
}

impl Timers {
    /// No timer is set.
    ///
    /// # Errors
    /// When the worker cannot be made.
    pub fn new(slots: u32) -> Result<Self, Error> {
        worker(slots).map(|(worker, script)| Self { worker, script })
    }

    /// Sets or moves the time-out of `slot`.
    pub fn set(&self, slot: u32, delay: Duration) {
        let core = self.worker.core();
        core.set_timeout(&mut core.state(), event(slot), delay);
    }

    /// Cancels it.
    pub fn cancel(&self, slot: u32) {
        let core = self.worker.core();
        core.cancel_timer(&mut core.state(), event(slot));
    }

    /// Moves the clock.
    pub fn advance(&self, milliseconds: u64) {
        let now = self.script.clock();
        now.set(now.get() + milliseconds);
        self.worker.core().inner().clock.refresh(Millis::new(now.get()));
    }

    /// Handles what is due; tells how many events were ever handled.
    pub fn expire(&self) -> u64 {
        self.worker.expire_timers();
        HANDLED.get()
    }
}

thread_local! {
    static HANDLED: Cell<u64> = const { Cell::new(0) };
}

fn count(_: &Core, _: EventId) {
    HANDLED.set(HANDLED.get() + 1);
}

/// The posted queue of a worker.
pub struct Posts(Worker);

impl Posts {
    /// Nothing is posted.
    ///
    /// # Errors
    /// When the worker cannot be made.
    pub fn new(slots: u32) -> Result<Self, Error> {
        worker(slots).map(|(worker, _)| Self(worker))
    }

    /// Posts the event of `slot`.
    pub fn post(&self, slot: u32) {
        let core = self.0.core();
        core.post(&mut core.state(), event(slot), QueueName::Posted);
    }

    /// Handles what was posted; tells how many events were ever handled.
    pub fn drain(&self) -> u64 {
        self.0.run_posted(QueueName::Posted);
        HANDLED.get()
    }
}

/// The bytes of a slot's connection, of one event, and so of a slot with its two.
pub const SIZES: [usize; 3] =
    [size_of::<Connection>(), size_of::<Event>(), size_of::<Connection>() + 2 * size_of::<Event>()];

/// A slot around an eventfd.
///
/// # Errors
/// When no slot is left.
pub fn adopt(core: &Core, descriptor: OwnedFd) -> Result<Stream, Error> {
    let state = &mut *core.state();
    let connections = state.slots.capacity();
    let slot = core.lend(state, Some(descriptor), Holder::Channel);
    let slot = slot.ok_or_else(|| Error::NoSlot { what: "an eventfd".to_owned(), connections })?;
    Ok(Stream::new(core.clone(), slot))
}

/// Reads the eventfd in `stream`, which empties it.
///
/// # Errors
/// What `read(2)` reports.
pub fn read_eventfd(stream: &Stream) -> io::Result<usize> {
    let mut counter = [0; size_of::<u64>()];
    stream.receiving(counter.len() + 1, |descriptor| Ok(unistd::read(descriptor.as_fd(), &mut counter)?))
}
