//! Making one listen socket, and the options it can change while it listens.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use drover_config::ListenAddress;
use drover_service::Probes;
use drover_sys::listen;
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrStorage, setsockopt, sockopt};

use super::{Address, Wanted};
use crate::unix_socket;

/// How long the kernel waits for the first bytes of a connection to a `deferred` listener, in seconds.
const DEFER_SECONDS: i32 = 5;

pub(super) fn bound(address: &Address, share: bool) -> io::Result<OwnedFd> {
    match &address.place {
        ListenAddress::Tcp(place) => bound_tcp(*place, address.ipv6_only, share),
        ListenAddress::Unix(path) => unix_socket::bind(path),
    }
}

fn bound_tcp(place: SocketAddr, ipv6_only: bool, share: bool) -> io::Result<OwnedFd> {
    let family = if place.is_ipv6() { AddressFamily::Inet6 } else { AddressFamily::Inet };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket::socket(family, SockType::Stream, flags, None)?;
    // Connections of an earlier daemon that are still closing must not keep the port.
    setsockopt(&socket, sockopt::ReuseAddr, &true)?;
    // Accepted sockets inherit it, which saves a call for each.
    setsockopt(&socket, sockopt::TcpNoDelay, &true)?;
    if place.is_ipv6() {
        setsockopt(&socket, sockopt::Ipv6V6Only, &ipv6_only)?;
    }
    if share {
        setsockopt(&socket, sockopt::ReusePort, &true)?;
    }
    socket::bind(socket.as_raw_fd(), &SockaddrStorage::from(place))?;
    Ok(socket)
}

pub(super) fn listening(socket: &OwnedFd, wanted: Wanted) -> io::Result<()> {
    if wanted.deferred {
        listen::set_defer_accept(socket.as_fd(), DEFER_SECONDS)?;
    }
    if wanted.probes.is_some() {
        set_probes(socket, wanted.probes)?;
    }
    listen::listen(socket.as_fd(), wanted.backlog)
}

/// Accepted sockets inherit this, which saves calls for each.
fn set_probes(socket: &OwnedFd, probes: Option<Probes>) -> io::Result<()> {
    if let Some(Probes { idle, interval, count }) = probes {
        setsockopt(socket, sockopt::TcpKeepIdle, &idle)?;
        setsockopt(socket, sockopt::TcpKeepInterval, &interval)?;
        setsockopt(socket, sockopt::TcpKeepCount, &count)?;
    }
    Ok(setsockopt(socket, sockopt::KeepAlive, &probes.is_some())?)
}

/// The options that a socket can change while it listens.
pub(super) fn set_changeable(socket: &OwnedFd, wanted: Wanted, unix: bool) -> io::Result<()> {
    if !unix {
        listen::set_defer_accept(socket.as_fd(), if wanted.deferred { DEFER_SECONDS } else { 0 })?;
        set_probes(socket, wanted.probes)?;
    }
    listen::listen(socket.as_fd(), wanted.backlog)
}
