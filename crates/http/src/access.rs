//! Which address a client has behind proxies.

use std::net::{IpAddr, SocketAddr};

use crate::config::{self, Peers};
use crate::h1::head::Head;
use crate::networks::Networks;

/// Peers, by their addresses.
#[derive(Debug)]
pub(crate) struct PeerSet {
    networks: Networks<()>,
    unix: bool,
}

impl PeerSet {
    /// None where there is nobody in it.
    pub(crate) fn new(all: &[Peers]) -> Option<PeerSet> {
        let mut networks = Networks::default();
        for peers in all {
            if let Peers::Network(network) = peers {
                networks.insert(*network, ());
            }
        }
        let unix = all.contains(&Peers::Unix);
        (unix || !networks.is_empty()).then_some(PeerSet { networks, unix })
    }

    /// Who has no address came over a unix socket.
    pub(crate) fn has(&self, peer: Option<IpAddr>) -> bool {
        peer.map_or(self.unix, |peer| self.networks.find(peer).is_some())
    }
}

/// The proxies whose word about a client's address is trusted, and the field that has it.
#[derive(Debug)]
pub(crate) struct TrustedProxies {
    peers: PeerSet,
    field: Box<[u8]>,
    recursive: bool,
}

impl TrustedProxies {
    /// None where nobody is trusted.
    pub(crate) fn new(config: &config::RealIp) -> Option<TrustedProxies> {
        PeerSet::new(&config.from).map(|peers| TrustedProxies {
            peers,
            field: config.header.as_bytes().into(),
            recursive: config.recursive,
        })
    }

    /// Whether this peer is one of them.
    pub(crate) fn has(&self, peer: Option<IpAddr>) -> bool {
        self.peers.has(peer)
    }

    /// The client's address, as far as the proxies from `peer` on can be trusted to tell it. What they say is read
    /// from its end, where the nearest stands; what is no address ends it.
    pub(crate) fn client(&self, peer: Option<SocketAddr>, head: &Head, bytes: &[u8]) -> Option<SocketAddr> {
        let mut client = peer;
        if !self.peers.has(peer.map(|peer| peer.ip())) {
            return client;
        }
        let forwarded = self.field.eq_ignore_ascii_case(b"Forwarded");
        let fields = head.fields.iter().rev();
        let fields = fields.filter(|field| field.name.of(bytes).eq_ignore_ascii_case(&self.field));
        for element in fields.flat_map(|field| field.value.of(bytes).rsplit(|byte| *byte == b',')) {
            let text = if forwarded { forwarded_for(element) } else { Some(element) };
            let Some(address) = text.and_then(parse_address) else { return client };
            client = Some(address);
            if !self.recursive || !self.peers.has(Some(address.ip())) {
                return client;
            }
        }
        client
    }
}

/// The value of `for` in an element of Forwarded ([RFC 7239, 4](https://www.rfc-editor.org/rfc/rfc7239#section-4)).
fn forwarded_for(element: &[u8]) -> Option<&[u8]> {
    element.split(|byte| *byte == b';').find_map(|pair| {
        let (name, value) = pair.trim_ascii().split_at_checked("for=".len())?;
        let quoted = value.strip_prefix(b"\"").and_then(|inner| inner.strip_suffix(b"\""));
        name.eq_ignore_ascii_case(b"for=").then(|| quoted.unwrap_or(value))
    })
}

/// An address with or without a port; without, the port is 0.
fn parse_address(text: &[u8]) -> Option<SocketAddr> {
    let text = std::str::from_utf8(text.trim_ascii()).ok()?;
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some(address);
    }
    let bare = text.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(text);
    bare.parse::<IpAddr>().ok().map(|address| SocketAddr::new(address, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RealIp;
    use crate::h1::head::{Limits, Status};
    use drover_config::Leaf;

    fn client(config: &RealIp, peer: &str, fields: &str) -> String {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n");
        let mut head = Head::default();
        let limits = Limits { size: 1000, max_headers: 10, keep_odd_names: false };
        assert_eq!(head.parse(request.as_bytes(), &limits), Ok(Status::Complete(request.len())));
        let proxies = TrustedProxies::new(config).expect("somebody is trusted");
        let peer = (!peer.is_empty()).then(|| peer.parse().expect("an address"));
        proxies.client(peer, &head, request.as_bytes()).map_or("-".to_owned(), |client| client.to_string())
    }

    #[test]
    fn a_chain_of_trusted_proxies_is_followed_to_the_client() {
        let from = ["10.0.0.0/8", "unix:"].map(|text| Peers::parse(text).expect("peers")).to_vec();
        let config = RealIp { from, ..RealIp::default() };
        let list = |value: &str| format!("X-Forwarded-For: {value}");
        for (peer, value, want) in [
            ("10.0.0.1:80", "192.0.2.1", "192.0.2.1:0"),
            ("192.0.2.9:80", "192.0.2.1", "192.0.2.9:80"),
            ("10.0.0.1:80", "evil, 198.51.100.1, 192.0.2.1, 10.0.0.2", "192.0.2.1:0"),
            ("10.0.0.1:80", "10.0.0.3, 10.0.0.2", "10.0.0.3:0"),
            ("10.0.0.1:80", "192.0.2.1, unknown", "10.0.0.1:80"),
            ("10.0.0.1:80", "[2001:db8::1]:99", "[2001:db8::1]:99"),
            ("10.0.0.1:80", "2001:db8::1", "[2001:db8::1]:0"),
            ("", "192.0.2.1:7", "192.0.2.1:7"),
        ] {
            assert_eq!(client(&config, peer, &list(value)), want, "{peer} {value}");
        }
        let two = "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-For: 10.0.0.2";
        assert_eq!(client(&config, "10.0.0.1:80", two), "192.0.2.1:0");
        assert_eq!(client(&config, "10.0.0.1:80", "X: y"), "10.0.0.1:80");
        let last = RealIp { recursive: false, ..config.clone() };
        assert_eq!(client(&last, "10.0.0.1:80", &list("192.0.2.1, 10.0.0.2")), "10.0.0.2:0");
        let forwarded = RealIp { header: "Forwarded".to_owned().into(), ..config };
        let value = "Forwarded: for=192.0.2.1;proto=http, For=\"[2001:db8::2]:8\" ;by=x, for=10.0.0.2";
        assert_eq!(client(&forwarded, "10.0.0.1:80", value), "[2001:db8::2]:8");
        assert_eq!(client(&forwarded, "10.0.0.1:80", "Forwarded: for=_hidden"), "10.0.0.1:80");
    }
}
