//! Going into the background, and telling whoever started drover how that went.
//!
//! The starter waits for one byte through a pipe: it ends with success once workers serve, and with a
//! failure when the daemon ends before that, so a script that starts drover knows. Errors up to then still
//! reach its terminal.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::process::ExitCode;

use drover_sys::fork::{Fork, fork};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::SendTimeout;
use nix::sys::termios::tcgetsid;
use nix::sys::time::{TimeVal, TimeValLike};
use nix::unistd::{chdir, dup2_stderr, dup2_stdin, dup2_stdout, pipe2, setsid};
use tracing::{debug, warn};

/// Whoever waits for the daemon to be ready.
#[derive(Debug)]
pub(crate) enum Launcher {
    /// A person or supervisor that watches the foreground process.
    Foreground,
    /// A process that waits at the other end of a pipe.
    Background(File),
    /// Nobody any more.
    Told,
}

impl Launcher {
    /// Leaves the terminal: returns in the background process; the starter gets the exit code it is to
    /// end with.
    ///
    /// # Errors
    /// What the system reports.
    pub(crate) fn background() -> io::Result<Result<Self, ExitCode>> {
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC)?;
        match fork()? {
            Fork::Parent(_) => {
                drop(writer);
                let mut byte = [0];
                let ready = File::from(reader).read(&mut byte)? == 1;
                Ok(Err(if ready { ExitCode::SUCCESS } else { ExitCode::FAILURE }))
            }
            Fork::Child => {
                drop(reader);
                setsid()?;
                // Not to keep a file system from being unmounted. Paths are absolute by now.
                chdir("/")?;
                dup2_stdin(File::open("/dev/null")?)?;
                Ok(Ok(Self::Background(File::from(writer))))
            }
        }
    }

    /// Workers serve. `line` says what, where, and how to stop it; `None` where a program reads along.
    pub(crate) fn ready(&mut self, line: Option<&str>) {
        match std::mem::replace(self, Self::Told) {
            Self::Foreground => line.into_iter().for_each(tell),
            Self::Background(mut pipe) => {
                line.into_iter().for_each(tell);
                if let Err(failure) = detach_output().and_then(|()| pipe.write_all(&[1])) {
                    warn!("cannot tell the starter: {failure}");
                }
            }
            Self::Told => {}
        }
    }

    /// The daemon will end. Where the log is a file, whoever started it still wants to see why.
    pub(crate) fn failed(&mut self, message: Option<&str>) {
        if let (Some(message), false) = (message, matches!(self, Self::Told)) {
            tell(&format!("drover: {message}"));
        }
        *self = Self::Told;
    }
}

/// Whoever started the daemon may have closed its end by now; that must not stop it.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Standard output and error get descriptions of their own on which no write waits, where they are pipes or
/// terminals: a collector that stops reading, or Ctrl-S, must stop neither master nor worker. Called once, before the
/// first fork.
///
/// The descriptions that were there are shared with whoever started the daemon, and stay as they are. Where the
/// system allows no second one (the pipe of another user, no reader), the first is kept, and logs ask it for room.
pub(crate) fn output_without_waiting() {
    let out = reopened(io::stdout().as_fd()).and_then(|own| own.map_or(Ok(()), |own| Ok(dup2_stdout(own)?)));
    let error =
        reopened(io::stderr().as_fd()).and_then(|own| own.map_or(Ok(()), |own| Ok(dup2_stderr(own)?)));
    if let Err(failure) = out.and(error).and(sockets_give_up()) {
        debug!("a write to standard output or error may wait: {failure}");
    }
}

/// Another description of the same pipe or terminal, on which no write waits.
fn reopened(descriptor: BorrowedFd<'_>) -> io::Result<Option<File>> {
    let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
    let is_terminal = descriptor.is_terminal();
    if !is_terminal && !std::fs::metadata(&path)?.file_type().is_fifo() {
        return Ok(None);
    }
    let mut options = File::options();
    options.write(true).custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits());
    match options.open(path) {
        // Another user's terminal, as after su(1). Only this session's own one has a session to tell of, and that one
        // everybody may open by this name (tty(4)).
        Err(fault)
            if is_terminal
                && fault.kind() == io::ErrorKind::PermissionDenied
                && tcgetsid(descriptor).is_ok() =>
        {
            options.open("/dev/tty").map(Some)
        }
        result => result.map(Some),
    }
}

/// A socket cannot be opened anew (proc(5)), but a write to it can be made to give up. systemd connects
/// standard output and error to the journal by one.
fn sockets_give_up() -> io::Result<()> {
    let most = TimeVal::milliseconds(SOCKET_PATIENCE_MS);
    let set = |descriptor: BorrowedFd<'_>| match setsockopt(&descriptor, SendTimeout, &most) {
        Err(Errno::ENOTSOCK) => Ok(()),
        result => result.map_err(io::Error::from),
    };
    set(io::stdout().as_fd()).and(set(io::stderr().as_fd()))
}

/// How long a line waits for the journal to make room before it is given up.
const SOCKET_PATIENCE_MS: i64 = 1;

/// From now on nothing that is printed goes to the terminal of the starter, nor keeps it waiting for more.
///
/// # Errors
/// What the system reports.
pub(crate) fn detach_output() -> io::Result<()> {
    let null = File::options().write(true).open("/dev/null")?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    Ok(())
}
