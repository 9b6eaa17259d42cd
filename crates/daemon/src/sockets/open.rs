//! Opening, binding and joining listen sockets.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;

use drover_config::ListenAddress;
use drover_service::Probes;
use drover_sys::listen;
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrStorage, setsockopt, sockopt};
use tracing::debug;

use super::{Address, Before, Group, Sockets, Wanted, datagrams, steer_to};
use crate::owned_path::OwnedPath;
use crate::plan::Step;
use crate::unix_socket;

/// How long the kernel waits for the first bytes of a connection to a `deferred` listener, in seconds.
const DEFER_SECONDS: i32 = 5;

/// The group of `address` after `step`, with what `held` has of it.
///
/// # Errors
/// What the system refuses; `held` is as it was.
pub(super) fn prepare_group(
    held: &Sockets,
    address: &Address,
    step: Step,
    wanted: Wanted,
) -> io::Result<Group> {
    if address.udp {
        return datagrams::prepare(held, address, wanted);
    }
    let old = held.groups.get(address);
    let mut group = Group {
        sockets: old.map_or_else(Vec::new, |group| group.members().map(Rc::clone).collect()),
        surplus: Vec::new(),
        taken_over: Vec::new(),
        wanted,
        before: old.map(|group| Before { members: group.members().count(), in_use: group.sockets.len() }),
        passed: old.is_some_and(|group| group.passed),
        path: old.and_then(|group| group.path.clone()),
        unbound: 0,
    };
    match step {
        Step::Keep | Step::Close => {}
        Step::Shrink { kept } => group.surplus = group.sockets.split_off(kept),
        Step::Open(count) => {
            // The first one does not share, so that a port of somebody else is noticed.
            group.sockets.push(Rc::new(open(held, address, wanted)?));
            if let ListenAddress::Unix(path) = &address.place {
                group.path = Some(Rc::new(OwnedPath::new(path)));
            }
            join(&mut group, address, count)?;
        }
        Step::Grow { to, .. } => {
            // Works only after the first has joined where the socket there is was passed to drover.
            let _ = leave_out(&group);
            if let Err(error) = join(&mut group, address, to) {
                group.abandon();
                return Err(error);
            }
        }
    }
    Ok(group)
}

/// Adds sockets to the group until it has `count`. While it grows, the kernel must not use the new ones.
fn join(group: &mut Group, address: &Address, count: usize) -> io::Result<()> {
    if count > 1 {
        for socket in &group.sockets {
            setsockopt(socket, sockopt::ReusePort, &true)?;
        }
    }
    while group.sockets.len() < count {
        let socket = bound(address, true)?;
        listening(&socket, group.wanted)?;
        group.sockets.push(Rc::new(socket));
        leave_out(group)?;
    }
    Ok(())
}

/// Has the kernel use the sockets that it used before, and no others until the commit.
fn leave_out(group: &Group) -> io::Result<()> {
    group.before.map_or(Ok(()), |before| steer_to(group, before.in_use))
}

/// Opens a socket of its own at `address`. Where the port is taken by one of our own sockets with another
/// address (127.0.0.1 becomes 0.0.0.0), or by one that workers of before have not closed yet, they share it
/// until the old one goes.
fn open(held: &Sockets, address: &Address, wanted: Wanted) -> io::Result<OwnedFd> {
    let alone =
        bound(address, false).and_then(|socket| listening_alone(&socket, address, wanted).map(|()| socket));
    match alone {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let mut ours = held.with_port(address.port()).peekable();
            if ours.peek().is_none() && !held.left_port(address.port()) {
                return Err(error);
            }
            debug!("the port of {address} is in use here: sharing it meanwhile");
            for socket in ours {
                setsockopt(socket, sockopt::ReusePort, &true)?;
            }
            let socket = bound(address, true)?;
            listening(&socket, wanted)?;
            Ok(socket)
        }
        other => other,
    }
}

fn bound(address: &Address, share: bool) -> io::Result<OwnedFd> {
    match &address.place {
        ListenAddress::Tcp(place) => bound_tcp(*place, address.ipv6_only, share),
        ListenAddress::Unix(path) => unix_socket::bind(path),
        // A start has found it among what was passed, and nothing is passed later.
        ListenAddress::Systemd(_) => Err(io::Error::other("only a restart of the service can take it over")),
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

/// Has the socket listen; one that others may join later is made a group of one before that, so that the kernel can be
/// told to leave them out before they join.
fn listening_alone(socket: &OwnedFd, address: &Address, wanted: Wanted) -> io::Result<()> {
    if !matches!(address.place, ListenAddress::Tcp(_)) || wanted.sockets > 1 {
        return listening(socket, wanted);
    }
    listen::make_group(socket.as_fd())?;
    listening(socket, wanted)
}

fn listening(socket: &OwnedFd, wanted: Wanted) -> io::Result<()> {
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
pub(super) fn set_changeable(socket: &OwnedFd, wanted: Wanted, place: &ListenAddress) -> io::Result<()> {
    // What systemd passes may be of either kind, and its unit has options for this.
    if matches!(place, ListenAddress::Tcp(_)) {
        listen::set_defer_accept(socket.as_fd(), if wanted.deferred { DEFER_SECONDS } else { 0 })?;
        set_probes(socket, wanted.probes)?;
    }
    listen::listen(socket.as_fd(), wanted.backlog)
}
