//! The channel: the socket pair between the master and one worker.
//!
//! Messages are single 64-bit words; what they mean is agreed by the two ends. The pair is
//! `SOCK_SEQPACKET`, which keeps messages apart and tells when the other end is gone: a worker
//! that sees its channel end knows that the master died.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, send, socketpair};

use crate::connection::Holder;
use crate::core::Core;
use crate::error::{Error, StreamError};
use crate::stream::Stream;

const MESSAGE: usize = size_of::<u64>();

/// A pair of ends, both non-blocking and close-on-exec.
///
/// # Errors
/// What `socketpair(2)` reports.
pub fn pair() -> io::Result<(ChannelEnd, ChannelEnd)> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let (left, right) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)?;
    Ok((ChannelEnd(left), ChannelEnd(right)))
}

/// One end of a channel, outside of any event loop.
#[derive(Debug)]
pub struct ChannelEnd(OwnedFd);

/// What a receive on a channel found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Received {
    /// A message.
    Message(u64),
    /// Nothing yet.
    Nothing,
    /// The other end is gone.
    Ended,
}

impl ChannelEnd {
    /// Sends one message without waiting.
    ///
    /// # Errors
    /// `WouldBlock` when the other end does not keep up, `BrokenPipe` when it is gone.
    pub fn send(&self, message: u64) -> io::Result<()> {
        send(self.0.as_raw_fd(), &message.to_ne_bytes(), MsgFlags::MSG_NOSIGNAL)?;
        Ok(())
    }

    /// Receives one message without waiting.
    ///
    /// # Errors
    /// What `recv(2)` reports.
    pub fn receive(&self) -> io::Result<Received> {
        let mut bytes = [0; MESSAGE];
        match recv(self.0.as_raw_fd(), &mut bytes, MsgFlags::empty()) {
            Ok(MESSAGE) => Ok(Received::Message(u64::from_ne_bytes(bytes))),
            Ok(_) | Err(Errno::ECONNRESET) => Ok(Received::Ended),
            Err(Errno::EAGAIN) => Ok(Received::Nothing),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl From<ChannelEnd> for OwnedFd {
    fn from(end: ChannelEnd) -> OwnedFd {
        end.0
    }
}

impl std::os::fd::AsFd for ChannelEnd {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A worker's end of the channel, in a slot of its own.
pub struct Channel(Stream);

impl Channel {
    /// Puts `end` into a slot of the worker.
    ///
    /// # Errors
    /// When no slot is left.
    pub fn new(core: &Core, end: ChannelEnd) -> Result<Self, Error> {
        let state = &mut *core.state();
        let connections = state.slots.capacity();
        match core.lend(state, Some(end.0), Holder::Channel) {
            Some(slot) => Ok(Self(Stream::new(core.clone(), slot))),
            None => Err(Error::NoSlot { what: "the channel to the master".to_owned(), connections }),
        }
    }

    /// The next message; `None` once the other end is gone.
    ///
    /// # Errors
    /// What `recv(2)` reports.
    pub async fn receive(&self) -> Result<Option<u64>, StreamError> {
        let mut bytes = [0; MESSAGE];
        match self.0.receive(&mut bytes).await {
            Ok(MESSAGE) => Ok(Some(u64::from_ne_bytes(bytes))),
            Ok(_) => Ok(None),
            Err(StreamError::Io(error)) if error.kind() == io::ErrorKind::ConnectionReset => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends one message without waiting.
    ///
    /// # Errors
    /// `WouldBlock` when the other end does not keep up, `BrokenPipe` when it is gone.
    pub fn send(&self, message: u64) -> io::Result<()> {
        self.0.try_send(&message.to_ne_bytes(), false).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_stay_apart_and_the_end_is_seen() {
        let (left, right) = pair().expect("pair");
        assert_eq!(right.receive().expect("receive"), Received::Nothing);
        left.send(1).expect("send");
        left.send(u64::MAX).expect("send");
        assert_eq!(right.receive().expect("receive"), Received::Message(1));
        assert_eq!(right.receive().expect("receive"), Received::Message(u64::MAX));
        drop(left);
        // What another test starts may have a copy until it is executed.
        let mut last = Received::Nothing;
        while last == Received::Nothing {
            last = right.receive().expect("receive");
        }
        assert_eq!(last, Received::Ended);
        assert_eq!(right.send(3).expect_err("nobody listens").kind(), io::ErrorKind::BrokenPipe);
    }
}
