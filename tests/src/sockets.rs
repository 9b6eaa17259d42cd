//! TCP sockets by their inodes, from `/proc/net/tcp`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddrV4;
use std::process::Command;

use nix::unistd::Pid;

use crate::descriptors::{self, Registration};
use crate::{Drover, Port, eventually, packages};

/// The listening sockets on a port: their inodes.
pub fn listening(port: u16) -> Vec<u64> {
    let tables =
        ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().filter_map(|table| fs::File::open(table).ok());
    let mut inodes: Vec<u64> = tables
        .flat_map(|table| {
            // Listening sockets come first; the kernel takes a second to write the others where many connections
            // have ended a short while ago.
            let lines = BufReader::new(table).lines().skip(1).map_while(Result::ok);
            lines
                .map_while(|line| parse_listening(&line))
                .filter(|(at, _)| *at == port)
                .map(|(_, inode)| inode)
        })
        .collect();
    inodes.sort_unstable();
    inodes
}

/// `0: 0100007F:2710 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 INODE ...`, where `0A` is LISTEN: port
/// and inode.
fn parse_listening(line: &str) -> Option<(u16, u64)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
    let number = u16::from_str_radix(local.rsplit(':').next()?, 16).ok()?;
    (*state == "0A").then(|| Some((number, inode.parse().ok()?)))?
}

/// The listening sockets on a port that a process holds: descriptor and inode.
pub fn held(pid: Pid, port: u16) -> BTreeMap<i32, u64> {
    let listening = listening(port);
    descriptors::open(pid)
        .into_iter()
        .filter_map(|(descriptor, target)| {
            let inode = inode(&target)?;
            listening.contains(&inode).then_some((descriptor, inode))
        })
        .collect()
}

/// Connections in which something may still be on its way.
const OPEN_STATES: [&str; 5] = ["established", "close-wait", "fin-wait-1", "fin-wait-2", "last-ack"];

/// The other ends of the connections to a port of this machine that a process holds.
///
/// `ss` is asked, which is quick where many connections have ended a short while ago.
///
/// # Errors
///
/// When there is no `ss`.
pub fn peers(pid: Pid, port: u16) -> Result<Vec<SocketAddrV4>, String> {
    let held: Vec<u64> = descriptors::open(pid).into_values().filter_map(|target| inode(&target)).collect();
    let output = Command::new(packages::tool("ss", "iproute2")?)
        .args(["-t", "-n", "-e", "-H"])
        .args(OPEN_STATES.iter().flat_map(|state| ["state", state]))
        .arg(format!("( sport = :{port} )"))
        .output()
        .map_err(|error| format!("ss: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text
        .lines()
        .filter_map(parse_connection)
        .filter(|(_, inode)| held.contains(inode))
        .map(|(peer, _)| peer)
        .collect())
}

/// `ESTAB 0 0 127.0.0.1:8080 127.0.0.1:41234 uid:33 ino:71234 sk:1 cgroup:/ <->`: the peer and the inode.
fn parse_connection(line: &str) -> Option<(SocketAddrV4, u64)> {
    let mut words = line.split_whitespace();
    let addresses: Vec<SocketAddrV4> = words.by_ref().filter_map(|word| word.parse().ok()).take(2).collect();
    let inode = words.find_map(|word| word.strip_prefix("ino:")?.parse().ok())?;
    Some((*addresses.get(1)?, inode))
}

/// `socket:[INODE]`
fn inode(target: &str) -> Option<u64> {
    target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
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
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    #[test]
    fn finds_who_is_connected() {
        let port = Port::new();
        let listener = TcpListener::bind(port.address()).expect("the port is ours");
        let client = TcpStream::connect(port.address()).expect("connected");
        let (_accepted, _) = listener.accept().expect("a client");
        let SocketAddr::V4(local) = client.local_addr().expect("an address") else { panic!("IPv4") };
        match peers(Pid::this(), port.number()) {
            Ok(peers) => assert_eq!(peers, [local]),
            Err(reason) => packages::skip(&reason),
        }
    }

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
