//! Sockets for datagrams: one for each worker at every address, whatever the accept strategy.
//!
//! The kernel keeps a client on one socket of a group as long as the group stays as it is. So a group never
//! shrinks: where there are fewer workers than before, some read several sockets. Where there are more, the
//! new sockets join at the commit and not before: until then nobody reads them.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;

use drover_config::ListenAddress;
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrStorage, setsockopt, sockopt};

use super::{Address, Group, Inherited, Sockets, Wanted};

/// What a socket's receive buffer is made to hold in bytes, as far as the system allows: at 200,000
/// datagrams a second a pause of some milliseconds.
const RECEIVE_BUFFER: usize = 4 << 20;

/// The group of `address`, with what `held` has of it.
///
/// # Errors
/// What the system refuses; `held` is as it was.
pub(super) fn prepare(held: &Sockets, address: &Address, wanted: Wanted) -> io::Result<Group> {
    let old = held.groups.get(address);
    let mut group = Group {
        sockets: old.map_or_else(Vec::new, |group| group.sockets.clone()),
        surplus: Vec::new(),
        taken_over: Vec::new(),
        wanted,
        before: None,
        passed: false,
        path: None,
        unbound: 0,
    };
    let place = place_of(address)?;
    let is_new = group.sockets.is_empty();
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
pub(super) fn commit(group: &mut Group, address: &Address) -> io::Result<()> {
    let first_new = group.sockets.len() - std::mem::take(&mut group.unbound);
    let place = place_of(address)?;
    group.sockets[first_new..].iter().try_for_each(|socket| bind(socket, place))
}

/// What worker `number` of `workers` inherits of a group.
pub(super) fn for_worker(
    group: &Group,
    address: &Address,
    number: usize,
    workers: usize,
) -> impl Iterator<Item = Inherited> {
    let own = group.sockets.iter().enumerate().filter(move |(index, _)| index % workers.max(1) == number);
    own.map(|(_, socket)| Inherited {
        address: address.clone(),
        socket: Rc::clone(socket),
        surplus: Vec::new(),
    })
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
    use std::collections::BTreeMap;
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
    fn a_group_grows_at_the_commit_and_never_shrinks() {
        let address = address();
        let mut two = Sockets::prepare(&Sockets::default(), &wanted(&address, 2)).expect("prepared");
        assert!(!two.commit());
        let both = spread(&two, &address);
        assert!(both.iter().all(|count| *count > 0) && both.iter().sum::<usize>() == 100, "{both:?}");
        let mut four = Sockets::prepare(&two, &wanted(&address, 4)).expect("prepared");
        assert_eq!(spread(&four, &address)[2..], [0, 0], "until the commit nothing reaches the new ones");
        four.commit();
        let all = spread(&four, &address);
        assert!(all.iter().all(|count| *count > 0), "{all:?}");
        let mut three = Sockets::prepare(&four, &wanted(&address, 3)).expect("prepared");
        assert!(!three.commit(), "nothing is to be released");
        let of = |number| three.for_worker(number, 3).len();
        assert_eq!([of(0), of(1), of(2)], [2, 1, 1]);
        assert_eq!(spread(&three, &address).iter().sum::<usize>(), 100);
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
