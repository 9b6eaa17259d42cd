//! Signal dispositions, which nix can only change with `unsafe`.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;

use nix::sys::signal::Signal;

/// Gives every signal that is ignored its default action back, except SIGPIPE and SIGXFSZ, which are
/// to be ignored.
///
/// A process inherits ignored signals over `exec` (from `nohup`, from a shell without job control); an
/// ignored SIGCHLD would even make the kernel collect children on its own. Signals that have a handler
/// are left alone: those were installed by this very program.
///
/// # Errors
/// What `sigaction(2)` reports.
pub fn reset_ignored() -> io::Result<()> {
    for signal in Signal::iterator() {
        match signal {
            Signal::SIGKILL | Signal::SIGSTOP => {}
            // A write to a closed connection, or past a size limit, is an error of that write.
            Signal::SIGPIPE | Signal::SIGXFSZ => set(signal, libc::SIG_IGN)?,
            _ if disposition(signal)? == libc::SIG_IGN => set(signal, libc::SIG_DFL)?,
            _ => {}
        }
    }
    Ok(())
}

/// Gives one signal its default action back; those that cannot have another are left alone. Safe between fork
/// and exec.
pub(crate) fn set_default(signal: Signal) -> io::Result<()> {
    match signal {
        Signal::SIGKILL | Signal::SIGSTOP => Ok(()),
        _ => set(signal, libc::SIG_DFL),
    }
}

fn disposition(signal: Signal) -> io::Result<libc::sighandler_t> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: nothing is installed; the kernel fills `action`, for which all-zero is valid too.
    let result = unsafe { libc::sigaction(signal as libc::c_int, ptr::null(), action.as_mut_ptr()) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: initialised, by zeroes and then by the kernel.
    Ok(unsafe { action.assume_init() }.sa_sigaction)
}

/// `action` is SIG_DFL or SIG_IGN.
fn set(signal: Signal, action: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: both actions are the kernel's own, so no code of this process will run as a handler.
    let previous = unsafe { libc::signal(signal as libc::c_int, action) };
    if previous == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_get_their_default_back() {
        set(Signal::SIGUSR2, libc::SIG_IGN).expect("ignored");
        reset_ignored().expect("reset");
        assert_eq!(disposition(Signal::SIGUSR2).expect("read"), libc::SIG_DFL);
        assert_eq!(disposition(Signal::SIGPIPE).expect("read"), libc::SIG_IGN);
    }
}
