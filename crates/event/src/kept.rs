//! Kept streams: connections that are open between two uses and that no task waits for.
//!
//! A pool of outgoing connections would need a task for each only to notice that its peer closed it.
//! Instead [`Stream::keep`] leaves the stream to the loop: its read event gets a handler that closes
//! it when anything happens, and tells its [`Keeper`]. [`Core::take_kept`] makes a stream of it again.
//! Neither allocates, and neither makes a system call where the stream was drained and is watched.
//!
//! Invariants: a kept slot is on the reusable list, with its read event waiting and nothing received;
//! a keeper is told exactly once of each kept stream that is not taken; it is called while nothing is
//! borrowed, so it may use the core.

use std::io;
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::time::Duration;

use nix::sys::socket::{MsgFlags, recv};
use tracing::debug;

use crate::connection::{Asked, Idle, NONE, Phase};
use crate::core::{Core, State};
use crate::event::{Direction, EventId, Flags};
use crate::readiness;
use crate::stats::Gauge;
use crate::stream::Stream;
use crate::task;
use crate::token::Token;

/// Who keeps streams.
pub trait Keeper {
    /// A kept stream has ended; it is closed and its slot is returned.
    fn ended(&self, kept: Kept, end: KeptEnd);
}

/// A keeper as its worker knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeeperNumber(u32);

/// A stream that is kept: a name that goes stale when the stream ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kept(Token);

/// Why a kept stream has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeptEnd {
    /// The peer closed it.
    Closed,
    /// The peer sent something that nobody had asked for.
    Data,
    /// The peer reset it, or it broke otherwise.
    Failed,
    /// It was kept for as long as it was to be.
    TimedOut,
    /// The worker is short of slots, or drains.
    Asked(Asked),
}

impl Core {
    /// Makes a keeper known, for as long as the worker lives.
    pub fn add_keeper(&self, keeper: Rc<dyn Keeper>) -> KeeperNumber {
        let keepers = &mut self.state().keepers;
        keepers.push(keeper);
        KeeperNumber(keepers.len() as u32 - 1)
    }

    /// Makes a kept stream one that can be used again, with this read time-out.
    ///
    /// # Errors
    /// How it ended, where that had not been told yet; it is closed, and its keeper is not told again.
    /// `Closed` for one whose end was told.
    pub fn take_kept(&self, kept: Kept, read_timeout: Duration) -> Result<Stream, KeptEnd> {
        let mut state = self.state();
        let slot = state.slots.resolve(kept.0).filter(|&slot| state.slots[slot].keeper != NONE);
        let Some(slot) = slot else { return Err(KeptEnd::Closed) };
        self.release_kept(&mut state, slot);
        let event = EventId::of_slot(slot, Direction::Read);
        // Its handler may be posted and not have run yet.
        let happened = state.events[event].flags.has(Flags::READY | Flags::END);
        let asked = state.slots[slot].asked.map(KeptEnd::Asked);
        if let Some(end) = asked.or_else(|| happened.then(|| found_end(&state, slot))?) {
            self.give_back(&mut state, slot);
            return Err(end);
        }
        self.set_timeout(&mut state, event, read_timeout);
        drop(state);
        let stream = Stream::new(self.clone(), slot);
        stream.set_phase(Phase::WaitingUpstream);
        Ok(stream)
    }

    /// The slot's read event belongs to tasks again.
    fn release_kept(&self, state: &mut State, slot: u32) {
        state.slots[slot].keeper = NONE;
        state.slots.set_idle(slot, None);
        let event = &mut state.events[EventId::of_slot(slot, Direction::Read)];
        event.handler = task::resume_waiting;
        event.flags.clear(Flags::WAITING);
        self.stats().set(Gauge::ReusableConnections, u64::from(state.slots.reusable()));
    }
}

impl Stream {
    /// Leaves the stream to the loop for at most `timeout`: its end is told to `keeper`, and
    /// [`Core::take_kept`] ends the keeping. Closes the stream instead, and says why, where that would
    /// be its end at once.
    ///
    /// # Errors
    /// Something was there to receive, the peer had closed, or the worker drains.
    pub fn keep(self, keeper: KeeperNumber, timeout: Duration) -> Result<Kept, KeptEnd> {
        self.set_phase(Phase::Idle);
        let core = self.core().clone();
        let slot = self.slot();
        let mut state = core.state();
        let event = EventId::of_slot(slot, Direction::Read);
        let end = if state.draining {
            Some(KeptEnd::Asked(Asked::Drain))
        } else if state.events[event].flags.has(Flags::READY | Flags::END) {
            found_end(&state, slot)
        } else {
            None
        };
        let watched = readiness::handle_read_event(&mut state, slot);
        if let Some(end) = end.or(watched.err().map(|_| KeptEnd::Failed)) {
            drop(state);
            return Err(end);
        }
        let waiting = &mut state.events[event];
        waiting.flags.clear(Flags::READY | Flags::TIMED_OUT);
        waiting.flags.set(Flags::WAITING);
        waiting.handler = end_kept;
        waiting.task = NONE;
        state.events[EventId::of_slot(slot, Direction::Write)].flags.clear(Flags::WAITING);
        core.cancel_timer(&mut state, EventId::of_slot(slot, Direction::Write));
        core.set_timeout(&mut state, event, timeout);
        state.slots[slot].keeper = keeper.0;
        state.slots.set_idle(slot, Some(Idle::Further));
        core.stats().set(Gauge::ReusableConnections, u64::from(state.slots.reusable()));
        let kept = Kept(state.slots.token(slot));
        drop(state);
        // The slot is not given back: it is the loop's now.
        self.forget();
        Ok(kept)
    }
}

/// What receiving says about a stream that nothing should come from; `None` where nothing came.
fn found_end(state: &State, slot: u32) -> Option<KeptEnd> {
    let socket = state.slots[slot].socket.as_ref()?;
    match recv(socket.as_raw_fd(), &mut [0], MsgFlags::MSG_PEEK) {
        Ok(0) => Some(KeptEnd::Closed),
        Ok(_) => Some(KeptEnd::Data),
        Err(errno) if io::Error::from(errno).kind() == io::ErrorKind::WouldBlock => None,
        Err(_) => Some(KeptEnd::Failed),
    }
}

/// The handler of a kept slot's read event: whatever happened is its end, unless nothing did.
pub(crate) fn end_kept(core: &Core, event: EventId) {
    let mut state = core.state();
    let slot = event.row();
    let flags = &mut state.events[event].flags;
    let timed_out = flags.take(Flags::TIMED_OUT);
    flags.clear(Flags::READY);
    let asked = state.slots[slot].asked.take();
    let end = asked
        .map(KeptEnd::Asked)
        .or_else(|| found_end(&state, slot))
        .or_else(|| timed_out.then_some(KeptEnd::TimedOut));
    let Some(end) = end else {
        // Level-triggered backends have to be told again.
        if let Err(error) = readiness::handle_read_event(&mut state, slot) {
            debug!(slot, "watching a kept connection: {error}");
        }
        return;
    };
    let connection = &state.slots[slot];
    debug!(connection = connection.number, "kept connection to {} ended: {end:?}", connection.peer);
    let kept = Kept(state.slots.token(slot));
    let keeper = state.keepers.get(connection.keeper as usize).cloned();
    core.release_kept(&mut state, slot);
    core.give_back(&mut state, slot);
    drop(state);
    if let Some(keeper) = keeper {
        keeper.ended(kept, end);
    }
}
