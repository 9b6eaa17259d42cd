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

mod datagrams;
mod hand_over;
mod listed;
mod open;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;
use std::{fmt, io};

use drover_config::ListenAddress;
use drover_service::Probes;
use drover_sys::listen;
use nix::sys::socket::{self, Shutdown, setsockopt, sockopt};
use thiserror::Error;
use tracing::warn;

use crate::owned_path::OwnedPath;
use crate::plan::{Step, plan};

pub(crate) use hand_over::{HandOverError, datagram_ports};

/// Where a socket listens. Two addresses that differ cannot share a socket.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Address {
    /// Address and port, or path.
    pub(crate) place: ListenAddress,
    /// Whether it is for datagrams.
    pub(crate) udp: bool,
    /// For IPv6: whether IPv4 is left to another socket. Fixed once bound.
    pub(crate) ipv6_only: bool,
}

impl Address {
    /// The port, and whether it is one of UDP.
    fn port(&self) -> Option<(u16, bool)> {
        match self.place {
            ListenAddress::Tcp(address) => Some((address.port(), self.udp)),
            ListenAddress::Unix(_) | ListenAddress::Systemd(_) => None,
        }
    }

    /// Whether connections to `other`, once that is closed, come here.
    fn takes_over(&self, other: &Address) -> bool {
        !self.udp && self.covers(other)
    }

    /// Whether whatever is sent to `other` may come here.
    fn covers(&self, other: &Address) -> bool {
        let (ListenAddress::Tcp(wide), ListenAddress::Tcp(narrow)) = (&self.place, &other.place) else {
            return false;
        };
        if self.udp != other.udp {
            return false;
        }
        let any = wide.ip().is_unspecified();
        let speaks = wide.is_ipv6() == narrow.is_ipv6() || (wide.is_ipv6() && !self.ipv6_only);
        wide.port() == narrow.port() && (wide.ip() == narrow.ip() || (any && speaks))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = if self.udp { "udp:" } else { "" };
        write!(formatter, "{protocol}{}", self.place)
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
    /// How the kernel probes silent clients, if it does.
    pub(crate) probes: Option<Probes>,
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
#[derive(Debug, Clone)]
struct Group {
    sockets: Vec<Rc<OwnedFd>>,
    /// Sockets of the generation before that this one does not need, to be drained.
    surplus: Vec<Rc<OwnedFd>>,
    /// Sockets of addresses that are gone, whose connections this one takes over.
    taken_over: Vec<Rc<OwnedFd>>,
    wanted: Wanted,
    /// What there was of it in the generation before, until the commit.
    before: Option<Before>,
    /// Systemd has opened the first one, and will pass it again.
    passed: bool,
    /// The file of a unix socket, removed by whoever lets go last.
    path: Option<Rc<OwnedPath>>,
    /// How many sockets at the end wait to be bound: sockets for datagrams that are new.
    unbound: usize,
}

/// A group as it was.
#[derive(Debug, Clone, Copy)]
struct Before {
    /// How many sockets it had; those behind them are new, and wait for the commit.
    members: usize,
    /// How many of those connections were steered to; all, where they were not steered.
    in_use: usize,
}

/// The listen sockets of one generation.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    groups: BTreeMap<Address, Group>,
    /// Addresses that are gone, and whose sockets workers of before may still have.
    left: BTreeSet<Address>,
    /// Sockets for datagrams of addresses that are gone; see [`datagrams`].
    kept: BTreeMap<Address, Vec<Rc<OwnedFd>>>,
    /// Another master has handed sockets over, whose workers read datagrams.
    shared: bool,
}

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
            held.groups.iter().map(|(address, group)| (address.clone(), group.members().count())).collect();
        let targets = wanted.iter().map(|(address, wanted)| (address.clone(), wanted.sockets)).collect();
        let mut prepared = Sockets::default();
        let steps = plan(&counts, &targets);
        let gone: Vec<&Address> =
            steps.iter().filter(|(_, step)| **step == Step::Close).map(|(address, _)| address).collect();
        // Connections that come to sockets of before may come to these as soon as they listen: not to be refused
        // because another address turns out to be taken.
        let takes_from = |address: &Address| held.groups.keys().any(|other| other.covers(address));
        let (last, first): (Vec<_>, Vec<_>) =
            steps.iter().partition(|(address, step)| takes_from(address) && **step != Step::Close);
        for (address, step) in first.into_iter().chain(last) {
            let Some(wanted) = wanted.get(address).copied() else { continue };
            let mut group = match open::prepare_group(held, address, *step, wanted) {
                Ok(group) => group,
                Err(source) => {
                    prepared.abandon();
                    return Err(ListenError { address: address.clone(), source });
                }
            };
            let taken_over = gone.iter().filter(|gone| address.takes_over(gone));
            let taken_over =
                taken_over.filter_map(|gone| held.groups.get(gone)).filter(|group| !group.passed);
            let waiting = held.groups.get(address).into_iter().flat_map(|group| &group.taken_over);
            let sockets = taken_over.flat_map(Group::all).chain(waiting);
            group.taken_over = sockets.map(Rc::clone).collect();
            prepared.groups.insert(address.clone(), group);
        }
        let left = held.left.iter().chain(gone.iter().copied());
        prepared.left = left.filter(|address| !wanted.contains_key(*address)).cloned().collect();
        prepared.kept = datagrams::keep(held, wanted);
        prepared.shared = held.shared;
        Ok(prepared)
    }

    /// Makes these the sockets in use: options are set, new sockets take part. Whether there is a surplus,
    /// which has to be [steered away from](Sockets::steer_away) and released.
    pub(crate) fn commit(&mut self) -> bool {
        for (address, group) in self.groups.iter_mut().filter(|(address, _)| !address.udp) {
            if let Err(error) = group.commit(address) {
                warn!("cannot change the listen sockets of {address}: {error}");
            }
        }
        self.has_surplus()
    }

    /// Whether there are sockets to be released.
    pub(crate) fn has_surplus(&self) -> bool {
        self.groups.values().any(|group| !(group.surplus.is_empty() && group.taken_over.is_empty()))
    }

    /// Steers new connections away from the addresses that `after` no longer has, before whoever accepts there is
    /// asked to leave: what comes later is refused by the kernel, or goes to an address that takes over, rather
    /// than into a queue that is about to be closed. Returns the sockets whose queues are to be emptied first.
    pub(crate) fn leave(&self, after: &Sockets) -> Sockets {
        self.leave_where(|address, _| !after.groups.contains_key(address))
    }

    /// The same for all addresses.
    pub(crate) fn leave_all(&self) -> Sockets {
        self.leave_where(|_, _| true)
    }

    fn leave_where(&self, gone: impl Fn(&Address, &Group) -> bool) -> Sockets {
        let mut left = Sockets::default();
        // What systemd has passed it will pass again, to be used then. Nothing queues where datagrams come.
        let ours = self.groups.iter().filter(|(address, group)| !address.udp && !group.passed);
        for (address, group) in ours.filter(|(address, group)| gone(address, group)) {
            let steered = group.members().filter(|_| address.port().is_some());
            for socket in steered {
                // So that the address can be listened on again, however long workers take to leave it.
                let shared = setsockopt(socket, sockopt::ReusePort, &true).map_err(io::Error::from);
                if let Err(error) = shared.and_then(|()| listen::steer_away(socket.as_fd())) {
                    warn!("cannot steer connections away from {address}: {error}");
                }
            }
            // The file of a unix socket is not for those who empty its queue.
            left.groups.insert(address.clone(), Group { path: None, ..group.clone() });
        }
        left
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// No worker of before is left.
    pub(crate) fn forget_left(&mut self) {
        self.left.clear();
        datagrams::forget_kept(self);
    }

    /// Steers connections away from the surplus.
    pub(crate) fn steer_away(&self) {
        for (address, group) in self.groups.iter().filter(|(_, group)| !group.surplus.is_empty()) {
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
        for (address, group) in &mut self.groups {
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

    /// Takes [`Sockets::prepare`] back: what was there is as before, what was new closes. Sockets of new addresses, where
    /// somebody may have connected meanwhile, are steered away from and returned.
    pub(crate) fn abandon(self) -> Sockets {
        let queues = self.leave_where(|_, group| group.before.is_none());
        self.groups.into_values().for_each(Group::abandon);
        queues
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
        let streams = self.groups.iter().filter(|(address, _)| !address.udp);
        streams.filter_map(inherited).chain(datagrams::for_worker(self, number, workers)).collect()
    }

    fn with_port(&self, port: Option<(u16, bool)>) -> impl Iterator<Item = &Rc<OwnedFd>> {
        let here = self.groups.iter().filter(move |(address, _)| port.is_some() && address.port() == port);
        here.flat_map(|(_, group)| group.all())
    }

    /// Whether workers of before may have sockets of the port that this value has no part in any more.
    fn left_port(&self, port: Option<(u16, bool)>) -> bool {
        port.is_some() && self.left.iter().any(|address| address.port() == port)
    }
}

impl Group {
    fn commit(&mut self, address: &Address) -> io::Result<()> {
        let Some(first) = self.sockets.first() else { return Ok(()) };
        if self.before.take().is_some_and(|before| self.is_steered(before)) {
            end_steering(first)?;
        }
        for socket in &self.sockets {
            open::set_changeable(socket, self.wanted, &address.place)?;
        }
        Ok(())
    }

    fn abandon(mut self) {
        let Some(before) = self.before.filter(|before| self.is_steered(*before)) else { return };
        self.sockets.truncate(before.members);
        // What was opened is closed; a surplus that waits to be released is steered away from as before.
        let Some(first) = self.sockets.first() else { return };
        let _ = if before.in_use < before.members {
            listen::steer(first.as_fd(), before.in_use as u32)
        } else {
            end_steering(first)
        };
    }

    /// Whether the kernel was told which of the sockets to use: to leave out new ones, or a surplus of before.
    fn is_steered(&self, before: Before) -> bool {
        self.sockets.len() > before.members || before.in_use < before.members
    }

    /// All sockets of the address in the order in which they began to listen.
    fn members(&self) -> impl Iterator<Item = &Rc<OwnedFd>> {
        self.sockets.iter().chain(&self.surplus)
    }

    /// All sockets.
    fn all(&self) -> impl Iterator<Item = &Rc<OwnedFd>> {
        self.members().chain(&self.taken_over)
    }
}

/// Takes the program off the group, where it has one.
fn end_steering(first: &OwnedFd) -> io::Result<()> {
    match listen::stop_steering(first.as_fd()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

fn steer_to(group: &Group, count: usize) -> io::Result<()> {
    group.sockets.first().map_or(Ok(()), |first| listen::steer(first.as_fd(), count as u32))
}

#[cfg(test)]
mod tests;
