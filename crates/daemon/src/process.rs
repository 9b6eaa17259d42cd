//! What `/proc` says about a process, where it is readable.

use std::fs;

use nix::unistd::Pid;

/// The command name.
pub(crate) fn command_of(pid: Pid) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

/// The command name as an addition to the process id: in parentheses after a space, or nothing.
pub(crate) fn command_suffix(pid: Pid) -> String {
    command_of(pid).map(|name| format!(" ({name})")).unwrap_or_default()
}

/// The letter for its state: see `/proc/PID/stat` in proc(5).
pub(crate) fn state_of(pid: Pid) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command, in parentheses, may have any character in it.
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.chars().next()
}

/// Whether a signal or a debugger has stopped it.
pub(crate) fn is_stopped(pid: Pid) -> bool {
    matches!(state_of(pid), Some('T' | 't'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_name_and_is_not_stopped() {
        // The main thread, which the file is about, waits for this one.
        assert!(matches!(state_of(Pid::this()), Some('R' | 'S')));
        assert!(!is_stopped(Pid::this()));
        assert!(command_suffix(Pid::this()).starts_with(" ("));
        assert_eq!(command_suffix(Pid::from_raw(i32::MAX)), "");
    }
}
