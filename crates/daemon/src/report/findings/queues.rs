//! What waits at the listeners, and what the kernel turned away there.

use super::{About, Finding};
use crate::scoreboard::{ListenerView, Snapshot, WaitingAt};

/// Queues of which half is full, or that were overfull; and backlogs that the kernel cut.
pub(super) fn findings(snapshot: &Snapshot) -> impl Iterator<Item = Finding> + '_ {
    let full = snapshot.listeners.iter().filter_map(|listener| match listener.queue() {
        Some(WaitingAt::Datagrams { .. }) => lost_datagrams(listener),
        Some(WaitingAt::Connections { waiting, room, .. }) => full_queue(listener, waiting, room),
        None => turned_away(listener),
    });
    full.chain(snapshot.listeners.iter().filter_map(cut_backlog))
}

fn full_queue(listener: &ListenerView, waiting: u64, room: u64) -> Option<Finding> {
    let overflows = listener.overflows();
    if overflows == 0 && waiting * 2 <= room {
        return None;
    }
    let text = format!(
        "{waiting} of {room} connections wait at {}, and the kernel turned away {overflows} since the start: workers \
         accept too slowly (see lag), or raise the listener's backlog",
        listener.address
    );
    Some(Finding::new(About::Queue, text))
}

/// A listener whose queue is not known, or that is gone: only what was counted is left.
fn turned_away(listener: &ListenerView) -> Option<Finding> {
    let overflows = listener.overflows();
    (overflows > 0).then(|| {
        let text = format!(
            "the kernel turned away {overflows} at {} since the start: workers took them too slowly (see lag), or \
             the queue was too short",
            listener.address
        );
        Finding::new(About::Queue, text)
    })
}

fn lost_datagrams(listener: &ListenerView) -> Option<Finding> {
    let overflows = listener.overflows();
    (overflows > 0).then(|| {
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
