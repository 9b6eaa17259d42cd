//! Listeners: a listening socket of the worker, the service behind it and its accept strategy; how
//! they come and how they leave.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::str::FromStr;

use tracing::{debug, info};

use crate::accept::balanced::part;
use crate::accept::hope::Hope;
use crate::accept::{self, Outcome, accept_one, put_in, take_out};
use crate::connection::{Asked, Holder, Idle, NONE, PeerAddress};
use crate::core::{Core, State};
use crate::datagram::{self, DatagramService};
use crate::error::Error;
use crate::event::{Direction, EventId, Flags};
use crate::stats::Gauge;
use crate::stream::Stream;
use crate::token::Token;

/// Who gets a new connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Strategy {
    /// All workers watch one socket and all are woken.
    Shared,
    /// All workers watch one socket and the kernel wakes one or a few.
    #[default]
    Exclusive,
    /// Only the worker that holds a lock watches the socket.
    Mutex,
    /// Each worker has a socket of its own and the kernel spreads connections over them.
    ReusePort,
    /// As `Exclusive`, and workers with more connections than others leave new ones to them.
    Balanced,
}

impl Strategy {
    /// All strategies.
    pub const ALL: &'static [Strategy] =
        &[Self::Shared, Self::Exclusive, Self::Mutex, Self::ReusePort, Self::Balanced];

    /// The word used in the config, in logs and on the scoreboard.
    pub const fn name(self) -> &'static str {
        match self {
            Strategy::Shared => "shared",
            Strategy::Exclusive => "exclusive",
            Strategy::Mutex => "mutex",
            Strategy::ReusePort => "reuseport",
            Strategy::Balanced => "balanced",
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(text: &str) -> Result<Self, UnknownStrategy> {
        Self::ALL
            .iter()
            .copied()
            .find(|strategy| strategy.name() == text)
            .ok_or_else(|| UnknownStrategy(text.to_owned()))
    }
}

/// A word that names no accept strategy.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is no accept strategy: use shared, exclusive, mutex, reuseport or balanced")]
pub struct UnknownStrategy(String);

/// The protocol behind a listener.
pub trait Service {
    /// The connection that just began, as a future that ends with it.
    fn connection(&self, stream: Stream) -> Pin<Box<dyn Future<Output = ()>>>;

    /// Takes note of a connection that ended with [`CloseReason::NoSlot`](crate::CloseReason::NoSlot) before it could
    /// begin: for a log that has all of them.
    fn dropped(&self, _core: &Core, _peer: PeerAddress, _number: u64) {}
}

/// How connections of a listener are taken.
#[derive(Clone, Debug)]
pub struct ListenerOptions {
    /// The address, for logs.
    pub address: String,
    /// Who gets a new connection.
    pub strategy: Strategy,
    /// The kernel hands over a connection only once data has come (`TCP_DEFER_ACCEPT`, set on the
    /// socket by whoever opened it), so the first receive is tried straight after the accept.
    pub deferred: bool,
    /// The client speaks first, so a first receive straight after the accept may be worth trying.
    pub client_first: bool,
}

/// What is behind a listener.
pub(crate) enum Behind {
    /// Connections.
    Streams(Rc<dyn Service>),
    /// Sessions of datagrams, by the number of the address and its service.
    Datagrams(u32),
}

/// One listener of a worker.
pub(crate) struct Listener {
    pub(crate) slot: u32,
    pub(crate) options: ListenerOptions,
    /// What the strategy amounts to with this backend and this number of workers.
    pub(crate) strategy: Strategy,
    pub(crate) behind: Behind,
    /// Accepts since the worker started, by which re-adding is timed.
    pub(crate) accepts: u32,
    pub(crate) hope: Hope,
    /// Its number among the listeners of all workers, by which its accepts are counted; [`NONE`] for none.
    pub(crate) number: u32,
    /// A socket that is on its way out: it is only accepted from until it is released.
    pub(crate) surplus: bool,
}

/// How many connections in a row may fail before a listener that leaves gives its queue up.
const FAILURES_MOST: u32 = 64;

impl Listener {
    fn has_streams(&self) -> bool {
        matches!(self.behind, Behind::Streams(_))
    }
}

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
        self.add_listener(socket, options, Behind::Streams(service), false)
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
        self.add_listener(socket, options, Behind::Streams(service), true)
    }

    /// Adds a non-blocking datagram socket whose sessions `service` handles. `bound` is the address that it
    /// is, or will be, bound to; several sockets may share one, and then share its sessions.
    ///
    /// # Errors
    /// When no slot is left, the backend refuses the socket, or the kernel does not tell for which
    /// local address its datagrams come.
    pub fn listen_datagrams(
        &self,
        socket: OwnedFd,
        bound: SocketAddr,
        options: ListenerOptions,
        service: Rc<dyn DatagramService>,
    ) -> Result<(), Error> {
        let address = options.address.clone();
        let kept = datagram::prepare(&socket).map_err(|source| Error::Watch { what: address, source })?;
        self.ensure_flush_event();
        let served = datagram::serve(&mut self.state(), bound, service, kept);
        self.add_listener(socket, options, Behind::Datagrams(served), false)?;
        self.begin_to_wait();
        Ok(())
    }

    fn add_listener(
        &self,
        socket: OwnedFd,
        options: ListenerOptions,
        behind: Behind,
        surplus: bool,
    ) -> Result<(), Error> {
        let mut guard = self.state();
        let state = &mut *guard;
        let what = || format!("the listener on {}", options.address);
        let datagrams = matches!(behind, Behind::Datagrams(..));
        let strategy =
            if surplus { Strategy::ReusePort } else { effective_strategy(self, state, &options, datagrams) };
        let connections = state.slots.capacity();
        let slot = self
            .lend(state, Some(socket), Holder::Listener)
            .ok_or_else(|| Error::NoSlot { what: what(), connections })?;
        let number = state.listeners.len() as u32;
        state.slots[slot].listener = number;
        let event = &mut state.events[EventId::of_slot(slot, Direction::Read)];
        event.handler = if datagrams { datagram::on_readable } else { accept::on_acceptable };
        event.flags.set(Flags::ACCEPT | Flags::WAITING);
        let address = options.address.clone();
        state.listeners.push(Some(Listener {
            slot,
            options,
            strategy,
            behind,
            accepts: 0,
            number: NONE,
            hope: Hope::default(),
            surplus,
        }));
        let held_back = datagrams && self.waits_for_neighbours(state);
        if state.gate.admits(strategy)
            && !held_back
            && let Err(source) = put_in(state, number)
        {
            let refused = state.listeners.pop();
            self.give_back(state, slot);
            drop(guard);
            drop(refused);
            return Err(Error::Watch { what: address, source });
        }
        if strategy == Strategy::Balanced {
            self.stats().set(Gauge::Balancing, state.gate.part());
        }
        Ok(())
    }

    /// Has the accepts of the listeners added at `address` by now counted by themselves too, under a number that
    /// all workers have for them; for datagrams, the sessions. See [`Stats::accepts_word`](crate::Stats::accepts_word).
    pub fn count_accepts(&self, address: &str, number: u32) {
        let state = &mut *self.state();
        let there = state.listeners.iter_mut().flatten();
        there
            .filter(|listener| listener.options.address == address && listener.number == NONE)
            .for_each(|listener| listener.number = number);
    }

    /// Stops accepting and asks connections that wait for a further request to close. What is
    /// queued on listeners is accepted first: a wake-up that this worker received may have been
    /// the only one. Datagrams are received further where no other worker follows, for the sessions
    /// that there are; called again, this looks once more whether others do.
    pub fn drain(&self) {
        let again = std::mem::replace(&mut self.state().draining, true);
        self.stats().set(Gauge::Balancing, part::NONE);
        let count = self.state().listeners.len() as u32;
        (0..count)
            .filter(|listener| !self.goes_on_reading(*listener))
            .for_each(|listener| self.leave(listener));
        self.still_reads();
        if again {
            return;
        }
        let kept: Vec<Token> = {
            let slots = &self.state().slots;
            let kept = slots.idle_slots().filter(|slot| slots[*slot].idle == Some(Idle::Further));
            kept.map(|slot| slots.token(slot)).collect()
        };
        self.ask_idle(kept, Asked::Drain);
    }

    /// Takes a listener out of the backend, accepts what is queued and closes this worker's
    /// descriptor of the socket.
    pub(crate) fn leave(&self, listener: u32) {
        let present = |state: &State| state.listeners[listener as usize].is_some();
        if !present(&self.state()) {
            return;
        }
        take_out(&mut self.state(), listener);
        if self.state().listeners[listener as usize].as_ref().is_some_and(Listener::has_streams) {
            self.empty_queue(listener);
        }
        let left = {
            let state = &mut *self.state();
            let left = state.listeners[listener as usize].take();
            if let Some(listener) = &left {
                debug!(address = listener.options.address, "listener left");
                self.give_back(state, listener.slot);
            }
            left
        };
        // The last reference to a service may own streams, which close themselves.
        drop(left);
    }

    /// Accepts what is queued on a listener, as long as there are slots or idle connections to make
    /// room. A connection that failed hides those behind it no more than the kernel says.
    fn empty_queue(&self, listener: u32) {
        let mut failures = 0;
        while failures < FAILURES_MOST {
            let full = {
                let slots = &self.state().slots;
                slots.free() == 0 && slots.reusable() == 0
            };
            match if full { Outcome::Ended } else { accept_one(self, listener) } {
                Outcome::Accepted => failures = 0,
                Outcome::Failed => failures += 1,
                Outcome::Ended => return,
            }
        }
    }
}

/// What the configured strategy amounts to here, said once where it is something else.
fn effective_strategy(core: &Core, state: &State, options: &ListenerOptions, datagrams: bool) -> Strategy {
    let wanted = options.strategy;
    let reason = match wanted {
        Strategy::Shared | Strategy::ReusePort => return wanted,
        _ if core.settings().workers == 1 => "one worker has nobody to share with",
        Strategy::Mutex if !state.gate.has_mutex() => "there is no shared memory for the lock",
        Strategy::Balanced if datagrams => "sessions of datagrams cannot be left to others",
        Strategy::Balanced if state.gate.balance.is_none() => "it does not know the other workers",
        Strategy::Exclusive if !state.kind.exclusive => "the backend has no exclusive wake-ups",
        Strategy::Exclusive | Strategy::Mutex | Strategy::Balanced => return wanted,
    };
    info!(address = options.address, "accept strategy {wanted} falls back to shared: {reason}");
    Strategy::Shared
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strategies_are_read_as_they_are_written() {
        for &strategy in Strategy::ALL {
            assert_eq!(strategy.to_string().parse::<Strategy>().expect("its own name"), strategy);
        }
        assert!("balance".parse::<Strategy>().is_err());
    }
}
