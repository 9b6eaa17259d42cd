//! `source`: the address of this machine that connections come from.

use std::net::{IpAddr, SocketAddr};

use drover_config::Leaf;

/// An IP address without a port.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SourceAddress(pub IpAddr);

impl SourceAddress {
    /// The address with a port that the kernel chooses.
    pub fn socket_address(self) -> SocketAddr {
        SocketAddr::new(self.0, 0)
    }
}

impl Leaf for SourceAddress {
    const TYPE: &'static str = "IP address";
    const HELP: &'static str = "an IP address is a string without a port: \"192.0.2.7\", \"2001:db8::7\"";

    fn parse(text: &str) -> Result<SourceAddress, String> {
        let parsed = text.parse().map(SourceAddress);
        parsed.map_err(|_| "this is no IPv4 or IPv6 address".to_owned())
    }

    fn text(&self) -> String {
        self.0.to_string()
    }
}
