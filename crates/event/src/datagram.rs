//! Datagrams: sessions keyed by local and remote address, each a slot, behind one socket.
//!
//! The socket is read in batches (`recvmmsg`). A datagram from an address that has no session
//! begins one: its service is given the [`Session`] and returns the future that is the session,
//! exactly as for a connection. What is sent is gathered over all sessions and leaves in batches
//! (`sendmmsg`) before the turn ends, from the address that the session was asked at.
//!
//! A session whose task does not keep up loses the datagrams that its queue has no room for, as a
//! network would. Which worker has a client's session is the business of [`neighbours`].

mod neighbours;
mod session;
mod socket;

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;

use drover_sys::datagram::{ReceiveBatch, SendBatch, tell_local_address};
use foldhash::quality::FixedState;
use nix::sys::socket::{SockaddrStorage, getsockname};
use tracing::{debug, error, warn};

use crate::accept::reclaim;
use crate::close::CloseReason;
use crate::connection::{Holder, NONE, PeerAddress, Phase};
use crate::core::{Core, State};
use crate::event::{Direction, EventId, Flags};
use crate::listener::Behind;
use crate::posted::QueueName;
use crate::stats::Counter;

pub(crate) use neighbours::take_inbox;
pub use neighbours::{Neighbour, Neighbourhood};
pub use session::Session;
pub use socket::DatagramSocket;

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

/// The flow that a session is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Key {
    /// Which of [`Sessions::served`].
    served: u32,
    local: Option<IpAddr>,
    peer: SocketAddr,
}

struct Inbox {
    key: Key,
    /// Through which answers leave; it outlives the listener.
    socket: Rc<OwnedFd>,
    waiting: VecDeque<Vec<u8>>,
    /// What other workers know the flow by.
    fingerprint: u64,
    /// The flow's next datagram begins another session.
    detached: bool,
}

/// An address and the service there. It outlives the listener: datagrams may still be handed over.
struct Served {
    bound: SocketAddr,
    service: Rc<dyn DatagramService>,
    socket: Rc<OwnedFd>,
    /// The first listener there.
    listener: u32,
}

/// The sessions of one worker.
#[derive(Default)]
pub(crate) struct Sessions {
    by_key: HashMap<Key, u32, FixedState>,
    by_slot: HashMap<u32, Inbox, FixedState>,
    spare: Vec<Vec<u8>>,
    served: Vec<Served>,
    /// The event whose handler sends what was gathered.
    flush: Option<EventId>,
    neighbourhood: Option<Neighbourhood>,
    /// The event whose handler takes what neighbours hand over.
    pub(crate) inbox: Option<EventId>,
    /// Listeners are held back until neighbours have stopped reading.
    waiting: bool,
    wait_is_due: bool,
    /// Another worker gets the sockets when this one has ended.
    is_replaced: bool,
}

impl Sessions {
    /// What other workers know a flow by, whatever the address of the socket that it came through.
    fn fingerprint(&self, key: &Key) -> u64 {
        let seed = self.neighbourhood.as_ref().map_or(0, |neighbourhood| neighbourhood.seed);
        let bound = self.served[key.served as usize].bound;
        let local = SocketAddr::new(key.local.unwrap_or(bound.ip()), bound.port());
        FixedState::with_seed(seed).hash_one((local, key.peer))
    }

    /// Which of `served` a datagram is for. A neighbour may have received it through a wider or a narrower address.
    fn served_at(&self, datagram: &Arrived<'_>) -> Option<u32> {
        let found = |fits: &dyn Fn(&SocketAddr) -> bool| {
            self.served.iter().position(|served| fits(&served.bound)).map(|number| number as u32)
        };
        let port = datagram.bound.port();
        found(&|bound| *bound == datagram.bound).or_else(|| {
            let is_local = |ip: IpAddr| ip.is_unspecified() || Some(ip) == datagram.local;
            found(&|bound| bound.port() == port && is_local(bound.ip()))
        })
    }

    /// Takes the services out, for the end of the worker.
    pub(crate) fn take_services(&mut self) -> Vec<Rc<dyn DatagramService>> {
        self.served.drain(..).map(|served| served.service).collect()
    }
}

/// What waits to be sent, and what the worker receives into.
#[derive(Default)]
pub(crate) struct Outgoing {
    batch: Option<(Rc<OwnedFd>, SendBatch)>,
    incoming: RefCell<Option<ReceiveBatch>>,
    /// A second one: what a datagram sets off may receive too.
    pub(crate) answers: RefCell<Option<ReceiveBatch>>,
}

/// A datagram that came to this worker, by itself or through a neighbour.
#[derive(Clone, Copy, Debug)]
struct Arrived<'a> {
    /// The address that the socket is bound to.
    bound: SocketAddr,
    /// The address that it was sent to, if the kernel told.
    local: Option<IpAddr>,
    peer: SocketAddr,
    bytes: &'a [u8],
}

/// Has the kernel tell for which address datagrams come, and duplicates the socket for sessions.
pub(crate) fn prepare(socket: &OwnedFd) -> io::Result<OwnedFd> {
    let address: SockaddrStorage = getsockname(socket.as_raw_fd())?;
    tell_local_address(socket.as_fd(), address.as_sockaddr_in6().is_some())?;
    socket.try_clone()
}

/// Takes note of what is behind an address; tells its number. Several sockets may share one.
pub(crate) fn serve(
    state: &mut State,
    bound: SocketAddr,
    service: Rc<dyn DatagramService>,
    socket: OwnedFd,
) -> u32 {
    let served = &mut state.sessions.served;
    let known = served.iter().position(|served| served.bound == bound);
    let listener = state.listeners.len() as u32;
    let number = known.unwrap_or_else(|| {
        served.push(Served { bound, service, socket: Rc::new(socket), listener });
        served.len() - 1
    });
    number as u32
}

/// The handler of a datagram listener's read event.
pub(crate) fn on_readable(core: &Core, event: EventId) {
    let listener = core.state().slots[event.row()].listener;
    if core.is_draining() && !core.goes_on_reading(listener) {
        // Somebody follows by now: this datagram is theirs already.
        return core.drain();
    }
    let mut incoming = core.inner().outgoing.borrow().incoming.take();
    let batch = incoming.get_or_insert_with(|| ReceiveBatch::new(BATCH, LARGEST));
    for _ in 0..BATCHES {
        let Some((received, bound)) = receive_batch(core, listener, batch) else { break };
        for datagram in (0..received).filter_map(|index| batch.get(index)) {
            let (local, peer, bytes) = (datagram.local, datagram.peer, datagram.bytes);
            arrive(core, &Arrived { bound, local, peer, bytes }, true);
        }
        if received < BATCH {
            break;
        }
    }
    core.inner().outgoing.borrow().incoming.replace(incoming);
}

/// Receives what is there; tells how much that is, and at which address.
fn receive_batch(core: &Core, listener: u32, batch: &mut ReceiveBatch) -> Option<(usize, SocketAddr)> {
    let state = core.state();
    let listener = state.listeners[listener as usize].as_ref()?;
    let Behind::Datagrams(served) = listener.behind else { return None };
    let socket = state.slots[listener.slot].socket.as_ref()?;
    match batch.receive(socket.as_fd()) {
        Ok(count) => {
            core.stats().add(Counter::DatagramsReceived, count as u64);
            Some((count, state.sessions.served[served as usize].bound))
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        Err(error) => {
            warn!("receiving datagrams: {error}");
            None
        }
    }
}

/// Puts a datagram into its session's queue, beginning the session if there is none; or hands it to the
/// neighbour that has the session, if it `may_be_others`.
fn arrive(core: &Core, datagram: &Arrived<'_>, may_be_others: bool) {
    let (key, existing) = {
        let sessions = &core.state().sessions;
        let Some(served) = sessions.served_at(datagram) else {
            return core.stats().add(Counter::DatagramsDropped, 1);
        };
        let key = Key { served, local: datagram.local, peer: datagram.peer };
        let existing = sessions.by_key.get(&key).copied();
        (key, existing)
    };
    if let Some(slot) = existing {
        queue(core, &mut core.state(), slot, datagram.bytes);
        return wake(core, slot);
    }
    let fingerprint = core.state().sessions.fingerprint(&key);
    if may_be_others && neighbours::hand_over(core, fingerprint, datagram) {
        return;
    }
    // A worker that drains and still reads does so for the sessions it has, where nobody goes on.
    let unwanted = may_be_others && core.is_draining() && !core.state().sessions.has_heirs(key.served);
    let begun = if unwanted { None } else { begin(core, key, fingerprint) };
    match begun {
        Some((slot, service)) => {
            queue(core, &mut core.state(), slot, datagram.bytes);
            start(core, slot, &*service);
        }
        None => core.stats().add(Counter::DatagramsDropped, 1),
    }
}

/// Gives a new session a slot.
fn begin(core: &Core, key: Key, fingerprint: u64) -> Option<(u32, Rc<dyn DatagramService>)> {
    reclaim(core);
    let state = &mut *core.state();
    let served = state.sessions.served.get(key.served as usize)?;
    let listener = served.listener;
    let (service, socket) = (Rc::clone(&served.service), Rc::clone(&served.socket));
    if let Some(Some(listener)) = state.listeners.get(listener as usize) {
        core.stats().count_accept(listener.number);
    }
    let Some(slot) = core.lend(state, None, Holder::Peer) else {
        core.stats().count_close(CloseReason::NoSlot);
        let reason = CloseReason::NoSlot.name();
        error!(peer = %key.peer, reason, "no slot is free and none can be reclaimed: the datagram is dropped");
        return None;
    };
    let peer = PeerAddress::Internet(key.peer);
    let number = core.begin_connection(state, slot, peer, Phase::Accepted);
    state.slots[slot].listener = listener;
    debug!(peer = %key.peer, slot, connection = number, "session");
    if let Some(neighbourhood) = &state.sessions.neighbourhood {
        neighbourhood.table.insert(fingerprint);
    }
    state.sessions.by_key.insert(key.clone(), slot);
    state
        .sessions
        .by_slot
        .insert(slot, Inbox { key, socket, waiting: VecDeque::new(), fingerprint, detached: false });
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
    let session = Session::new(core.clone(), slot);
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

/// Adds a datagram of the session in `slot` to those that are sent before the turn ends.
fn gather(core: &Core, slot: u32, bytes: &[u8]) {
    let state = &mut *core.state();
    let Some(Inbox { key, socket, .. }) = state.sessions.by_slot.get(&slot) else { return };
    let outgoing = &mut *core.inner().outgoing.borrow_mut();
    let (current, batch) = outgoing.batch.get_or_insert_with(|| (Rc::clone(socket), SendBatch::new(BATCH)));
    if batch.is_full() || !Rc::ptr_eq(current, socket) {
        send_batch(core, current, batch);
        *current = Rc::clone(socket);
    }
    batch.push(bytes, key.peer, key.local);
    state.slots[slot].sent += bytes.len() as u64;
    if let Some(flush) = state.sessions.flush {
        core.post(state, flush, QueueName::Posted);
    }
}

/// The flow of the session in `slot` is not its any more: the next datagram begins another.
fn detach(state: &mut State, slot: u32) {
    let sessions = &mut state.sessions;
    let Some(inbox) = sessions.by_slot.get_mut(&slot).filter(|inbox| !inbox.detached) else { return };
    inbox.detached = true;
    sessions.by_key.remove(&inbox.key);
    if let Some(neighbourhood) = &sessions.neighbourhood {
        neighbourhood.table.remove(inbox.fingerprint);
    }
    debug!(peer = %inbox.key.peer, slot, connection = state.slots[slot].number, "session over");
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
