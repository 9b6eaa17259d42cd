//! TCP ports that one test has for itself.
//!
//! Asking the kernel for port 0 and closing the socket again is a race: whoever asks next may be given
//! the same one, and so may any outgoing connection. Ports are therefore taken from below the range
//! of outgoing connections, and each is claimed by an abstract unix socket of that number. Binding one is
//! atomic over all processes, leaves no file, and ends with the process.

use std::fmt;
use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, setsockopt, socket, sockopt};

const LOWEST: u32 = 10_000;

/// A port nobody else uses as long as this value lives.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _claim: UnixListener,
}

impl Port {
    /// Claims a port.
    ///
    /// # Panics
    ///
    /// When every port is taken.
    #[allow(clippy::new_without_default, reason = "a claim is no default value")]
    pub fn new() -> Port {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let count = lowest_outgoing_port() - LOWEST;
        // Processes start their search far apart, which only saves them tries.
        let start = process::id().wrapping_mul(7_919);
        for _ in 0..count {
            let step = NEXT.fetch_add(1, Ordering::Relaxed);
            let number = LOWEST + start.wrapping_add(step) % count;
            let number = u16::try_from(number).expect("below the range of outgoing ports");
            if let Some(port) = Port::claim(number) {
                return port;
            }
        }
        panic!("no free port between {LOWEST} and {}", LOWEST + count);
    }

    fn claim(number: u16) -> Option<Port> {
        let name = SocketAddr::from_abstract_name(format!("drover-test-port-{number}")).ok()?;
        let claim = UnixListener::bind_addr(&name).ok()?;
        // Something that knows nothing of these claims may listen there.
        is_free(number).then_some(Port { number, _claim: claim })
    }

    /// The number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The port on 127.0.0.1.
    pub fn address(&self) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::LOCALHOST, self.number)
    }

    /// True when nobody listens there.
    pub fn is_free(&self) -> bool {
        is_free(self.number)
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(f)
    }
}

/// Whether nobody listens there. Nor does this: whatever another thread starts at this moment has a copy of all
/// descriptors until it is executed, and must not keep the port.
fn is_free(number: u16) -> bool {
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Inet, SockType::Stream, flags, None).expect("a descriptor");
    setsockopt(&socket, sockopt::ReuseAddr, &true).expect("an option that every socket has");
    bind(socket.as_raw_fd(), &SockaddrIn::new(0, 0, 0, 0, number)).is_ok()
}

fn lowest_outgoing_port() -> u32 {
    fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|range| range.split_whitespace().next()?.parse().ok())
        .filter(|lowest| *lowest > LOWEST + 1_000 && *lowest <= 65_535)
        .unwrap_or(32_768)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::net::TcpListener;
    use std::thread;

    #[test]
    fn no_two_threads_get_the_same() {
        let threads: Vec<_> =
            (0..8).map(|_| thread::spawn(|| (0..10).map(|_| Port::new()).collect::<Vec<_>>())).collect();
        let ports: Vec<Port> =
            threads.into_iter().flat_map(|thread| thread.join().expect("claims")).collect();
        let numbers: HashSet<u16> = ports.iter().map(Port::number).collect();
        assert_eq!(numbers.len(), 80);
    }

    #[test]
    fn a_claimed_port_is_not_given_again() {
        let port = Port::new();
        assert!(Port::claim(port.number()).is_none());
        let number = port.number();
        drop(port);
        assert!(Port::claim(number).is_some());
    }

    #[test]
    fn a_port_with_a_listener_is_passed_over() {
        let port = Port::new();
        let number = port.number();
        let listener = TcpListener::bind(port.address()).expect("the port is ours");
        assert!(!port.is_free());
        drop(port);
        assert!(Port::claim(number).is_none());
        drop(listener);
    }
}
