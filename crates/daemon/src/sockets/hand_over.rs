//! Sockets that two masters have: what is handed over in an upgrade, and what follows for the files of unix
//! sockets and for groups of which one master has more members than the other.
//!
//! While both run they use the same sockets, so neither may close a queue on the other: a file is left to the
//! other master as long as that listens there, and a member that only one of them has is steered away from
//! before it is closed.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::rc::Rc;

use drover_config::ListenAddress;
use drover_event::Ports;
use drover_sys::listen;
use thiserror::Error;
use tracing::warn;

use super::{Address, Group, Sockets, Wanted};
use crate::owned_path::OwnedPath;
use crate::upgrade::{Handed, Holdings};

/// Sockets that cannot be taken over.
#[derive(Debug, Error)]
pub(crate) enum HandOverError {
    /// An address that this version cannot read.
    #[error("the old master listens on {0}, which this version does not understand")]
    Address(String),
    /// Descriptors got lost on the way.
    #[error("{expected} sockets of {address} were announced and {arrived} came")]
    Missing {
        /// Whose.
        address: String,
        /// As announced.
        expected: usize,
        /// As received.
        arrived: usize,
    },
}

impl Sockets {
    /// Everything there is, to be handed over.
    pub(crate) fn to_hand_over(&self) -> Vec<(Handed, Vec<BorrowedFd<'_>>)> {
        let mut groups = Vec::with_capacity(self.groups.len());
        for (address, group) in &self.groups {
            let sockets: Vec<_> = group.members().map(|socket| socket.as_fd()).collect();
            let handed = Handed {
                address: name_of(address),
                ipv6_only: address.ipv6_only,
                count: sockets.len(),
                file: group.path.is_some(),
                passed: group.passed,
            };
            groups.push((handed, sockets));
        }
        groups.extend(self.kept.iter().map(|(address, kept)| {
            let handed = Handed {
                address: name_of(address),
                ipv6_only: address.ipv6_only,
                count: kept.len(),
                file: false,
                passed: false,
            };
            (handed, kept.iter().map(|socket| socket.as_fd()).collect())
        }));
        groups
    }

    /// Adds sockets that another master handed over, in their order. Their files are its own for now.
    ///
    /// # Errors
    /// When they cannot be understood.
    pub(crate) fn take_over(
        &mut self,
        handed: &Handed,
        sockets: impl Iterator<Item = OwnedFd>,
    ) -> Result<(), HandOverError> {
        let (udp, place) =
            named(&handed.address).ok_or_else(|| HandOverError::Address(handed.address.clone()))?;
        let sockets: Vec<_> = sockets.take(handed.count).map(Rc::new).collect();
        if sockets.len() < handed.count {
            let (address, expected, arrived) = (handed.address.clone(), handed.count, sockets.len());
            return Err(HandOverError::Missing { address, expected, arrived });
        }
        let path = match &place {
            ListenAddress::Unix(path) if handed.file => {
                let path = OwnedPath::new(path);
                path.leave(true);
                Some(Rc::new(path))
            }
            _ => None,
        };
        // A generation says what it wants before it uses them.
        let wanted = Wanted { sockets: handed.count, backlog: 0, deferred: false, probes: None };
        let address = Address { place, udp, ipv6_only: handed.ipv6_only };
        let group = self.groups.entry(address).or_insert_with(|| Group {
            sockets: Vec::new(),
            surplus: Vec::new(),
            taken_over: Vec::new(),
            wanted,
            before: None,
            passed: handed.passed,
            path,
            unbound: 0,
        });
        group.sockets.extend(sockets);
        self.shared = true;
        Ok(())
    }

    /// Whether there is a socket for `address`.
    pub(crate) fn has(&self, address: &Address) -> bool {
        self.groups.contains_key(address)
    }

    /// Adds a socket that systemd has opened and goes on holding.
    pub(crate) fn insert_passed(&mut self, address: Address, socket: OwnedFd) {
        let group = Group {
            sockets: vec![Rc::new(socket)],
            surplus: Vec::new(),
            taken_over: Vec::new(),
            // A generation says what it wants before it uses it.
            wanted: Wanted { sockets: 1, backlog: 0, deferred: false, probes: None },
            before: None,
            passed: true,
            path: None,
            unbound: 0,
        };
        self.groups.insert(address, group);
    }

    /// What is listened on, in the words of a hand-over.
    pub(crate) fn holdings(&self) -> Holdings {
        self.groups.iter().map(|(address, group)| (name_of(address), group.members().count())).collect()
    }

    /// Leaves the files of unix sockets to another master where that listens on them too, and sees to the
    /// others.
    pub(crate) fn leave_files(&self, others: &Holdings) {
        for (address, group) in &self.groups {
            if let Some(path) = &group.path {
                path.leave(others.contains_key(&name_of(address)));
            }
        }
    }

    /// The files that are left to another master.
    pub(crate) fn left_files(&self) -> impl Iterator<Item = PathBuf> {
        let paths = self.groups.values().filter_map(|group| group.path.as_ref());
        paths.filter(|path| path.is_left()).map(|path| path.path().to_owned())
    }

    /// Steers connections away from the members of groups that another master does not have. Whether there are
    /// any: they have to be accepted from for a while before they are closed.
    pub(crate) fn steer_to(&self, others: &Holdings) -> bool {
        let mut steered = false;
        for (address, group) in &self.groups {
            let kept = others.get(&name_of(address)).copied().unwrap_or(0);
            let may_steer = !address.udp && (1..group.sockets.len()).contains(&kept);
            let Some(first) = group.sockets.first().filter(|_| may_steer) else {
                continue;
            };
            match listen::steer(first.as_fd(), kept as u32) {
                Ok(()) => steered = true,
                Err(error) => warn!("cannot steer connections to {address} to the other master: {error}"),
            }
        }
        steered
    }
}

impl Sockets {
    /// Steers new connections away from the addresses that another master does not listen on, before whoever
    /// accepts there is asked to leave: as [`Sockets::leave`].
    pub(crate) fn leave_to(&self, others: &Holdings) -> Sockets {
        self.leave_where(|address, _| !others.contains_key(&name_of(address)))
    }

    /// Does for addresses that this master takes over what was left undone while another one listened on them.
    pub(crate) fn leave_taken_over(&self) {
        for socket in self.groups.values().flat_map(|group| &group.taken_over) {
            // Done by the other master, as a rule, and not to be done twice without privileges.
            if let Err(error) = listen::steer_away(socket.as_fd())
                && error.kind() != io::ErrorKind::PermissionDenied
            {
                warn!("cannot steer connections away from an address that is gone: {error}");
            }
        }
    }
}

/// The ports on which somebody else receives datagrams.
pub(crate) fn datagram_ports(others: &Holdings) -> Ports {
    let port = |name: &String| match named(name)? {
        (true, ListenAddress::Tcp(address)) => Some(address.port()),
        _ => None,
    };
    others.keys().filter_map(port).collect()
}

/// An address in the words of a hand-over: as the config writes it, with `udp:` before one for datagrams.
fn name_of(address: &Address) -> String {
    format!("{}{}", if address.udp { "udp:" } else { "" }, address.place)
}

/// The address of that name, and whether it is for datagrams.
fn named(name: &str) -> Option<(bool, ListenAddress)> {
    let (udp, place) = name.strip_prefix("udp:").map_or((false, name), |place| (true, place));
    let place = match place.split_once(':') {
        Some(("unix", path)) => ListenAddress::Unix(path.into()),
        Some(("systemd", name)) => ListenAddress::Systemd(name.to_owned()),
        _ => ListenAddress::Tcp(place.parse().ok()?),
    };
    Some((udp, place))
}
