//! The listen sockets as the scoreboard shows them.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;

use drover_config::ListenAddress;
use drover_event::Strategy;
use nix::sys::socket::{AddressFamily, SockaddrLike, SockaddrStorage, getsockname};

use super::{Address, Group, Sockets};
use crate::scoreboard::{self, Listed, Transport};

impl Sockets {
    /// The listeners as the scoreboard shows them.
    pub(crate) fn listed(&self, strategies: &BTreeMap<Address, Strategy>) -> Vec<Listed> {
        let listed = |(address, group): (&Address, &Group)| Listed {
            address: address.name(),
            transport: transport(address, group),
            strategy: strategies.get(address).copied().unwrap_or_default(),
            backlog: group.wanted.backlog,
            sockets: group.counted().filter_map(|socket| scoreboard::inode(socket.as_fd())).collect(),
        };
        self.groups.iter().map(listed).collect()
    }

    /// The sockets whose counts `after` does not go on with.
    pub(crate) fn closing<'a>(&'a self, after: &'a Sockets) -> impl Iterator<Item = &'a OwnedFd> {
        let kept = |socket: &Rc<OwnedFd>| {
            after.groups.values().any(|group| group.counted().any(|own| Rc::ptr_eq(own, socket)))
        };
        self.groups
            .values()
            .flat_map(Group::counted)
            .filter(move |socket| !kept(socket))
            .map(|socket| &**socket)
    }

    /// The sockets that [`Sockets::release`] closes.
    pub(crate) fn surplus(&self) -> impl Iterator<Item = &OwnedFd> {
        self.groups.values().flat_map(|group| &group.surplus).map(|socket| &**socket)
    }
}

/// What a listener speaks. Of a socket that systemd passed only the socket itself knows.
fn transport(address: &Address, group: &Group) -> Transport {
    let is_unix = match &address.place {
        ListenAddress::Tcp(_) => false,
        ListenAddress::Unix(_) => true,
        ListenAddress::Systemd(_) => group.counted().next().is_some_and(|socket| {
            getsockname::<SockaddrStorage>(socket.as_raw_fd())
                .is_ok_and(|name| name.family() == Some(AddressFamily::Unix))
        }),
    };
    match is_unix {
        true => Transport::Unix,
        false if address.udp => Transport::Udp,
        false => Transport::Tcp,
    }
}

impl Address {
    /// The name on the scoreboard: TCP and UDP may have the same address and port.
    pub(crate) fn name(&self) -> String {
        if self.udp { format!("{self}/udp") } else { self.to_string() }
    }
}

impl Group {
    /// Those that are counted here: what was turned away at one that is taken over stays with its address.
    fn counted(&self) -> impl Iterator<Item = &Rc<OwnedFd>> {
        self.sockets.iter().chain(&self.surplus)
    }
}
