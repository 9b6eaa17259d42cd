//! Neighbours: the other workers that share datagram sockets with this one, of its own generation and of
//! those before.
//!
//! A client's datagrams belong to the worker that has its session. The kernel keeps a flow on one socket of a
//! group as long as the group stays as it is, and each socket is read by one worker, so that is nearly always
//! so by itself. It is not when a new generation takes over the sockets while an older one still has sessions,
//! or when the group has grown. Then whoever received a datagram of no session of its own asks the tables of
//! its neighbours, and hands it to the inbox of the one that has the session. Only new flows are asked about,
//! and those of others.
//!
//! Two rules keep a flow whole while one generation follows another. A worker does not read its sockets
//! before all workers of before have stopped reading those of the same ports. And a worker that drains stops
//! reading only where others follow; where nobody does, it goes on for the sessions that it has, until somebody
//! does. Where somebody will who has not heard of it yet, it begins sessions until then: what it reads is for
//! nobody else.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, recv, send, setsockopt, socketpair, sockopt,
};
use nix::unistd::Pid;
use tracing::{debug, warn};

use super::{Arrived, Sessions, arrive};
use crate::accept::put_in;
use crate::core::{Core, State};
use crate::error::Error;
use crate::event::EventId;
use crate::listener::Behind;
use crate::posted::QueueName;
use crate::session_table::{Ports, SessionTable};
use crate::stats::Counter;
use crate::token::Token;

/// Another worker.
#[derive(Debug)]
pub struct Neighbour {
    /// The sessions it has.
    pub table: SessionTable,
    /// The sending end of its inbox.
    pub inbox: OwnedFd,
    /// Whether it is of an earlier generation, whose sockets this worker takes over.
    pub before: bool,
}

/// What a worker knows of others with which it shares datagram sockets.
#[derive(Debug)]
pub struct Neighbourhood {
    /// The worker's own sessions.
    pub table: SessionTable,
    /// The receiving end of its inbox.
    pub inbox: OwnedFd,
    /// The others.
    pub others: Vec<Neighbour>,
    /// What fingerprints are made with: the same for all, and unknown to clients.
    pub seed: u64,
}

/// How long the workers of before may take to stop reading once they are told.
const WAIT_MOST_MS: u64 = 10_000;
/// How often it is looked whether they have: they stop all at once, within a turn.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// How often it is looked whether they are told; what comes meanwhile waits in the sockets.
const LOOK_AGAIN_MOST: Duration = Duration::from_millis(50);
/// How many datagrams of the inbox are taken before others have their turn.
const TAKEN_AT_ONCE: usize = 64;
/// What an inbox holds, as far as the system allows.
const INBOX_BYTES: usize = 1 << 20;
/// An address with its port: family, port, scope, and at most sixteen bytes.
const ADDRESS_BYTES: usize = 1 + 2 + 4 + 16;
const HEADER_BYTES: usize = 3 * ADDRESS_BYTES;

impl Neighbourhood {
    /// The two ends of an inbox: the receiving one and the sending one, which any number of workers may have.
    ///
    /// # Errors
    /// What `socketpair(2)` reports.
    pub fn inbox() -> io::Result<(OwnedFd, OwnedFd)> {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let (receiving, sending) = socketpair(AddressFamily::Unix, SockType::Datagram, None, flags)?;
        // Less is what the system allows without privileges; it does.
        let _ = setsockopt(&sending, sockopt::SndBuf, &INBOX_BYTES);
        Ok((receiving, sending))
    }

    /// The workers of before that still read sockets of these ports.
    fn readers(&self, ports: Ports) -> impl Iterator<Item = &Neighbour> {
        self.others.iter().filter(move |other| other.before && other.table.reading().meets(ports))
    }

    /// The one who has the session with this fingerprint.
    pub(super) fn owner_of(&self, fingerprint: u64) -> Option<&Neighbour> {
        self.others.iter().find(|other| other.table.contains(fingerprint))
    }
}

impl Sessions {
    /// The port of a listener's datagrams, if it has some.
    fn port_of(&self, behind: &Behind) -> Option<u16> {
        match behind {
            Behind::Datagrams(served) => Some(self.served[*served as usize].bound.port()),
            Behind::Streams(_) => None,
        }
    }

    /// The ports of all datagrams.
    fn ports(&self) -> Ports {
        self.served.iter().map(|served| served.bound.port()).collect()
    }

    /// Whether neighbours of before still read what this worker is to read.
    fn must_wait(&self) -> bool {
        self.neighbourhood.as_ref().is_some_and(|own| own.readers(self.ports()).next().is_some())
    }

    /// Whether a worker that drains begins sessions where this is served.
    pub(super) fn has_heirs(&self, served: u32) -> bool {
        let port = self.served[served as usize].bound.port();
        let heirs = self.neighbourhood.as_ref().map(|own| own.table.heirs()).unwrap_or_default();
        self.is_replaced || heirs.meets([port].into_iter().collect())
    }

    /// Whether all of these know that they are to stop.
    fn readers_are_told(&self) -> bool {
        let told = |other: &Neighbour| other.table.followed().meets(self.ports());
        self.neighbourhood.as_ref().is_none_or(|own| own.readers(self.ports()).all(told))
    }
}

impl Core {
    /// Makes this worker known to others that share its datagram sockets, and them to it. To be called before
    /// the sockets are listened on.
    ///
    /// # Errors
    /// When the backend refuses the inbox.
    pub fn join_neighbourhood(&self, neighbourhood: Neighbourhood) -> Result<(), Error> {
        let watch = |source| Error::Watch { what: "the inbox for datagrams".to_owned(), source };
        neighbourhood.table.clear();
        neighbourhood.table.set_owner(Pid::this());
        let event = EventId::of_task(self.reserve_task(0, crate::connection::NONE, false));
        let state = &mut *self.state();
        state.backend.notify(neighbourhood.inbox.as_fd(), Token::INBOX).map_err(watch)?;
        state.events[event].handler = take_inbox;
        state.sessions.inbox = Some(event);
        state.sessions.neighbourhood = Some(neighbourhood);
        Ok(())
    }

    /// The worker has ended: nobody waits for it any more.
    pub fn leave_neighbourhood(&self) {
        if let Some(neighbourhood) = self.state().sessions.neighbourhood.take() {
            neighbourhood.table.clear();
        }
    }

    /// Whether another worker gets this one's sockets when it has ended: until then it begins sessions though it
    /// drains.
    pub fn expect_replacement(&self, expected: bool) {
        self.state().sessions.is_replaced = expected;
    }

    /// Whether datagram listeners have to stay out of the backend for now; arranges for the moment when they
    /// need not.
    pub(crate) fn waits_for_neighbours(&self, state: &mut State) -> bool {
        let waits = state.sessions.must_wait();
        if waits && !std::mem::replace(&mut state.sessions.waiting, true) {
            state.sessions.wait_is_due = true;
        }
        if let (false, Some(neighbourhood)) = (waits, &state.sessions.neighbourhood) {
            neighbourhood.table.set_reading(state.sessions.ports());
        }
        waits
    }

    /// Starts the wait that [`Core::waits_for_neighbours`] found necessary.
    pub(crate) fn begin_to_wait(&self) {
        if std::mem::take(&mut self.state().sessions.wait_is_due) {
            let core = self.clone();
            self.spawn(async move { core.wait_for_neighbours().await });
        }
    }

    async fn wait_for_neighbours(&self) {
        let (mut told_at, mut pause) = (self.now(), LOOK_AGAIN);
        while self.state().sessions.must_wait() {
            if !self.state().sessions.readers_are_told() {
                // Those of another master read for as long as that one serves.
                (told_at, pause) = (self.now(), LOOK_AGAIN_MOST.min(pause * 2));
            } else if self.now().since(told_at) > WAIT_MOST_MS {
                warn!("workers of before still read datagrams: reading beside them");
                break;
            } else {
                pause = LOOK_AGAIN;
            }
            self.sleep(pause).await;
        }
        let state = &mut *self.state();
        state.sessions.waiting = false;
        if let Some(neighbourhood) = state.sessions.neighbourhood.as_ref().filter(|_| !state.draining) {
            debug!("reads datagrams from now on");
            neighbourhood.table.set_reading(state.sessions.ports());
        }
        for number in 0..state.listeners.len() {
            let datagrams = state.listeners[number]
                .as_ref()
                .is_some_and(|listener| matches!(listener.behind, Behind::Datagrams(_)));
            if let (true, Err(source)) = (datagrams, put_in(state, number as u32)) {
                warn!("watching a datagram socket: {source}");
            }
        }
    }

    /// Says which sockets a draining worker still reads; others may read the rest from now on.
    pub(crate) fn still_reads(&self) {
        let state = self.state();
        let Some(neighbourhood) = &state.sessions.neighbourhood else { return };
        let listeners = state.listeners.iter().flatten();
        let ports = listeners.filter_map(|listener| state.sessions.port_of(&listener.behind));
        neighbourhood.table.set_reading(ports.collect());
    }

    /// Whether a draining worker goes on reading what a listener gets: datagrams of a port where nobody follows it.
    pub(crate) fn goes_on_reading(&self, listener: u32) -> bool {
        let state = self.state();
        let Some(Some(listener)) = state.listeners.get(listener as usize) else { return false };
        let Some(port) = state.sessions.port_of(&listener.behind) else { return false };
        let neighbourhood = state.sessions.neighbourhood.as_ref();
        neighbourhood.is_none_or(|own| !own.table.followed().meets([port].into_iter().collect()))
    }
}

/// Hands a datagram to the neighbour that has its session. False where none has that lives.
pub(super) fn hand_over(core: &Core, fingerprint: u64, datagram: &Arrived<'_>) -> bool {
    let state = core.state();
    let Some(neighbourhood) = &state.sessions.neighbourhood else { return false };
    let Some(owner) = neighbourhood.owner_of(fingerprint) else { return false };
    let message = [&header(datagram)[..], datagram.bytes].concat();
    let sent = send(owner.inbox.as_raw_fd(), &message, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL);
    // Said once, and from then on that there is no other end.
    if matches!(sent, Err(Errno::ECONNREFUSED | Errno::ENOTCONN)) {
        return false;
    }
    let counter = if sent.is_ok() { Counter::DatagramsHandedOver } else { Counter::DatagramsDropped };
    core.stats().add(counter, 1);
    true
}

/// The handler of the inbox.
pub(crate) fn take_inbox(core: &Core, event: EventId) {
    let mut message = vec![0; HEADER_BYTES + super::LARGEST];
    for _ in 0..TAKEN_AT_ONCE {
        let received = {
            let state = core.state();
            let Some(neighbourhood) = &state.sessions.neighbourhood else { return };
            recv(neighbourhood.inbox.as_raw_fd(), &mut message, MsgFlags::MSG_DONTWAIT)
        };
        // An empty inbox, or a system that will say more when it is asked again.
        let Ok(length) = received else { return };
        match parse(&message[..length]) {
            Some(datagram) => arrive(core, &datagram, false),
            None => warn!("a neighbour handed over something that is no datagram"),
        }
    }
    // There may be more, of which an edge-triggered backend will not tell again.
    core.post(&mut core.state(), event, QueueName::Next);
}

fn header(datagram: &Arrived<'_>) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    let local = datagram.local.map(|local| SocketAddr::new(local, 0));
    let addresses = [Some(datagram.bound), local, Some(datagram.peer)];
    for (place, address) in header.chunks_exact_mut(ADDRESS_BYTES).zip(addresses) {
        let Some(address) = address else { continue };
        place[1..3].copy_from_slice(&address.port().to_be_bytes());
        match address {
            SocketAddr::V4(address) => {
                place[0] = 4;
                place[7..11].copy_from_slice(&address.ip().octets());
            }
            SocketAddr::V6(address) => {
                place[0] = 6;
                place[3..7].copy_from_slice(&address.scope_id().to_be_bytes());
                place[7..].copy_from_slice(&address.ip().octets());
            }
        }
    }
    header
}

/// Reads what [`header`] wrote, with the bytes behind it.
fn parse(message: &[u8]) -> Option<Arrived<'_>> {
    let (header, bytes) = message.split_at_checked(HEADER_BYTES)?;
    let mut addresses = header.chunks_exact(ADDRESS_BYTES).map(address);
    let (bound, local, peer) = (addresses.next()??, addresses.next()?, addresses.next()??);
    Some(Arrived { bound, local: local.map(|local| local.ip()), peer, bytes })
}

fn address(place: &[u8]) -> Option<SocketAddr> {
    let port = u16::from_be_bytes([place[1], place[2]]);
    match place[0] {
        4 => Some(SocketAddr::new(IpAddr::from(<[u8; 4]>::try_from(&place[7..11]).ok()?), port)),
        6 => {
            let scope = u32::from_be_bytes(place[3..7].try_into().ok()?);
            let ip = <[u8; 16]>::try_from(&place[7..23]).ok()?;
            Some(std::net::SocketAddrV6::new(ip.into(), port, 0, scope).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_handed_over_arrives_as_it_was() {
        let of = |text: &str| text.parse::<SocketAddr>().expect("an address");
        for (bound, local, peer) in [
            ("0.0.0.0:53", Some("127.0.0.2"), "127.0.0.1:40000"),
            ("[::]:53", Some("::1"), "[fe80::1%7]:9"),
            ("10.0.0.1:1", None, "10.0.0.2:65535"),
        ] {
            let local = local.map(|local| local.parse().expect("an address"));
            let sent = Arrived { bound: of(bound), local, peer: of(peer), bytes: b"bytes" };
            let message = [&header(&sent)[..], sent.bytes].concat();
            let received = parse(&message).expect("a datagram");
            assert_eq!((received.bound, received.local, received.peer), (sent.bound, sent.local, sent.peer));
            assert_eq!(received.bytes, sent.bytes);
        }
        assert!(parse(&[4; HEADER_BYTES - 1]).is_none());
        assert!(parse(&[0; HEADER_BYTES]).is_none());
    }
}
