//! The listen sockets: opened by the master, shared by the generations that use them, inherited by their
//! workers.
//!
//! Each generation has its own [`Sockets`]; a socket that two generations use is one descriptor with two
//! owners, closed when the last lets go. What a reload does to them is decided in [`crate::plan`] and done
//! in three steps that mirror it: [`Sockets::prepare`] opens what is new and changes nothing that the
//! running generation would notice; [`Sockets::commit`] makes the new generation's options count and steers
//! connections away from a surplus; [`Sockets::release`] closes the surplus. [`Sockets::abandon`] takes a
//! `prepare` back.
//!
//! Where another address takes over the connections of one that is gone (0.0.0.0 those of 127.0.0.1, on the
//! same port), the sockets of the one that is gone are part of the surplus of the other. `sockets/hand_over.rs`
//! has what is different while another master uses the sockets too.

mod hand_over;
mod listed;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;
use std::{fmt, io};

use drover_config::ListenAddress;
use drover_sys::listen;
use nix::sys::socket::{
    self, AddressFamily, Shutdown, SockFlag, SockType, SockaddrStorage, setsockopt, sockopt,
};
use thiserror::Error;
use tracing::{debug, warn};

use crate::owned_path::OwnedPath;
use crate::plan::{Step, plan};
use crate::unix_socket;

pub(crate) use hand_over::HandOverError;

/// How long the kernel waits for the first bytes of a connection to a `deferred` listener, in seconds.
const DEFER_SECONDS: i32 = 5;

/// Where a socket listens. Two addresses that differ cannot share a socket.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Address {
    /// Address and port, or path.
    pub(crate) place: ListenAddress,
    /// For IPv6: whether IPv4 is left to another socket. Fixed once bound.
    pub(crate) ipv6_only: bool,
}

impl Address {
    fn port(&self) -> Option<u16> {
        match self.place {
            ListenAddress::Tcp(address) => Some(address.port()),
            ListenAddress::Unix(_) => None,
        }
    }

    /// Whether connections to `other`, once that is closed, come here.
    fn takes_over(&self, other: &Address) -> bool {
        let (ListenAddress::Tcp(wide), ListenAddress::Tcp(narrow)) = (&self.place, &other.place) else {
            return false;
        };
        let any = wide.ip().is_unspecified();
        let speaks = wide.is_ipv6() == narrow.is_ipv6() || (wide.is_ipv6() && !self.ipv6_only);
        wide.port() == narrow.port() && (wide.ip() == narrow.ip() || (any && speaks))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.place.fmt(formatter)
    }
}

/// What a configuration wants at one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// How many sockets share the address: one, or one per worker.
    pub(crate) sockets: usize,
    /// Length of the queue of connections that wait to be accepted.
    pub(crate) backlog: u32,
    /// Whether connections are reported only once their first bytes are there.
    pub(crate) deferred: bool,
}

/// An address that cannot be listened on.
#[derive(Debug, Error)]
#[error("cannot listen on {address}: {source}{}", hint(.source))]
pub(crate) struct ListenError {
    address: Address,
    source: io::Error,
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "; another process listens there (`ss -ltnp` shows which)",
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 need root or the capability CAP_NET_BIND_SERVICE"
        }
        io::ErrorKind::AddrNotAvailable => "; no interface of this machine has that address",
        _ => "",
    }
}

/// The sockets of one address, in the order in which they began to listen.
#[derive(Debug)]
struct Group {
    sockets: Vec<Rc<OwnedFd>>,
    /// Sockets of the generation before that this one does not need, to be drained.
    surplus: Vec<Rc<OwnedFd>>,
    /// Sockets of addresses that are gone, whose connections this one takes over.
    taken_over: Vec<Rc<OwnedFd>>,
    wanted: Wanted,
    /// How many of the sockets were there before, while the others wait for the commit.
    growing_from: Option<usize>,
    /// The file of a unix socket, removed by whoever lets go last.
    path: Option<Rc<OwnedPath>>,
}

/// The listen sockets of one generation.
#[derive(Debug, Default)]
pub(crate) struct Sockets(BTreeMap<Address, Group>);

/// What one worker inherits for one address.
#[derive(Debug)]
pub(crate) struct Inherited {
    /// Where it listens.
    pub(crate) address: Address,
    /// The socket of this worker.
    pub(crate) socket: Rc<OwnedFd>,
    /// Sockets to accept from until the master says otherwise.
    pub(crate) surplus: Vec<Rc<OwnedFd>>,
}

impl Sockets {
    /// The sockets for `wanted`, taking over those of `held` that fit. Nothing is accepted from a new
    /// socket of a group until the commit: the kernel is told to leave it out.
    ///
    /// # Errors
    /// The first address that cannot be listened on; `held` is as it was.
    pub(crate) fn prepare(
        held: &Sockets,
        wanted: &BTreeMap<Address, Wanted>,
    ) -> Result<Sockets, ListenError> {
        let counts =
            held.0.iter().map(|(address, group)| (address.clone(), group.members().count())).collect();
        let targets = wanted.iter().map(|(address, wanted)| (address.clone(), wanted.sockets)).collect();
        let mut prepared = Sockets::default();
        let steps = plan(&counts, &targets);
        let gone: Vec<&Address> =
            steps.iter().filter(|(_, step)| **step == Step::Close).map(|(address, _)| address).collect();
        for (address, step) in &steps {
            let Some(wanted) = wanted.get(address).copied() else { continue };
            let mut group = match prepare_group(held, address, *step, wanted) {
                Ok(group) => group,
                Err(source) => {
                    prepared.abandon();
                    return Err(ListenError { address: address.clone(), source });
                }
            };
            let taken_over = gone.iter().filter(|gone| address.takes_over(gone));
            let sockets = taken_over.filter_map(|gone| Some(&held.0.get(gone)?.sockets));
            let waiting = held.0.get(address).into_iter().flat_map(|group| &group.taken_over);
            group.taken_over = sockets.flatten().chain(waiting).map(Rc::clone).collect();
            prepared.0.insert(address.clone(), group);
        }
        Ok(prepared)
    }

    /// Makes these the sockets in use: options are set, new sockets take part. Whether there is a surplus,
    /// which has to be [steered away from](Sockets::steer_away) and released.
    pub(crate) fn commit(&mut self) -> bool {
        for (address, group) in &mut self.0 {
            if let Err(error) = group.commit(address) {
                warn!("cannot change the listen sockets of {address}: {error}");
            }
        }
        self.0.values().any(|group| !(group.surplus.is_empty() && group.taken_over.is_empty()))
    }

    /// Steers new connections away from the addresses that `after` no longer has, before whoever accepts there is
    /// asked to leave: what comes later is refused by the kernel, or goes to an address that takes over, rather
    /// than into a queue that is about to be closed.
    pub(crate) fn leave(&self, after: &Sockets) {
        self.leave_where(|address| !after.0.contains_key(address));
    }

    fn leave_where(&self, gone: impl Fn(&Address) -> bool) {
        let gone = self.0.iter().filter(|(address, _)| address.port().is_some() && gone(address));
        for (address, group) in gone {
            for socket in &group.sockets {
                if let Err(error) = listen::steer_away(socket.as_fd()) {
                    warn!("cannot steer connections away from {address}: {error}");
                }
            }
        }
    }

    /// Steers connections away from the surplus.
    pub(crate) fn steer_away(&self) {
        for (address, group) in self.0.iter().filter(|(_, group)| !group.surplus.is_empty()) {
            if let Err(error) = steer_to(group, group.sockets.len()) {
                warn!("cannot steer connections away from the surplus sockets of {address}: {error}");
            }
        }
    }

    /// Closes the surplus, which the workers have drained, and ends the steering.
    pub(crate) fn release(&mut self) {
        // Off the port now, even where a process that hangs still holds a copy.
        let close = |socket: &Rc<OwnedFd>| {
            let _ = socket::shutdown(socket.as_raw_fd(), Shutdown::Read);
        };
        for (address, group) in &mut self.0 {
            std::mem::take(&mut group.taken_over).iter().for_each(close);
            let surplus = std::mem::take(&mut group.surplus);
            let Some(first) = group.sockets.first().filter(|_| !surplus.is_empty()) else { continue };
            surplus.iter().rev().for_each(close);
            drop(surplus);
            if let Err(error) = listen::stop_steering(first.as_fd()) {
                warn!("cannot end the steering of {address}: {error}");
            }
        }
    }

    /// Takes [`Sockets::prepare`] back: what was new closes, what was there is as before.
    pub(crate) fn abandon(self) {
        for group in self.0.into_values() {
            let Some(kept) = group.growing_from else { continue };
            let mut sockets = group.sockets;
            sockets.truncate(kept);
            if let Some(first) = sockets.first() {
                let _ = listen::stop_steering(first.as_fd());
            }
        }
    }

    /// What worker `number` of `workers` inherits.
    pub(crate) fn for_worker(&self, number: usize, workers: usize) -> Vec<Inherited> {
        let inherited = |(address, group): (&Address, &Group)| {
            let socket = group.sockets.get(number % group.sockets.len().max(1))?;
            let surplus = group.surplus.iter().chain(&group.taken_over).enumerate();
            let surplus = surplus.filter(|(index, _)| index % workers.max(1) == number);
            Some(Inherited {
                address: address.clone(),
                socket: Rc::clone(socket),
                surplus: surplus.map(|(_, socket)| Rc::clone(socket)).collect(),
            })
        };
        self.0.iter().filter_map(inherited).collect()
    }

    fn with_port(&self, port: Option<u16>) -> impl Iterator<Item = &Rc<OwnedFd>> {
        let here = self.0.iter().filter(move |(address, _)| port.is_some() && address.port() == port);
        here.flat_map(|(_, group)| group.sockets.iter())
    }
}

impl Group {
    fn commit(&mut self, address: &Address) -> io::Result<()> {
        let Some(first) = self.sockets.first() else { return Ok(()) };
        if self.growing_from.take().is_some() {
            listen::stop_steering(first.as_fd())?;
        }
        for socket in &self.sockets {
            set_changeable(socket, self.wanted, matches!(address.place, ListenAddress::Unix(_)))?;
        }
        Ok(())
    }
}

fn prepare_group(held: &Sockets, address: &Address, step: Step, wanted: Wanted) -> io::Result<Group> {
    let old = held.0.get(address);
    let mut group = Group {
        sockets: old.map_or_else(Vec::new, |group| group.members().map(Rc::clone).collect()),
        surplus: Vec::new(),
        taken_over: Vec::new(),
        wanted,
        growing_from: None,
        path: old.and_then(|group| group.path.clone()),
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
        Step::Grow { kept, to } => {
            group.growing_from = Some(kept);
            // Works already where the group has had members before; else after the first has joined.
            let _ = steer_to(&group, kept);
            if let Err(error) = join(&mut group, address, to) {
                Sockets(BTreeMap::from([(address.clone(), group)])).abandon();
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
        if let Some(kept) = group.growing_from {
            steer_to(group, kept)?;
        }
    }
    Ok(())
}

fn steer_to(group: &Group, count: usize) -> io::Result<()> {
    group.sockets.first().map_or(Ok(()), |first| listen::steer(first.as_fd(), count as u32))
}

/// Opens a socket of its own at `address`. Where the port is taken by one of our own sockets with another
/// address (127.0.0.1 becomes 0.0.0.0), both are made to share it until the old one goes.
fn open(held: &Sockets, address: &Address, wanted: Wanted) -> io::Result<OwnedFd> {
    let alone = bound(address, false).and_then(|socket| listening(&socket, wanted).map(|()| socket));
    match alone {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let mut ours = held.with_port(address.port()).peekable();
            if ours.peek().is_none() {
                return Err(error);
            }
            debug!("{address} overlaps with an address in use here: sharing the port meanwhile");
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

fn listening(socket: &OwnedFd, wanted: Wanted) -> io::Result<()> {
    if wanted.deferred {
        listen::set_defer_accept(socket.as_fd(), DEFER_SECONDS)?;
    }
    listen::listen(socket.as_fd(), wanted.backlog)
}

/// The options that a socket can change while it listens.
fn set_changeable(socket: &OwnedFd, wanted: Wanted, unix: bool) -> io::Result<()> {
    if !unix {
        listen::set_defer_accept(socket.as_fd(), if wanted.deferred { DEFER_SECONDS } else { 0 })?;
    }
    listen::listen(socket.as_fd(), wanted.backlog)
}

#[cfg(test)]
mod tests;
