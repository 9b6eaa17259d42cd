//! Accepting: from a readable listener to a running connection.
//!
//! One connection is taken per wake-up, or with `multi_accept` as many as there are up to a bound.
//! What each strategy adds stands in a file of its own: [`exclusive`] (re-adding), [`mutex`] (the
//! lock), [`balanced`] (leaving connections to others), [`gate`] (whether listeners are in the backend
//! this turn), [`reuseport`] (sockets that a reload makes surplus). Running out of descriptors or memory takes all listeners out for a while:
//! never a spin.

pub mod balanced;
pub(crate) mod exclusive;
pub(crate) mod gate;
pub mod mutex;
pub(crate) mod reuseport;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use drover_sys::socket;
use nix::errno::Errno;
use tracing::{debug, error, info, warn};

use crate::backend::Mode;
use crate::connection::{Asked, Holder, Idle, PeerAddress, Phase};
use crate::core::{Core, State};
use crate::debug::log_verbosely;
use crate::error::Error;
use crate::event::{Direction, EventId, Flags};
use crate::listener::{Hope, Listener, ListenerOptions, Service, Strategy};
use crate::posted::QueueName;
use crate::readiness;
use crate::stats::{Counter, Gauge};
use crate::stream::Stream;

/// The most connections that one accept event takes before others have their turn.
const MULTI_ACCEPT_MOST: u32 = 64;
/// The least time between two warnings about a shortage of slots.
const SHORTAGE_LOG_MS: u64 = 1000;

impl Core {
    /// Adds a listening, non-blocking socket whose connections `service` handles.
    ///
    /// # Errors
    /// When no slot is left, or the backend refuses the socket.
    pub fn listen(
        &self,
        socket: OwnedFd,
        options: ListenerOptions,
        service: Rc<dyn Service>,
    ) -> Result<(), Error> {
        self.add_listener(socket, options, service, false)
    }

    /// Adds a socket that the config no longer has a place for, to be accepted from until
    /// [`Core::release_surplus`]: what is queued on it must not be lost.
    ///
    /// # Errors
    /// As [`Core::listen`].
    pub fn listen_surplus(
        &self,
        socket: OwnedFd,
        options: ListenerOptions,
        service: Rc<dyn Service>,
    ) -> Result<(), Error> {
        self.add_listener(socket, options, service, true)
    }

    fn add_listener(
        &self,
        socket: OwnedFd,
        options: ListenerOptions,
        service: Rc<dyn Service>,
        surplus: bool,
    ) -> Result<(), Error> {
        let state = &mut *self.state();
        let what = || format!("the listener on {}", options.address);
        let strategy = if surplus { Strategy::ReusePort } else { effective_strategy(self, state, &options) };
        let connections = state.slots.capacity();
        let slot = self
            .lend(state, socket, Holder::Listener)
            .map_err(|_| Error::NoSlot { what: what(), connections })?;
        let number = state.listeners.len() as u32;
        state.slots[slot].listener = number;
        let event = &mut state.events[EventId::of_slot(slot, Direction::Read)];
        event.handler = on_acceptable;
        event.flags.set(Flags::ACCEPT | Flags::WAITING);
        let address = options.address.clone();
        state.listeners.push(Some(Listener {
            slot,
            options,
            strategy,
            service,
            accepts: 0,
            hope: Hope::default(),
            surplus,
        }));
        if strategy == Strategy::Balanced {
            self.stats().set(Gauge::Balancing, 1);
        }
        if strategy != Strategy::Mutex {
            put_in(state, number).map_err(|source| Error::Watch { what: address, source })?;
        }
        Ok(())
    }

    /// Stops accepting and asks connections that wait for a further request to close. What is
    /// queued on listeners is accepted first: a wake-up that this worker received may have been
    /// the only one.
    pub fn drain(&self) {
        if std::mem::replace(&mut self.state().draining, true) {
            return;
        }
        self.stats().set(Gauge::Balancing, 0);
        let count = self.state().listeners.len() as u32;
        (0..count).for_each(|listener| self.leave(listener));
        let idle: Vec<u32> = {
            let slots = &self.state().slots;
            slots.idle_slots().filter(|&slot| slots[slot].idle == Some(Idle::Further)).collect()
        };
        for slot in idle {
            self.ask(slot, Asked::Drain);
        }
    }

    /// Takes a listener out of the backend, accepts what is queued and closes this worker's
    /// descriptor of the socket.
    pub(crate) fn leave(&self, listener: u32) {
        let present = |state: &State| state.listeners[listener as usize].is_some();
        if !present(&self.state()) {
            return;
        }
        take_out(&mut self.state(), listener);
        while self.state().slots.free() > 0 && matches!(accept_one(self, listener), Outcome::Accepted) {}
        let state = &mut *self.state();
        if let Some(listener) = state.listeners[listener as usize].take() {
            debug!(address = listener.options.address, "listener left");
            self.give_back(state, listener.slot);
        }
    }
}

/// What the configured strategy amounts to here, said once where it is something else.
fn effective_strategy(core: &Core, state: &State, options: &ListenerOptions) -> Strategy {
    let wanted = options.strategy;
    let reason = match wanted {
        Strategy::Shared | Strategy::ReusePort => return wanted,
        _ if core.settings().workers == 1 => "one worker has nobody to share with",
        Strategy::Mutex if !state.gate.has_mutex() => "there is no shared memory for the lock",
        Strategy::Balanced if state.gate.balance.is_none() => "it does not know the other workers",
        Strategy::Exclusive if !state.kind.exclusive => "the backend has no exclusive wake-ups",
        Strategy::Exclusive | Strategy::Mutex | Strategy::Balanced => return wanted,
    };
    info!(address = options.address, "accept strategy {wanted} falls back to shared: {reason}");
    Strategy::Shared
}

/// Puts a listener into the backend.
pub(crate) fn put_in(state: &mut State, number: u32) -> io::Result<()> {
    let Some(listener) = &state.listeners[number as usize] else { return Ok(()) };
    let mode = match listener.strategy {
        Strategy::Exclusive | Strategy::Balanced if state.kind.exclusive => Mode::ExclusiveListener,
        _ => Mode::Listener,
    };
    readiness::watch(state, listener.slot, Direction::Read, mode)
}

/// Takes a listener out of the backend.
pub(crate) fn take_out(state: &mut State, number: u32) {
    let Some(listener) = &state.listeners[number as usize] else { return };
    let (slot, address) = (listener.slot, listener.options.address.clone());
    if let Err(source) = readiness::unwatch(state, slot, Direction::Read) {
        error!(address, "taking the listener out of the backend: {source}");
    }
    let event = EventId::of_slot(slot, Direction::Read);
    state.queues.unlink(&mut state.events, event.index());
}

enum Outcome {
    /// A connection was taken and has a slot, or was dropped for want of one.
    Accepted,
    /// This connection failed and others may not.
    Failed,
    /// There is nothing more to take now.
    Ended,
}

/// The handler of a listener's read event.
fn on_acceptable(core: &Core, event: EventId) {
    let (listener, strategy) = {
        let state = &mut *core.state();
        if state.events[event].flags.take(Flags::TIMED_OUT) {
            gate::resume_accepting(state);
            return;
        }
        let number = state.slots[event.row()].listener;
        let Some(listener) = &state.listeners[number as usize] else { return };
        (number, listener.strategy)
    };
    let balanced = strategy == Strategy::Balanced;
    // Others may have lost connections since this worker last looked.
    if balanced && balanced::close_if_above(core, &mut core.state()) {
        return;
    }
    let most = if core.settings().multi_accept { MULTI_ACCEPT_MOST } else { 1 };
    for _ in 0..most {
        match accept_one(core, listener) {
            Outcome::Accepted => exclusive::give_others_a_chance(core, &mut core.state(), listener),
            Outcome::Failed => {}
            Outcome::Ended => break,
        }
        if balanced && balanced::close_if_above(core, &mut core.state()) {
            break;
        }
    }
}

/// Takes one connection from the listener's queue.
fn accept_one(core: &Core, number: u32) -> Outcome {
    let accepted = {
        let state = core.state();
        let listener = state.listeners[number as usize].as_ref();
        let Some(socket) = listener.and_then(|listener| state.slots[listener.slot].socket.as_ref()) else {
            return Outcome::Ended;
        };
        socket::accept(socket.as_fd())
    };
    match accepted {
        Ok((socket, address)) => {
            begin(core, number, socket, address);
            Outcome::Accepted
        }
        Err(error) => failed(core, number, &error),
    }
}

/// Tells what an accept error means for those after it. The classes are those of accept(2): errors
/// of one connection that is already gone, of this process, of the system.
fn failed(core: &Core, number: u32, error: &io::Error) -> Outcome {
    let errno = Errno::from_raw(error.raw_os_error().unwrap_or(0));
    let counter = match errno {
        Errno::EAGAIN => {
            core.stats().add(Counter::AcceptEmpty, 1);
            return Outcome::Ended;
        }
        Errno::ECONNABORTED => Counter::AcceptAborted,
        Errno::EMFILE | Errno::ENFILE => Counter::AcceptNoDescriptors,
        Errno::ENOBUFS | Errno::ENOMEM => Counter::AcceptNoMemory,
        _ => Counter::AcceptErrors,
    };
    core.stats().add(counter, 1);
    let state = &mut *core.state();
    let address = state.listeners[number as usize].as_ref().map(|listener| listener.options.address.clone());
    let address = address.unwrap_or_default();
    if matches!(counter, Counter::AcceptNoDescriptors | Counter::AcceptNoMemory) {
        let delay = core.settings().accept_mutex_delay;
        error!(address, "accept: {error}; accepting pauses for {delay:?}");
        gate::pause_accepting(core, state);
        return Outcome::Ended;
    }
    warn!(address, "accept: {error}; that connection is skipped");
    Outcome::Failed
}

/// Gives an accepted socket a slot and a task and runs it for the first time.
fn begin(core: &Core, number: u32, socket: OwnedFd, address: Option<SocketAddr>) {
    core.stats().add(Counter::Accepts, 1);
    reclaim(core);
    let peer = address.map_or(PeerAddress::Unix, PeerAddress::Internet);
    let mut state = core.state();
    let inner = &mut *state;
    let Ok(slot) = core.lend(inner, socket, Holder::Peer) else {
        core.stats().add(Counter::Dropped, 1);
        inner.gate.set_threshold(inner.slots.capacity(), 0);
        error!(
            peer = %peer,
            "no slot is free and none can be reclaimed: the connection is dropped; worker_connections is {}",
            inner.slots.capacity()
        );
        return;
    };
    inner.gate.set_threshold(inner.slots.capacity(), inner.slots.free());
    let Some(listener) = &mut inner.listeners[number as usize] else {
        core.give_back(inner, slot);
        return;
    };
    listener.accepts = listener.accepts.wrapping_add(1);
    let hopeful = listener.options.deferred
        || (listener.options.client_first && !listener.surplus && listener.hope.worth_trying());
    let service = Rc::clone(&listener.service);
    let connection_number = inner.next_number;
    inner.next_number += 1;
    let connection = &mut inner.slots[slot];
    connection.number = connection_number;
    connection.peer = peer;
    connection.listener = number;
    connection.accepted_at = core.now();
    connection.hopeful = hopeful;
    let verbose = core.settings().debug_connections.iter().any(|wanted| wanted.matches(peer));
    let read = &mut inner.events[EventId::of_slot(slot, Direction::Read)];
    if hopeful {
        read.flags.set(Flags::READY);
    }
    inner.open += 1;
    core.stats().set(Gauge::OpenConnections, u64::from(inner.open));
    core.stats().enter_phase(Phase::Accepted);
    let outer = log_verbosely(verbose);
    debug!(peer = %peer, slot, connection = connection_number, "accept");
    let posting = inner.gate.is_held();
    drop(state);
    start(core, slot, connection_number, verbose, &*service, posting);
    log_verbosely(outer);
}

/// Makes the connection's task and runs it, or posts it while the mutex is held.
fn start(core: &Core, slot: u32, connection: u64, verbose: bool, service: &dyn Service, posting: bool) {
    let task = core.reserve_task(connection, verbose);
    core.state().slots[slot].task = task;
    let stream = Stream::new(core.clone(), slot);
    let future = catch_unwind(AssertUnwindSafe(|| service.connection(stream)));
    let future = future.unwrap_or_else(|_| {
        core.stats().add(Counter::TaskPanics, 1);
        error!(connection, "the service panicked on a new connection, which is closed");
        Box::pin(async {})
    });
    core.install_task(task, future);
    if posting {
        let mut state = core.state();
        core.post(&mut state, EventId::of_task(task), QueueName::Posted);
    } else {
        core.resume(task);
    }
}

/// Closes some of the longest idle connections where slots are short.
pub(crate) fn reclaim(core: &Core) {
    let mut state = core.state();
    let wanted = state.slots.reclaim_wanted();
    if wanted == 0 {
        return;
    }
    let now = core.now();
    if state.shortage_logged.is_none_or(|logged| now.since(logged) >= SHORTAGE_LOG_MS) {
        state.shortage_logged = Some(now);
        warn!(
            "slots are short: {} of {} free, closing {wanted} of {} idle connections",
            state.slots.free(),
            state.slots.capacity(),
            state.slots.reusable()
        );
    }
    drop(state);
    for _ in 0..wanted {
        let longest_idle = core.state().slots.longest_idle();
        let Some(slot) = longest_idle else { break };
        core.stats().add(Counter::Reclaimed, 1);
        core.ask(slot, Asked::Reclaim);
    }
}
