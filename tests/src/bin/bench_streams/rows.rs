//! What is measured: one row a kind of stream.

use crate::proxies::Kind;

/// What clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// A connection for each message, which the server sends back before it closes.
    Connections,
    /// Messages that the server sends back, one after another on each connection.
    Messages,
    /// As much as passes from the server.
    Bulk,
    /// Datagrams that the server sends back, one after another from each client.
    Datagrams,
}

/// One kind of stream.
#[derive(Debug)]
pub(crate) struct Row {
    /// How it is chosen on the command line.
    pub name: &'static str,
    /// How it is introduced in the report.
    pub title: &'static str,
    /// What is counted.
    pub unit: &'static str,
    pub traffic: Traffic,
    /// Clients at once.
    pub clients: usize,
}

impl Row {
    /// haproxy passes no datagrams on, and nginx's buffer counts where there is much to buffer.
    pub(crate) fn suits(&self, kind: Kind) -> bool {
        match kind {
            Kind::Drover | Kind::Nginx => true,
            Kind::NginxUntuned => self.traffic == Traffic::Bulk,
            Kind::Haproxy => self.traffic != Traffic::Datagrams,
        }
    }
}

/// All of them, in the report's order.
const ROWS: &[Row] = &[
    Row {
        name: "connections",
        title: "a connection for each message of 100 bytes and its echo",
        unit: "connections",
        traffic: Traffic::Connections,
        clients: 50,
    },
    Row {
        name: "messages",
        title: "messages of 100 bytes and their echoes, connections kept",
        unit: "messages",
        traffic: Traffic::Messages,
        clients: 50,
    },
    Row {
        name: "bulk-1",
        title: "one stream, as fast as it goes",
        unit: "MiB",
        traffic: Traffic::Bulk,
        clients: 1,
    },
    Row {
        name: "bulk-64",
        title: "64 streams, as fast as they go",
        unit: "MiB",
        traffic: Traffic::Bulk,
        clients: 64,
    },
    Row {
        name: "datagrams",
        title: "datagrams of 100 bytes and their echoes",
        unit: "datagrams",
        traffic: Traffic::Datagrams,
        clients: 50,
    },
];

/// The rows of these names, or all.
pub(crate) fn chosen(names: &[String]) -> Result<Vec<&'static Row>, String> {
    if names.is_empty() {
        return Ok(ROWS.iter().collect());
    }
    let find = |name: &String| {
        ROWS.iter().find(|row| row.name == name).ok_or_else(|| {
            let known: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
            format!("no row {name}; there are {}", known.join(", "))
        })
    };
    names.iter().map(find).collect()
}
