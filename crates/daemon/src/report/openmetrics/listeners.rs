//! What is said of listeners, labelled with their addresses.

use super::exposition::Exposition;
use crate::scoreboard::{ListenerView, Snapshot, WaitingAt};

/// What is known of a listener's queue.
type OfQueue = (&'static str, &'static str, fn(&ListenerView) -> Option<u64>);

const OF_QUEUE: [OfQueue; 4] = [
    ("drover_listener_waiting", "Connections that wait to be accepted.", |listener| {
        match listener.queue()? {
            WaitingAt::Connections { waiting, .. } => Some(waiting),
            WaitingAt::Datagrams { .. } => None,
        }
    }),
    ("drover_listener_waiting_bytes", "Memory of the datagrams that wait to be received.", |listener| {
        match listener.queue()? {
            WaitingAt::Datagrams { bytes } => Some(bytes),
            WaitingAt::Connections { .. } => None,
        }
    }),
    ("drover_listener_backlog", "How many may wait at each socket, as configured.", |listener| {
        listener.backlog()
    }),
    ("drover_listener_backlog_granted", "How many the kernel lets wait at each socket.", |listener| {
        match listener.queue()? {
            WaitingAt::Connections { granted, .. } => Some(granted),
            WaitingAt::Datagrams { .. } => None,
        }
    }),
];

/// Writes the families of listeners.
pub(super) fn write(text: &mut Exposition, snapshot: &Snapshot) {
    text.family("drover_listener", "info", "How a listener takes connections.");
    for listener in &snapshot.listeners {
        let labels = [
            ("address", &*listener.address),
            ("transport", listener.transport.name()),
            ("strategy", listener.strategy.name()),
        ];
        text.sample("drover_listener_info", &labels, 1);
    }
    text.family("drover_listener_accepts", "counter", "Connections accepted, or sessions begun.");
    for listener in &snapshot.listeners {
        let accepts = snapshot.total_accepts(listener);
        text.sample("drover_listener_accepts_total", &[("address", &listener.address)], accepts);
    }
    let overflows =
        "Connections or datagrams that the kernel turned away, nearly always because a queue was full.";
    text.family("drover_listener_overflows", "counter", overflows);
    for listener in &snapshot.listeners {
        let count = listener.overflows();
        text.sample("drover_listener_overflows_total", &[("address", &listener.address)], count);
    }
    let serving = || snapshot.listeners.iter().filter(|listener| listener.sockets() > 0);
    text.family("drover_listener_sockets", "gauge", "Its sockets.");
    for listener in serving() {
        text.sample("drover_listener_sockets", &[("address", &listener.address)], listener.sockets());
    }
    for (name, help, value) in OF_QUEUE {
        text.family(name, "gauge", help);
        for listener in serving() {
            if let Some(value) = value(listener) {
                text.sample(name, &[("address", &listener.address)], value);
            }
        }
    }
}
