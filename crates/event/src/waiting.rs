//! Waiting for one direction of a stream: the future behind everything that waits for a peer.

use std::pin::Pin;
use std::task::{Context, Poll};

use tracing::error;

use crate::close::CloseReason;
use crate::connection::{Asked, Idle};
use crate::error::StreamError;
use crate::event::{Direction, EventId, Flags};
use crate::readiness;
use crate::stream::{BUDGET, Stream};

/// Waits for one direction of a stream. Made by [`Stream::readable`] and its like.
#[must_use = "futures do nothing unless awaited"]
pub struct Readiness<'a> {
    stream: &'a Stream,
    direction: Direction,
    idle: Option<Idle>,
}

impl<'a> Readiness<'a> {
    pub(crate) fn new(stream: &'a Stream, direction: Direction, idle: Option<Idle>) -> Self {
        Self { stream, direction, idle }
    }
}

impl Future for Readiness<'_> {
    type Output = Result<(), StreamError>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let (core, slot) = (self.stream.core(), self.stream.slot());
        let event = EventId::of_slot(slot, self.direction);
        let state = &mut *core.state();
        if let Some(terms) = self.idle {
            let connection = &mut state.slots[slot];
            let drain = (state.draining && terms == Idle::Further).then_some(Asked::Drain);
            if let Some(asked) = connection.asked.take().or(drain) {
                connection.end.see(CloseReason::of_asked(asked), connection.phase);
                return Poll::Ready(Err(StreamError::Asked(asked)));
            }
        }
        let flags = &mut state.events[event].flags;
        if flags.has(Flags::READY | Flags::TIMED_OUT) {
            if flags.take(Flags::TIMED_OUT) {
                state.slots[slot].note_timeout(self.direction);
                return Poll::Ready(Err(StreamError::TimedOut));
            }
            if state.moved <= BUDGET {
                return Poll::Ready(Ok(()));
            }
        }
        if state.moved > BUDGET {
            core.give_way(state);
            return Poll::Pending;
        }
        let armed = match self.direction {
            Direction::Read => readiness::handle_read_event(state, slot),
            Direction::Write => readiness::handle_write_event(state, slot),
        };
        if let Err(error) = armed {
            error!(connection = state.slots[slot].number, "watching a connection: {error}");
            return Poll::Ready(Err(error.into()));
        }
        let waiting = &mut state.events[event];
        waiting.flags.set(Flags::WAITING);
        waiting.task = state.tasks.running();
        if self.idle.is_some() {
            state.slots.set_idle(slot, self.idle);
        }
        core.inner().armed.set(true);
        Poll::Pending
    }
}

impl Drop for Readiness<'_> {
    fn drop(&mut self) {
        if self.idle.is_some() {
            self.stream.core().state().slots.set_idle(self.stream.slot(), None);
        }
    }
}
