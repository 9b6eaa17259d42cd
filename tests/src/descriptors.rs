//! A process's open descriptors, and what its epoll instance watches.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::Pid;

/// `EPOLLEXCLUSIVE`.
pub const EXCLUSIVE: u32 = 1 << 28;
/// `EPOLLET`.
pub const EDGE: u32 = 1 << 31;
/// `EPOLLIN`.
pub const IN: u32 = 1;

/// Lets this process, and the daemon that it starts, have as many descriptors as the system allows; false where
/// those are fewer than `count`.
///
/// # Panics
///
/// When the limit cannot be read, or raised to the hard one.
pub fn allow(count: u64) -> bool {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("limits can be read");
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).expect("up to the hard limit");
    hard >= count
}

/// What each open descriptor is: a path, or `socket:[INODE]`, `anon_inode:[eventpoll]` and the like.
pub fn open(pid: Pid) -> BTreeMap<i32, String> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return BTreeMap::new() };
    entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let target = fs::read_link(entry.path()).ok()?.to_string_lossy().into_owned();
            // The kernel's word is about the name that it was opened by; it may have another one.
            let named = fs::metadata(entry.path()).is_ok_and(|metadata| metadata.nlink() > 0);
            let target = match target.strip_suffix(" (deleted)") {
                Some(name) if named => name.to_owned(),
                _ => target,
            };
            Some((entry.file_name().to_str()?.parse().ok()?, target))
        })
        .collect()
}

/// The kinds of what is open, in order: paths as they are, sockets and the like without their numbers.
pub fn kinds(pid: Pid) -> Vec<String> {
    let kind = |target: String| target.split(['[', '(']).next().unwrap_or_default().to_owned();
    let mut kinds: Vec<String> = open(pid).into_values().map(kind).collect();
    kinds.sort();
    kinds
}

/// One `tfd:` line of an epoll instance's `fdinfo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registration {
    /// The descriptor watched.
    pub descriptor: i32,
    /// The mask it was registered with.
    pub events: u32,
}

impl Registration {
    /// Registered with `EPOLLEXCLUSIVE`.
    pub fn is_exclusive(self) -> bool {
        self.events & EXCLUSIVE != 0
    }

    /// Registered edge-triggered.
    pub fn is_edge_triggered(self) -> bool {
        self.events & EDGE != 0
    }
}

/// Everything that the epoll instances of a process watch.
pub fn registrations(pid: Pid) -> Vec<Registration> {
    let instances = open(pid).into_iter().filter(|(_, target)| target == "anon_inode:[eventpoll]");
    instances
        .flat_map(|(descriptor, _)| {
            let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{descriptor}")).unwrap_or_default();
            info.lines().filter_map(parse_registration).collect::<Vec<_>>()
        })
        .collect()
}

/// `tfd:        6 events: 90000001 data: ...`
fn parse_registration(line: &str) -> Option<Registration> {
    let mut words = line.strip_prefix("tfd:")?.split_whitespace();
    let descriptor = words.next()?.parse().ok()?;
    let events = words.skip_while(|word| *word != "events:").nth(1)?;
    Some(Registration { descriptor, events: u32::from_str_radix(events, 16).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;

    #[test]
    fn reads_what_epoll_watches() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).expect("epoll");
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLEXCLUSIVE;
        epoll.add(&listener, EpollEvent::new(flags, 7)).expect("added");
        let found = registrations(Pid::this());
        let ours = found.iter().find(|r| r.descriptor == listener.as_raw_fd()).expect("registered");
        assert!(ours.is_exclusive() && !ours.is_edge_triggered(), "{ours:?}");
        assert_eq!(ours.events & IN, IN);
    }
}
