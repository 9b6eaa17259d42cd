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
            address: address.to_string(),
            transport: match address.place {
                _ if address.udp => Transport::Udp,
                ListenAddress::Tcp(_) => Transport::Tcp,
                ListenAddress::Systemd(_) if !group.is_unix() => Transport::Tcp,
                ListenAddress::Unix(_) | ListenAddress::Systemd(_) => Transport::Unix,
            },
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

impl Group {
    /// Whether these are unix sockets, which only the kernel knows of those that systemd passes.
    fn is_unix(&self) -> bool {
        let address = |socket: &Rc<OwnedFd>| getsockname::<SockaddrStorage>(socket.as_raw_fd()).ok();
        let family = self.sockets.first().and_then(address).and_then(|address| address.family());
        family == Some(AddressFamily::Unix)
    }

    /// Those that are counted here: what was turned away at one that is taken over stays with its address.
    fn counted(&self) -> impl Iterator<Item = &Rc<OwnedFd>> {
        self.sockets.iter().chain(&self.surplus)
    }
}
