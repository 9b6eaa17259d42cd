//! What `balanced` adds: a worker with more connections than others leaves new ones to them.
//!
//! The listener is registered exclusively. A worker whose slack is used up adds it again, which moves it
//! to the end of the kernel's queue: workers that are level take turns and need no wake-up.
//!
//! Each worker publishes its number of open connections. One that is more than the slack above the
//! least loaded worker takes its balanced listeners out, right when that becomes so. If the least loaded
//! one has its own out, or something is queued, it hands over: it wakes that worker through its
//! notifier. The kernel's wake-up for a queued connection may have been spent on this worker, so the
//! other one adds its listeners again, which makes the kernel look at the queue.
//!
//! While a gate is closed its worker looks again every 50 ms at the latest, and whenever it is woken
//! itself. It opens where it may; where it may not and something is still queued, it hands over once
//! more. So whoever was handed to and cannot accept (it has become busier, it has no descriptors, it
//! is stopped) is not where a connection gets stuck.
//!
//! The least loaded worker never closes its gate. A worker that was woken and has not answered for
//! 20 ms, or has been inside one turn for longer than that, does not count until it answers: one
//! that is stopped or stuck cannot hold up the others. Nor does one that paused accepting.

use std::os::fd::{AsFd, OwnedFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd;
use tracing::debug;

use crate::accept::gate::{for_each_listener, put_all_in};
use crate::accept::{take_out, word};
use crate::clock::Millis;
use crate::core::{Core, State};
use crate::listener::Strategy;
use crate::stats::{Counter, Gauge, Stats};

/// After this long without an answer, or inside one turn, a worker does not count.
const UNRESPONSIVE_MS: u64 = 20;
/// How long a worker with a closed gate sleeps at most.
pub(crate) const LOOK_AGAIN_MS: u32 = 50;
/// The slack grows with the load: a thirty-second of the mean.
const MEAN_SHARE: u64 = 32;

/// What one worker has to know of another, or of itself.
#[derive(Debug)]
pub struct BalancePeer {
    /// Where that worker counts.
    pub stats: Stats,
    /// A duplicate of its notifier.
    pub notifier: OwnedFd,
}

/// The workers among which connections are balanced.
#[derive(Debug)]
pub struct Balance {
    /// All of them, this worker included.
    pub peers: Vec<BalancePeer>,
    /// Which of `peers` this worker is.
    pub own: usize,
    /// By how many connections a worker may be above the least loaded one.
    pub slack: u32,
}

impl BalancePeer {
    fn is_open(&self) -> bool {
        self.stats.gauge(Gauge::Balancing) == part::OPEN
    }
}

/// How a worker stands among those that count.
struct Standing {
    /// The least loaded worker.
    least: usize,
    /// By how many connections this one is above it, and may be.
    ahead: u64,
    slack: u64,
    /// A worker whose gate is closed although it has no more connections than this one.
    closed_at_level: Option<usize>,
}

impl Balance {
    /// The workers that count, and their loads.
    fn loads(&self, now: Millis) -> impl Iterator<Item = (usize, u64)> + '_ {
        let counting = move |(index, peer): (usize, &BalancePeer)| {
            (index == self.own || counts(peer, now))
                .then(|| (index, peer.stats.gauge(Gauge::OpenConnections)))
        };
        self.peers.iter().enumerate().filter_map(counting)
    }

    /// How this worker stands among those that count.
    fn standing(&self, now: Millis) -> Standing {
        let own = self.peers[self.own].stats.gauge(Gauge::OpenConnections);
        let (mut count, mut sum, mut least, mut closed_at_level) = (0, 0, (self.own, own), None);
        for (index, load) in self.loads(now) {
            count += 1;
            sum += load;
            least = if load < least.1 { (index, load) } else { least };
            if load <= own && index != self.own && !self.peers[index].is_open() {
                closed_at_level = Some(index);
            }
        }
        let slack = u64::from(self.slack).max(sum / count / MEAN_SHARE);
        Standing { least: least.0, ahead: own - least.1, slack, closed_at_level }
    }

    /// The least loaded worker, if this one is more than the slack above it.
    fn least_loaded_below(&self, now: Millis) -> Option<usize> {
        let standing = self.standing(now);
        (standing.ahead > standing.slack).then_some(standing.least)
    }

    /// The least loaded worker beside this one.
    fn least_loaded_other(&self, now: Millis) -> Option<usize> {
        let others = self.loads(now).filter(|(index, _)| *index != self.own);
        others.min_by_key(|(_, load)| *load).map(|(index, _)| index)
    }

    /// Wakes worker `to`, so that it looks at what is queued.
    fn hand_over(&self, to: usize, now: Millis) {
        let peer = &self.peers[to];
        word::hand_over(peer.stats.word(Gauge::WokenAt), now.as_u64());
        // A full counter (EAGAIN) means that it has been woken already.
        let _ = unistd::write(&peer.notifier, &1u64.to_ne_bytes());
    }
}

/// What [`Gauge::Balancing`] says of a worker.
pub(crate) mod part {
    /// It does not accept: it drains, or pauses.
    pub(crate) const NONE: u64 = 0;
    /// It takes part, and its gate is closed.
    pub(crate) const CLOSED: u64 = 1;
    /// It takes part, and its listeners are in the backend.
    pub(crate) const OPEN: u64 = 2;
}

fn counts(peer: &BalancePeer, now: Millis) -> bool {
    let long_ago = |moment: u64| moment != 0 && now.since(Millis::new(moment)) > UNRESPONSIVE_MS;
    peer.stats.gauge(Gauge::Balancing) != part::NONE
        && !long_ago(peer.stats.gauge(Gauge::WokenAt))
        && !long_ago(peer.stats.gauge(Gauge::TurnStarted))
}

/// Closes the gate if this worker is too far above the least loaded one; tells whether it did.
pub(crate) fn close_if_above(core: &Core, state: &mut State) -> bool {
    let Some(balance) = &state.gate.balance else { return false };
    let Some(least) = balance.least_loaded_below(core.now()) else { return false };
    debug!("balance gate closed");
    core.stats().add(Counter::GateClosed, 1);
    core.stats().set(Gauge::Balancing, part::CLOSED);
    state.gate.balanced_listeners_in = false;
    for_each_listener(state, Strategy::Balanced, take_out);
    // Only now: whatever comes from here on wakes another worker, if one has its listeners in.
    let Some(balance) = &state.gate.balance else { return true };
    if !balance.peers[least].is_open() || connections_wait(state) {
        balance.hand_over(least, core.now());
    }
    true
}

/// After an accept that left this worker's gate open: tells whether others should have their turn first.
///
/// Wakes a worker that this one has caught up with and whose gate is still closed, so that it takes its
/// turns again: otherwise it would know only when somebody hands over, or at its next look.
pub(crate) fn others_come_first(core: &Core, state: &State) -> bool {
    let Some(balance) = &state.gate.balance else { return false };
    let standing = balance.standing(core.now());
    if let Some(level) = standing.closed_at_level {
        balance.hand_over(level, core.now());
    }
    standing.ahead >= standing.slack
}

/// Opens a closed gate if this worker may accept again, and else hands over what is queued; tells
/// whether the gate is open.
pub(crate) fn open_if_level(core: &Core, state: &mut State) -> bool {
    if state.gate.balanced_listeners_in {
        return true;
    }
    let now = core.now();
    if let Some(balance) = &state.gate.balance
        && let Some(least) = balance.least_loaded_below(now)
    {
        if connections_wait(state) {
            balance.hand_over(least, now);
        }
        return false;
    }
    debug!("balance gate opened");
    state.gate.balanced_listeners_in = true;
    core.stats().set(Gauge::Balancing, part::OPEN);
    put_all_in(core, state, Strategy::Balanced);
    state.gate.balanced_listeners_in
}

/// Hands over what is queued while this worker's accepting is paused.
pub(crate) fn leave_to_others(core: &Core, state: &State) {
    let Some(balance) = &state.gate.balance else { return };
    if let Some(other) = balance.least_loaded_other(core.now())
        && connections_wait(state)
    {
        balance.hand_over(other, core.now());
    }
}

/// Answers a worker that handed over: has the kernel look at the queues again. This is asked for
/// once a turn, so that no answer hangs on the notification that ended the wait.
pub(crate) fn answer(core: &Core, state: &mut State) {
    let handed_over = state.gate.balance.is_some() && word::answer(core.stats().word(Gauge::WokenAt));
    if handed_over && state.gate.balanced_listeners_in {
        for_each_listener(state, Strategy::Balanced, take_out);
        put_all_in(core, state, Strategy::Balanced);
    }
}

/// Whether something is queued on a balanced listener.
fn connections_wait(state: &State) -> bool {
    let balanced = state.listeners.iter().flatten().filter(|each| each.strategy == Strategy::Balanced);
    let sockets = balanced.filter_map(|listener| state.slots[listener.slot].socket.as_ref());
    let mut asked: Vec<PollFd<'_>> =
        sockets.map(|socket| PollFd::new(socket.as_fd(), PollFlags::POLLIN)).collect();
    poll(&mut asked, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notify::Notifier;

    fn balance(loads: &[u64], own: usize, slack: u32) -> Balance {
        let peer = |&load: &u64| {
            let stats = Stats::private().expect("memory");
            stats.set(Gauge::OpenConnections, load);
            stats.set(Gauge::Balancing, part::OPEN);
            BalancePeer { stats, notifier: Notifier::descriptor().expect("eventfd") }
        };
        Balance { peers: loads.iter().map(peer).collect(), own, slack }
    }

    fn closes(balance: &Balance) -> bool {
        balance.least_loaded_below(Millis::new(1000)).is_some()
    }

    #[test]
    fn a_worker_more_than_the_slack_above_the_least_loaded_closes() {
        assert!(!closes(&balance(&[5, 5, 5], 0, 1)));
        assert!(!closes(&balance(&[6, 5, 9], 0, 1)), "within the slack");
        assert!(closes(&balance(&[7, 5, 9], 0, 1)));
        assert!(!closes(&balance(&[7, 5, 9], 1, 1)), "the least loaded never closes");
        assert!(!closes(&balance(&[70, 67, 68], 0, 3)));
    }

    #[test]
    fn a_worker_whose_slack_is_used_up_lets_others_come_first() {
        let used_up = |loads: &[u64]| {
            let standing = balance(loads, 0, 1).standing(Millis::new(1000));
            standing.ahead >= standing.slack
        };
        assert!(!used_up(&[5, 5, 9]));
        assert!(used_up(&[6, 5, 5]));
    }

    #[test]
    fn a_closed_worker_that_was_caught_up_with_is_told() {
        let closed_at_level = |own: u64, other: u64, part: u64| {
            let balance = balance(&[own, 5, other], 0, 1);
            balance.peers[2].stats.set(Gauge::Balancing, part);
            balance.standing(Millis::new(1000)).closed_at_level
        };
        assert_eq!(closed_at_level(6, 6, part::CLOSED), Some(2));
        assert_eq!(closed_at_level(6, 7, part::CLOSED), None, "not yet");
        assert_eq!(closed_at_level(6, 6, part::OPEN), None, "it takes its turns");
        assert_eq!(closed_at_level(6, 6, part::NONE), None, "it does not accept");
    }

    #[test]
    fn the_slack_grows_with_the_mean() {
        assert!(!closes(&balance(&[3300, 3200, 3200], 0, 1)), "mean / 32 is 101");
        assert!(closes(&balance(&[3310, 3200, 3200], 0, 1)));
    }

    #[test]
    fn a_worker_that_does_not_answer_does_not_count() {
        let woken = balance(&[7, 0, 6], 0, 1);
        woken.peers[1].stats.set(Gauge::WokenAt, 981);
        assert!(closes(&woken), "19 ms");
        woken.peers[1].stats.set(Gauge::WokenAt, 979);
        assert!(!closes(&woken), "21 ms");
        let stuck = balance(&[7, 0, 6], 0, 1);
        stuck.peers[1].stats.set(Gauge::TurnStarted, 979);
        assert!(!closes(&stuck));
        let gone = balance(&[7, 0, 6], 0, 1);
        gone.peers[1].stats.set(Gauge::Balancing, 0);
        assert!(!closes(&gone));
    }
}
