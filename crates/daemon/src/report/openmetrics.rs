//! The scoreboard as OpenMetrics text, version 1.0
//! (<https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md>).
//!
//! Sums over all workers there are and have been carry no label of a worker: they never fall. What is said of one
//! worker is labelled with its number and its generation, since workers of two generations live side by side
//! during a reload.

mod exposition;
mod listeners;
mod servers;

use std::time::Duration;

use drover_event::{CloseReason, Counter, Durations, Gauge, Phase};

use super::findings::About;
use super::json::inside_turn_ms;
use super::{Now, accept_skew, findings, is_waiting, last};
use crate::scoreboard::{Snapshot, WorkerState, WorkerView};
use exposition::Exposition;

/// The windows of [`super::WINDOWS`] as label values.
const WINDOWS: [(&str, u64); 3] = [("1s", 1), ("10s", 10), ("60s", 60)];

/// The text.
pub(crate) fn openmetrics(snapshot: &Snapshot, now: Now) -> String {
    let mut text = Exposition::default();
    master(&mut text, snapshot);
    totals(&mut text, snapshot);
    workers(&mut text, snapshot, now);
    worker_lag(&mut text, snapshot, now);
    listeners::write(&mut text, snapshot);
    servers::write(&mut text, snapshot);
    let found = findings(snapshot, now);
    text.family("drover_findings", "gauge", "What `drover status` points out, by subject.");
    for about in About::ALL {
        let count = found.iter().filter(|finding| finding.about == *about).count();
        text.sample("drover_findings", &[("about", about.name())], count);
    }
    text.finish()
}

fn master(text: &mut Exposition, snapshot: &Snapshot) {
    let master = &snapshot.master;
    text.family("drover_build", "info", "The version of drover.");
    text.sample("drover_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    text.gauge(
        "drover_start_time_seconds",
        "When the master started, in Unix time.",
        seconds(master.started_ms),
    );
    text.gauge("drover_generation", "The generation that serves.", master.generation);
    text.gauge("drover_configured_workers", "How many workers the generation is to have.", master.workers);
    text.counter("drover_reloads", "Reloads that have begun.", master.reloads);
    if let Some(verdict) = &master.verdict {
        let accepted = u8::from(verdict.accepted);
        text.gauge(
            "drover_last_reload_accepted",
            "1 if the last reload was accepted, 0 if it was refused.",
            accepted,
        );
        text.gauge("drover_last_reload_time_seconds", "When that was, in Unix time.", seconds(verdict.at_ms));
    }
    text.family("drover_worker_exits", "counter", "Workers that have ended, by cause.");
    for (cause, count) in ["asked", "clean", "failed", "killed"].into_iter().zip(master.exits) {
        text.sample("drover_worker_exits_total", &[("cause", cause)], count);
    }
}

/// Milliseconds of Unix time in seconds.
fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

fn totals(text: &mut Exposition, snapshot: &Snapshot) {
    for &counter in Counter::ALL {
        let (name, divisor) = named(counter);
        text.family(&name, "counter", counter.describe());
        let value = snapshot.total(counter);
        match divisor {
            1 => text.sample(&format!("{name}_total"), &[], value),
            divisor => text.sample(&format!("{name}_total"), &[], value as f64 / divisor as f64),
        }
    }
    text.family("drover_connections_closed", "counter", "Connections that have ended, by reason.");
    for &reason in CloseReason::ALL {
        let labels = [("reason", reason.name())];
        text.sample("drover_connections_closed_total", &labels, snapshot.total_closes(reason));
    }
    let working = snapshot.total(Counter::WorkingNs) as f64 / 1e9;
    let turns = "How long turns took, from waking up to going to sleep again.";
    text.histogram("drover_turn_seconds", turns, &snapshot.total_turns(), Some(working));
    let lags = "How long what became ready may have waited until a worker looked.";
    text.histogram("drover_lag_seconds", lags, &snapshot.total_lags(), None);
    if let Some(skew) = accept_skew(snapshot) {
        text.gauge("drover_accept_skew", "Accepts of the busiest worker over the mean of all.", skew);
    }
}

/// The name of a counter's family, and what its value is divided by: base units only.
fn named(counter: Counter) -> (String, u64) {
    match counter {
        Counter::AsleepNs => ("drover_asleep_seconds".into(), 1_000_000_000),
        Counter::WorkingNs => ("drover_working_seconds".into(), 1_000_000_000),
        Counter::BytesReceived => ("drover_received_bytes".into(), 1),
        Counter::BytesSent => ("drover_sent_bytes".into(), 1),
        counter => (format!("drover_{}", counter.name()), 1),
    }
}

/// What is shown of each worker: family, kind, help, value.
type OfWorker = (&'static str, &'static str, &'static str, fn(&WorkerView, Now) -> f64);

const OF_WORKER: [OfWorker; 11] = [
    ("drover_worker_connections", "gauge", "Connections that are open.", |worker, _| {
        worker.gauge(Gauge::OpenConnections) as f64
    }),
    (
        "drover_worker_reusable_connections",
        "gauge",
        "Connections that can be closed to make room.",
        |worker, _| worker.gauge(Gauge::ReusableConnections) as f64,
    ),
    ("drover_worker_slots", "gauge", "Slots it has.", |worker, _| worker.slots as f64),
    ("drover_worker_free_slots", "gauge", "Slots that can be lent.", |worker, _| {
        worker.gauge(Gauge::FreeSlots) as f64
    }),
    ("drover_worker_descriptors", "gauge", "Descriptors that are open.", |worker, _| {
        worker.descriptors().0 as f64
    }),
    ("drover_worker_descriptor_limit", "gauge", "Descriptors that may be open.", |worker, _| {
        worker.descriptors().1 as f64
    }),
    ("drover_worker_accepts", "counter", "Connections it accepted.", |worker, _| {
        worker.counter(Counter::Accepts) as f64
    }),
    ("drover_worker_requests", "counter", "Requests it answered.", |worker, _| {
        worker.counter(Counter::Requests) as f64
    }),
    ("drover_worker_working_seconds", "counter", "Time it spent in turns.", |worker, _| {
        worker.counter(Counter::WorkingNs) as f64 / 1e9
    }),
    ("drover_worker_asleep_seconds", "counter", "Time it spent asleep.", |worker, _| {
        worker.counter(Counter::AsleepNs) as f64 / 1e9
    }),
    (
        "drover_worker_inside_turn_seconds",
        "gauge",
        "How long it has been inside the turn it is in; 0 while asleep.",
        |worker, now| seconds(inside_turn_ms(worker, now)),
    ),
];

fn living(snapshot: &Snapshot) -> impl Iterator<Item = &WorkerView> {
    snapshot.workers.iter().filter(|worker| !is_waiting(worker))
}

fn workers(text: &mut Exposition, snapshot: &Snapshot, now: Now) {
    for (name, kind, help, value) in OF_WORKER {
        text.family(name, kind, help);
        let sample = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
        for worker in living(snapshot) {
            let who = Who::of(worker);
            text.sample(&sample, &who.labels(), value(worker, now));
        }
    }
    text.family("drover_worker_state", "stateset", "What it is about.");
    for worker in living(snapshot) {
        let who = Who::of(worker);
        for state in [WorkerState::Starting, WorkerState::Serving, WorkerState::Draining] {
            let labels = [&who.labels()[..], &[("drover_worker_state", state.name())]].concat();
            text.sample("drover_worker_state", &labels, u8::from(worker.state == state));
        }
    }
    text.family("drover_worker_phase_connections", "gauge", "Connections by what they are busy with.");
    for worker in living(snapshot) {
        let who = Who::of(worker);
        for phase in Phase::ALL {
            let labels = [&who.labels()[..], &[("phase", phase.name())]].concat();
            text.sample("drover_worker_phase_connections", &labels, worker.in_phase(phase));
        }
    }
}

/// What is shown of lag and turns: family, help, and which of the two as what.
type OfWindow = (&'static str, &'static str, fn(&(Durations, Durations)) -> Duration);

const OF_WINDOW: [OfWindow; 4] = [
    ("drover_worker_lag_p99_seconds", "What 99 of 100 events waited for it, or less.", |(_, lags)| {
        lags.p99()
    }),
    ("drover_worker_lag_max_seconds", "The longest that an event may have waited for it.", |(_, lags)| {
        lags.longest
    }),
    ("drover_worker_turn_p99_seconds", "What 99 of 100 turns took, or less.", |(turns, _)| turns.p99()),
    ("drover_worker_turn_max_seconds", "The longest turn.", |(turns, _)| turns.longest),
];

fn worker_lag(text: &mut Exposition, snapshot: &Snapshot, now: Now) {
    for (name, help, of) in OF_WINDOW {
        text.family(name, "gauge", help);
        for worker in living(snapshot) {
            let who = Who::of(worker);
            for (window, seconds) in WINDOWS {
                let labels = [&who.labels()[..], &[("window", window)]].concat();
                text.sample(name, &labels, of(&last(worker, seconds, now)).as_secs_f64());
            }
        }
    }
}

/// The labels of a worker.
struct Who {
    worker: String,
    generation: String,
}

impl Who {
    fn of(worker: &WorkerView) -> Self {
        Self { worker: worker.number.to_string(), generation: worker.generation.to_string() }
    }

    fn labels(&self) -> [(&'static str, &str); 2] {
        [("worker", &self.worker), ("generation", &self.generation)]
    }
}
