//! Starting another program with a clean slate.
//!
//! Over `exec(2)` a program inherits the signal mask and the signals that are ignored, and every descriptor
//! that is not close-on-exec. [`spawn`] hands on none of the first two and one of the last.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::Pid;

use crate::signal;

/// Starts `command` with no signal blocked and none ignored, and with `kept` open under its number: the one
/// descriptor that it gets beside its standard streams. The caller collects it as any child.
///
/// # Errors
/// What `fork(2)` and `execve(2)` report: `NotFound` and `PermissionDenied` for a program that is missing or
/// may not be executed.
pub fn spawn(command: &mut Command, kept: BorrowedFd<'_>) -> io::Result<Pid> {
    let number = kept.as_raw_fd();
    let prepare = move || {
        // SAFETY: no memory is passed. In the child alone, so that nothing else this process starts gets it.
        if unsafe { libc::fcntl(number, libc::F_SETFD, 0) } == -1 {
            return Err(io::Error::last_os_error());
        }
        Signal::iterator().try_for_each(signal::set_default)?;
        Ok(SigSet::empty().thread_set_mask()?)
    };
    // SAFETY: between fork and exec only fcntl, sigaction and the signal mask are called, all safe there
    // (signal-safety(7)); nothing is allocated and no lock is taken.
    let child = unsafe { command.pre_exec(prepare) }.spawn()?;
    Ok(Pid::from_raw(child.id() as i32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::process::Stdio;

    use nix::sys::wait::waitpid;
    use nix::unistd::pipe;

    /// The program reports on itself through the one descriptor that it got.
    fn report(script: &str) -> String {
        let (reader, writer) = pipe().expect("pipe");
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).env("KEPT", writer.as_raw_fd().to_string()).stdin(Stdio::null());
        let pid = spawn(&mut command, writer.as_fd()).expect("a shell");
        drop(writer);
        let mut text = String::new();
        File::from(reader).read_to_string(&mut text).expect("text");
        waitpid(pid, None).expect("collected");
        text
    }

    #[test]
    fn no_signal_is_blocked_or_ignored() {
        let mask = SigSet::from_iter([Signal::SIGHUP, Signal::SIGUSR2]);
        mask.thread_block().expect("blocked");
        // The harness ignores SIGPIPE, as every Rust program does.
        // The shell alone: it blocks signals while it starts another program.
        let script = "while read -r line; do echo \"$line\"; done </proc/$$/status >/proc/$$/fd/$KEPT";
        let status = report(script);
        mask.thread_unblock().expect("unblocked");
        let of = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
            // Without the real-time signals, which mean nothing here.
            u64::from_str_radix(line.trim(), 16).expect("a mask") & 0x7fff_ffff
        };
        assert_eq!((of("SigBlk:"), of("SigIgn:")), (0, 0), "{status}");
    }

    #[test]
    fn one_descriptor_is_kept_and_stays_close_on_exec_here() {
        let (_reader, other) = pipe().expect("pipe");
        let closed = other.as_raw_fd();
        nix::fcntl::fcntl(&other, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC))
            .expect("set");
        let text = report(&format!(
            "[ -e /proc/$$/fd/$KEPT ] && echo kept >/proc/$$/fd/$KEPT; \
             [ -e /proc/$$/fd/{closed} ] && echo leaked >/proc/$$/fd/$KEPT; true"
        ));
        assert_eq!(text, "kept\n");
    }

    #[test]
    fn a_program_that_is_missing_is_an_error() {
        let (_reader, writer) = pipe().expect("pipe");
        let error = spawn(&mut Command::new("/nonexistent/drover"), writer.as_fd()).expect_err("missing");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
