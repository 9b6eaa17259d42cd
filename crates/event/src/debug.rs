//! `debug_connections`: some peers are logged at debug level while the rest is not.
//!
//! The engine marks the connections that match when it accepts them, and says on this thread
//! whether it is running one of those. The program's log filter asks [`logging_verbosely`] for
//! events that its level would leave out.

use std::cell::Cell;

use ipnet::IpNet;

use crate::connection::PeerAddress;

/// A peer, or a network of them, whose connections are logged at debug level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DebugConnection {
    /// All addresses of a network.
    Network(IpNet),
    /// All unix sockets.
    Unix,
}

impl DebugConnection {
    pub(crate) fn matches(&self, peer: PeerAddress) -> bool {
        match self {
            Self::Network(network) => peer.ip().is_some_and(|ip| network.contains(&ip.to_canonical())),
            Self::Unix => peer == PeerAddress::Unix,
        }
    }
}

thread_local! {
    static VERBOSE: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread runs a connection that is to be logged at debug level.
pub fn logging_verbosely() -> bool {
    VERBOSE.get()
}

/// Says whether what runs now is to be logged at debug level, and tells what was said before.
pub(crate) fn log_verbosely(verbose: bool) -> bool {
    VERBOSE.replace(verbose)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_match_their_addresses_also_when_mapped_into_ipv6() {
        let network = DebugConnection::Network("10.1.0.0/16".parse().expect("network"));
        let peer = |text: &str| PeerAddress::Internet(text.parse().expect("address"));
        assert!(network.matches(peer("10.1.2.3:80")));
        assert!(network.matches(peer("[::ffff:10.1.2.3]:80")));
        assert!(!network.matches(peer("10.2.0.1:80")));
        assert!(!network.matches(PeerAddress::Unix));
        assert!(DebugConnection::Unix.matches(PeerAddress::Unix));
    }
}
