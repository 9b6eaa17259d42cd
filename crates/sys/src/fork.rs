//! Splitting the process and collecting its children.
//!
//! Invariant: whoever forks has one thread. A second one would leave locks (the allocator's among
//! them) held for ever in the child, so [`fork`] looks and refuses.

use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use nix::errno::Errno;
use nix::unistd::{ForkResult, Pid};

/// What a child does that its parent is told of, without waiting for it.
const CHANGES: libc::c_int = libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED;

/// Which side of a fork this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fork {
    /// The process that forked, with the id of its child.
    Parent(Pid),
    /// The new process.
    Child,
}

/// Forks this process (`fork(2)`).
///
/// # Errors
/// What the kernel reports (too many processes, no memory), and `ResourceBusy` when the process has
/// more than one thread.
pub fn fork() -> io::Result<Fork> {
    if threads()? > 1 {
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, "a process with threads must not fork"));
    }
    // SAFETY: this process has a single thread, just checked, so no lock can be held by a thread that
    // the child lacks; whatever is sound before the call is sound after it on both sides.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => Ok(Fork::Parent(child)),
        ForkResult::Child => Ok(Fork::Child),
    }
}

fn threads() -> io::Result<usize> {
    Ok(fs::read_dir("/proc/self/task")?.count())
}

/// Asks for one child that has ended, which is collected, or was stopped or continued, without waiting; `None`
/// when there is nothing new of any. Which of these it was, the status tells.
///
/// nix's `waitpid` loses the process id when the signal that ended the child is a real-time one; this
/// does not.
///
/// # Errors
/// What `waitpid(2)` reports.
pub fn next_change() -> io::Result<Option<(Pid, ExitStatus)>> {
    let mut status = 0;
    // SAFETY: `status` lives through the call and is all that the kernel writes.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, CHANGES) };
    match pid {
        0 => Ok(None),
        -1 if Errno::last() == Errno::ECHILD => Ok(None),
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(Some((Pid::from_raw(pid), ExitStatus::from_raw(status)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_threads_is_refused() {
        // The test harness runs each test on a thread of its own.
        assert_eq!(fork().expect_err("threads").kind(), io::ErrorKind::ResourceBusy);
    }
}
