//! What `drover status --json` prints, as far as it is shown; `drover status --schema` describes it.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Everything.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Status {
    pub(crate) version: String,
    pub(crate) at_ms: u64,
    pub(crate) master: Master,
    pub(crate) workers: Vec<Worker>,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) upstreams: Vec<Upstream>,
    pub(crate) totals: Totals,
    pub(crate) findings: Vec<Finding>,
}

/// The master.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Master {
    pub(crate) pid: i32,
    pub(crate) state: String,
    pub(crate) generation: u64,
    pub(crate) started_ms: u64,
}

/// One worker.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Worker {
    pub(crate) worker: u64,
    pub(crate) pid: i32,
    pub(crate) generation: u64,
    pub(crate) state: String,
    pub(crate) started_ms: u64,
    pub(crate) slots: u64,
    pub(crate) connections: u64,
    pub(crate) free_slots: u64,
    pub(crate) reusable_connections: u64,
    pub(crate) descriptors: u64,
    pub(crate) descriptor_limit: u64,
    pub(crate) turns: u64,
    pub(crate) accepts: u64,
    pub(crate) dropped: u64,
    pub(crate) reclaimed: u64,
    pub(crate) requests: u64,
    pub(crate) bytes_received: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) working_ns: u64,
    pub(crate) phases: BTreeMap<String, u64>,
    pub(crate) closes: BTreeMap<String, u64>,
    pub(crate) lag: Lag,
}

/// Lag and turns of a worker.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Lag {
    pub(crate) now_us: u64,
    pub(crate) last_1s: Window,
    pub(crate) last_10s: Window,
    pub(crate) last_60s: Window,
}

/// The same over some time.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Window {
    pub(crate) lag: Durations,
    pub(crate) turn: Durations,
}

/// Durations in microseconds.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Durations {
    pub(crate) p99_us: u64,
    pub(crate) max_us: u64,
}

/// One listener.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Listener {
    pub(crate) address: String,
    pub(crate) strategy: String,
    pub(crate) serves: bool,
    pub(crate) sockets: u64,
    pub(crate) accepts: u64,
    pub(crate) backlog_granted: Option<u64>,
    pub(crate) waiting: Option<u64>,
    pub(crate) waiting_bytes: Option<u64>,
    pub(crate) overflows: u64,
}

/// One upstream.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Upstream {
    pub(crate) service: String,
    pub(crate) name: String,
    pub(crate) servers: Vec<Server>,
}

/// A server of the config.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Server {
    pub(crate) address: String,
    pub(crate) backup: bool,
    pub(crate) addresses: Vec<Peer>,
}

/// One address of a server.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Peer {
    pub(crate) address: String,
    pub(crate) state: String,
    pub(crate) active: u64,
    pub(crate) kept: u64,
    pub(crate) requests: u64,
    pub(crate) failures: u64,
}

/// Where an address stands: its upstream, the server in it, and the address of that.
pub(crate) type Place = (usize, usize, usize);

impl Status {
    /// The lines that all servers take: one for each upstream, and one for each address, or name without any.
    pub(crate) fn server_lines(&self) -> usize {
        let of = |server: &Server| server.addresses.len().max(1);
        self.upstreams.iter().map(|upstream| 1 + upstream.servers.iter().map(of).sum::<usize>()).sum()
    }

    /// The addresses of all servers, with where they stand.
    pub(crate) fn peers(&self) -> impl Iterator<Item = (Place, &Peer)> {
        self.upstreams.iter().enumerate().flat_map(|(upstream, of)| {
            of.servers.iter().enumerate().flat_map(move |(server, of)| {
                of.addresses.iter().enumerate().map(move |(at, peer)| ((upstream, server, at), peer))
            })
        })
    }
}

/// Sums over all workers there ever were.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Totals {
    pub(crate) accepts: u64,
    pub(crate) requests: u64,
    pub(crate) bytes_received: u64,
    pub(crate) bytes_sent: u64,
}

/// Something that is off.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Finding {
    pub(crate) about: String,
    pub(crate) text: String,
}
