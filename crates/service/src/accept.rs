//! Accept strategies by their names in the config, and the listeners that services need.

use std::fmt;

use drover_config::{ListenAddress, Place};
use drover_event::Strategy;

drover_config::choice! {
    /// Accept strategies by their names in the config.
    pub enum Accept {
        /// Every worker has the shared socket; the kernel wakes one or a few.
        Exclusive = "exclusive",
        /// Every worker has the shared socket; everyone is woken.
        Shared = "shared",
        /// Only the holder of a lock in shared memory has the listener.
        Mutex = "mutex",
        /// Each worker has its own socket on the same address.
        Reuseport = "reuseport",
        /// As exclusive, and workers with more connections than others leave new ones to them.
        Balanced = "balanced",
    }
}

impl From<Accept> for Strategy {
    fn from(accept: Accept) -> Strategy {
        match accept {
            Accept::Exclusive => Strategy::Exclusive,
            Accept::Shared => Strategy::Shared,
            Accept::Mutex => Strategy::Mutex,
            Accept::Reuseport => Strategy::ReusePort,
            Accept::Balanced => Strategy::Balanced,
        }
    }
}

/// When the kernel probes a silent peer (`SO_KEEPALIVE` in socket(7), `TCP_KEEPIDLE` and its like in tcp(7)).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Probes {
    /// Seconds of silence before the first probe.
    pub idle: u32,
    /// Seconds between two probes.
    pub interval: u32,
    /// Probes without an answer after which the connection fails.
    pub count: u32,
}

/// One listening socket that a service needs, with the options that all who share it agree on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listener {
    /// Where it listens.
    pub address: ListenAddress,
    /// Whether it is for datagrams rather than connections.
    pub udp: bool,
    /// Its accept strategy; `None`: as `[events]` says.
    pub accept: Option<Accept>,
    /// Connections the kernel queues for accept; `None`: as many as usual.
    pub backlog: Option<u32>,
    /// Whether the kernel waits for the client's first bytes.
    pub deferred: bool,
    /// Whether IPv4 connections are not taken on an IPv6 address.
    pub ipv6_only: bool,
    /// How the kernel probes silent clients, if it does.
    pub probes: Option<Probes>,
    /// Whether clients speak first, so that a receive straight after the accept may find something.
    pub client_first: bool,
    /// Where the config mentions it; where it sets the strategy, if it does.
    pub place: Option<Place>,
}

impl fmt::Display for Listener {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}{}", if self.udp { "udp:" } else { "" }, self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strategies_have_the_names_of_the_engine() {
        for accept in [Accept::Exclusive, Accept::Shared, Accept::Mutex, Accept::Reuseport, Accept::Balanced]
        {
            assert_eq!(accept.to_string(), drover_event::Strategy::from(accept).to_string());
        }
    }
}
