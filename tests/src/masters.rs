//! The masters of one daemon during an upgrade: there may be two of them.

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::{Directory, eventually, process};

/// The master that the pid file names.
///
/// # Panics
///
/// When there is no such file.
#[track_caller]
pub fn named(directory: &Directory) -> Pid {
    try_named(directory, "drover.pid").expect("a pid file")
}

/// The master that a file of this name names, if there is one.
pub fn try_named(directory: &Directory, file: &str) -> Option<Pid> {
    directory.read(file).trim().parse().ok().map(Pid::from_raw)
}

/// Sends USR2 to the master that the pid file names, and waits until a new one has that name; its process id.
#[track_caller]
pub fn upgrade(directory: &Directory) -> Pid {
    let old = named(directory);
    assert!(process::send(old, Signal::SIGUSR2));
    eventually("a new master has the name", || {
        try_named(directory, "drover.pid").filter(|new| *new != old && process::alive(*new))
    })
}

/// The living workers of one master, oldest first. Another master may be its child too.
pub fn workers(master: Pid) -> Vec<Pid> {
    process::children(master).into_iter().filter(|pid| process::title(*pid).contains(": worker ")).collect()
}

/// Sends a master the signal to stop gracefully, and waits for its end.
#[track_caller]
pub fn quit(master: Pid) {
    assert!(process::send(master, Signal::SIGQUIT));
    gone(master);
}

/// Waits for the end of a master.
#[track_caller]
pub fn gone(master: Pid) {
    eventually("the master ends", || (!process::alive(master)).then_some(()));
}
