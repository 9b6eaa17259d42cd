//! Sockets for datagrams: one for each worker at every address, whatever the accept strategy.
//!
//! The kernel keeps a client on one socket of a group as long as the group stays as it is. So a group never
//! shrinks: where there are fewer workers than before, some read several sockets. Where there are more, the
//! new sockets join once the new workers serve and not before: until then nobody reads them. While another master
//! serves on the same sockets its workers read them, and none of the new ones: those join when it leaves. Should
//! this master leave first, the group is as the other one knows it. The same holds for all sockets of an address that
//! a wider one of the other master's covers: they would take from it what nobody reads.
//!
//! The sockets of an address that is gone get datagrams as long as workers of before hold them for their
//! sessions. So they are kept for as long: if the address comes back they are its sockets again. And where a wider
//! address covers it, the new workers read them too, for good, since the kernel prefers them to the wider ones.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;

use drover_config::ListenAddress;
use drover_event::Ports;
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrStorage, setsockopt, sockopt};
use tracing::warn;

use super::{Address, Group, Inherited, Sockets, Wanted};

/// What a socket's receive buffer is made to hold in bytes, as far as the system allows: at 200,000
/// datagrams a second a pause of some milliseconds.
const RECEIVE_BUFFER: usize = 4 << 20;

/// The group of `address`, with what `held` has of it.
///
/// # Errors
/// What the system refuses; `held` is as it was.
pub(super) fn prepare(held: &Sockets, address: &Address, wanted: Wanted) -> io::Result<Group> {
    let before = held.groups.get(address);
    let old = before.map(|group| &group.sockets).or_else(|| held.kept.get(address));
    let mut group = Group {
        sockets: old.cloned().unwrap_or_default(),
        surplus: Vec::new(),
        taken_over: Vec::new(),
        wanted,
        before: None,
        passed: false,
        path: None,
        unbound: before.map_or(0, |group| group.unbound),
    };
    let place = place_of(address)?;
    let is_covered =
        held.shared && held.groups.keys().chain(held.kept.keys()).any(|wide| wide.covers(address));
    let is_new = group.sockets.is_empty() && !is_covered;
    if group.sockets.is_empty() && is_covered {
        // Whether there is such an address here is known at once all the same.
        bind(&unbound(address, place)?, SocketAddr::new(place.ip(), 0))?;
    }
    if is_new {
        group.sockets.push(Rc::new(open_first(held, address, place)?));
    }
    while group.sockets.len() < wanted.sockets {
        let socket = unbound(address, place)?;
        setsockopt(&socket, sockopt::ReusePort, &true)?;
        match is_new {
            true => bind(&socket, place)?,
            false => group.unbound += 1,
        }
        group.sockets.push(Rc::new(socket));
    }
    Ok(group)
}

/// Has the new sockets of a group take part.
fn join(group: &mut Group, address: &Address) -> io::Result<()> {
    let place = place_of(address)?;
    while group.unbound > 0 {
        bind(&group.sockets[group.sockets.len() - group.unbound], place)?;
        group.unbound -= 1;
    }
    Ok(())
}

/// The sockets of addresses that are gone, once `wanted` is what there is.
pub(super) fn keep(
    held: &Sockets,
    wanted: &BTreeMap<Address, Wanted>,
) -> BTreeMap<Address, Vec<Rc<OwnedFd>>> {
    let groups = held.groups.iter().filter(|(address, _)| address.udp);
    let groups =
        groups.map(|(address, group)| (address, &group.sockets[..group.sockets.len() - group.unbound]));
    let kept = held.kept.iter().map(|(address, sockets)| (address, sockets.as_slice()));
    let gone = kept.chain(groups).filter(|(address, _)| !wanted.contains_key(*address));
    gone.map(|(address, sockets)| (address.clone(), sockets.to_vec())).collect()
}

/// No worker of before is left that reads what was kept. What the workers that there are read stays.
pub(super) fn forget_kept(sockets: &mut Sockets) {
    let Sockets { groups, kept, .. } = sockets;
    kept.retain(|gone, _| groups.keys().any(|address| address.covers(gone)));
}

/// What worker `number` of `workers` inherits for datagrams.
pub(super) fn for_worker(sockets: &Sockets, number: usize, workers: usize) -> Vec<Inherited> {
    let groups = sockets.groups.iter().filter(|(address, _)| address.udp);
    let covering = |gone: &Address| sockets.groups.keys().find(|address| address.covers(gone));
    let kept = sockets.kept.iter().filter_map(|(gone, kept)| Some((covering(gone)?, kept)));
    let all = groups.map(|(address, group)| (address, &group.sockets)).chain(kept);
    let own = |(address, sockets): (&Address, &Vec<Rc<OwnedFd>>)| -> Vec<Inherited> {
        let own = sockets.iter().enumerate().filter(|(index, _)| index % workers.max(1) == number);
        let inherited = |(_, socket): (usize, &Rc<OwnedFd>)| Inherited {
            address: address.clone(),
            socket: Rc::clone(socket),
            surplus: Vec::new(),
        };
        own.map(inherited).collect()
    };
    all.flat_map(own).collect()
}

impl Sockets {
    /// Has new sockets for datagrams take part: the workers that have them read, or are about to.
    pub(crate) fn join_datagrams(&mut self) {
        self.shared = false;
        for (address, group) in self.groups.iter_mut().filter(|(address, _)| address.udp) {
            if let Err(error) = join(group, address) {
                warn!("{} of the sockets of {address} get no datagrams: {error}", group.unbound);
            }
        }
    }

    /// The ports on which datagrams are received.
    pub(crate) fn datagram_ports(&self) -> Ports {
        self.groups.keys().filter_map(Address::port).filter(|(_, udp)| *udp).map(|(port, _)| port).collect()
    }
}

fn place_of(address: &Address) -> io::Result<SocketAddr> {
    match address.place {
        ListenAddress::Tcp(place) => Ok(place),
        ListenAddress::Unix(_) | ListenAddress::Systemd(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// The first socket of a group is bound before it shares, so that a port of somebody else is noticed. Own
/// sockets at a wider or a narrower address of the port do share.
fn open_first(held: &Sockets, address: &Address, place: SocketAddr) -> io::Result<OwnedFd> {
    let socket = unbound(address, place)?;
    match bind(&socket, place) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            if held.with_port(address.port()).next().is_none() && !held.left_port(address.port()) {
                return Err(error);
            }
            setsockopt(&socket, sockopt::ReusePort, &true)?;
            bind(&socket, place)?;
        }
        bound => {
            bound?;
            setsockopt(&socket, sockopt::ReusePort, &true)?;
        }
    }
    Ok(socket)
}

fn unbound(address: &Address, place: SocketAddr) -> io::Result<OwnedFd> {
    let family = if place.is_ipv6() { AddressFamily::Inet6 } else { AddressFamily::Inet };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket::socket(family, SockType::Datagram, flags, None)?;
    if place.is_ipv6() {
        setsockopt(&socket, sockopt::Ipv6V6Only, &address.ipv6_only)?;
    }
    // The limit of the system holds for those without privileges; less does.
    if setsockopt(&socket, sockopt::RcvBufForce, &RECEIVE_BUFFER).is_err() {
        let _ = setsockopt(&socket, sockopt::RcvBuf, &RECEIVE_BUFFER);
    }
    Ok(socket)
}

fn bind(socket: &OwnedFd, place: SocketAddr) -> io::Result<()> {
    Ok(socket::bind(socket.as_raw_fd(), &SockaddrStorage::from(place))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    fn address() -> Address {
        let free = UdpSocket::bind("127.0.0.1:0").expect("a port").local_addr().expect("address");
        Address { place: ListenAddress::Tcp(free), udp: true, ipv6_only: true }
    }

    fn wanted(address: &Address, sockets: usize) -> BTreeMap<Address, Wanted> {
        let wanted = Wanted { sockets, backlog: 0, deferred: false, probes: None };
        BTreeMap::from([(address.clone(), wanted)])
    }

    /// How many of 100 datagrams from as many clients wait in each socket.
    fn spread(sockets: &Sockets, address: &Address) -> Vec<usize> {
        let place = place_of(address).expect("internet");
        for _ in 0..100 {
            let client = UdpSocket::bind("127.0.0.1:0").expect("client");
            client.send_to(b"x", place).expect("sent");
        }
        let count = |socket: &Rc<OwnedFd>| {
            let socket = UdpSocket::from(socket.try_clone().expect("clone"));
            std::iter::from_fn(|| socket.recv(&mut [0; 4]).ok()).count()
        };
        sockets.groups[address].sockets.iter().map(count).collect()
    }

    #[test]
    fn a_group_grows_when_it_is_told_and_never_shrinks() {
        let address = address();
        let mut two = Sockets::prepare(&Sockets::default(), &wanted(&address, 2)).expect("prepared");
        assert!(!two.commit());
        two.join_datagrams();
        let both = spread(&two, &address);
        assert!(both.iter().all(|count| *count > 0) && both.iter().sum::<usize>() == 100, "{both:?}");
        let mut four = Sockets::prepare(&two, &wanted(&address, 4)).expect("prepared");
        four.commit();
        assert_eq!(spread(&four, &address)[2..], [0, 0], "until they join nothing reaches the new ones");
        let mut four = Sockets::prepare(&four, &wanted(&address, 4)).expect("prepared");
        four.commit();
        assert_eq!(spread(&four, &address)[2..], [0, 0], "in the next generation neither");
        four.join_datagrams();
        let all = spread(&four, &address);
        assert!(all.iter().all(|count| *count > 0), "{all:?}");
        let mut three = Sockets::prepare(&four, &wanted(&address, 3)).expect("prepared");
        assert!(!three.commit(), "nothing is to be released");
        let of = |number| three.for_worker(number, 3).len();
        assert_eq!([of(0), of(1), of(2)], [2, 1, 1]);
        assert_eq!(spread(&three, &address).iter().sum::<usize>(), 100);
    }

    /// What is sent to an address that came back, or that another one covers by now, is read by somebody.
    #[test]
    fn the_sockets_of_an_address_that_is_gone_are_not_forgotten_while_others_may_hold_them() {
        let narrow = address();
        let (port, _) = narrow.port().expect("internet");
        let place = ListenAddress::Tcp(SocketAddr::from(([0, 0, 0, 0], port)));
        let wide = Address { place, ..narrow.clone() };
        let first = Sockets::prepare(&Sockets::default(), &wanted(&narrow, 2)).expect("prepared");
        let inodes = |sockets: &Sockets| sockets.groups[&narrow].sockets.clone();
        let same = |left: &[Rc<OwnedFd>], right: &[Rc<OwnedFd>]| {
            left.iter().zip(right).all(|(left, right)| Rc::ptr_eq(left, right)) && left.len() == right.len()
        };

        let mut none = Sockets::prepare(&first, &BTreeMap::new()).expect("prepared");
        assert!(none.for_worker(0, 1).is_empty(), "nobody new reads them");
        let back = Sockets::prepare(&none, &wanted(&narrow, 2)).expect("prepared");
        assert!(same(&inodes(&first), &inodes(&back)));
        none.forget_left();
        assert!(none.kept.is_empty());

        let mut wider = Sockets::prepare(&first, &wanted(&wide, 2)).expect("prepared");
        wider.forget_left();
        let inherited = wider.for_worker(0, 1);
        assert_eq!(inherited.len(), 4);
        assert!(inherited.iter().all(|inherited| inherited.address == wide));
        let narrower = Sockets::prepare(&wider, &wanted(&narrow, 2)).expect("prepared");
        assert!(same(&inodes(&first), &inodes(&narrower)));
    }

    #[test]
    fn a_refused_reload_leaves_the_group_as_it_was() {
        let address = address();
        let mut one = Sockets::prepare(&Sockets::default(), &wanted(&address, 1)).expect("prepared");
        one.commit();
        Sockets::prepare(&one, &wanted(&address, 3)).expect("prepared").abandon();
        assert_eq!(spread(&one, &address), [100]);
    }

    #[test]
    fn a_port_of_somebody_else_is_noticed() {
        let taken = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let place = ListenAddress::Tcp(taken.local_addr().expect("address"));
        let address = Address { place, udp: true, ipv6_only: true };
        let error = Sockets::prepare(&Sockets::default(), &wanted(&address, 2)).expect_err("taken");
        assert!(error.to_string().contains("cannot listen on udp:127.0.0.1:"), "{error}");
    }
}
