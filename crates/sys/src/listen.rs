//! What a listening socket needs beyond nix: a backlog of any size, deferred accept, and steering of a
//! group of sockets that share an address (`SO_REUSEPORT`).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Makes `socket` listen, or changes the backlog of one that does (`listen(2)`). The kernel cuts the
/// backlog to `net.core.somaxconn`. nix's wrapper refuses more than 4096.
///
/// # Errors
/// What the kernel reports; `EADDRINUSE` when somebody else listens there.
pub fn listen(socket: BorrowedFd<'_>, backlog: u32) -> io::Result<()> {
    let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
    // SAFETY: no memory is passed.
    check(unsafe { libc::listen(socket.as_raw_fd(), backlog) })
}

/// Lets the kernel report a connection only once its first bytes are there, or `seconds` have gone by
/// (`TCP_DEFER_ACCEPT`); zero turns that off.
///
/// # Errors
/// What `setsockopt(2)` reports.
pub fn set_defer_accept(socket: BorrowedFd<'_>, seconds: i32) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, &seconds)
}

/// Steers new connections of `socket`'s group to its first `sockets` members, by their hash. The members
/// are numbered in the order in which they began to listen. A program of before is replaced.
///
/// # Errors
/// `EINVAL` while `socket` is in no group; otherwise what `setsockopt(2)` reports.
pub fn steer(socket: BorrowedFd<'_>, sockets: u32) -> io::Result<()> {
    let mut program = steering_program(sockets);
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, &filter)
}

/// Makes a socket that is bound and does not listen yet a group of its own, which [`steer`] then works on before others
/// join. The port is shared with nobody by that: whoever joins needs `SO_REUSEPORT` set here too
/// (`reuseport_attach_prog()` in the kernel's net/core/sock_reuseport.c).
///
/// # Errors
/// What `setsockopt(2)` reports.
pub fn make_group(socket: BorrowedFd<'_>) -> io::Result<()> {
    let share =
        |shared: bool| set_option(socket, libc::SOL_SOCKET, libc::SO_REUSEPORT, &libc::c_int::from(shared));
    share(true)?;
    steer(socket, 1)?;
    share(false)
}

/// Takes the program of [`steer`] off the group; the kernel spreads over all members again.
///
/// # Errors
/// `ENOENT` when there was none; otherwise what `setsockopt(2)` reports.
pub fn stop_steering(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_DETACH_REUSEPORT_BPF, &0_i32)
}

/// Steers new connections away from a listening socket to whichever other socket of the port they fit, by binding
/// it to an interface that no packet comes from (`SO_BINDTOIFINDEX`). Handshakes under way end, since they were
/// begun without an interface, and what is queued stays. There is no way back without `CAP_NET_RAW`.
///
/// # Errors
/// `EPERM` when the socket was bound to an interface before; otherwise what `setsockopt(2)` reports.
pub fn steer_away(socket: BorrowedFd<'_>) -> io::Result<()> {
    // Taken as it is: sock_bindtoindex_locked() in the kernel's net/core/sock.c asks for no interface by it.
    let nowhere = libc::c_int::MAX;
    set_option(socket, libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX, &nowhere)
}

/// `return hash % sockets`, in classic BPF: see "BPF extensions" in the kernel's filter.rst.
fn steering_program(sockets: u32) -> [libc::sock_filter; 3] {
    let instruction = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let hash = (libc::SKF_AD_OFF + libc::SKF_AD_RXHASH) as u32;
    [
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, hash),
        instruction(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, sockets.max(1)),
        // BPF_A: return the accumulator.
        instruction(libc::BPF_RET | 0x10, 0),
    ]
}

/// `T` is the type that the option takes.
fn set_option<T>(socket: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes of `value`, and through a filter's pointer as many
    // instructions as its length says; both live through the call.
    check(unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, std::ptr::from_ref(value).cast(), length)
    })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{
        AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, getsockname, setsockopt, socket,
        sockopt,
    };
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::os::fd::{AsFd, OwnedFd};

    fn open(address: SockaddrIn, reuse: bool) -> OwnedFd {
        try_open(address, reuse).expect("bind")
    }

    fn try_open(address: SockaddrIn, reuse: bool) -> nix::Result<OwnedFd> {
        let fd =
            socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_NONBLOCK, None).expect("socket");
        // Without SO_REUSEADDR the connections of a lone listener, which do not share the port, would keep
        // a second socket from joining.
        setsockopt(&fd, sockopt::ReuseAddr, &true).expect("option");
        setsockopt(&fd, sockopt::ReusePort, &reuse).expect("option");
        bind(fd.as_raw_fd(), &address)?;
        nix::sys::socket::listen(&fd, Backlog::MAXCONN)?;
        Ok(fd)
    }

    fn queued(listener: OwnedFd) -> (usize, OwnedFd) {
        let listener = TcpListener::from(listener);
        let count = std::iter::from_fn(|| listener.accept().ok()).count();
        (count, listener.into())
    }

    /// A socket that listened alone can be joined later, stays number 0 and keeps its queue; steering
    /// keeps new connections away from the one that joined.
    #[test]
    fn a_late_group_can_be_steered() {
        let first = open(SockaddrIn::new(127, 0, 0, 1, 0), false);
        let address: SockaddrIn = getsockname(first.as_raw_fd()).expect("address");
        let place: SocketAddr = std::net::SocketAddrV4::from(address).into();
        assert_eq!(steer(first.as_fd(), 1).expect_err("no group").raw_os_error(), Some(libc::EINVAL));
        let early = TcpStream::connect(place).expect("connect");
        setsockopt(&first, sockopt::ReusePort, &true).expect("late");
        let second = open(address, true);
        steer(first.as_fd(), 1).expect("steered");
        let steered: Vec<_> = (0..40).map(|_| TcpStream::connect(place).expect("connect")).collect();
        let (at_second, second) = queued(second);
        assert_eq!(at_second, 0);
        stop_steering(first.as_fd()).expect("detached");
        let spread: Vec<_> = (0..60).map(|_| TcpStream::connect(place).expect("connect")).collect();
        let (at_second, _second) = queued(second);
        let (at_first, _first) = queued(first);
        assert!(at_second > 0, "the kernel spreads again");
        assert_eq!(at_first + at_second, 1 + steered.len() + spread.len());
        drop(early);
    }

    /// Others are kept from the port, and those that are let in can be left out before they join.
    #[test]
    fn a_group_of_one_can_be_steered_before_others_join() {
        let first =
            socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_NONBLOCK, None).expect("socket");
        setsockopt(&first, sockopt::ReuseAddr, &true).expect("option");
        bind(first.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).expect("bind");
        make_group(first.as_fd()).expect("a group");
        listen(first.as_fd(), 100).expect("listen");
        let address: SockaddrIn = getsockname(first.as_raw_fd()).expect("address");
        let place: SocketAddr = std::net::SocketAddrV4::from(address).into();
        assert_eq!(try_open(address, true).expect_err("somebody else"), nix::Error::EADDRINUSE);
        steer(first.as_fd(), 1).expect("steered");
        setsockopt(&first, sockopt::ReusePort, &true).expect("shared");
        let second = open(address, true);
        let _clients: Vec<_> = (0..40).map(|_| TcpStream::connect(place).expect("connect")).collect();
        assert_eq!(queued(second).0, 0);
        assert_eq!(queued(first).0, 40);
    }

    /// The narrower address is preferred until it is steered away from; then the wider one has what comes.
    #[test]
    fn a_wider_address_gets_what_is_steered_away_from_a_narrower_one() {
        // Somebody else may have the port on another address.
        let (narrow, address, wide) = (0..100)
            .find_map(|_| {
                let narrow = open(SockaddrIn::new(127, 0, 0, 1, 0), true);
                let address: SockaddrIn = getsockname(narrow.as_raw_fd()).expect("address");
                let wide = try_open(SockaddrIn::new(0, 0, 0, 0, address.port()), true).ok()?;
                Some((narrow, address, wide))
            })
            .expect("a port that is free on all addresses");
        let place: SocketAddr = std::net::SocketAddrV4::from(address).into();
        let early: Vec<_> = (0..7).map(|_| TcpStream::connect(place).expect("connect")).collect();
        steer_away(narrow.as_fd()).expect("an ordinary user may do it once");
        let late: Vec<_> = (0..5).map(|_| TcpStream::connect(place).expect("connect")).collect();
        assert_eq!(queued(narrow).0, early.len(), "what was queued stays");
        assert_eq!(queued(wide).0, late.len());
    }

    #[test]
    fn the_options_of_a_listener_can_change_while_it_listens() {
        let listener = open(SockaddrIn::new(127, 0, 0, 1, 0), false);
        listen(listener.as_fd(), 100_000).expect("a backlog beyond the kernel's limit is cut");
        set_defer_accept(listener.as_fd(), 5).expect("on");
        set_defer_accept(listener.as_fd(), 0).expect("off");
    }
}
