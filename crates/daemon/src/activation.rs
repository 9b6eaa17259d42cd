//! Sockets that systemd has opened and passes: sd_listen_fds(3), systemd.socket(5).
//!
//! One is used where the config listens on its address, or on its name (`listen = ["systemd:web"]` for
//! `FileDescriptorName=web`). Systemd keeps them open: connections queue while drover is not there, and nothing in
//! here or in [`crate::sockets`] may end them or remove their files.

use std::env;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use drover_config::ListenAddress;
use drover_sys::descriptors;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::{SockType, SockaddrStorage, getsockname, getsockopt, setsockopt, sockopt};
use thiserror::Error;
use tracing::{info, warn};

use crate::sockets::{Address, Sockets};

/// The first descriptor that is passed: `SD_LISTEN_FDS_START` of sd-daemon.h.
const FIRST: RawFd = 3;
/// The name of a descriptor where the manager is too old to say one.
const UNNAMED: &str = "unknown";

/// A socket as it was passed.
#[derive(Debug)]
pub(crate) struct Passed {
    name: String,
    socket: OwnedFd,
    kind: Kind,
}

/// What was passed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// A listening stream socket; without a place where it has one that cannot be written in the config.
    Listening(Option<ListenAddress>),
    /// A socket for datagrams.
    Datagrams(Option<ListenAddress>),
    /// A stream that is connected: the socket unit says `Accept=yes`.
    Connected,
    /// Something else: a FIFO, a file.
    Other,
}

/// Passed sockets that do not fit the config.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum ActivationError {
    /// None has the name.
    #[error("cannot listen on systemd:{name}: no socket of that name was passed ({passed})")]
    Missing {
        /// The name.
        name: String,
        /// What was passed instead.
        passed: String,
    },
    /// More than one has the name.
    #[error(
        "cannot listen on systemd:{name}: {count} sockets of that name were passed; give each a FileDescriptorName= of \
         its own, or listen on their addresses"
    )]
    Ambiguous {
        /// The name.
        name: String,
        /// How many have it.
        count: usize,
    },
    /// It cannot be listened on.
    #[error("cannot listen on systemd:{name}: what was passed is {what}")]
    Unfit {
        /// The name.
        name: String,
        /// What it is.
        what: String,
    },
}

/// What systemd passed to this very process. To be asked before this process opens anything.
///
/// # Errors
/// When a descriptor is not there that was announced.
pub(crate) fn passed() -> io::Result<Vec<Passed>> {
    let variable = |name| env::var(name).ok();
    let names = announced(
        variable("LISTEN_PID").as_deref(),
        variable("LISTEN_FDS").as_deref(),
        variable("LISTEN_FDNAMES").as_deref(),
        std::process::id(),
    );
    let take = |(index, name): (usize, String)| {
        let number = FIRST + index as RawFd;
        let socket = descriptors::inherited(number).map_err(|error| {
            io::Error::new(error.kind(), format!("LISTEN_FDS announces descriptor {number}: {error}"))
        })?;
        let kind = kind_of(&socket);
        Ok(Passed { name, socket, kind })
    };
    names.into_iter().enumerate().map(take).collect()
}

/// The names of the descriptors from [`FIRST`] on.
fn announced(pid: Option<&str>, count: Option<&str>, names: Option<&str>, own: u32) -> Vec<String> {
    if pid.and_then(|pid| pid.parse().ok()) != Some(own) {
        return Vec::new();
    }
    let count = count.and_then(|count| count.parse().ok()).unwrap_or(0_u16);
    let mut names = names.unwrap_or_default().split(':').filter(|name| !name.is_empty());
    (0..count).map(|_| names.next().unwrap_or(UNNAMED).to_owned()).collect()
}

/// Gives each passed socket to the address among `wanted` that it is for, and says what does not fit.
///
/// # Errors
/// Where the config names a socket that was not passed, or not once.
pub(crate) fn assign(passed: Vec<Passed>, wanted: &[Address]) -> Result<Sockets, ActivationError> {
    check_names(&passed, wanted)?;
    let any = !passed.is_empty();
    let mut sockets = Sockets::default();
    for passed in passed {
        let Some(address) = passed.address(wanted) else {
            warn!("{passed} was passed by systemd, and no server listens there: it is not used");
            continue;
        };
        if sockets.has(address) {
            warn!("{passed} was passed by systemd, and another socket for {address} too: it is not used");
            continue;
        }
        if passed.takes_ipv4_beside(address) {
            warn!(
                "{passed} takes IPv4 connections too: BindIPv6Only=ipv6-only in the socket unit, or ipv6_only = false"
            );
        }
        match make_usable(&passed.socket) {
            Ok(()) => {
                info!("{address} is {passed}, passed by systemd");
                sockets.insert_passed(address.clone(), passed.socket);
            }
            Err(error) => warn!("{passed} was passed by systemd and cannot be used: {error}"),
        }
    }
    for address in wanted.iter().filter(|address| any && !sockets.has(address)) {
        info!("systemd passed no socket for {address}: it is opened here");
    }
    Ok(sockets)
}

fn check_names(passed: &[Passed], wanted: &[Address]) -> Result<(), ActivationError> {
    for address in wanted {
        let ListenAddress::Systemd(name) = &address.place else { continue };
        let mut fitting = passed.iter().filter(|passed| passed.name == *name);
        match (fitting.next(), fitting.count()) {
            (None, _) => {
                let list: Vec<String> = passed.iter().map(Passed::to_string).collect();
                let passed = match list.is_empty() {
                    true => "none at all: LISTEN_FDS is not for this process".to_owned(),
                    false => format!("but {}", list.join(", ")),
                };
                return Err(ActivationError::Missing { name: name.clone(), passed });
            }
            (Some(_), more @ 1..) => {
                return Err(ActivationError::Ambiguous { name: name.clone(), count: more + 1 });
            }
            (Some(only), 0) if only.place(address.udp).is_none() => {
                return Err(ActivationError::Unfit { name: name.clone(), what: only.kind.to_string() });
            }
            (Some(_), 0) => {}
        }
    }
    Ok(())
}

impl Passed {
    /// The address that it is for: one with its name rather than one with its place.
    fn address<'a>(&self, wanted: &'a [Address]) -> Option<&'a Address> {
        let named =
            |address: &&Address| matches!(&address.place, ListenAddress::Systemd(name) if *name == self.name);
        let placed = |address: &&Address| self.place(address.udp) == Some(Some(&address.place));
        wanted.iter().find(named).or_else(|| wanted.iter().find(placed))
    }

    /// The place where it takes connections, or datagrams; nothing where it does not do that.
    fn place(&self, udp: bool) -> Option<Option<&ListenAddress>> {
        match &self.kind {
            Kind::Listening(place) if !udp => Some(place.as_ref()),
            Kind::Datagrams(place) if udp => Some(place.as_ref()),
            _ => None,
        }
    }

    fn takes_ipv4_beside(&self, address: &Address) -> bool {
        let v6 = matches!(&address.place, ListenAddress::Tcp(place) if place.is_ipv6());
        v6 && address.ipv6_only && getsockopt(&self.socket, sockopt::Ipv6V6Only) == Ok(false)
    }
}

impl fmt::Display for Passed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "`{}` ({})", self.name, self.kind)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Listening(Some(place)) => place.fmt(out),
            Kind::Listening(None) => out.write_str("a listening socket without an address"),
            Kind::Datagrams(Some(place)) => write!(out, "datagrams at {place}"),
            Kind::Datagrams(None) => out.write_str("a datagram socket without an address"),
            Kind::Connected => out.write_str("a connection: the socket unit needs Accept=no"),
            Kind::Other => out.write_str("no socket"),
        }
    }
}

fn kind_of(socket: &OwnedFd) -> Kind {
    match (getsockopt(socket, sockopt::SockType), getsockopt(socket, sockopt::AcceptConn)) {
        (Ok(SockType::Stream), Ok(true)) => Kind::Listening(place_of(socket)),
        (Ok(SockType::Stream), _) => Kind::Connected,
        (Ok(SockType::Datagram), _) => Kind::Datagrams(place_of(socket)),
        _ => Kind::Other,
    }
}

fn place_of(socket: &OwnedFd) -> Option<ListenAddress> {
    let address: SockaddrStorage = getsockname(socket.as_raw_fd()).ok()?;
    if let Some(v4) = address.as_sockaddr_in() {
        return Some(ListenAddress::Tcp(SocketAddr::V4((*v4).into())));
    }
    if let Some(v6) = address.as_sockaddr_in6() {
        return Some(ListenAddress::Tcp(SocketAddr::V6((*v6).into())));
    }
    Some(ListenAddress::Unix(address.as_unix_addr()?.path()?.to_owned()))
}

/// As drover's own sockets are: accepting never waits, and what TCP sends goes out at once.
fn make_usable(socket: &OwnedFd) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(socket, FcntlArg::F_GETFL)?);
    fcntl(socket, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    if matches!(kind_of(socket), Kind::Listening(Some(ListenAddress::Tcp(_)))) {
        setsockopt(socket, sockopt::TcpNoDelay, &true)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    fn listener(address: &str) -> (OwnedFd, ListenAddress) {
        let listener = TcpListener::bind(address).expect("a port");
        let place = ListenAddress::Tcp(listener.local_addr().expect("address"));
        (listener.into(), place)
    }

    fn passed(name: &str, socket: impl Into<OwnedFd>) -> Passed {
        let socket = socket.into();
        let kind = kind_of(&socket);
        Passed { name: name.to_owned(), socket, kind }
    }

    fn at(place: ListenAddress) -> Address {
        Address { place, udp: false, ipv6_only: true }
    }

    fn named(name: &str) -> Address {
        at(ListenAddress::Systemd(name.to_owned()))
    }

    #[test]
    fn descriptors_are_for_the_process_that_is_named() {
        assert_eq!(announced(Some("7"), Some("2"), Some("web:admin"), 7), ["web", "admin"]);
        assert_eq!(announced(Some("7"), Some("2"), Some("web"), 7), ["web", UNNAMED]);
        assert_eq!(announced(Some("7"), Some("1"), None, 7), [UNNAMED]);
        assert_eq!(announced(Some("8"), Some("2"), Some("web:admin"), 7), [""; 0]);
        assert_eq!(announced(None, Some("2"), None, 7), [""; 0]);
        assert_eq!(announced(Some("7"), Some("many"), None, 7), [""; 0]);
    }

    #[test]
    fn a_socket_goes_to_its_name_or_to_its_address() {
        let ((first, here), (second, _)) = (listener("127.0.0.1:0"), listener("127.0.0.1:0"));
        let (third, _) = listener("127.0.0.1:0");
        let wanted = [named("web"), at(here), at(ListenAddress::Unix("/run/other.sock".into()))];
        let sockets = vec![passed("unknown", first), passed("web", second), passed("stray", third)];
        let assigned = assign(sockets, &wanted).expect("they fit");
        assert_eq!(wanted.each_ref().map(|address| assigned.has(address)), [true, true, false]);
    }

    #[test]
    fn a_name_that_is_not_passed_once_is_an_error() {
        let error = assign(Vec::new(), &[named("web")]).expect_err("none").to_string();
        assert!(error.contains("systemd:web") && error.contains("LISTEN_FDS"), "{error}");
        let (socket, place) = listener("127.0.0.1:0");
        let error = assign(vec![passed("admin", socket)], &[named("web")]).expect_err("other").to_string();
        assert!(error.contains(&format!("but `admin` ({place})")), "{error}");
        let both = ["127.0.0.1:0"; 2].map(|address| passed("web", listener(address).0)).into();
        let expected = ActivationError::Ambiguous { name: "web".into(), count: 2 };
        assert_eq!(assign(both, &[named("web")]).map(drop), Err(expected));
    }

    #[test]
    fn what_cannot_be_listened_on_is_told_apart() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let stream = TcpStream::connect(listener.local_addr().expect("address")).expect("connect");
        let datagrams = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let file = std::fs::File::open("/dev/null").expect("device");
        let error = assign(vec![passed("web", stream)], &[named("web")]).expect_err("connected").to_string();
        assert!(error.contains("Accept=no"), "{error}");
        for (other, what) in
            [(passed("web", datagrams), "datagrams at 127.0.0.1:"), (passed("web", file), "no socket")]
        {
            let error = assign(vec![other], &[named("web")]).expect_err("unfit").to_string();
            assert!(error.contains(what), "{error}");
        }
    }

    #[test]
    fn datagrams_go_where_the_config_wants_datagrams() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let place = ListenAddress::Tcp(socket.local_addr().expect("address"));
        let streams = at(place);
        let datagrams = Address { udp: true, ..streams.clone() };
        let wanted = [streams, datagrams];
        let assigned = assign(vec![passed("dns", socket)], &wanted).expect("it fits");
        assert_eq!(wanted.each_ref().map(|address| assigned.has(address)), [false, true]);
        let named = Address { udp: true, ..named("dns") };
        let (stream, _) = listener("127.0.0.1:0");
        assert!(assign(vec![passed("dns", stream)], &[named]).is_err());
    }
}
