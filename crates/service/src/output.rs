//! Writing to whoever reads a log without ever waiting for them.
//!
//! A write to a file does not wait for anybody, nor does one to a description that was opened so (`O_NONBLOCK`). What
//! is left are sockets, to which each call can say that it does not wait, and pipes and terminals that the daemon was
//! started with and was not allowed to open anew: they are asked first whether there is room. The flag itself is not
//! theirs to set, as it would hold for everybody who shares the description.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc::PIPE_BUF;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, send};
use nix::sys::stat::{SFlag, fstat};
use nix::unistd::{isatty, write};

/// A terminal that has any room has room for so much: the kernel hands buffers out in pieces of this size
/// (`drivers/tty/tty_buffer.c`), and counts less than this as empty (`WAKEUP_CHARS`).
const PIECE_OF_A_TERMINAL: usize = 256;

/// How a descriptor is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// No write waits.
    Plain,
    /// A pipe: up to [`PIPE_BUF`] bytes are written whole or not at all (pipe(7)).
    Pipe {
        /// Whether a write may wait.
        ask_first: bool,
    },
    /// A terminal on which a write may wait.
    SharedTerminal,
    /// A socket.
    Socket,
}

impl Output {
    /// How this descriptor is.
    pub fn of(descriptor: impl AsFd) -> Output {
        let descriptor = descriptor.as_fd();
        let kind = fstat(descriptor)
            .map_or(SFlag::empty(), |status| SFlag::from_bits_truncate(status.st_mode) & SFlag::S_IFMT);
        match kind {
            SFlag::S_IFSOCK => Output::Socket,
            SFlag::S_IFIFO => Output::Pipe { ask_first: may_wait(descriptor) },
            SFlag::S_IFCHR if may_wait(descriptor) && isatty(descriptor).unwrap_or(false) => {
                Output::SharedTerminal
            }
            _ => Output::Plain,
        }
    }

    /// The most bytes that are written whole or not at all, where there is such a number.
    pub fn whole(self) -> Option<usize> {
        matches!(self, Output::Pipe { .. }).then_some(PIPE_BUF)
    }

    /// Writes to the descriptor whose kind this is; tells how much was taken.
    ///
    /// # Errors
    /// `EAGAIN` when nothing is taken at once, or what else the system reports.
    pub fn write(self, descriptor: impl AsFd, bytes: &[u8]) -> nix::Result<usize> {
        let descriptor = descriptor.as_fd();
        let (ask_first, piece) = match self {
            Output::Plain => (false, usize::MAX),
            Output::Pipe { ask_first: false } => (false, usize::MAX),
            Output::Pipe { ask_first: true } => (true, PIPE_BUF),
            Output::SharedTerminal => (true, PIECE_OF_A_TERMINAL),
            Output::Socket => {
                let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
                return send(descriptor.as_raw_fd(), bytes, flags);
            }
        };
        if !ask_first {
            return write(descriptor, bytes);
        }
        let mut written = 0;
        for part in bytes.chunks(piece) {
            match has_room(descriptor).and_then(|()| write(descriptor, part)) {
                Ok(length) => written += length,
                Err(_) if written > 0 => break,
                Err(fault) => return Err(fault),
            }
        }
        Ok(written)
    }
}

fn may_wait(descriptor: BorrowedFd<'_>) -> bool {
    let flags = fcntl(descriptor, FcntlArg::F_GETFL).map_or(OFlag::empty(), OFlag::from_bits_retain);
    !flags.contains(OFlag::O_NONBLOCK)
}

/// `EAGAIN` where there is none; a reader that is gone counts as room, as the write then says so at once.
fn has_room(descriptor: BorrowedFd<'_>) -> nix::Result<()> {
    let mut asked = [PollFd::new(descriptor, PollFlags::POLLOUT)];
    match poll(&mut asked, PollTimeout::ZERO)? {
        0 => Err(Errno::EAGAIN),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::pty::openpty;
    use nix::sys::termios::{FlowArg, tcflow};
    use nix::unistd::{pipe, pipe2, read};

    #[test]
    fn a_shared_pipe_takes_what_it_has_room_for_and_then_nothing() {
        let (reader, writer) = pipe().expect("a pipe");
        let output = Output::of(&writer);
        assert_eq!(output, Output::Pipe { ask_first: true });
        let line = [b'x'; 1000];
        let mut lines = 0;
        while output.write(&writer, &line) == Ok(line.len()) {
            lines += 1;
        }
        assert!(lines > 0, "a pipe takes a page at least");
        assert_eq!(output.write(&writer, &line), Err(Errno::EAGAIN));
        let mut buffer = vec![0; 1 << 20];
        assert_eq!(read(&reader, &mut buffer), Ok(lines * line.len()), "a part of a line");
        let written = output.write(&writer, &buffer).expect("there is room");
        assert!(written >= PIPE_BUF && written < buffer.len(), "{written}");
        drop(reader);
        assert_eq!(output.write(&writer, &line), Err(Errno::EPIPE));
    }

    #[test]
    fn a_shared_terminal_that_is_stopped_or_not_read_takes_nothing() {
        let terminal = openpty(None, None).expect("a terminal");
        let output = Output::of(&terminal.slave);
        assert_eq!(output, Output::SharedTerminal);
        assert_eq!(output.write(&terminal.slave, b"line\n"), Ok(5));
        tcflow(&terminal.slave, FlowArg::TCOOFF).expect("stopped");
        assert_eq!(output.write(&terminal.slave, b"line\n"), Err(Errno::EAGAIN));
        tcflow(&terminal.slave, FlowArg::TCOON).expect("going on");
        let line = [[b'x'; 999].as_slice(), b"\n"].concat();
        while output.write(&terminal.slave, &line).is_ok() {}
        assert_eq!(output.write(&terminal.slave, &line), Err(Errno::EAGAIN));
    }

    #[test]
    fn who_does_not_wait_is_not_asked() {
        let (_reader, writer) = pipe2(OFlag::O_NONBLOCK).expect("a pipe");
        assert_eq!(Output::of(&writer), Output::Pipe { ask_first: false });
        let nowhere = std::fs::File::options().write(true).open("/dev/null").expect("the device");
        assert_eq!(Output::of(&nowhere), Output::Plain);
        assert_eq!(Output::of(&nowhere).write(&nowhere, b"line"), Ok(4));
    }
}
