//! What `exclusive` adds: every 16th accept the listener is removed and added again.
//!
//! The kernel wakes exclusive waiters from the head of the socket's wait queue, so whoever
//! registered first would get almost every connection (see the discussion of EPOLLEXCLUSIVE in
//! epoll_ctl(2)). Re-adding moves this worker to the end. Over the load threshold it does so at every
//! accept, and with `balanced` whenever others should come first.

use tracing::error;

use crate::accept::{balanced, put_in, take_out};
use crate::core::{Core, State};
use crate::listener::Strategy;
use crate::stats::Counter;

const EVERY: u32 = 16;

/// Moves this worker to the end of the listener's wait queue when it is time to.
pub(crate) fn give_others_a_chance(core: &Core, state: &mut State, number: u32) {
    let Some(listener) = &state.listeners[number as usize] else { return };
    let levels = match listener.strategy {
        Strategy::Exclusive => false,
        Strategy::Balanced => balanced::others_come_first(core, state),
        Strategy::Shared | Strategy::Mutex | Strategy::ReusePort => return,
    };
    let due = levels || listener.accepts.is_multiple_of(EVERY) || state.gate.over_threshold();
    if !due || state.gate.is_paused() {
        return;
    }
    core.stats().add(Counter::ReAdds, 1);
    take_out(state, number);
    if let Err(source) = put_in(state, number) {
        error!("adding a listener again: {source}; accepting pauses");
        super::gate::pause_accepting(core, state);
    }
}
