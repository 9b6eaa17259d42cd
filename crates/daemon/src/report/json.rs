//! The scoreboard as JSON. [`schema`](fn@super::schema) says what each key means.

use drover_event::{CloseReason, Counter, Durations, Gauge, Phase};
use serde_json::{Map, Value, json};

use super::{Now, WINDOWS, accept_skew, findings, is_waiting, last, shown_gauges};
use crate::scoreboard::{ListenerView, MasterView, Snapshot, WaitingAt, WorkerView};

/// Everything that the scoreboard says.
pub(crate) fn json(snapshot: &Snapshot, now: Now) -> Value {
    let (waiting, living): (Vec<_>, Vec<_>) = snapshot.workers.iter().partition(|worker| is_waiting(worker));
    let workers: Vec<Value> = living.into_iter().map(|worker| worker_json(worker, snapshot, now)).collect();
    let findings = findings(snapshot, now).into_iter().map(
        |finding| json!({ "about": finding.about.name(), "worker": finding.worker, "text": finding.text }),
    );
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "at_ms": now.unix_ms,
        "master": master_json(&snapshot.master),
        "workers": workers,
        "waiting": waiting.iter().map(|worker| worker.number).collect::<Vec<_>>(),
        "listeners": snapshot.listeners.iter().map(|listener| listener_json(listener, snapshot)).collect::<Vec<_>>(),
        "upstreams": super::servers::json(snapshot),
        "totals": totals_json(snapshot),
        "accept_skew": accept_skew(snapshot),
        "findings": findings.collect::<Vec<_>>(),
    })
}

fn master_json(master: &MasterView) -> Value {
    let [asked, clean, failed, killed] = master.exits;
    json!({
        "pid": master.pid.as_raw(),
        "state": master.state.name(),
        "generation": master.generation,
        "workers": master.workers,
        "started_ms": master.started_ms,
        "reloads": master.reloads,
        "last_reload": master.verdict.as_ref().map(|verdict| json!({
            "accepted": verdict.accepted,
            "message": verdict.message,
            "at_ms": verdict.at_ms,
        })),
        "worker_exits": { "asked": asked, "clean": clean, "failed": failed, "killed": killed },
    })
}

fn worker_json(worker: &WorkerView, snapshot: &Snapshot, now: Now) -> Value {
    let mut object = Map::new();
    object
        .extend(Counter::ALL.iter().map(|&counter| (counter.name().into(), worker.counter(counter).into())));
    object.extend(shown_gauges().map(|gauge| (gauge.name().into(), worker.gauge(gauge).into())));
    let phases = Phase::ALL.iter().map(|&phase| (phase.name().into(), worker.in_phase(phase).into()));
    let accepts = snapshot
        .listeners
        .iter()
        .map(|listener| (listener.address.clone(), Value::from(worker.accepts(listener))));
    let (descriptors, _) = worker.descriptors();
    let identity = [
        ("worker", json!(worker.number)),
        ("pid", json!(worker.pid.as_raw())),
        ("generation", json!(worker.generation)),
        ("state", json!(worker.state.name())),
        ("started_ms", json!(worker.started_ms)),
        ("slots", json!(worker.slots)),
        ("connections", json!(worker.gauge(Gauge::OpenConnections))),
        ("descriptors", json!(descriptors)),
        ("phases", Value::Object(phases.collect())),
        ("closes", closes_json(|reason| worker.closes(reason))),
        ("accepts_by_listener", Value::Object(accepts.collect())),
        ("lag", lag_json(worker, now)),
    ];
    object.extend(identity.map(|(name, value)| (name.to_owned(), value)));
    Value::Object(object)
}

fn closes_json(count: impl Fn(CloseReason) -> u64) -> Value {
    let closes = CloseReason::ALL.iter().map(|&reason| (reason.name().to_owned(), count(reason).into()));
    Value::Object(closes.collect())
}

/// Lag and turns of a worker, in microseconds.
fn lag_json(worker: &WorkerView, now: Now) -> Value {
    let json = |durations: &Durations| {
        json!({
            "p99_us": durations.p99().as_micros() as u64,
            "max_us": durations.longest.as_micros() as u64,
        })
    };
    let mut object = Map::new();
    object.insert("now_us".into(), (inside_turn_ms(worker, now) * 1000).into());
    for (name, seconds) in WINDOWS {
        let (turns, lags) = last(worker, seconds, now);
        object.insert(name.into(), json!({ "lag": json(&lags), "turn": json(&turns) }));
    }
    Value::Object(object)
}

/// How long a worker has been inside the turn it is in; zero for one that sleeps.
pub(super) fn inside_turn_ms(worker: &WorkerView, now: Now) -> u64 {
    match worker.gauge(Gauge::TurnStarted) {
        0 => 0,
        started => now.monotonic_ms.saturating_sub(started),
    }
}

fn listener_json(listener: &ListenerView, snapshot: &Snapshot) -> Value {
    let (waiting, granted, bytes) = match listener.queue() {
        None => (None, None, None),
        Some(WaitingAt::Connections { waiting, granted, .. }) => (Some(waiting), Some(granted), None),
        Some(WaitingAt::Datagrams { bytes }) => (None, None, Some(bytes)),
    };
    json!({
        "address": listener.address,
        "transport": listener.transport.name(),
        "strategy": listener.strategy.name(),
        "serves": listener.sockets() > 0,
        "sockets": listener.sockets(),
        "accepts": snapshot.total_accepts(listener),
        "backlog": listener.backlog(),
        "backlog_granted": granted,
        "waiting": waiting,
        "waiting_bytes": bytes,
        "overflows": listener.overflows(),
    })
}

fn totals_json(snapshot: &Snapshot) -> Value {
    let mut object: Map<String, Value> = Map::new();
    object
        .extend(Counter::ALL.iter().map(|&counter| (counter.name().into(), snapshot.total(counter).into())));
    object.insert("closes".into(), closes_json(|reason| snapshot.total_closes(reason)));
    Value::Object(object)
}
