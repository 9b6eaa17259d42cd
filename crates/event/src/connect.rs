//! Connecting: an outgoing connection as a stream, with a time-out and an optional source address.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::sockopt::{
    IpBindAddressNoPort, KeepAlive, SocketError, TcpKeepCount, TcpKeepIdle, TcpKeepInterval, TcpNoDelay,
};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrLike, SockaddrStorage, UnixAddr, bind, connect, getsockopt,
    setsockopt, socket,
};
use tracing::debug;

use crate::accept;
use crate::connection::{Connection, Holder, PeerAddress, Phase};
use crate::core::{Core, State};
use crate::error::StreamError;
use crate::event::{Direction, EventId, Flags};
use crate::readiness;
use crate::stream::Stream;

/// Where to connect to.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Target {
    /// An internet address and port.
    Internet(SocketAddr),
    /// The path of a unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Internet(address) => address.fmt(formatter),
            Self::Unix(path) => write!(formatter, "unix:{}", path.display()),
        }
    }
}

/// Why a connection did not come about.
#[derive(Debug, thiserror::Error)]
#[error("connecting to {target}: {failure}")]
pub struct ConnectError {
    /// Where to.
    pub target: Target,
    /// What went wrong.
    pub failure: ConnectFailure,
}

/// The ways in which connecting fails.
#[derive(Debug, thiserror::Error)]
pub enum ConnectFailure {
    /// The other end did not answer in time.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// The other end, or the way to it, refused.
    #[error(transparent)]
    Refused(io::Error),
    /// This process could not try: no descriptor, no local address, a bad path.
    #[error("{0}")]
    Local(io::Error),
    /// No slot is free.
    #[error("no slot is free")]
    NoSlot,
}

impl Core {
    /// Connects to `target` within `timeout`, from `source` if given.
    ///
    /// # Errors
    /// Tells where to and why not.
    pub async fn connect(
        &self,
        target: &Target,
        source: Option<SocketAddr>,
        timeout: Duration,
    ) -> Result<Stream, ConnectError> {
        let outcome = self.connect_to(target, source, timeout).await;
        outcome.map_err(|failure| ConnectError { target: target.clone(), failure })
    }

    async fn connect_to(
        &self,
        target: &Target,
        source: Option<SocketAddr>,
        timeout: Duration,
    ) -> Result<Stream, ConnectFailure> {
        let (socket, address) = open(target, source).map_err(|errno| ConnectFailure::Local(errno.into()))?;
        let under_way = match connect(socket.as_raw_fd(), address.as_sockaddr()) {
            Ok(()) => false,
            Err(Errno::EINPROGRESS) => true,
            Err(errno) => return Err(ConnectFailure::Refused(errno.into())),
        };
        let stream = self.adopt(socket, target).ok_or(ConnectFailure::NoSlot)?;
        debug!(connection = stream.number(), "connect to {target}");
        if under_way {
            stream.expect_connection().map_err(ConnectFailure::Local)?;
            stream.set_write_timeout(timeout);
            match stream.writable().await {
                Ok(()) => stream.pending_error().map_err(ConnectFailure::Refused)?,
                Err(StreamError::TimedOut) => return Err(ConnectFailure::TimedOut(timeout)),
                Err(StreamError::Io(error)) => return Err(ConnectFailure::Local(error)),
                Err(StreamError::Asked(_)) => return Err(ConnectFailure::NoSlot),
            }
            stream.clear_write_timeout();
        }
        Ok(stream)
    }

    /// Gives an outgoing socket a slot.
    fn adopt(&self, socket: OwnedFd, target: &Target) -> Option<Stream> {
        accept::reclaim(self);
        let state = &mut *self.state();
        let slot = self.lend(state, Some(socket), Holder::Peer)?;
        let peer = match target {
            Target::Internet(address) => PeerAddress::Internet(*address),
            Target::Unix(_) => PeerAddress::Unix,
        };
        self.begin_connection(state, slot, peer, Phase::WaitingUpstream);
        if matches!(target, Target::Internet(_)) {
            state.slots[slot].held_back = HeldBack::FromSecond;
        }
        Some(Stream::new(self.clone(), slot))
    }
}

/// Whether the kernel may hold back what is sent until the peer has acknowledged what was sent before (`TCP_NODELAY`
/// of tcp(7) ends that). Nothing is before what is sent first, so a connection that sends once needs no call for it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum HeldBack {
    /// It may not, or cannot.
    #[default]
    Never,
    /// Nothing was sent yet.
    FromSecond,
    /// Something was.
    FromNow,
}

/// Has the kernel send what is sent next at once.
#[inline]
pub(crate) fn hurry(connection: &mut Connection) {
    connection.held_back = match connection.held_back {
        HeldBack::Never => return,
        HeldBack::FromSecond => HeldBack::FromNow,
        HeldBack::FromNow => {
            // Without it everything is sent all the same.
            let _ = connection.socket.as_ref().map(|socket| setsockopt(socket, TcpNoDelay, &true));
            HeldBack::Never
        }
    };
}

impl Stream {
    /// Has the kernel probe whether a silent peer is still there: after `idle` seconds, every `interval` seconds,
    /// and fail the connection after `count` probes without an answer (`SO_KEEPALIVE` and tcp(7)).
    ///
    /// # Errors
    /// What `setsockopt(2)` reports, as for unix sockets.
    pub fn probe_silent_peer(&self, idle: u32, interval: u32, count: u32) -> io::Result<()> {
        self.with_socket(|socket| {
            setsockopt(socket, TcpKeepIdle, &idle)?;
            setsockopt(socket, TcpKeepInterval, &interval)?;
            setsockopt(socket, TcpKeepCount, &count)?;
            Ok(setsockopt(socket, KeepAlive, &true)?)
        })
    }

    /// Has the backend watch both directions at once; writing is ready when connected.
    fn expect_connection(&self) -> io::Result<()> {
        let state: &mut State = &mut self.core().state();
        let event = EventId::of_slot(self.slot(), Direction::Write);
        state.events[event].flags.clear(Flags::READY);
        readiness::watch_connection(state, self.slot())
    }

    /// The error that the kernel keeps for this socket (`SO_ERROR`). Where the backend reports errors, and reported
    /// none, the kernel is not asked.
    fn pending_error(&self) -> io::Result<()> {
        let event = EventId::of_slot(self.slot(), Direction::Write);
        let state = self.core().state();
        if state.kind.reports_end && !state.events[event].flags.has(Flags::END) {
            return Ok(());
        }
        drop(state);
        match self.with_socket(|socket| Ok(getsockopt(socket, SocketError)?))? {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

/// An address in the form that `connect(2)` takes.
enum Address {
    Internet(SockaddrStorage),
    Unix(UnixAddr),
}

impl Address {
    fn as_sockaddr(&self) -> &dyn SockaddrLike {
        match self {
            Self::Internet(address) => address,
            Self::Unix(address) => address,
        }
    }
}

/// A socket fit for `target`, bound to `source`. No port is chosen before connecting, so that one
/// local port can serve connections to many targets (`IP_BIND_ADDRESS_NO_PORT`, ip(7)).
fn open(target: &Target, source: Option<SocketAddr>) -> nix::Result<(OwnedFd, Address)> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let open = |family| socket(family, SockType::Stream, flags, None);
    match target {
        Target::Internet(address) => {
            let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
            let socket = open(family)?;
            if let Some(source) = source {
                setsockopt(&socket, IpBindAddressNoPort, &true)?;
                bind(socket.as_raw_fd(), &SockaddrStorage::from(source))?;
            }
            Ok((socket, Address::Internet(SockaddrStorage::from(*address))))
        }
        Target::Unix(path) => Ok((open(AddressFamily::Unix)?, Address::Unix(UnixAddr::new(path)?))),
    }
}
