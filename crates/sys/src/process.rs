//! Whether another process lives.

use std::os::fd::{AsFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::Pid;

/// Whether a process has ended. One that its parent has not reaped has; where the system does not tell, it has not.
pub fn has_ended(pid: Pid) -> bool {
    // SAFETY: takes two numbers, and makes a descriptor or fails.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) };
    if descriptor < 0 {
        return Errno::last() == Errno::ESRCH;
    }
    // SAFETY: the descriptor was just made, and nothing else knows of it.
    let process = unsafe { OwnedFd::from_raw_fd(descriptor as i32) };
    let mut watched = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
    poll(&mut watched, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_has_ended_before_anybody_has_reaped_it() {
        assert!(!has_ended(Pid::this()));
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("a child");
        let pid = Pid::from_raw(child.id() as i32);
        assert!(!has_ended(pid));
        child.kill().expect("killed");
        let begun = std::time::Instant::now();
        while !has_ended(pid) {
            assert!(begun.elapsed().as_secs() < 10, "it ends");
            std::thread::yield_now();
        }
        child.wait().expect("reaped");
        assert!(has_ended(pid), "the system knows of none");
    }
}
