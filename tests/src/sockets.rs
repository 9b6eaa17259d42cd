//! TCP sockets by their inodes, from `/proc/net/tcp`.

use std::collections::BTreeMap;
use std::fs;

use nix::unistd::Pid;

use crate::descriptors::{self, Registration};
use crate::{Drover, Port, eventually};

/// The listening sockets on a port: their inodes.
pub fn listening(port: u16) -> Vec<u64> {
    let mut inodes: Vec<u64> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .flat_map(|table| {
            fs::read_to_string(table).unwrap_or_default().lines().map(str::to_owned).collect::<Vec<_>>()
        })
        .filter_map(|line| parse_listening(&line, port))
        .collect();
    inodes.sort_unstable();
    inodes
}

/// `0: 0100007F:2710 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 INODE ...`, where `0A` is LISTEN.
fn parse_listening(line: &str, port: u16) -> Option<u64> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
    let number = u16::from_str_radix(local.rsplit(':').next()?, 16).ok()?;
    (*state == "0A" && number == port).then(|| inode.parse().ok())?
}

/// The listening sockets on a port that a process holds: descriptor and inode.
pub fn held(pid: Pid, port: u16) -> BTreeMap<i32, u64> {
    let listening = listening(port);
    descriptors::open(pid)
        .into_iter()
        .filter_map(|(descriptor, target)| {
            let inode = target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()?;
            listening.contains(&inode).then_some((descriptor, inode))
        })
        .collect()
}

/// How a process has the listening sockets on a port in its epoll instance: inode and registration.
pub fn watched(pid: Pid, port: u16) -> Vec<(u64, Registration)> {
    let held = held(pid, port);
    descriptors::registrations(pid)
        .into_iter()
        .filter_map(|registration| Some((*held.get(&registration.descriptor)?, registration)))
        .collect()
}

/// Waits until one worker alone has the listener in its backend, as whoever holds the accept mutex.
///
/// # Panics
///
/// When that does not come about.
#[track_caller]
pub fn only_watcher(drover: &Drover, port: &Port) -> Pid {
    eventually("one worker alone watches the listener", || {
        let watches = |pid: &Pid| !watched(*pid, port.number()).is_empty();
        let watching: Vec<Pid> = drover.workers().into_iter().filter(watches).collect();
        (watching.len() == 1).then(|| watching[0])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;

    #[test]
    fn finds_a_listener() {
        let port = Port::new();
        assert!(listening(port.number()).is_empty());
        let listener = TcpListener::bind(port.address()).expect("the port is ours");
        let found = listening(port.number());
        assert_eq!(found.len(), 1);
        let held = held(Pid::this(), port.number());
        assert_eq!(held.get(&listener.as_raw_fd()), Some(&found[0]));
        assert!(watched(Pid::this(), port.number()).is_empty());
    }
}
