//! What two statuses in a row tell: rates, and how they went lately.

use std::collections::{BTreeMap, VecDeque};

use crate::status::{Peer, Place, Status, Worker};

/// How many looks are remembered.
const REMEMBERED: usize = 120;

/// One worker at one look.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Moment {
    /// Connections accepted a second.
    pub(crate) accepts: f64,
    /// Requests answered a second.
    pub(crate) requests: f64,
    /// The share of the time spent in turns, 0 to 1.
    pub(crate) busy: f64,
    /// 99 of 100 events of the last second waited no longer, in microseconds.
    pub(crate) lag_us: f64,
}

/// All workers together at one look.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sums {
    pub(crate) accepts: f64,
    pub(crate) requests: f64,
    pub(crate) received: f64,
    pub(crate) sent: f64,
}

/// What is remembered.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// By process.
    workers: BTreeMap<i32, VecDeque<Moment>>,
    /// Accepts a second by listener.
    listeners: BTreeMap<String, f64>,
    /// Requests a second by the place of an address among servers.
    peers: BTreeMap<Place, f64>,
    sums: Sums,
}

impl History {
    /// Takes note of `now`, which follows `before`.
    pub(crate) fn note(&mut self, before: &Status, now: &Status) {
        let seconds = (now.at_ms.saturating_sub(before.at_ms) as f64 / 1000.0).max(0.001);
        let rate = |before: u64, now: u64| now.saturating_sub(before) as f64 / seconds;
        let (old, new) = (&before.totals, &now.totals);
        self.sums = Sums {
            accepts: rate(old.accepts, new.accepts),
            requests: rate(old.requests, new.requests),
            received: rate(old.bytes_received, new.bytes_received),
            sent: rate(old.bytes_sent, new.bytes_sent),
        };
        self.workers.retain(|pid, _| now.workers.iter().any(|worker| worker.pid == *pid));
        for worker in &now.workers {
            let moment = match before.workers.iter().find(|old| old.pid == worker.pid) {
                Some(old) => Moment {
                    accepts: rate(old.accepts, worker.accepts),
                    requests: rate(old.requests, worker.requests),
                    busy: rate(old.working_ns, worker.working_ns) / 1e9,
                    lag_us: worker.lag.last_1s.lag.p99_us as f64,
                },
                None => Moment::default(),
            };
            let moments = self.workers.entry(worker.pid).or_default();
            moments.push_back(moment);
            if moments.len() > REMEMBERED {
                moments.pop_front();
            }
        }
        let accepts = |now: &crate::status::Listener| {
            let old = before.listeners.iter().find(|old| old.address == now.address);
            (now.address.clone(), old.map_or(0.0, |old| rate(old.accepts, now.accepts)))
        };
        self.listeners = now.listeners.iter().map(accepts).collect();
        let old: BTreeMap<Place, &Peer> = before.peers().collect();
        let requests = |(place, now): (Place, &Peer)| {
            let same = old.get(&place).filter(|old| old.address == now.address);
            (place, same.map_or(0.0, |old| rate(old.requests, now.requests)))
        };
        self.peers = now.peers().map(requests).collect();
    }

    /// All together.
    pub(crate) fn sums(&self) -> Sums {
        self.sums
    }

    /// A worker's last look.
    pub(crate) fn of(&self, worker: &Worker) -> Moment {
        self.all_of(worker).next_back().unwrap_or_default()
    }

    /// A worker's looks, the oldest first.
    pub(crate) fn all_of(&self, worker: &Worker) -> impl DoubleEndedIterator<Item = Moment> + '_ {
        self.workers.get(&worker.pid).into_iter().flatten().copied()
    }

    /// Accepts a second at an address.
    pub(crate) fn of_listener(&self, address: &str) -> f64 {
        self.listeners.get(address).copied().unwrap_or(0.0)
    }

    /// Requests a second passed on to an address.
    pub(crate) fn of_peer(&self, place: Place) -> f64 {
        self.peers.get(&place).copied().unwrap_or(0.0)
    }
}
