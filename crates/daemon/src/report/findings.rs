//! What an operator should look at, as plain sentences: each with the figure behind it and what to do.

mod queues;
mod spread;

use drover_event::{Counter, Gauge, Phase};

use super::json::inside_turn_ms;
use super::table::{duration, milliseconds};
use super::{Now, is_waiting, last, servers, serving};
use crate::process::is_stopped;
use crate::scoreboard::{MasterState, Snapshot, WorkerView};
use crate::text::counted;

/// A worker inside one turn for longer than this hangs, in milliseconds.
const HANGS_MS: u64 = 1000;
/// Lag that people notice, in milliseconds: as 99th percentile over ten seconds.
const LAGS_MS: u128 = 100;
/// The share of the descriptors that may be open before it is worth a word.
const DESCRIPTORS_NEAR_LIMIT: f64 = 0.9;

macro_rules! subjects {
    ($($(#[doc = $doc:literal])+ $variant:ident = $text:literal,)+) => {
        /// What a finding is about.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum About { $($(#[doc = $doc])+ $variant,)+ }

        impl About {
            /// All of them.
            pub(crate) const ALL: &[About] = &[$(About::$variant,)+];

            /// Its name for programs.
            pub(crate) fn name(self) -> &'static str {
                match self { $(About::$variant => $text,)+ }
            }
        }
    };
}

subjects! {
    /// The last reload was refused.
    Reload = "reload",
    /// Workers are missing, or end again and again.
    Workers = "workers",
    /// A worker has been inside one turn for long.
    Hangs = "hangs",
    /// A worker is stopped.
    Stopped = "stopped",
    /// What is ready waits for a worker.
    Lag = "lag",
    /// Connections or accepts are spread unevenly.
    Skew = "skew",
    /// A worker runs out of slots.
    Slots = "slots",
    /// A worker runs out of descriptors.
    Descriptors = "descriptors",
    /// Connections were dropped, or could not be accepted.
    Drops = "drops",
    /// The kernel turned connections away, or will.
    Queue = "queue",
    /// The kernel cut a backlog.
    Backlog = "backlog",
    /// Servers of upstreams are not used.
    Servers = "servers",
    /// Tasks panicked.
    Panics = "panics",
}

/// Something that is off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// What it is about.
    pub(crate) about: About,
    /// The number of the worker that it is about.
    pub(crate) worker: Option<u64>,
    /// A sentence.
    pub(crate) text: String,
}

impl Finding {
    pub(super) fn new(about: About, text: String) -> Self {
        Self { about, worker: None, text }
    }

    fn of(worker: &WorkerView, about: About, text: String) -> Self {
        Self { worker: Some(worker.number), ..Self::new(about, text) }
    }
}

/// Everything that is off, what keeps clients from being served first.
pub(crate) fn findings(snapshot: &Snapshot, now: Now) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(missing_workers(snapshot).or_else(|| crashed_workers(snapshot)));
    found.extend(snapshot.workers.iter().filter_map(stopped));
    found.extend(snapshot.workers.iter().filter_map(|worker| hanging(worker, now)));
    found.extend(serving(snapshot).filter_map(|worker| lagging(worker, now)));
    found.extend(serving(snapshot).filter_map(short_of_slots));
    found.extend(serving(snapshot).filter_map(short_of_descriptors));
    found.extend(dropped(snapshot));
    found.extend(dropped_datagrams(snapshot));
    found.extend(refused_accepts(snapshot));
    found.extend(queues::findings(snapshot));
    found.extend(spread::findings(snapshot));
    found.extend(servers::findings(snapshot));
    found.extend(refused_reload(snapshot, now));
    found.extend(panics(snapshot));
    found
}

fn refused_reload(snapshot: &Snapshot, now: Now) -> Option<Finding> {
    let verdict = snapshot.master.verdict.as_ref().filter(|verdict| !verdict.accepted)?;
    let first = verdict.message.lines().next().unwrap_or_default();
    let text = format!(
        "the last reload, {} ago, was refused ({first}); generation {} goes on: `drover check` says what to mend",
        duration(now.since(verdict.at_ms)),
        snapshot.master.generation
    );
    Some(Finding::new(About::Reload, text))
}

fn missing_workers(snapshot: &Snapshot) -> Option<Finding> {
    let master = &snapshot.master;
    if master.state != MasterState::Serving {
        return None;
    }
    let there = serving(snapshot).filter(|worker| worker.generation == master.generation).count() as u64;
    if there >= master.workers {
        return None;
    }
    let waiting: Vec<String> = snapshot
        .workers
        .iter()
        .filter(|worker| is_waiting(worker))
        .map(|worker| worker.number.to_string())
        .collect();
    let crashes = crashes(snapshot).map(|crashes| format!("; {crashes} since the start")).unwrap_or_default();
    let again = match waiting.is_empty() {
        true => String::new(),
        false => format!(" (a crash loop: {} will be started again after a pause)", waiting.join(", ")),
    };
    let text = format!(
        "{there} of {} workers serve{again}{crashes}: the log says how workers ended, and what they were doing",
        master.workers
    );
    Some(Finding::new(About::Workers, text))
}

/// Workers that crashed, all of which have been replaced.
fn crashed_workers(snapshot: &Snapshot) -> Option<Finding> {
    let text = format!(
        "{} since the start, and others took their place: the log says how they ended, and what they were doing",
        crashes(snapshot)?
    );
    Some(Finding::new(About::Workers, text))
}

/// `1 worker ended by a failure and 2 by a signal`, where any did.
fn crashes(snapshot: &Snapshot) -> Option<String> {
    let [_, _, failed, killed] = snapshot.master.exits;
    let workers = |count: u64| counted(count as usize, "worker");
    match (failed, killed) {
        (0, 0) => None,
        (0, killed) => Some(format!("{} ended by a signal", workers(killed))),
        (failed, 0) => Some(format!("{} ended by a failure", workers(failed))),
        (failed, killed) => Some(format!("{} ended by a failure and {killed} by a signal", workers(failed))),
    }
}

fn hanging(worker: &WorkerView, now: Now) -> Option<Finding> {
    let inside = inside_turn_ms(worker, now);
    (inside > HANGS_MS).then(|| {
        let doing = match worker.gauge(Gauge::RunningConnection) {
            0 => String::new(),
            connection => format!(", with connection {connection} ({})", running_phase(worker)),
        };
        let text = format!(
            "worker {} (process {}) has been inside one turn for {:.1} s{doing}: it serves nobody else meanwhile; \
             [process] stall_kill would have it replaced",
            worker.number,
            worker.pid,
            inside as f64 / 1000.0
        );
        Finding::of(worker, About::Hangs, text)
    })
}

/// What the connection that runs is busy with.
fn running_phase(worker: &WorkerView) -> &'static str {
    let number = usize::try_from(worker.gauge(Gauge::RunningPhase)).unwrap_or(usize::MAX);
    Phase::ALL.get(number).map_or("in an unknown phase", |phase| phase.name())
}

/// A worker that the kernel does not let run.
fn stopped(worker: &WorkerView) -> Option<Finding> {
    let (number, pid) = (worker.number, worker.pid);
    is_stopped(pid).then(|| {
        let text = format!(
            "worker {number} (process {pid}) is stopped, by SIGSTOP or a debugger: kill -CONT {pid} lets it go on"
        );
        Finding::of(worker, About::Stopped, text)
    })
}

fn lagging(worker: &WorkerView, now: Now) -> Option<Finding> {
    let (turns, lags) = last(worker, 10, now);
    let (lag, turn) = (lags.p99(), turns.longest);
    (lag.as_millis() >= LAGS_MS).then(|| {
        let text = format!(
            "what becomes ready waits up to {} for worker {} (99 of 100, over 10 s), whose turns take up to {}: \
             more workers if all are busy, else the log says what takes so long (stall_warn)",
            milliseconds(lag),
            worker.number,
            milliseconds(turn)
        );
        Finding::of(worker, About::Lag, text)
    })
}

fn short_of_slots(worker: &WorkerView) -> Option<Finding> {
    let free = worker.gauge(Gauge::FreeSlots);
    has_few_slots(worker).then(|| {
        let text = format!(
            "worker {} has {free} of {} slots free: raise [events] worker_connections or shorten the time-outs",
            worker.number, worker.slots
        );
        Finding::of(worker, About::Slots, text)
    })
}

/// So few that idle connections have to make room.
fn has_few_slots(worker: &WorkerView) -> bool {
    worker.gauge(Gauge::FreeSlots) <= worker.slots / 16
}

fn short_of_descriptors(worker: &WorkerView) -> Option<Finding> {
    let (open, limit) = worker.descriptors();
    (limit > 0 && open as f64 >= limit as f64 * DESCRIPTORS_NEAR_LIMIT).then(|| {
        let text = format!(
            "worker {} has {open} of {limit} descriptors open: raise [process] rlimit_nofile, or lower \
             worker_connections so that slots run out first",
            worker.number
        );
        Finding::of(worker, About::Descriptors, text)
    })
}

fn dropped(snapshot: &Snapshot) -> Option<Finding> {
    let dropped = snapshot.total(Counter::Dropped);
    (dropped > 0).then(|| {
        let were = if dropped == 1 { "was" } else { "were" };
        let connections = counted(dropped as usize, "connection");
        let text = format!(
            "{connections} {were} dropped for want of a slot since the start: raise [events] worker_connections"
        );
        Finding::new(About::Drops, text)
    })
}

fn dropped_datagrams(snapshot: &Snapshot) -> Option<Finding> {
    let dropped = snapshot.total(Counter::DatagramsDropped);
    (dropped > 0).then(|| {
        let text = format!(
            "{} given up since the start, because a session or the network took them too slowly or no slot was \
             free: raise [events] worker_connections if few slots are free",
            counted(dropped as usize, "datagram")
        );
        Finding::new(About::Drops, text)
    })
}

/// Accepts that the system refused.
fn refused_accepts(snapshot: &Snapshot) -> Option<Finding> {
    let (descriptors, memory) =
        (snapshot.total(Counter::AcceptNoDescriptors), snapshot.total(Counter::AcceptNoMemory));
    let (count, want, remedy) = match (descriptors, memory) {
        (0, 0) => return None,
        (0, memory) => (memory, "memory of the kernel", "see net.ipv4.tcp_mem and the machine's memory"),
        (descriptors, _) => (descriptors, "descriptors", "raise [process] rlimit_nofile, or fs.file-max"),
    };
    let text = format!("accepting paused {} for want of {want} since the start: {remedy}", times(count));
    Some(Finding::new(About::Drops, text))
}

fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

fn panics(snapshot: &Snapshot) -> Option<Finding> {
    let panics = snapshot.total(Counter::TaskPanics);
    (panics > 0).then(|| {
        let text = format!(
            "{} panicked since the start, each at the cost of its connection: a fault of drover, the log has the \
             backtrace",
            counted(panics as usize, "task")
        );
        Finding::new(About::Panics, text)
    })
}
