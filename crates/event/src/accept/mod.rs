//! Accepting: from a readable listener to a running connection.
//!
//! One connection is taken per wake-up, or with `multi_accept` as many as there are up to a bound.
//! What each strategy adds stands in a file of its own: `exclusive` (re-adding), `mutex` (the lock),
//! `balanced` (leaving connections to others), `gate` (whether listeners are in the backend this
//! turn), `reuseport` (sockets that a reload makes surplus). Running out of descriptors closes kept
//! connections that are idle; with none of those, and without memory, all listeners are taken out for a
//! while: never a spin.

pub mod balanced;
pub(crate) mod exclusive;
pub(crate) mod gate;
pub(crate) mod hope;
pub mod mutex;
pub(crate) mod reuseport;
mod word;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use drover_sys::socket;
use nix::errno::Errno;
use tracing::{debug, error, warn};

use crate::backend::Mode;
use crate::close::CloseReason;
use crate::connection::{Asked, Holder, Idle, PeerAddress, Phase};
use crate::core::{Core, State};
use crate::debug::log_verbosely;
use crate::event::{Direction, EventId, Flags};
use crate::listener::{Behind, Service, Strategy};
use crate::posted::QueueName;
use crate::readiness;
use crate::stats::Counter;
use crate::stream::Stream;
use crate::token::Token;

/// The most connections that one accept event takes before others have their turn.
const MULTI_ACCEPT_MOST: u32 = 64;
/// The least time between two warnings about a shortage of slots.
const SHORTAGE_LOG_MS: u64 = 1000;

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

pub(crate) enum Outcome {
    /// A connection was taken and has a slot, or was dropped for want of one.
    Accepted,
    /// This connection failed and others may not.
    Failed,
    /// There is nothing more to take now.
    Ended,
}

/// The handler of a listener's read event.
pub(crate) fn on_acceptable(core: &Core, event: EventId) {
    let (listener, strategy) = {
        let state = core.state();
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
            Outcome::Accepted => {
                let state = &mut *core.state();
                if balanced && balanced::close_if_above(core, state) {
                    break;
                }
                exclusive::give_others_a_chance(core, state, listener);
            }
            Outcome::Failed => {}
            Outcome::Ended => break,
        }
    }
}

/// Takes one connection from the listener's queue.
pub(crate) fn accept_one(core: &Core, number: u32) -> Outcome {
    if must_make_room_first(core) {
        return Outcome::Ended;
    }
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
    if counter == Counter::AcceptNoDescriptors && close_idle(core, Short::Descriptors) > 0 {
        return Outcome::Failed;
    }
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

/// Whether no slot is free and idle connections were asked to close, which they do only once the
/// mutex is released: until then what is queued stays there.
fn must_make_room_first(core: &Core) -> bool {
    let full = {
        let state = core.state();
        state.gate.is_held() && state.slots.free() == 0
    };
    full && reclaim(core) > 0
}

/// Gives an accepted socket a slot and a task and runs it for the first time.
fn begin(core: &Core, number: u32, socket: OwnedFd, address: Option<SocketAddr>) {
    core.stats().add(Counter::Accepts, 1);
    let Some((service, hopeful)) = take_note(core, &mut core.state(), number) else { return };
    // What is asked to close may do anything, also have this listener leave.
    reclaim(core);
    let peer = address.map_or(PeerAddress::Unix, PeerAddress::Internet);
    let mut state = core.state();
    let inner = &mut *state;
    let Some(slot) = core.lend(inner, Some(socket), Holder::Peer) else {
        core.stats().add(Counter::Dropped, 1);
        core.stats().count_close(CloseReason::NoSlot);
        inner.gate.set_threshold(inner.slots.capacity(), 0);
        let (connection, most) = (inner.number_connection(), inner.slots.capacity());
        drop(state);
        let reason = CloseReason::NoSlot.name();
        error!(
            peer = %peer, connection, reason,
            "no slot is free and none can be reclaimed: the connection is dropped; worker_connections is {most}"
        );
        return service.dropped(core, peer, connection);
    };
    inner.gate.set_threshold(inner.slots.capacity(), inner.slots.free());
    let connection_number = core.begin_connection(inner, slot, peer, Phase::Accepted);
    let connection = &mut inner.slots[slot];
    connection.listener = number;
    connection.hopeful = hopeful;
    let verbose = core.settings().debug_connections.iter().any(|wanted| wanted.matches(peer));
    let read = &mut inner.events[EventId::of_slot(slot, Direction::Read)];
    if hopeful {
        read.flags.set(Flags::READY);
    }
    let outer = log_verbosely(verbose);
    debug!(peer = %peer, slot, connection = connection_number, "accept");
    let posting = inner.gate.is_held();
    drop(state);
    start(core, slot, connection_number, verbose, &*service, posting);
    log_verbosely(outer);
}

/// Counts an accept on the listener; tells its service and whether data is likely to be there.
fn take_note(core: &Core, state: &mut State, number: u32) -> Option<(Rc<dyn Service>, bool)> {
    let listener = state.listeners[number as usize].as_mut()?;
    let Behind::Streams(service) = &listener.behind else { return None };
    listener.accepts = listener.accepts.wrapping_add(1);
    core.stats().count_accept(listener.number);
    let hopeful = listener.options.deferred
        || (listener.options.client_first && !listener.surplus && listener.hope.worth_trying());
    Some((Rc::clone(service), hopeful))
}

/// Makes the connection's task and runs it, or posts it while the mutex is held.
fn start(core: &Core, slot: u32, connection: u64, verbose: bool, service: &dyn Service, posting: bool) {
    let task = core.reserve_task(connection, slot, verbose);
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

/// Closes some of the longest idle connections where slots are short; tells how many were asked to.
pub(crate) fn reclaim(core: &Core) -> u32 {
    let short = core.state().slots.are_short();
    if short { close_idle(core, Short::Slots) } else { 0 }
}

/// What there is too little of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Short {
    Slots,
    /// Those that wait for a first request are spared: other workers may have descriptors for them.
    Descriptors,
}

/// Asks some of the longest idle connections to close; tells how many.
fn close_idle(core: &Core, short: Short) -> u32 {
    let mut state = core.state();
    let wanted = state.slots.reclaim_wanted();
    // One that is asked to close may itself need a slot for that; it finds what others leave it.
    if wanted == 0 || std::mem::replace(&mut state.reclaiming, true) {
        return 0;
    }
    let slots = &state.slots;
    let suits = |slot: &u32| short == Short::Slots || slots[*slot].idle == Some(Idle::Further);
    let chosen = slots.idle_slots().filter(suits).take(wanted as usize);
    let chosen: Vec<Token> = chosen.map(|slot| slots.token(slot)).collect();
    drop(state);
    if !chosen.is_empty() {
        log_shortage(core, short, chosen.len());
    }
    let asked = core.ask_idle(chosen, Asked::Reclaim);
    core.stats().add(Counter::Reclaimed, u64::from(asked));
    core.state().reclaiming = false;
    asked
}

fn log_shortage(core: &Core, short: Short, closing: usize) {
    let (now, state) = (core.now(), &mut *core.state());
    if state.shortage_logged.is_some_and(|logged| now.since(logged) < SHORTAGE_LOG_MS) {
        return;
    }
    state.shortage_logged = Some(now);
    let slots = &state.slots;
    let (free, capacity, reusable) = (slots.free(), slots.capacity(), slots.reusable());
    match short {
        Short::Slots => {
            warn!(
                "slots are short: {free} of {capacity} free, closing {closing} of {reusable} idle connections"
            );
        }
        Short::Descriptors => {
            warn!("descriptors are short: closing {closing} of {reusable} idle connections");
        }
    }
}
