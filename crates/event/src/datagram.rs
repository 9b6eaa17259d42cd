//! Datagrams: sessions keyed by local and remote address, each a slot, behind one socket.
//!
//! The socket is read in batches (`recvmmsg`). A datagram from an address that has no session
//! begins one: its service is given the [`Session`] and returns the future that is the session,
//! exactly as for a connection. What is sent is gathered over all sessions and leaves in batches
//! (`sendmmsg`) before the turn ends, from the address that the session was asked at.
//!
//! A session whose task does not keep up loses the datagrams that its queue has no room for, as a
//! network would.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use drover_sys::datagram::{ReceiveBatch, Received, SendBatch, tell_local_address};
use nix::sys::socket::{SockaddrStorage, getsockname};
use tracing::{debug, error, warn};

use crate::accept::reclaim;
use crate::clock::Millis;
use crate::connection::{Holder, NONE, PeerAddress, Phase};
use crate::core::{Core, State};
use crate::error::StreamError;
use crate::event::{Direction, EventId, Flags};
use crate::listener::Behind;
use crate::posted::QueueName;
use crate::stats::{Counter, Gauge};

/// The largest datagram there is, rounded up.
const LARGEST: usize = 64 * 1024;
/// How many datagrams one system call receives or sends.
const BATCH: usize = 16;
/// How many batches one readiness event takes before others have their turn.
const BATCHES: usize = 4;
/// How many datagrams a session's queue holds.
const QUEUE_MOST: usize = 128;
/// How many emptied buffers are kept for the next datagrams.
const SPARE_MOST: usize = 256;

/// The protocol behind a datagram listener.
pub trait DatagramService {
    /// The session that just began, as a future that ends with it. Its first datagram is waiting.
    fn session(&self, session: Session) -> Pin<Box<dyn Future<Output = ()>>>;
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Key {
    listener: u32,
    local: Option<IpAddr>,
    peer: SocketAddr,
}

struct Inbox {
    key: Key,
    /// Through which answers leave; it outlives the listener.
    socket: Rc<OwnedFd>,
    waiting: VecDeque<Vec<u8>>,
}

/// The sessions of one worker.
#[derive(Default)]
pub(crate) struct Sessions {
    by_key: HashMap<Key, u32>,
    by_slot: HashMap<u32, Inbox>,
    spare: Vec<Vec<u8>>,
    /// The event whose handler sends what was gathered.
    flush: Option<EventId>,
}

/// What waits to be sent, and what the worker receives into.
#[derive(Default)]
pub(crate) struct Outgoing {
    batch: Option<(Rc<OwnedFd>, SendBatch)>,
    incoming: RefCell<Option<ReceiveBatch>>,
}

/// Has the kernel tell for which address datagrams come, and duplicates the socket for sessions.
pub(crate) fn prepare(socket: &OwnedFd) -> io::Result<OwnedFd> {
    let address: SockaddrStorage = getsockname(socket.as_raw_fd())?;
    tell_local_address(socket.as_fd(), address.as_sockaddr_in6().is_some())?;
    socket.try_clone()
}

/// The handler of a datagram listener's read event.
pub(crate) fn on_readable(core: &Core, event: EventId) {
    let listener = core.state().slots[event.row()].listener;
    let mut incoming = core.inner().outgoing.borrow().incoming.take();
    let batch = incoming.get_or_insert_with(|| ReceiveBatch::new(BATCH, LARGEST));
    for _ in 0..BATCHES {
        let received = receive_batch(core, listener, batch);
        (0..received)
            .filter_map(|index| batch.get(index))
            .for_each(|datagram| deliver(core, listener, datagram));
        if received < BATCH {
            break;
        }
    }
    core.inner().outgoing.borrow().incoming.replace(incoming);
}

fn receive_batch(core: &Core, listener: u32, batch: &mut ReceiveBatch) -> usize {
    let state = core.state();
    let slot = state.listeners[listener as usize].as_ref().map(|listener| listener.slot);
    let Some(socket) = slot.and_then(|slot| state.slots[slot].socket.as_ref()) else { return 0 };
    match batch.receive(socket.as_fd()) {
        Ok(count) => {
            core.stats().add(Counter::DatagramsReceived, count as u64);
            count
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
        Err(error) => {
            warn!("receiving datagrams: {error}");
            0
        }
    }
}

/// Puts a datagram into its session's queue, beginning the session if there is none.
fn deliver(core: &Core, listener: u32, datagram: Received<'_>) {
    let key = Key { listener, local: datagram.local, peer: datagram.peer };
    let existing = core.state().sessions.by_key.get(&key).copied();
    let (slot, begun) = match existing {
        Some(slot) => (slot, None),
        None => match begin(core, &key) {
            Some((slot, service)) => (slot, Some(service)),
            None => {
                core.stats().add(Counter::DatagramsDropped, 1);
                return;
            }
        },
    };
    queue(core, &mut core.state(), slot, datagram.bytes);
    match begun {
        Some(service) => start(core, slot, &*service),
        None => wake(core, slot),
    }
}

/// Gives a new session a slot.
fn begin(core: &Core, key: &Key) -> Option<(u32, Rc<dyn DatagramService>)> {
    reclaim(core);
    let state = &mut *core.state();
    let listener = state.listeners[key.listener as usize].as_ref()?;
    let Behind::Datagrams(service, socket) = &listener.behind else { return None };
    let (service, socket) = (Rc::clone(service), Rc::clone(socket));
    core.stats().count_accept(listener.number);
    let Some(slot) = core.lend(state, None, Holder::Peer) else {
        error!(peer = %key.peer, "no slot is free and none can be reclaimed: the datagram is dropped");
        return None;
    };
    let number = state.next_number;
    state.next_number += 1;
    state.open += 1;
    let connection = &mut state.slots[slot];
    connection.number = number;
    connection.peer = PeerAddress::Internet(key.peer);
    connection.listener = key.listener;
    connection.accepted_at = core.now();
    core.stats().set(Gauge::OpenConnections, u64::from(state.open));
    core.stats().enter_phase(Phase::Accepted);
    debug!(peer = %key.peer, slot, connection = number, "session");
    state.sessions.by_key.insert(key.clone(), slot);
    state.sessions.by_slot.insert(slot, Inbox { key: key.clone(), socket, waiting: VecDeque::new() });
    Some((slot, service))
}

fn queue(core: &Core, state: &mut State, slot: u32, bytes: &[u8]) {
    let Sessions { by_slot, spare, .. } = &mut state.sessions;
    let Some(inbox) = by_slot.get_mut(&slot) else { return };
    if inbox.waiting.len() >= QUEUE_MOST {
        core.stats().add(Counter::DatagramsDropped, 1);
        return;
    }
    let mut datagram = spare.pop().unwrap_or_default();
    datagram.extend_from_slice(bytes);
    inbox.waiting.push_back(datagram);
    state.slots[slot].received += bytes.len() as u64;
    core.stats().add(Counter::BytesReceived, bytes.len() as u64);
}

fn start(core: &Core, slot: u32, service: &dyn DatagramService) {
    let (number, posting) = {
        let state = core.state();
        (state.slots[slot].number, state.gate.is_held())
    };
    let task = core.reserve_task(number, slot, false);
    let session = Session { core: core.clone(), slot };
    let future = catch_unwind(AssertUnwindSafe(|| service.session(session)));
    let future = future.unwrap_or_else(|_| {
        core.stats().add(Counter::TaskPanics, 1);
        error!(connection = number, "the service panicked on a new session, which ends");
        Box::pin(async {})
    });
    core.install_task(task, future);
    if posting {
        core.post(&mut core.state(), EventId::of_task(task), QueueName::Posted);
    } else {
        core.resume(task);
    }
}

/// Resumes the session's task if it waits for a datagram.
fn wake(core: &Core, slot: u32) {
    let event = EventId::of_slot(slot, Direction::Read);
    let handler = {
        let state = &mut *core.state();
        if !state.events[event].flags.has(Flags::WAITING) {
            return;
        }
        if state.gate.is_held() {
            core.post(state, event, QueueName::Posted);
            return;
        }
        state.events[event].handler
    };
    handler(core, event);
}

/// The handler that sends what was gathered.
fn flush(core: &Core, _: EventId) {
    let outgoing = &mut *core.inner().outgoing.borrow_mut();
    if let Some((socket, batch)) = &mut outgoing.batch {
        send_batch(core, socket, batch);
    }
    // A socket that only this batch still holds is closed.
    outgoing.batch = outgoing.batch.take().filter(|(socket, _)| Rc::strong_count(socket) > 1);
}

fn send_batch(core: &Core, socket: &OwnedFd, batch: &mut SendBatch) {
    let count = batch.len() as u64;
    let (bytes, refused) = batch.send(socket.as_fd());
    core.stats().add(Counter::DatagramsSent, count - refused as u64);
    core.stats().add(Counter::DatagramsDropped, refused as u64);
    core.stats().add(Counter::BytesSent, bytes as u64);
}

/// The datagrams between one local and one remote address. Dropping it ends the session: the next
/// datagram between the two begins another.
pub struct Session {
    core: Core,
    slot: u32,
}

impl Session {
    /// The engine this session belongs to.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// The session's number, counted together with connections.
    pub fn number(&self) -> u64 {
        self.core.state().slots[self.slot].number
    }

    /// Who is at the other end.
    pub fn peer(&self) -> PeerAddress {
        self.core.state().slots[self.slot].peer
    }

    /// The address that the session was asked at, if the kernel told.
    pub fn local(&self) -> Option<IpAddr> {
        self.core.state().sessions.by_slot.get(&self.slot).and_then(|inbox| inbox.key.local)
    }

    /// When the session began.
    pub fn began_at(&self) -> Millis {
        self.core.state().slots[self.slot].accepted_at
    }

    /// Waits for a datagram, which replaces the content of `buffer`.
    ///
    /// # Errors
    /// [`StreamError::TimedOut`] when the time-out passed.
    pub async fn receive(&self, buffer: &mut Vec<u8>) -> Result<(), StreamError> {
        poll_fn(|_| {
            let state = &mut *self.core.state();
            let event = EventId::of_slot(self.slot, Direction::Read);
            if state.events[event].flags.take(Flags::TIMED_OUT) {
                return Poll::Ready(Err(StreamError::TimedOut));
            }
            let Sessions { by_slot, spare, .. } = &mut state.sessions;
            let next = by_slot.get_mut(&self.slot).and_then(|inbox| inbox.waiting.pop_front());
            if let Some(datagram) = next {
                let mut emptied = std::mem::replace(buffer, datagram);
                emptied.clear();
                if spare.len() < SPARE_MOST {
                    spare.push(emptied);
                }
                return Poll::Ready(Ok(()));
            }
            state.events[event].flags.set(Flags::WAITING);
            state.events[event].task = state.tasks.running();
            self.core.inner().armed.set(true);
            Poll::Pending
        })
        .await
    }

    /// Sends a datagram before the turn ends. Whether it arrives nobody knows.
    pub fn send(&self, bytes: &[u8]) {
        let state = &mut *self.core.state();
        let Some(Inbox { key, socket, .. }) = state.sessions.by_slot.get(&self.slot) else { return };
        let outgoing = &mut *self.core.inner().outgoing.borrow_mut();
        let (current, batch) =
            outgoing.batch.get_or_insert_with(|| (Rc::clone(socket), SendBatch::new(BATCH)));
        if batch.is_full() || !Rc::ptr_eq(current, socket) {
            send_batch(&self.core, current, batch);
            *current = Rc::clone(socket);
        }
        batch.push(bytes, key.peer, key.local);
        state.slots[self.slot].sent += bytes.len() as u64;
        if let Some(flush) = state.sessions.flush {
            self.core.post(state, flush, QueueName::Posted);
        }
    }

    /// Has waiting for a datagram fail once `after` has passed from now.
    pub fn set_timeout(&self, after: Duration) {
        let event = EventId::of_slot(self.slot, Direction::Read);
        let state = &mut *self.core.state();
        state.events[event].flags.clear(Flags::TIMED_OUT);
        self.core.set_timeout(state, event, after);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let state = &mut *self.core.state();
        if let Some(inbox) = state.sessions.by_slot.remove(&self.slot) {
            state.sessions.by_key.remove(&inbox.key);
        }
        self.core.give_back(state, self.slot);
    }
}

impl Core {
    /// Prepares the event that sends what sessions gather.
    pub(crate) fn ensure_flush_event(&self) {
        if self.state().sessions.flush.is_some() {
            return;
        }
        let event = EventId::of_task(self.reserve_task(0, NONE, false));
        let state = &mut *self.state();
        state.events[event].handler = flush;
        state.sessions.flush = Some(event);
    }
}
