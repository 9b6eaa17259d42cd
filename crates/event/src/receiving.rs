//! Receiving on a stream, and what a receive tells beside its bytes: that nothing more is there, or that the peer's
//! stream ends behind them.
//!
//! Both are read off a receive that brings less than it was asked for. A receive also stops short before urgent data
//! (tcp(7)), which stand for nothing else in the stream; once such were reported a short receive tells nothing.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{MsgFlags, recv};

use crate::connection::Holder;
use crate::event::{Direction, EventId, Flags};
use crate::stats::Counter;
use crate::stream::{Stream, descriptor};

impl Stream {
    /// Receives what is there, at most `buffer.len()` bytes. `Ok(0)` is the end of the peer's
    /// stream.
    ///
    /// A receive that fills less than the buffer has drained the socket, and the next waiting
    /// operation waits without trying again; unless the end was reported already, which the next
    /// receive has to see.
    ///
    /// # Errors
    /// `WouldBlock` when nothing is there, else what `recv(2)` reports.
    pub fn try_receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len();
        self.receiving(wanted, |socket| Ok(recv(socket.as_raw_fd(), buffer, MsgFlags::empty())?))
    }

    /// Receives by `call` and takes note of what it moved; fewer than `wanted` bytes mean that the
    /// socket is drained.
    pub(crate) fn receiving(
        &self,
        wanted: usize,
        call: impl FnOnce(&OwnedFd) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let state = &mut *self.core().state();
        let result = call(descriptor(state, self.slot())?);
        let connection = &mut state.slots[self.slot()];
        if std::mem::take(&mut connection.hopeful)
            && let Some(Some(listener)) = state.listeners.get_mut(connection.listener as usize)
        {
            listener.hope.tried(result.is_ok());
        }
        let flags = &mut state.events[EventId::of_slot(self.slot(), Direction::Read)].flags;
        match &result {
            Ok(count) => {
                if *count < wanted && !flags.has(Flags::END | Flags::URGENT) {
                    flags.clear(Flags::READY);
                }
                if connection.holder == Holder::Peer {
                    connection.received += *count as u64;
                    self.core().stats().add(Counter::BytesReceived, *count as u64);
                }
                state.moved += count;
                if *count == 0 && wanted > 0 {
                    connection.note_end(None);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                flags.clear(Flags::READY | Flags::URGENT);
            }
            Err(error) => connection.note_end(Some(error)),
        }
        result
    }

    /// Whether a receive that brought `count` bytes of `wanted` was the last: the peer's stream ended right behind
    /// them. It is known where the end was reported before, since all that came before it was there by then.
    pub(crate) fn ends_behind(&self, count: usize, wanted: usize) -> bool {
        let state = &mut *self.core().state();
        let flags = state.events[EventId::of_slot(self.slot(), Direction::Read)].flags;
        let last = count < wanted && flags.has(Flags::END) && !flags.has(Flags::BROKEN | Flags::URGENT);
        if last {
            state.slots[self.slot()].note_end(None);
        }
        last
    }

    /// Whether urgent data may be among what is received next.
    pub(crate) fn has_urgent(&self) -> bool {
        let event = EventId::of_slot(self.slot(), Direction::Read);
        self.core().state().events[event].flags.has(Flags::URGENT)
    }

    /// Has the first receive of an accepted connection be tried before it is waited for, where those before it on
    /// its listener mostly found something.
    pub(crate) fn hope_for_first(&self) {
        let state = &mut *self.core().state();
        let connection = &mut state.slots[self.slot()];
        let flags = &mut state.events[EventId::of_slot(self.slot(), Direction::Read)].flags;
        if flags.has(Flags::ACTIVE | Flags::READY) || connection.received > 0 {
            return;
        }
        if let Some(Some(listener)) = state.listeners.get_mut(connection.listener as usize)
            && listener.hope.worth_trying()
        {
            connection.hopeful = true;
            flags.set(Flags::READY);
        }
    }
}
