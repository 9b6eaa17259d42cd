//! What waits at the listeners, and what the kernel turned away there.

use drover_event::Counter;

use super::{About, Finding};
use crate::scoreboard::{ListenerView, Snapshot, WaitingAt};

/// How many have to be turned away until that is worth a word, and of how many one at least: a client that gives up
/// within the handshake is counted there too.
const ENOUGH: u64 = 10;
const ONE_IN: u64 = 1000;

/// Queues of which half is full, or that were overfull; and backlogs that the kernel cut.
pub(super) fn findings(snapshot: &Snapshot) -> impl Iterator<Item = Finding> + '_ {
    let full = snapshot.listeners.iter().filter_map(|listener| match listener.queue() {
        Some(WaitingAt::Datagrams { .. }) => {
            lost_datagrams(listener, snapshot.total(Counter::DatagramsReceived))
        }
        Some(WaitingAt::Connections { waiting, room, .. }) => {
            let is_full = waiting * 2 > room;
            (is_full || are_many(listener, snapshot)).then(|| full_queue(listener, waiting, room))
        }
        None => are_many(listener, snapshot).then(|| turned_away(listener)),
    });
    full.chain(snapshot.listeners.iter().filter_map(cut_backlog))
}

/// Whether those that were turned away are many, compared with those that were accepted.
fn are_many(listener: &ListenerView, snapshot: &Snapshot) -> bool {
    let overflows = listener.overflows();
    overflows >= ENOUGH && overflows.saturating_mul(ONE_IN) > snapshot.total_accepts(listener)
}

fn full_queue(listener: &ListenerView, waiting: u64, room: u64) -> Finding {
    let overflows = listener.overflows();
    let text = format!(
        "{waiting} of {room} connections wait at {}, and the kernel turned away {overflows} since the start: workers \
         accept too slowly (see lag), or raise the listener's backlog",
        listener.address
    );
    Finding::new(About::Queue, text)
}

/// A listener whose queue is not known, or that is gone: only what was counted is left.
fn turned_away(listener: &ListenerView) -> Finding {
    let text = format!(
        "the kernel turned away {} connections at {} since the start: workers accepted them too slowly (see lag), \
         or raise the listener's backlog",
        listener.overflows(),
        listener.address
    );
    Finding::new(About::Queue, text)
}

fn lost_datagrams(listener: &ListenerView, received: u64) -> Option<Finding> {
    let overflows = listener.overflows();
    (overflows >= ENOUGH && overflows.saturating_mul(ONE_IN) > received).then(|| {
        let text = format!(
            "the kernel threw away {overflows} datagrams at {} since the start: workers receive too slowly (see \
             lag), or raise sysctl net.core.rmem_default and restart",
            listener.address
        );
        Finding::new(About::Queue, text)
    })
}

fn cut_backlog(listener: &ListenerView) -> Option<Finding> {
    let (Some(WaitingAt::Connections { granted, .. }), Some(wanted)) = (listener.queue(), listener.backlog())
    else {
        return None;
    };
    (granted < wanted).then(|| {
        let text = format!(
            "the kernel cut the backlog of {} from {wanted} to {granted}: sysctl net.core.somaxconn={wanted} and a \
             reload",
            listener.address
        );
        Finding::new(About::Backlog, text)
    })
}
