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

use crate::connection::{Asked, Connection, Idle, NONE, Phase};
use crate::core::{Core, State};
use crate::event::{Direction, EventId, Flags};
use crate::readiness;
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
        {
            let state = &mut *self.state();
            let slot = state.slots.resolve(kept.0).filter(|&slot| state.slots[slot].keeper != NONE);
            let Some(slot) = slot else { return Err(KeptEnd::Closed) };
            self.release_kept(state, slot);
            let event = EventId::of_slot(slot, Direction::Read);
            let connection = &mut state.slots[slot];
            // Its handler may be posted and not have run yet.
            if connection.asked.is_some() || state.events[event].flags.has(Flags::READY | Flags::END) {
                let end = connection.asked.map(KeptEnd::Asked).or_else(|| found_end(state, slot));
                if let Some(end) = end {
                    self.give_back(state, slot);
                    return Err(end);
                }
            }
            self.set_timeout(state, event, read_timeout);
        }
        Ok(Stream::new(self.clone(), kept.0.index()))
    }

    /// The slot's read event belongs to tasks again.
    #[inline]
    fn release_kept(&self, state: &mut State, slot: u32) {
        state.slots[slot].keeper = NONE;
        state.slots.set_idle(slot, None);
        let event = &mut state.events[EventId::of_slot(slot, Direction::Read)];
        event.handler = task::resume_waiting;
        event.flags.clear(Flags::WAITING);
        self.change_phase(&mut state.slots[slot], Phase::WaitingUpstream);
    }

    /// The phase of a connection other than the one that is served.
    #[inline]
    fn change_phase(&self, connection: &mut Connection, phase: Phase) {
        self.stats().leave_phase(connection.phase);
        self.stats().enter_phase(phase);
        connection.phase = phase;
    }

    /// Leaves a slot to the loop, if it is well.
    fn keep(&self, slot: u32, keeper: KeeperNumber, timeout: Duration) -> Result<Kept, KeptEnd> {
        let state = &mut *self.state();
        let read = EventId::of_slot(slot, Direction::Read);
        if state.draining {
            return Err(KeptEnd::Asked(Asked::Drain));
        }
        if state.events[read].flags.has(Flags::READY | Flags::END)
            && let Some(end) = found_end(state, slot)
        {
            return Err(end);
        }
        readiness::handle_read_event(state, slot).map_err(|_| KeptEnd::Failed)?;
        let event = &mut state.events[read];
        event.flags.clear(Flags::READY | Flags::TIMED_OUT);
        event.flags.set(Flags::WAITING);
        event.handler = end_kept;
        event.task = NONE;
        let write = EventId::of_slot(slot, Direction::Write);
        let event = &mut state.events[write];
        event.flags.clear(Flags::WAITING);
        if event.timer.is_set() {
            self.cancel_timer(state, write);
        }
        self.set_timeout(state, read, timeout);
        state.slots.set_idle(slot, Some(Idle::Further));
        let connection = &mut state.slots[slot];
        connection.keeper = keeper.0;
        self.change_phase(connection, Phase::Idle);
        Ok(Kept(Token::new(slot, connection.generation)))
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
        let kept = self.core().keep(self.slot(), keeper, timeout)?;
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
