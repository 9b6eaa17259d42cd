//! What the scoreboard says, put into shape: for people as a table with findings, for programs as JSON.
//!
//! Everything here is made from one [`Snapshot`] and the moment at which it was taken; nothing asks a process.

mod findings;
mod json;
mod openmetrics;
mod schema;
mod servers;
mod source;
mod table;
#[cfg(test)]
mod tests;

use std::time::Duration;

use drover_event::{Counter, Durations, Gauge};

use crate::clock;
use crate::scoreboard::{Snapshot, WorkerState, WorkerView};

use findings::findings;
pub(crate) use json::json;
use openmetrics::openmetrics;
pub(crate) use schema::schema;
pub(crate) use source::OwnScoreboard;
pub(crate) use table::table;

/// The moment at which a snapshot was taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    /// Unix time, in milliseconds.
    pub(crate) unix_ms: u64,
    /// The monotonic clock, in milliseconds: what workers stamp their turns with.
    pub(crate) monotonic_ms: u64,
}

impl Now {
    /// Reads the clocks.
    pub(crate) fn read() -> Self {
        Self { unix_ms: clock::unix_ms(), monotonic_ms: clock::monotonic_ms() }
    }

    /// Milliseconds since a moment of Unix time.
    fn since(self, unix_ms: u64) -> u64 {
        self.unix_ms.saturating_sub(unix_ms)
    }
}

/// The windows over which lag is shown, in seconds, and their names.
const WINDOWS: [(&str, u64); 3] = [("last_1s", 1), ("last_10s", 10), ("last_60s", 60)];

/// Lengths of turns, and lag, of a worker in the last seconds.
fn last(worker: &WorkerView, seconds: u64, now: Now) -> (Durations, Durations) {
    worker.lag().last(Duration::from_secs(seconds), now.monotonic_ms * 1_000_000)
}

/// The busiest worker's accepts over the mean, among the workers that accept; 1 is even.
fn accept_skew(snapshot: &Snapshot) -> Option<f64> {
    let accepts: Vec<u64> = serving(snapshot).map(|worker| worker.counter(Counter::Accepts)).collect();
    let sum: u64 = accepts.iter().sum();
    let busiest = *accepts.iter().max()?;
    (sum > 0 && accepts.len() > 1).then(|| busiest as f64 * accepts.len() as f64 / sum as f64)
}

/// The workers that accept.
fn serving(snapshot: &Snapshot) -> impl Iterator<Item = &WorkerView> {
    snapshot.workers.iter().filter(|worker| worker.state == WorkerState::Serving)
}

/// The gauges that say something to others than the engine.
fn shown_gauges() -> impl Iterator<Item = Gauge> {
    Gauge::ALL.iter().copied().filter(|gauge| !matches!(gauge, Gauge::FreeSlotsThen | Gauge::WokenAt))
}

/// A worker number without a process: its last one ended and the next has to wait a moment.
fn is_waiting(worker: &WorkerView) -> bool {
    worker.state == WorkerState::Waiting
}
