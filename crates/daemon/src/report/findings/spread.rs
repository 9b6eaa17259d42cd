//! Whether connections, and accepts, are spread evenly over the workers.

use drover_event::{Gauge, Strategy};

use super::super::serving;
use super::{About, Finding, has_few_slots};
use crate::scoreboard::{ListenerView, Snapshot, Transport, WorkerView};

/// Fewer connections, or accepts, than this say nothing about how they are spread.
const ENOUGH_CONNECTIONS: u64 = 50;
const ENOUGH_ACCEPTS: u64 = 200;
/// A worker that has this many times its share is worth a word.
const UNEVEN: f64 = 1.6;

/// The skew of connections; where there is none, that of accepts.
pub(super) fn findings(snapshot: &Snapshot) -> Vec<Finding> {
    match uneven_connections(snapshot) {
        Some(finding) => vec![finding],
        None => snapshot.listeners.iter().filter_map(|listener| uneven_accepts(listener, snapshot)).collect(),
    }
}

fn uneven_connections(snapshot: &Snapshot) -> Option<Finding> {
    let open = |worker: &WorkerView| worker.gauge(Gauge::OpenConnections);
    let workers = serving(snapshot).count();
    let sum: u64 = serving(snapshot).map(open).sum();
    let fullest = serving(snapshot).max_by_key(|worker| open(worker))?;
    let share = open(fullest) as f64 / sum as f64;
    // Where one worker has no room, that the others have some matters however few these are.
    let matters = sum >= ENOUGH_CONNECTIONS || has_few_slots(fullest);
    (workers > 1 && matters && share * workers as f64 >= UNEVEN).then(|| {
        let remedy = match snapshot.listeners.iter().any(could_be_balanced) {
            true => "accept = \"balanced\" would even this out",
            false => "new ones go to the others; `drover reload` would have all of them begin anew",
        };
        let (number, share) = (fullest.number, share * 100.0);
        let text = format!("worker {number} holds {share:.0} % of {sum} connections; {remedy}");
        Finding::of(fullest, About::Skew, text)
    })
}

/// Sessions of datagrams stay where the kernel put them.
fn could_be_balanced(listener: &ListenerView) -> bool {
    listener.sockets() > 0 && listener.transport != Transport::Udp && listener.strategy != Strategy::Balanced
}

/// Accepts of one listener that mostly one worker took. `balanced` looks at connections, not at accepts.
fn uneven_accepts(listener: &ListenerView, snapshot: &Snapshot) -> Option<Finding> {
    let workers = serving(snapshot).count();
    let sum: u64 = serving(snapshot).map(|worker| worker.accepts(listener)).sum();
    let busiest = serving(snapshot).max_by_key(|worker| worker.accepts(listener))?;
    let share = busiest.accepts(listener) as f64 / sum as f64;
    let uneven = workers > 1 && sum >= ENOUGH_ACCEPTS && share * workers as f64 >= UNEVEN;
    if !uneven || !could_be_balanced(listener) {
        return None;
    }
    let remedy = match listener.strategy {
        Strategy::ReusePort => "accept = \"balanced\" would spread those of few clients too",
        _ => "accept = \"balanced\" or \"reuseport\" would spread them",
    };
    let text = format!(
        "worker {} took {:.0} % of {sum} connections at {} ({}): no harm while it keeps up; {remedy}",
        busiest.number,
        share * 100.0,
        listener.address,
        listener.strategy.name()
    );
    Some(Finding::of(busiest, About::Skew, text))
}
