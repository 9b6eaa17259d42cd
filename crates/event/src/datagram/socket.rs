//! Datagrams with one other end that was chosen here: a socket connected to a server.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::task::Poll;
use std::time::Duration;

use drover_sys::datagram::ReceiveBatch;
use nix::errno::Errno;
use nix::sys::socket::sockopt::IpBindAddressNoPort;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, SockaddrStorage, bind, connect, send, setsockopt, socket,
};
use tracing::{debug, error};

use super::{BATCH, LARGEST};
use crate::accept::reclaim;
use crate::connect::{ConnectError, ConnectFailure, Target};
use crate::connection::{Holder, PeerAddress, Phase};
use crate::core::Core;
use crate::event::{Direction, EventId, Flags};
use crate::readiness;
use crate::stream::BUDGET;

/// What a datagram counts for beside its bytes, towards what a task may move before it gives way.
const COST: usize = 512;

/// A socket for datagrams to and from one address: one slot. Dropping it closes the socket.
pub struct DatagramSocket {
    core: Core,
    slot: u32,
}

impl Core {
    /// Makes a socket for datagrams to and from `target`, with the address `source` if given. Whether anybody
    /// is there, only sending can tell.
    ///
    /// # Errors
    /// Tells where to and why not.
    pub fn connect_datagrams(
        &self,
        target: SocketAddr,
        source: Option<SocketAddr>,
    ) -> Result<DatagramSocket, ConnectError> {
        let failed = |failure| ConnectError { target: Target::Internet(target), failure };
        let socket = open(target, source).map_err(|error| failed(ConnectFailure::Local(error)))?;
        connect(socket.as_raw_fd(), &SockaddrStorage::from(target))
            .map_err(|errno| failed(ConnectFailure::Refused(errno.into())))?;
        self.adopt_datagrams(socket, target).ok_or_else(|| failed(ConnectFailure::NoSlot))
    }

    fn adopt_datagrams(&self, socket: OwnedFd, target: SocketAddr) -> Option<DatagramSocket> {
        reclaim(self);
        let state = &mut *self.state();
        let slot = self.lend(state, Some(socket), Holder::Peer)?;
        let number = self.begin_connection(state, slot, PeerAddress::Internet(target), Phase::Tunnel);
        debug!(connection = number, "datagrams to {target}");
        Some(DatagramSocket { core: self.clone(), slot })
    }
}

impl DatagramSocket {
    /// Sends a datagram. What the system has no room for is lost, as in a network, and so is what is longer than
    /// datagrams to there may be.
    ///
    /// # Errors
    /// What `send(2)` reports: `ConnectionRefused` where an earlier one found nobody there.
    pub fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let state = &mut *self.core.state();
        let Some(socket) = state.slots[self.slot].socket.as_ref() else { return Ok(()) };
        match send(socket.as_raw_fd(), bytes, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL) {
            Ok(count) => {
                state.slots[self.slot].sent += count as u64;
                state.moved += count;
                Ok(())
            }
            Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::EMSGSIZE) => {
                self.core.stats().add(crate::stats::Counter::DatagramsDropped, 1);
                Ok(())
            }
            Err(errno) => Err(errno.into()),
        }
    }

    /// Waits for datagrams and gives each of those that came to `take`; tells how many that were.
    ///
    /// # Errors
    /// As [`DatagramSocket::poll_receive`].
    pub async fn receive(&self, mut take: impl FnMut(&[u8])) -> io::Result<usize> {
        poll_fn(|_| self.poll_receive(&mut take)).await
    }

    /// Has waiting for datagrams fail once `after` has passed from now.
    pub fn set_timeout(&self, after: Duration) {
        let event = EventId::of_slot(self.slot, Direction::Read);
        let state = &mut *self.core.state();
        state.events[event].flags.clear(Flags::TIMED_OUT);
        self.core.set_timeout(state, event, after);
    }

    /// Receives what is there and gives each datagram to `take`; tells how many that were. Where nothing is
    /// there, has the running task resumed when something comes.
    ///
    /// # Errors
    /// What `recvmmsg(2)` reports: `ConnectionRefused` where a datagram that was sent found nobody there.
    /// `TimedOut` when the time-out passed.
    pub fn poll_receive(&self, mut take: impl FnMut(&[u8])) -> Poll<io::Result<usize>> {
        let event = EventId::of_slot(self.slot, Direction::Read);
        loop {
            if !self.is_ready(event)? {
                return Poll::Pending;
            }
            let mut answers = self.core.inner().outgoing.borrow().answers.take();
            let batch = answers.get_or_insert_with(|| ReceiveBatch::new(BATCH, LARGEST));
            let received = self.receive_batch(batch, event);
            if let Ok(count) = received {
                (0..count).for_each(|index| take(batch.bytes(index)));
            }
            self.core.inner().outgoing.borrow().answers.replace(answers);
            match received {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                received => return Poll::Ready(received),
            }
        }
    }

    /// Whether something may be there; arranges for being told where not, or for another turn where this task
    /// has had its share.
    fn is_ready(&self, event: EventId) -> io::Result<bool> {
        let state = &mut *self.core.state();
        if state.events[event].flags.take(Flags::TIMED_OUT) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if state.moved > BUDGET {
            self.core.give_way(state);
            return Ok(false);
        }
        if state.events[event].flags.has(Flags::READY) {
            return Ok(true);
        }
        readiness::handle_read_event(state, self.slot)
            .inspect_err(|error| error!("watching a socket for datagrams: {error}"))?;
        state.events[event].flags.set(Flags::WAITING);
        state.events[event].task = state.tasks.running();
        self.core.inner().armed.set(true);
        Ok(false)
    }

    fn receive_batch(&self, batch: &mut ReceiveBatch, event: EventId) -> io::Result<usize> {
        let state = &mut *self.core.state();
        let Some(socket) = state.slots[self.slot].socket.as_ref() else { return Ok(0) };
        let received = batch.receive(socket.as_fd());
        let drained = match &received {
            // A batch that is not full found the queue empty.
            Ok(count) => *count < BATCH,
            // Behind an error that a server sent back there may be datagrams.
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        };
        if drained {
            state.events[event].flags.clear(Flags::READY);
        }
        if let Ok(count) = received {
            let bytes: usize = (0..count).map(|index| batch.bytes(index).len()).sum();
            state.slots[self.slot].received += bytes as u64;
            // A datagram costs more than its bytes: one that is small must not count for nothing.
            state.moved += bytes + count * COST;
        }
        received
    }

    /// Bytes received so far.
    pub fn bytes_received(&self) -> u64 {
        self.core.state().slots[self.slot].received
    }

    /// Bytes sent so far.
    pub fn bytes_sent(&self) -> u64 {
        self.core.state().slots[self.slot].sent
    }
}

impl Drop for DatagramSocket {
    fn drop(&mut self) {
        self.core.give_back(&mut self.core.state(), self.slot);
    }
}

/// A socket fit for `target`, bound to `source`.
fn open(target: SocketAddr, source: Option<SocketAddr>) -> io::Result<OwnedFd> {
    let family = if target.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let socket = socket(family, SockType::Datagram, SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC, None)?;
    if let Some(source) = source {
        setsockopt(&socket, IpBindAddressNoPort, &true)?;
        bind(socket.as_raw_fd(), &SockaddrStorage::from(source))?;
    }
    Ok(socket)
}
