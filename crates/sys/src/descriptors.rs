//! Descriptors that come from another process: inherited over `exec(2)` under a number that was agreed
//! on, or passed along with a message over a unix socket (`SCM_RIGHTS`, unix(7)).
//!
//! Whatever arrives is close-on-exec from then on, so that it goes no further by accident.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, RecvMsg, recvmsg, sendmsg};

/// The most descriptors that one message can carry: `SCM_MAX_FD` of the kernel's `net/scm.h`.
pub const MOST_IN_A_MESSAGE: usize = 253;

/// Takes over the descriptor with this number, which the process was started with, and makes it
/// close-on-exec.
///
/// To be called at the start of a process, before anything else is opened, and once for each number: only then
/// can nobody else in this process own it.
///
/// # Errors
/// `EBADF` when nothing is open under the number, and `InvalidInput` for standard input, output and error,
/// which belong to the whole process.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    if number <= libc::STDERR_FILENO {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a standard stream cannot be taken over"));
    }
    // SAFETY: no memory is passed; a number that is not open is refused by the kernel.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, as just shown; that nobody else owns it is what the caller sees to, as documented.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Sends one message with descriptors over a unix socket that keeps messages apart. Never raises SIGPIPE.
///
/// # Errors
/// What `sendmsg(2)` reports; `InvalidInput` for more than [`MOST_IN_A_MESSAGE`] descriptors.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    if descriptors.len() > MOST_IN_A_MESSAGE {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors for one message"));
    }
    let numbers: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&numbers)];
    let control = if numbers.is_empty() { &[][..] } else { &rights[..] };
    sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(bytes)], control, MsgFlags::MSG_NOSIGNAL, None)?;
    Ok(())
}

/// Receives one message into `buffer`: its length, and the descriptors that came with it. A length of zero
/// is the end.
///
/// # Errors
/// What `recvmsg(2)` reports; `InvalidData` for a message that is longer than `buffer`, or whose descriptors
/// this process has no room for.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut control = nix::cmsg_space!([RawFd; MOST_IN_A_MESSAGE]);
    let mut parts = [IoSliceMut::new(buffer)];
    let message =
        recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut control), MsgFlags::MSG_CMSG_CLOEXEC)?;
    let descriptors = owned(&message)?;
    if message.flags.intersects(MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message did not arrive whole"));
    }
    Ok((message.bytes, descriptors))
}

fn owned(message: &RecvMsg<'_, '_, ()>) -> io::Result<Vec<OwnedFd>> {
    let mut descriptors = Vec::new();
    for part in message.cmsgs()? {
        let ControlMessageOwned::ScmRights(numbers) = part else { continue };
        // SAFETY: the kernel has just made these descriptors for this message, so nobody else owns them.
        descriptors.extend(numbers.into_iter().map(|number| unsafe { OwnedFd::from_raw_fd(number) }));
    }
    Ok(descriptors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::{AsFd, IntoRawFd};

    use nix::fcntl::{FcntlArg, FdFlag, fcntl};
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
    use nix::unistd::pipe;

    fn pair() -> (OwnedFd, OwnedFd) {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).expect("sockets")
    }

    fn closes_on_exec(descriptor: &OwnedFd) -> bool {
        fcntl(descriptor, FcntlArg::F_GETFD).expect("flags") == FdFlag::FD_CLOEXEC.bits()
    }

    #[test]
    fn a_message_brings_its_descriptors_in_their_order() {
        let (left, right) = pair();
        let pipes: Vec<_> = (0..MOST_IN_A_MESSAGE).map(|_| pipe().expect("pipe")).collect();
        let ends: Vec<_> = pipes.iter().map(|(_, writer)| writer.as_fd()).collect();
        send(left.as_fd(), b"these", &ends).expect("sent");
        send(left.as_fd(), b"none", &[]).expect("sent");
        let mut buffer = [0; 16];
        let (length, received) = receive(right.as_fd(), &mut buffer).expect("received");
        assert_eq!((&buffer[..length], received.len()), (&b"these"[..], MOST_IN_A_MESSAGE));
        for (index, descriptor) in received.into_iter().enumerate() {
            assert!(closes_on_exec(&descriptor));
            File::from(descriptor).write_all(&[index as u8]).expect("written");
        }
        for (index, (reader, _)) in pipes.iter().enumerate() {
            let mut byte = [0];
            File::from(reader.try_clone().expect("clone")).read_exact(&mut byte).expect("read");
            assert_eq!(byte[0], index as u8);
        }
        let (length, received) = receive(right.as_fd(), &mut buffer).expect("received");
        assert_eq!((&buffer[..length], received.len()), (&b"none"[..], 0));
        drop(left);
        // A child of another test may have a copy for a moment.
        let ended =
            poll(&mut [PollFd::new(right.as_fd(), PollFlags::POLLIN)], PollTimeout::MAX).expect("poll");
        assert_eq!(ended, 1);
        assert_eq!(receive(right.as_fd(), &mut buffer).expect("the end").0, 0);
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let (left, right) = pair();
        send(left.as_fd(), b"longer than that", &[]).expect("sent");
        let error = receive(right.as_fd(), &mut [0; 4]).expect_err("cut");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        let many = vec![left.as_fd(); MOST_IN_A_MESSAGE + 1];
        assert_eq!(send(left.as_fd(), b"x", &many).expect_err("many").kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn an_inherited_descriptor_is_taken_over_by_its_number() {
        let (reader, writer) = pipe().expect("pipe");
        let taken = inherited(writer.into_raw_fd()).expect("open");
        assert!(closes_on_exec(&taken));
        File::from(taken).write_all(b"x").expect("written");
        let mut byte = [0];
        File::from(reader).read_exact(&mut byte).expect("read");
        assert_eq!(inherited(1_000_000).expect_err("not open").raw_os_error(), Some(libc::EBADF));
        assert_eq!(inherited(1).expect_err("standard").kind(), io::ErrorKind::InvalidInput);
    }
}
