//! Streams: what protocol code holds of a connection.
//!
//! A stream is one slot. Its `try_` operations are one system call each and never wait; the others
//! wait for readiness on the slot's events. Time-outs are deadlines that live in the events: set
//! one, and whichever operation waits in that direction when it passes fails with
//! [`StreamError::TimedOut`]. Dropping the stream closes the socket, cancels its timers and returns
//! the slot.
//!
//! A stream counts what it moved since its task was resumed; past [`BUDGET`] the waiting operations
//! give way for a turn, so no protocol can forget to be fair.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use drover_sys::socket;
use nix::errno::Errno;
use nix::sys::sendfile::sendfile64;
use nix::sys::socket::sockopt::Linger;
use nix::sys::socket::{MsgFlags, Shutdown, SockaddrStorage, getsockname, send, setsockopt, shutdown};

use crate::clock::Millis;
use crate::close::CloseReason;
use crate::connect;
use crate::connection::{Connection, Holder, Idle, NONE, PeerAddress, Phase};
use crate::core::{Core, State};
use crate::error::StreamError;
use crate::event::{Direction, EventId, Flags};
use crate::stats::{Counter, Gauge};
use crate::waiting::Readiness;

/// How many bytes a task may move through streams before it gives way to others.
pub const BUDGET: usize = 2 * 1024 * 1024;

/// The most one `sendfile` call is asked for: what the budget allows.
const SEND_FILE_MOST: usize = BUDGET;

/// One connection with a peer.
pub struct Stream {
    core: Core,
    slot: u32,
}

impl Stream {
    pub(crate) fn new(core: Core, slot: u32) -> Self {
        Self { core, slot }
    }

    /// The engine this connection belongs to.
    pub fn core(&self) -> &Core {
        &self.core
    }

    pub(crate) fn slot(&self) -> u32 {
        self.slot
    }

    /// Lets go of the slot without giving it back.
    pub(crate) fn forget(mut self) {
        self.slot = NONE;
    }

    /// Calls `call` with the socket.
    pub(crate) fn with_socket<T>(&self, call: impl FnOnce(&OwnedFd) -> io::Result<T>) -> io::Result<T> {
        call(descriptor(&self.core.state(), self.slot)?)
    }

    /// The connection's number, counted from 1 by each worker.
    pub fn number(&self) -> u64 {
        self.with(|connection| connection.number)
    }

    /// Who is at the other end.
    pub fn peer(&self) -> PeerAddress {
        self.with(|connection| connection.peer)
    }

    /// When the connection was accepted.
    pub fn accepted_at(&self) -> Millis {
        self.with(|connection| connection.accepted_at)
    }

    /// Bytes received so far.
    pub fn bytes_received(&self) -> u64 {
        self.with(|connection| connection.received)
    }

    /// Bytes sent so far.
    pub fn bytes_sent(&self) -> u64 {
        self.with(|connection| connection.sent)
    }

    /// Bytes that the peer has taken, as far as it told the kernel. Asks the kernel every time.
    pub fn bytes_taken(&self) -> u64 {
        let untaken = self.with_socket(|socket| socket::untaken(socket.as_fd())).unwrap_or(0);
        self.bytes_sent().saturating_sub(untaken as u64)
    }

    /// The address at this end; `None` on unix sockets. Asks the kernel every time.
    ///
    /// # Errors
    /// What `getsockname(2)` reports.
    pub fn local(&self) -> io::Result<Option<SocketAddr>> {
        let address: SockaddrStorage = self.with_socket(|socket| Ok(getsockname(socket.as_raw_fd())?))?;
        Ok(address
            .as_sockaddr_in()
            .map(|v4| SocketAddr::V4((*v4).into()))
            .or_else(|| address.as_sockaddr_in6().map(|v6| SocketAddr::V6((*v6).into()))))
    }

    fn with<T>(&self, read: impl FnOnce(&Connection) -> T) -> T {
        read(&self.core.state().slots[self.slot])
    }

    /// Says what the connection is busy with, for counters and reports.
    pub fn set_phase(&self, phase: Phase) {
        let connection = &mut self.core.state().slots[self.slot];
        if connection.holder != Holder::Peer || connection.phase == phase {
            return;
        }
        self.core.stats().leave_phase(connection.phase);
        self.core.stats().enter_phase(phase);
        self.core.stats().set(Gauge::RunningPhase, phase as u64);
        connection.phase = phase;
    }

    /// Says why the connection will end, where the protocol knows: before it waits for anything more, so that what
    /// happens then may still turn out to be the reason.
    pub fn close_because(&self, reason: CloseReason) {
        self.core.state().slots[self.slot].end.say(reason);
    }

    /// Why the connection will end, as far as that is known.
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.core.state().end_of(self.slot)
    }

    /// Sends as much of `bytes` as the socket takes; `more` says that further bytes follow at once,
    /// so that the kernel fills its packets (`MSG_MORE`).
    ///
    /// # Errors
    /// `WouldBlock` when the socket takes nothing, else what `send(2)` reports.
    pub fn try_send(&self, bytes: &[u8], more: bool) -> io::Result<usize> {
        let more = if more { MsgFlags::from_bits_retain(nix::libc::MSG_MORE) } else { MsgFlags::empty() };
        let flags = MsgFlags::MSG_NOSIGNAL | more;
        self.sending(|socket| Ok(send(socket.as_raw_fd(), bytes, flags)?))
    }

    /// Sends as much of `parts`, in their order, as the socket takes.
    ///
    /// # Errors
    /// As [`Stream::try_send`].
    pub fn try_send_vectored(&self, parts: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        self.sending(|socket| socket::send_vectored(socket.as_fd(), parts, more))
    }

    /// Sends at most `count` bytes of a regular file from `offset` on, which moves on by what was
    /// sent, without copying them through this process. `Ok(0)` means that the file ends there.
    ///
    /// # Errors
    /// `WouldBlock` when the socket takes nothing, else what `sendfile(2)` reports.
    pub fn try_send_file(&self, file: BorrowedFd<'_>, offset: &mut u64, count: u64) -> io::Result<usize> {
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(SEND_FILE_MOST);
        let mut position = i64::try_from(*offset).map_err(io::Error::other)?;
        let result = self.sending(|socket| Ok(sendfile64(socket, file, Some(&mut position), count)?));
        if let Ok(sent) = result {
            *offset += sent as u64;
        }
        result
    }

    /// Sends by `call` and takes note of what it moved.
    pub(crate) fn sending(&self, call: impl FnOnce(&OwnedFd) -> io::Result<usize>) -> io::Result<usize> {
        let state = &mut *self.core.state();
        connect::hurry(&mut state.slots[self.slot]);
        let result = call(descriptor(state, self.slot)?);
        match &result {
            Ok(count) => {
                let connection = &mut state.slots[self.slot];
                if connection.holder == Holder::Peer {
                    connection.sent += *count as u64;
                    self.core.stats().add(Counter::BytesSent, *count as u64);
                }
                state.moved += count;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let event = EventId::of_slot(self.slot, Direction::Write);
                state.events[event].flags.clear(Flags::READY);
            }
            Err(error) => state.slots[self.slot].note_end(Some(error)),
        }
        result
    }

    /// Waits until something can be received, or the end of the stream.
    ///
    /// # Errors
    /// [`StreamError::TimedOut`] when the read time-out passed.
    pub fn readable(&self) -> Readiness<'_> {
        Readiness::new(self, Direction::Read, None)
    }

    /// Waits until something can be sent.
    ///
    /// # Errors
    /// [`StreamError::TimedOut`] when the write time-out passed.
    pub fn writable(&self) -> Readiness<'_> {
        Readiness::new(self, Direction::Write, None)
    }

    /// Waits until something can be received, and lets the worker close the connection meanwhile
    /// if it needs the slot or drains.
    ///
    /// # Errors
    /// [`StreamError::Asked`] when the connection is to be closed; [`StreamError::TimedOut`] when
    /// the read time-out passed.
    pub fn idle(&self, terms: Idle) -> Readiness<'_> {
        Readiness::new(self, Direction::Read, Some(terms))
    }

    /// Receives at least one byte into `buffer`, waiting for it; `Ok(0)` is the end of the stream.
    ///
    /// # Errors
    /// [`StreamError::TimedOut`] when the read time-out passed; [`StreamError::Io`] as `recv(2)`.
    pub async fn receive(&self, buffer: &mut [u8]) -> Result<usize, StreamError> {
        loop {
            self.readable().await?;
            match self.try_receive(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Ok(result?),
            }
        }
    }

    /// Sends all of `bytes`, waiting as needed.
    ///
    /// # Errors
    /// [`StreamError::TimedOut`] when the write time-out passed; [`StreamError::Io`] as `send(2)`.
    pub async fn send_all(&self, mut bytes: &[u8], more: bool) -> Result<(), StreamError> {
        while !bytes.is_empty() {
            self.writable().await?;
            match self.try_send(bytes, more) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Sends `count` bytes of a regular file from `offset` on, waiting as needed. Returns how many
    /// were sent: fewer where the file turned out to be shorter.
    ///
    /// # Errors
    /// [`StreamError::TimedOut`] when the write time-out passed; [`StreamError::Io`] as
    /// `sendfile(2)`.
    pub async fn send_file(
        &self,
        file: BorrowedFd<'_>,
        mut offset: u64,
        count: u64,
    ) -> Result<u64, StreamError> {
        let (start, end) = (offset, offset + count);
        while offset < end {
            self.writable().await?;
            let left = end - offset;
            match self.try_send_file(file, &mut offset, left) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(offset - start)
    }

    /// Has operations that wait to receive fail once `after` has passed from now. Setting it again
    /// moves it, unless by less than 300 ms, and it may come late by a 64th of itself or 64 ms,
    /// whichever is less.
    pub fn set_read_timeout(&self, after: Duration) {
        self.set_timeout(Direction::Read, after);
    }

    /// Has operations that wait to send fail once `after` has passed from now.
    pub fn set_write_timeout(&self, after: Duration) {
        self.set_timeout(Direction::Write, after);
    }

    /// Takes the read time-out back.
    pub fn clear_read_timeout(&self) {
        self.clear_timeout(Direction::Read);
    }

    /// Takes the write time-out back.
    pub fn clear_write_timeout(&self) {
        self.clear_timeout(Direction::Write);
    }

    fn set_timeout(&self, direction: Direction, after: Duration) {
        let event = EventId::of_slot(self.slot, direction);
        let state = &mut *self.core.state();
        state.events[event].flags.clear(Flags::TIMED_OUT);
        self.core.set_timeout(state, event, after);
    }

    fn clear_timeout(&self, direction: Direction) {
        let event = EventId::of_slot(self.slot, direction);
        self.core.cancel_timer(&mut self.core.state(), event);
    }

    /// Tells the peer that nothing more will be sent.
    ///
    /// # Errors
    /// What `shutdown(2)` reports.
    pub fn shutdown_send(&self) -> io::Result<()> {
        self.with_socket(|socket| Ok(shutdown(socket.as_raw_fd(), Shutdown::Write)?))
    }

    /// Has the close of the socket be a reset, so that the peer does not take what it has for whole: what is
    /// not sent yet is dropped.
    ///
    /// # Errors
    /// What `setsockopt(2)` reports for `SO_LINGER`.
    pub fn close_by_reset(&self) -> io::Result<()> {
        let at_once = nix::libc::linger { l_onoff: 1, l_linger: 0 };
        self.with_socket(|socket| Ok(setsockopt(socket, Linger, &at_once)?))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.slot != NONE {
            self.core.give_back(&mut self.core.state(), self.slot);
        }
    }
}

pub(crate) fn descriptor(state: &State, slot: u32) -> io::Result<&OwnedFd> {
    // A stream owns its slot, so the descriptor is there; without it this is what the kernel says.
    state.slots[slot].socket.as_ref().ok_or_else(|| Errno::EBADF.into())
}
