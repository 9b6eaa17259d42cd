//! The accept gate: whether this worker's listeners are in the backend this turn.
//!
//! It closes for three reasons. A listener with the `mutex` strategy is in the backend only while the
//! worker wins the mutex, which it tries once a turn. One with the `balanced` strategy is in while
//! the worker has about as few connections as others. And all listeners are out while accepting is
//! paused, because descriptors or memory ran out.

use tracing::{debug, error};

use crate::accept::balanced::{self, Balance, part};
use crate::accept::mutex::AcceptMutex;
use crate::accept::{put_in, take_out};
use crate::clock::Millis;
use crate::core::{Core, State};
use crate::listener::Strategy;
use crate::stats::{Counter, Gauge};

pub(crate) struct Gate {
    mutex: Option<AcceptMutex>,
    held: bool,
    /// Whether listeners with the `mutex` strategy are in the backend.
    mutex_listeners_in: bool,
    pub(crate) balance: Option<Balance>,
    /// Whether listeners with the `balanced` strategy are in the backend.
    pub(crate) balanced_listeners_in: bool,
    /// Until when all listeners are out because descriptors or memory ran out.
    paused_until: Option<Millis>,
    /// Whether a listener has a strategy with a gate, so that a turn has to look.
    gated: bool,
    /// Above zero: over the load threshold (`connections / 8 - free`, after each accept).
    threshold: i64,
}

impl Gate {
    pub(crate) fn new(mutex: Option<AcceptMutex>, balance: Option<Balance>) -> Self {
        Self {
            mutex,
            held: false,
            mutex_listeners_in: false,
            balance,
            balanced_listeners_in: true,
            paused_until: None,
            gated: false,
            threshold: 0,
        }
    }

    pub(crate) fn has_mutex(&self) -> bool {
        self.mutex.is_some()
    }

    /// Whether this turn holds the mutex.
    pub(crate) fn is_held(&self) -> bool {
        self.held
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.paused_until.is_some()
    }

    /// Whether a listener with `strategy` that is new goes into the backend at once. One that does
    /// not is put in when its gate opens.
    pub(crate) fn admits(&mut self, strategy: Strategy) -> bool {
        self.gated |= matches!(strategy, Strategy::Balanced | Strategy::Mutex);
        match strategy {
            _ if self.is_paused() => false,
            Strategy::Balanced => self.balanced_listeners_in,
            Strategy::Mutex => {
                self.mutex_listeners_in = false;
                false
            }
            Strategy::Shared | Strategy::Exclusive | Strategy::ReusePort => true,
        }
    }

    /// What this worker says of its part in balancing, once it has a balanced listener.
    pub(crate) fn part(&self) -> u64 {
        match self.balanced_listeners_in {
            _ if self.is_paused() => part::NONE,
            true => part::OPEN,
            false => part::CLOSED,
        }
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
    /// Step 2 of a turn, where a listener's strategy has a gate: decides whether it is open, and
    /// shortens the sleep where it is not.
    pub(crate) fn try_gate(&self, sleep_ms: &mut Option<u32>) {
        let state = &mut *self.state();
        if !state.gate.gated && state.gate.paused_until.is_none() {
            return;
        }
        let balances = has_listener(state, Strategy::Balanced);
        if balances {
            balanced::answer(self, state);
        }
        if let Some(left) = self.pause_left(state) {
            if balances {
                balanced::leave_to_others(self, state);
            }
            return sleep_at_most(sleep_ms, left);
        }
        if balances && !balanced::open_if_level(self, state) {
            sleep_at_most(sleep_ms, balanced::LOOK_AGAIN_MS);
        }
        if has_listener(state, Strategy::Mutex) && !self.try_mutex(state) {
            let delay = self.settings().accept_mutex_delay.as_millis();
            sleep_at_most(sleep_ms, u32::try_from(delay).unwrap_or(u32::MAX));
        }
    }

    /// Ends a pause that is over; tells how many milliseconds are left of one that is not.
    fn pause_left(&self, state: &mut State) -> Option<u32> {
        let until = state.gate.paused_until?;
        if self.now() >= until {
            resume_accepting(self, state);
        }
        let left = state.gate.paused_until?.since(self.now());
        Some(u32::try_from(left).unwrap_or(u32::MAX))
    }

    /// Tries the mutex, unless this worker is over its load threshold, and puts its listeners in or
    /// takes them out accordingly.
    fn try_mutex(&self, state: &mut State) -> bool {
        let Some(mutex) = &state.gate.mutex else { return false };
        let tried = state.gate.threshold <= 0;
        if tried && mutex.try_lock() {
            debug!("accept mutex locked");
            self.stats().add(Counter::MutexWon, 1);
            state.gate.held = true;
            if !std::mem::replace(&mut state.gate.mutex_listeners_in, true) {
                put_all_in(self, state, Strategy::Mutex);
            }
            return true;
        }
        if tried {
            debug!("accept mutex lock failed");
            self.stats().add(Counter::MutexLost, 1);
        } else {
            state.gate.threshold -= 1;
        }
        if std::mem::take(&mut state.gate.mutex_listeners_in) {
            for_each_listener(state, Strategy::Mutex, take_out);
        }
        false
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

fn sleep_at_most(sleep_ms: &mut Option<u32>, limit: u32) {
    *sleep_ms = Some(sleep_ms.map_or(limit, |sleep| sleep.min(limit)));
}

fn has_listener(state: &State, strategy: Strategy) -> bool {
    state.listeners.iter().flatten().any(|listener| listener.strategy == strategy)
}

/// Calls `action` for every listener with `strategy`.
pub(crate) fn for_each_listener(state: &mut State, strategy: Strategy, action: fn(&mut State, u32)) {
    for number in 0..state.listeners.len() {
        if state.listeners[number].as_ref().is_some_and(|listener| listener.strategy == strategy) {
            action(state, number as u32);
        }
    }
}

/// Puts all listeners with `strategy` into the backend. Where it refuses one, the kernel is short of
/// something, and accepting pauses.
pub(crate) fn put_all_in(core: &Core, state: &mut State, strategy: Strategy) {
    for number in 0..state.listeners.len() {
        let matches = state.listeners[number].as_ref().is_some_and(|listener| listener.strategy == strategy);
        if !matches {
            continue;
        }
        if let Err(source) = put_in(state, number as u32) {
            error!("putting a listener into the backend: {source}; accepting pauses");
            return pause_accepting(core, state);
        }
    }
}

/// Takes all listeners out until `accept_mutex_delay` has passed. The mutex, if held, goes with the
/// end of this turn's accepting, so that others may accept.
pub(crate) fn pause_accepting(core: &Core, state: &mut State) {
    let delay = u64::try_from(core.settings().accept_mutex_delay.as_millis()).unwrap_or(u64::MAX);
    state.gate.paused_until = Some(Millis::new(core.now().as_u64().saturating_add(delay)));
    state.gate.mutex_listeners_in = false;
    state.gate.balanced_listeners_in = false;
    core.stats().set(Gauge::Balancing, part::NONE);
    (0..state.listeners.len()).for_each(|number| take_out(state, number as u32));
}

/// Puts the listeners back after a pause; those with a gate of their own wait for it.
fn resume_accepting(core: &Core, state: &mut State) {
    state.gate.paused_until = None;
    if has_listener(state, Strategy::Balanced) && !state.draining {
        core.stats().set(Gauge::Balancing, state.gate.part());
    }
    for strategy in [Strategy::Shared, Strategy::Exclusive, Strategy::ReusePort] {
        put_all_in(core, state, strategy);
    }
}
