//! A session: what protocol code holds of the datagrams between one local and one remote address.

use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::task::Poll;
use std::time::Duration;

use super::{SPARE_MOST, Sessions, detach, gather};
use crate::clock::Millis;
use crate::close::CloseReason;
use crate::connection::{Idle, PeerAddress, Phase};
use crate::core::Core;
use crate::error::StreamError;
use crate::event::{Direction, EventId, Flags};

/// The datagrams between one local and one remote address. Dropping it ends the session: the next
/// datagram between the two begins another.
pub struct Session {
    core: Core,
    slot: u32,
}

impl Session {
    pub(super) fn new(core: Core, slot: u32) -> Self {
        Self { core, slot }
    }

    /// The engine this session belongs to.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// The session's number, counted together with connections.
    pub fn number(&self) -> u64 {
        self.core.state().slots[self.slot].number
    }

    /// Who is at the other end.
    pub fn peer(&self) -> PeerAddress {
        self.core.state().slots[self.slot].peer
    }

    /// The address that the session was asked at, if the kernel told.
    pub fn local(&self) -> Option<IpAddr> {
        self.core.state().sessions.by_slot.get(&self.slot).and_then(|inbox| inbox.key.local)
    }

    /// The address and port that the session was asked at.
    pub fn local_address(&self) -> Option<SocketAddr> {
        let sessions = &self.core.state().sessions;
        let key = &sessions.by_slot.get(&self.slot)?.key;
        let bound = sessions.served.get(key.served as usize)?.bound;
        Some(SocketAddr::new(key.local.unwrap_or(bound.ip()), bound.port()))
    }

    /// When the session began.
    pub fn began_at(&self) -> Millis {
        self.core.state().slots[self.slot].accepted_at
    }

    /// Bytes received so far, those that wait included.
    pub fn bytes_received(&self) -> u64 {
        self.core.state().slots[self.slot].received
    }

    /// Bytes sent so far.
    pub fn bytes_sent(&self) -> u64 {
        self.core.state().slots[self.slot].sent
    }

    /// Says what the session is busy with, for counters and reports.
    pub fn set_phase(&self, phase: Phase) {
        let connection = &mut self.core.state().slots[self.slot];
        if connection.phase != phase {
            self.core.stats().leave_phase(connection.phase);
            self.core.stats().enter_phase(phase);
            connection.phase = phase;
        }
    }

    /// Says why the session will end, where the protocol knows.
    pub fn close_because(&self, reason: CloseReason) {
        self.core.state().slots[self.slot].end.say(reason);
    }

    /// Waits for a datagram, which replaces the content of `buffer`.
    ///
    /// # Errors
    /// [`StreamError::TimedOut`] when the time-out passed.
    pub async fn receive(&self, buffer: &mut Vec<u8>) -> Result<(), StreamError> {
        poll_fn(|_| self.poll_receive(buffer, None)).await
    }

    /// Receives a datagram, which replaces the content of `buffer`, or has the running task resumed when one
    /// comes. With `idle` terms the worker may ask for the session's end meanwhile, if it needs the slot.
    ///
    /// # Errors
    /// [`StreamError::TimedOut`] when the time-out passed, [`StreamError::Asked`] when the session is to end.
    pub fn poll_receive(&self, buffer: &mut Vec<u8>, idle: Option<Idle>) -> Poll<Result<(), StreamError>> {
        let state = &mut *self.core.state();
        let event = EventId::of_slot(self.slot, Direction::Read);
        if state.events[event].flags.take(Flags::TIMED_OUT) {
            return Poll::Ready(Err(StreamError::TimedOut));
        }
        if let Some(asked) = state.slots[self.slot].asked.take() {
            return Poll::Ready(Err(StreamError::Asked(asked)));
        }
        let Sessions { by_slot, spare, .. } = &mut state.sessions;
        let next = by_slot.get_mut(&self.slot).and_then(|inbox| inbox.waiting.pop_front());
        if let Some(datagram) = next {
            let mut emptied = std::mem::replace(buffer, datagram);
            emptied.clear();
            if spare.len() < SPARE_MOST {
                spare.push(emptied);
            }
            state.slots.set_idle(self.slot, None);
            return Poll::Ready(Ok(()));
        }
        state.events[event].flags.set(Flags::WAITING);
        state.events[event].task = state.tasks.running();
        // Whoever was idle longest is asked first: a session that receives goes to the end of the list.
        state.slots.set_idle(self.slot, idle);
        self.core.inner().armed.set(true);
        Poll::Pending
    }

    /// Sends a datagram before the turn ends. Whether it arrives nobody knows.
    pub fn send(&self, bytes: &[u8]) {
        gather(&self.core, self.slot, bytes);
    }

    /// Lets go of the client: its next datagram begins another session. This one can still send, and receives
    /// what waits.
    pub fn detach(&self) {
        detach(&mut self.core.state(), self.slot);
    }

    /// Has waiting for a datagram fail once `after` has passed from now.
    pub fn set_timeout(&self, after: Duration) {
        let event = EventId::of_slot(self.slot, Direction::Read);
        let state = &mut *self.core.state();
        state.events[event].flags.clear(Flags::TIMED_OUT);
        self.core.set_timeout(state, event, after);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let state = &mut *self.core.state();
        detach(state, self.slot);
        state.sessions.by_slot.remove(&self.slot);
        self.core.give_back(state, self.slot);
    }
}
