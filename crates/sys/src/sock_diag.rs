//! Listening sockets as the kernel sees them: how many connections wait in the queue of each, how many may, and
//! how many were turned away.
//!
//! Two ways lead there: [`of_socket`] asks a socket that this process has; [`listening`] asks the kernel about all
//! of the network namespace, by netlink's sock_diag(7), for which no privilege is needed. Both name a socket by
//! its inode, as `/proc/PID/fd` does.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};

/// The queue of one listening socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Queue {
    /// The inode of the socket.
    pub inode: u64,
    /// Connections that wait to be accepted; of a datagram socket, bytes that wait to be received.
    pub waiting: u32,
    /// How many may wait; zero where that is unknown.
    pub backlog: u32,
    /// Connections or datagrams that were turned away since the socket was opened, nearly always because the
    /// queue was full (`SK_MEMINFO_DROPS`).
    pub overflows: u32,
}

/// The inode of a socket, and what was turned away at it.
///
/// # Errors
/// What `fstat(2)` and `getsockopt(2)` report; kernels before 4.12 do not know the option.
pub fn of_socket(socket: BorrowedFd<'_>) -> io::Result<(u64, u32)> {
    let inode = nix::sys::stat::fstat(socket)?.st_ino;
    let mut memory = [0_u32; MEMORY_WORDS];
    let mut length = size_of_val(&memory) as libc::socklen_t;
    // SAFETY: `memory` has room for `length` bytes, and the kernel writes no more than that.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            memory.as_mut_ptr().cast(),
            &mut length,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok((inode, memory[DROPS])) }
}

/// `SK_MEMINFO_DROPS`, and how many words there are up to it (`linux/sock_diag.h`).
const DROPS: usize = 8;
const MEMORY_WORDS: usize = DROPS + 1;

/// Which sockets [`listening`] asks for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Family {
    /// TCP over IPv4.
    Tcp4,
    /// TCP over IPv6.
    Tcp6,
    /// UDP over IPv4.
    Udp4,
    /// UDP over IPv6.
    Udp6,
    /// Unix sockets for streams.
    Unix,
}

/// The queues of all listening sockets of a kind in this network namespace; of UDP, those of all sockets.
///
/// # Errors
/// What the kernel reports: `EAFNOSUPPORT` or `EPERM` where netlink is not to be used, `ENOENT` where it has no
/// sock_diag for this kind.
pub fn listening(family: Family) -> io::Result<Vec<Queue>> {
    let netlink =
        socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkSockDiag)?;
    send(netlink.as_raw_fd(), &request(family), MsgFlags::empty())?;
    let mut queues = Vec::new();
    let mut buffer = vec![0; RECEIVE_SIZE];
    loop {
        let length = recv(netlink.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
        if take_messages(&buffer[..length], family, &mut queues)? {
            return Ok(queues);
        }
    }
}

/// Dumps come in parts of at most this many bytes (`NLMSG_GOODSIZE` and more).
const RECEIVE_SIZE: usize = 64 * 1024;
/// `SOCK_DIAG_BY_FAMILY` (`linux/sock_diag.h`).
const BY_FAMILY: u16 = 20;
/// `INET_DIAG_SKMEMINFO` (`linux/inet_diag.h`).
const INET_MEMORY: u16 = 7;
/// `UNIX_DIAG_RQLEN` and `UNIX_DIAG_MEMINFO`, and the flags that ask for them (`linux/unix_diag.h`).
const UNIX_QUEUE: u16 = 4;
const UNIX_MEMORY: u16 = 5;
const UNIX_SHOW: u32 = 0x10 | 0x20;
/// `TCP_LISTEN` and `TCP_CLOSE`, in which UDP sockets that are not connected are (`net/tcp_states.h`).
const LISTEN: u32 = 10;
const CLOSE: u32 = 7;
/// Words of a `struct inet_diag_sockid`.
const SOCKET_ID: usize = 12;
/// Lengths of a netlink header, a `struct inet_diag_msg`, a `struct unix_diag_msg` and an attribute's header.
const HEADER: usize = 16;
const INET_MESSAGE: usize = 72;
const UNIX_MESSAGE: usize = 16;
const ATTRIBUTE: usize = 4;

/// A netlink message with a `struct inet_diag_req_v2` or a `struct unix_diag_req`.
fn request(family: Family) -> Vec<u8> {
    let (domain, protocol) = match family {
        Family::Tcp4 => (libc::AF_INET, libc::IPPROTO_TCP),
        Family::Tcp6 => (libc::AF_INET6, libc::IPPROTO_TCP),
        Family::Udp4 => (libc::AF_INET, libc::IPPROTO_UDP),
        Family::Udp6 => (libc::AF_INET6, libc::IPPROTO_UDP),
        Family::Unix => (libc::AF_UNIX, 0),
    };
    let states = if protocol == libc::IPPROTO_UDP { 1_u32 << CLOSE } else { 1 << LISTEN };
    let extensions = if family == Family::Unix { 0 } else { 1_u8 << (INET_MEMORY - 1) };
    let mut body = vec![domain as u8, protocol as u8, extensions, 0];
    body.extend(states.to_ne_bytes());
    match family {
        Family::Unix => [0, UNIX_SHOW, 0, 0].iter().for_each(|word: &u32| body.extend(word.to_ne_bytes())),
        _ => body.extend([0; SOCKET_ID * 4]),
    }
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
    let mut message = Vec::from(((HEADER + body.len()) as u32).to_ne_bytes());
    message.extend(BY_FAMILY.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// Takes the messages of one receive; tells whether the dump is complete.
fn take_messages(mut bytes: &[u8], family: Family, queues: &mut Vec<Queue>) -> io::Result<bool> {
    while bytes.len() >= HEADER {
        let length = (word(bytes, 0) as usize).clamp(HEADER, bytes.len());
        let (message, rest) = bytes.split_at(length);
        match i32::from(half(message, 4)) {
            libc::NLMSG_DONE => return Ok(true),
            libc::NLMSG_ERROR => {
                return Err(io::Error::from_raw_os_error(-(word(message, HEADER) as i32)));
            }
            _ => queues.extend(queue_of(&message[HEADER..], family)),
        }
        bytes = rest.get(length.next_multiple_of(4) - length..).unwrap_or_default();
    }
    Ok(false)
}

/// What one message says; `None` of one that is too short.
fn queue_of(message: &[u8], family: Family) -> Option<Queue> {
    if family == Family::Unix {
        let attributes = message.get(UNIX_MESSAGE..)?;
        let queue = attribute(attributes, UNIX_QUEUE)?;
        let memory = attribute(attributes, UNIX_MEMORY).unwrap_or_default();
        return Some(Queue {
            inode: u64::from(word(message, 4)),
            waiting: word(queue, 0),
            backlog: word(queue, 4),
            overflows: word(memory, DROPS * 4),
        });
    }
    let attributes = message.get(INET_MESSAGE..)?;
    let memory = attribute(attributes, INET_MEMORY).unwrap_or_default();
    // Past the family and state come the addresses and the time that a timer expires at.
    let queue = &message[4 + SOCKET_ID * 4 + 4..];
    let is_udp = matches!(family, Family::Udp4 | Family::Udp6);
    Some(Queue {
        inode: u64::from(word(queue, 12)),
        waiting: word(queue, 0),
        backlog: if is_udp { 0 } else { word(queue, 4) },
        overflows: word(memory, DROPS * 4),
    })
}

fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    while attributes.len() >= ATTRIBUTE {
        let length = usize::from(half(attributes, 0)).clamp(ATTRIBUTE, attributes.len());
        if half(attributes, 2) == wanted {
            return Some(&attributes[ATTRIBUTE..length]);
        }
        attributes = attributes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    None
}

/// The word at `at`, or zero past the end.
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

fn half(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u16::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;
    use std::os::unix::net::{UnixListener, UnixStream};

    fn queue(family: Family, socket: BorrowedFd<'_>) -> Queue {
        let (inode, _) = of_socket(socket).expect("the kernel tells");
        let queues = listening(family).expect("the kernel tells");
        *queues.iter().find(|queue| queue.inode == inode).expect("our socket is there")
    }

    #[test]
    fn connections_that_wait_are_counted() {
        for (address, family) in [("127.0.0.1:0", Family::Tcp4), ("[::1]:0", Family::Tcp6)] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let place = listener.local_addr().expect("an address");
            crate::listen::listen(listener.as_fd(), 7).expect("listening");
            assert_eq!(
                (queue(family, listener.as_fd()).waiting, queue(family, listener.as_fd()).backlog),
                (0, 7)
            );
            let _clients: Vec<_> = (0..3).map(|_| TcpStream::connect(place).expect("connect")).collect();
            let seen = queue(family, listener.as_fd());
            assert_eq!((seen.waiting, seen.overflows), (3, 0));
        }
    }

    #[test]
    fn what_a_full_queue_turns_away_is_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let place = listener.local_addr().expect("an address");
        crate::listen::listen(listener.as_fd(), 1).expect("listening");
        // One more than the backlog fits.
        let _waiting: Vec<_> = (0..2).map(|_| TcpStream::connect(place).expect("connect")).collect();
        let more = TcpStream::connect_timeout(&place, std::time::Duration::from_millis(100));
        assert!(more.is_err(), "the queue is full");
        let (_, overflows) = of_socket(listener.as_fd()).expect("the kernel tells");
        assert!(overflows > 0);
        assert!(queue(Family::Tcp4, listener.as_fd()).overflows >= overflows);
    }

    #[test]
    fn unix_and_udp_sockets_have_queues_too() {
        let path = std::env::temp_dir().join(format!("drover-diag-{}", std::process::id()));
        let listener = UnixListener::bind(&path).expect("bind");
        let _client = UnixStream::connect(&path).expect("connect");
        std::fs::remove_file(&path).expect("removed");
        // The kernel may be built without the module for it.
        if listening(Family::Unix).is_ok() {
            assert_eq!(queue(Family::Unix, listener.as_fd()).waiting, 1);
        }
        let udp = UdpSocket::bind("127.0.0.1:0").expect("bind");
        udp.send_to(b"hello", udp.local_addr().expect("an address")).expect("sent");
        if listening(Family::Udp4).is_ok() {
            assert!(queue(Family::Udp4, udp.as_fd()).waiting > 0);
        }
    }

    #[test]
    fn nonsense_is_no_queue_and_no_panic() {
        let mut queues = Vec::new();
        for length in 0..100 {
            for family in [Family::Tcp4, Family::Unix] {
                assert!(!take_messages(&vec![0; length], family, &mut queues).expect("no error"));
                assert!(!take_messages(&vec![255; length], family, &mut queues).is_ok_and(|done| done));
            }
        }
    }
}
