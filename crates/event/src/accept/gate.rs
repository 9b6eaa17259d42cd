//! The accept gate: whether this worker's listeners are in the backend this turn.
//!
//! It closes for two reasons. A listener with the `mutex` strategy is in the backend only while the
//! worker wins the mutex, which it tries once a turn. And all listeners are out while accepting is
//! paused, because descriptors or memory ran out.

use tracing::{debug, error};

use crate::accept::mutex::AcceptMutex;
use crate::accept::{put_in, take_out};
use crate::core::{Core, State};
use crate::event::{Direction, EventId};
use crate::listener::{Listener, Strategy};
use crate::stats::Counter;

pub(crate) struct Gate {
    mutex: Option<AcceptMutex>,
    held: bool,
    /// Whether listeners with the `mutex` strategy are in the backend.
    mutex_listeners_in: bool,
    paused: bool,
    /// Above zero: over the load threshold (`connections / 8 - free`, after each accept).
    threshold: i64,
}

impl Gate {
    pub(crate) fn new(mutex: Option<AcceptMutex>) -> Self {
        Self { mutex, held: false, mutex_listeners_in: false, paused: false, threshold: 0 }
    }

    pub(crate) fn has_mutex(&self) -> bool {
        self.mutex.is_some()
    }

    /// Whether this turn holds the mutex.
    pub(crate) fn is_held(&self) -> bool {
        self.held
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.paused
    }

    pub(crate) fn over_threshold(&self) -> bool {
        self.threshold > 0
    }

    /// Notes the load after an accept.
    pub(crate) fn set_threshold(&mut self, connections: u32, free: u32) {
        self.threshold = i64::from(connections / 8) - i64::from(free);
    }
}

impl Core {
    /// Step 2 of a turn: tries the mutex where a listener needs it, and shortens the sleep where
    /// the listeners have to stay out.
    pub(crate) fn try_gate(&self, sleep_ms: &mut Option<u32>) {
        let state = &mut *self.state();
        if state.gate.paused || !wants_mutex(state) {
            return;
        }
        let Some(mutex) = &state.gate.mutex else { return };
        let tried = state.gate.threshold <= 0;
        let won = tried && mutex.try_lock();
        if won {
            debug!("accept mutex locked");
            self.stats().add(Counter::MutexWon, 1);
            state.gate.held = true;
            if !state.gate.mutex_listeners_in {
                state.gate.mutex_listeners_in = true;
                for_each_mutex_listener(state, put_in_or_log);
            }
            return;
        }
        if tried {
            debug!("accept mutex lock failed");
            self.stats().add(Counter::MutexLost, 1);
        } else {
            state.gate.threshold -= 1;
        }
        if state.gate.mutex_listeners_in {
            state.gate.mutex_listeners_in = false;
            for_each_mutex_listener(state, take_out);
        }
        let delay = u32::try_from(self.settings().accept_mutex_delay.as_millis()).unwrap_or(u32::MAX);
        *sleep_ms = Some(sleep_ms.map_or(delay, |sleep| sleep.min(delay)));
    }

    /// Step 6 of a turn: lets others have the mutex.
    pub(crate) fn release_gate(&self) {
        let gate = &mut self.state().gate;
        if std::mem::take(&mut gate.held)
            && let Some(mutex) = &gate.mutex
        {
            mutex.unlock();
            debug!("accept mutex released");
        }
    }

    /// Whether this turn holds the mutex, so that everything is posted.
    pub(crate) fn holds_mutex(&self) -> bool {
        self.state().gate.held
    }
}

fn wants_mutex(state: &State) -> bool {
    state.listeners.iter().flatten().any(|listener| listener.strategy == Strategy::Mutex)
}

fn for_each_mutex_listener(state: &mut State, action: fn(&mut State, u32)) {
    let is_mutex = |listener: &Option<Listener>| {
        listener.as_ref().is_some_and(|listener| listener.strategy == Strategy::Mutex)
    };
    for number in 0..state.listeners.len() {
        if is_mutex(&state.listeners[number]) {
            action(state, number as u32);
        }
    }
}

fn put_in_or_log(state: &mut State, number: u32) {
    if let Err(source) = put_in(state, number) {
        error!("putting a listener into the backend: {source}");
    }
}

/// Takes all listeners out until `accept_mutex_delay` has passed. The mutex, if held, goes with the
/// end of this turn's accepting, so that others may accept.
pub(crate) fn pause_accepting(core: &Core, state: &mut State) {
    state.gate.paused = true;
    state.gate.mutex_listeners_in = false;
    let mut timed = None;
    for number in 0..state.listeners.len() {
        if let Some(listener) = &state.listeners[number] {
            timed = timed.or(Some(listener.slot));
            take_out(state, number as u32);
        }
    }
    if let Some(slot) = timed {
        let event = EventId::of_slot(slot, Direction::Read);
        core.set_timer(state, event, core.settings().accept_mutex_delay);
    }
}

/// Puts the listeners back after a pause; those with the mutex wait for it.
pub(crate) fn resume_accepting(state: &mut State) {
    state.gate.paused = false;
    for number in 0..state.listeners.len() {
        if state.listeners[number].as_ref().is_some_and(|listener| listener.strategy != Strategy::Mutex) {
            put_in_or_log(state, number as u32);
        }
    }
}
