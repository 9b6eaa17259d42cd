//! Signals: the master's signalfd, and the flags of a worker.
//!
//! The master blocks signals for life and reads them from a descriptor, with their sender; nothing can
//! interrupt it half-way. A worker has flags, set by handlers that can only run while its backend waits.
//! Left alone in both are the signals that tell of a fault in the program, and job control; and those that are
//! ignored because a failed write tells the same: blocked, they would be pending all the same, and a log
//! line about each, to a pipe without a reader, would raise the next. SIGTTOU is blocked: a line that goes to a
//! terminal from the background (`stty tostop`) then does not stop the process.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fmt, io};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

use crate::process::command_suffix;

/// Never blocked: faults and aborts of this very process, tracing, stopping from a terminal, failed writes.
const LEFT_ALONE: [Signal; 12] = [
    Signal::SIGPIPE,
    Signal::SIGXFSZ,
    Signal::SIGILL,
    Signal::SIGTRAP,
    Signal::SIGABRT,
    Signal::SIGBUS,
    Signal::SIGFPE,
    Signal::SIGSEGV,
    Signal::SIGSYS,
    Signal::SIGCONT,
    Signal::SIGTSTP,
    Signal::SIGTTIN,
];

/// The signals that a worker obeys; they get through only during the backend's wait.
const OBEYED_BY_WORKERS: [Signal; 4] = [Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGINT, Signal::SIGUSR1];

/// Everything that is handled rather than left alone.
fn handled() -> SigSet {
    let mut set = SigSet::all();
    for signal in LEFT_ALONE {
        set.remove(signal);
    }
    set
}

/// Blocks what is handled. Called once, before anything else; children inherit it.
///
/// # Errors
/// What the system reports.
pub(crate) fn block() -> io::Result<()> {
    Ok(handled().thread_set_mask()?)
}

/// The mask that is in force while a worker's backend waits.
pub(crate) fn worker_wait_mask() -> SigSet {
    let mut set = handled();
    for signal in OBEYED_BY_WORKERS {
        set.remove(signal);
    }
    set
}

/// A signal that arrived, and where from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Received {
    /// Which.
    pub(crate) signal: Signal,
    /// Where it came from.
    pub(crate) sender: Sender,
}

/// Where a signal came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sender {
    /// The kernel itself: a terminal, a timer, a child that ended.
    Kernel,
    /// A process.
    Process(Pid),
    /// A process that this one cannot see, such as the host's of a container.
    Outside,
}

impl fmt::Display for Received {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { signal, sender } = self;
        match sender {
            Sender::Kernel => write!(formatter, "{signal} from the kernel"),
            Sender::Outside => write!(formatter, "{signal} from outside of this pid namespace"),
            Sender::Process(pid) => {
                write!(formatter, "{signal} from process {pid}{}", command_suffix(*pid))
            }
        }
    }
}

/// The master's source of signals.
#[derive(Debug)]
pub(crate) struct Signals(SignalFd);

impl Signals {
    /// Opens it; [`block`] was called before.
    ///
    /// # Errors
    /// What the system reports.
    pub(crate) fn new() -> io::Result<Self> {
        let descriptor = SignalFd::with_flags(&handled(), SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self(descriptor))
    }

    /// The next signal that is pending.
    ///
    /// # Errors
    /// What the system reports.
    pub(crate) fn next(&self) -> io::Result<Option<Received>> {
        loop {
            let Some(info) = self.0.read_signal()? else { return Ok(None) };
            // Real-time signals mean nothing here, and nix has no names for them.
            let Ok(signal) = Signal::try_from(info.ssi_signo as i32) else { continue };
            // SIGCHLD names the child in the field of the sender, but has a code of the kernel's.
            let sender = match info.ssi_pid {
                _ if info.ssi_code > 0 => Sender::Kernel,
                0 => Sender::Outside,
                pid => Sender::Process(Pid::from_raw(pid as i32)),
            };
            return Ok(Some(Received { signal, sender }));
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What a worker was told by signals since it last looked.
#[derive(Debug, Default)]
pub(crate) struct Flags {
    graceful: Arc<AtomicBool>,
    fast: Arc<AtomicBool>,
    reopen: Arc<AtomicBool>,
}

impl Flags {
    /// Installs the handlers. They write to flags of this process alone, so the parent's signals never
    /// reach a child or the other way round.
    ///
    /// # Errors
    /// What the system reports.
    pub(crate) fn install() -> io::Result<Self> {
        let flags = Self::default();
        for (signal, flag) in [
            (Signal::SIGQUIT, &flags.graceful),
            (Signal::SIGTERM, &flags.fast),
            (Signal::SIGINT, &flags.fast),
            (Signal::SIGUSR1, &flags.reopen),
        ] {
            signal_hook::flag::register(signal as i32, Arc::clone(flag))?;
        }
        Ok(flags)
    }

    /// Whether to stop gracefully; asked once, answered once.
    pub(crate) fn take_graceful(&self) -> bool {
        self.graceful.swap(false, Ordering::Relaxed)
    }

    /// Whether to stop at once.
    pub(crate) fn take_fast(&self) -> bool {
        self.fast.swap(false, Ordering::Relaxed)
    }

    /// Whether to reopen logs.
    pub(crate) fn take_reopen(&self) -> bool {
        self.reopen.swap(false, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::signal::kill;

    #[test]
    fn a_signal_is_read_with_its_sender() {
        // Blocked in this thread only, which is why it is sent to this thread.
        block().expect("blocked");
        let signals = Signals::new().expect("signalfd");
        nix::sys::signal::raise(Signal::SIGHUP).expect("sent");
        let received = signals.next().expect("read").expect("pending");
        assert_eq!(received, Received { signal: Signal::SIGHUP, sender: Sender::Process(Pid::this()) });
        assert!(received.to_string().contains("SIGHUP from process"), "{received}");
        assert_eq!(signals.next().expect("read"), None);
    }

    #[test]
    fn a_flag_is_taken_once() {
        let flags = Flags::install().expect("handlers");
        kill(Pid::this(), Signal::SIGUSR1).expect("sent");
        while !flags.take_reopen() {
            std::thread::yield_now();
        }
        assert!(!flags.take_reopen());
        assert!(!flags.take_fast());
    }

    #[test]
    fn a_waiting_worker_hears_what_it_obeys_and_no_more() {
        let mask = worker_wait_mask();
        assert!(OBEYED_BY_WORKERS.iter().all(|signal| !mask.contains(*signal)));
        assert!(
            [Signal::SIGHUP, Signal::SIGUSR2, Signal::SIGWINCH].iter().all(|signal| mask.contains(*signal))
        );
        assert!(!mask.contains(Signal::SIGSEGV));
    }
}
