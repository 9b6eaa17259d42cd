//! What an operator should look at, as plain sentences: each with the figure behind it and what to do.

use drover_event::{Counter, Gauge};

use super::status::{Now, serving};
use crate::process::is_stopped;
use crate::scoreboard::{MasterState, Snapshot, WorkerView};
use crate::text::counted;

/// Fewer connections than this say nothing about how they are spread.
const ENOUGH_CONNECTIONS: u64 = 50;
/// A worker that holds this many times its share is worth a word.
const UNEVEN: f64 = 1.6;
/// A worker inside one turn for longer than this hangs, in milliseconds.
const HANGS_MS: u64 = 1000;

/// Everything that is off.
pub(super) fn findings(snapshot: &Snapshot, now: Now) -> Vec<String> {
    let mut found = Vec::new();
    found.extend(refused_reload(snapshot));
    found.extend(missing_workers(snapshot));
    found.extend(snapshot.workers.iter().filter_map(|worker| hanging(worker, now)));
    found.extend(snapshot.workers.iter().filter_map(stopped));
    found.extend(uneven(snapshot));
    found.extend(serving(snapshot).filter_map(short_of_slots));
    found.extend(dropped(snapshot));
    found
}

fn refused_reload(snapshot: &Snapshot) -> Option<String> {
    let verdict = snapshot.master.verdict.as_ref().filter(|verdict| !verdict.accepted)?;
    let first = verdict.message.lines().next().unwrap_or_default();
    Some(format!("the last reload was refused ({first}); generation {} goes on", snapshot.master.generation))
}

fn missing_workers(snapshot: &Snapshot) -> Option<String> {
    let master = &snapshot.master;
    if master.state != MasterState::Serving {
        return None;
    }
    let there = serving(snapshot).filter(|worker| worker.generation == master.generation).count() as u64;
    let [_, _, failed, killed] = master.exits;
    (there < master.workers).then(|| {
        format!(
            "{there} of {} workers serve; workers have ended unexpectedly {} times so far, the log says how",
            master.workers,
            failed + killed
        )
    })
}

fn hanging(worker: &WorkerView, now: Now) -> Option<String> {
    let started = worker.gauge(Gauge::TurnStarted);
    let inside = now.monotonic_ms.saturating_sub(started);
    (started > 0 && inside > HANGS_MS).then(|| {
        let connection = match worker.gauge(Gauge::RunningConnection) {
            0 => String::new(),
            connection => format!(", with connection {connection}"),
        };
        let seconds = inside as f64 / 1000.0;
        format!(
            "worker {} (process {}) has been inside one turn for {seconds:.1} s{connection}",
            worker.number, worker.pid
        )
    })
}

/// A worker that the kernel does not let run.
fn stopped(worker: &WorkerView) -> Option<String> {
    let (number, pid) = (worker.number, worker.pid);
    is_stopped(pid).then(|| {
        format!("worker {number} (process {pid}) is stopped, by SIGSTOP or a debugger: kill -CONT {pid} lets it go on")
    })
}

fn uneven(snapshot: &Snapshot) -> Option<String> {
    let open = |worker: &WorkerView| worker.gauge(Gauge::OpenConnections);
    let workers = serving(snapshot).count();
    let sum: u64 = serving(snapshot).map(open).sum();
    let fullest = serving(snapshot).max_by_key(|worker| open(worker))?;
    let share = open(fullest) as f64 / sum as f64;
    (workers > 1 && sum >= ENOUGH_CONNECTIONS && share * workers as f64 >= UNEVEN).then(|| {
        format!(
            "worker {} holds {:.0} % of the connections; accept = \"balanced\" would even this out",
            fullest.number,
            share * 100.0
        )
    })
}

fn short_of_slots(worker: &WorkerView) -> Option<String> {
    let free = worker.gauge(Gauge::FreeSlots);
    (free <= worker.slots / 16).then(|| {
        format!(
            "worker {} has {free} of {} slots free: raise [events] worker_connections or shorten the time-outs",
            worker.number, worker.slots
        )
    })
}

fn dropped(snapshot: &Snapshot) -> Option<String> {
    let dropped = snapshot.total(Counter::Dropped);
    (dropped > 0).then(|| {
        let were = if dropped == 1 { "was" } else { "were" };
        let connections = counted(dropped as usize, "connection");
        format!("{connections} {were} dropped for want of a slot since the start: raise [events] worker_connections")
    })
}
