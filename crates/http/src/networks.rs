//! Values by network: the smallest that an address is in counts.

use std::net::IpAddr;

use foldhash::HashMap;
use ipnet::IpNet;

/// A table of networks. A look-up costs one probe for each length of prefix in use.
#[derive(Debug)]
pub(crate) struct Networks<T> {
    by_network: HashMap<IpNet, T>,
    /// Lengths of prefixes in use, the longest first: of IPv4, then of IPv6.
    lengths: [Vec<u8>; 2],
}

impl<T> Default for Networks<T> {
    fn default() -> Networks<T> {
        Networks { by_network: HashMap::default(), lengths: [Vec::new(), Vec::new()] }
    }
}

impl<T> Networks<T> {
    pub(crate) fn insert(&mut self, network: IpNet, value: T) {
        let network = network.trunc();
        let lengths = &mut self.lengths[usize::from(network.addr().is_ipv6())];
        if let Err(at) = lengths.binary_search_by(|length| network.prefix_len().cmp(length)) {
            lengths.insert(at, network.prefix_len());
        }
        self.by_network.insert(network, value);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_network.is_empty()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.by_network.values()
    }

    /// The value of the smallest network that `address` is in. An IPv4 address that came over IPv6 counts as
    /// what it is.
    pub(crate) fn find(&self, address: IpAddr) -> Option<&T> {
        let address = address.to_canonical();
        let lengths = &self.lengths[usize::from(address.is_ipv6())];
        lengths.iter().find_map(|length| {
            let network = IpNet::new(address, *length).ok()?.trunc();
            self.by_network.get(&network)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_network_counts() {
        let mut networks = Networks::default();
        for (number, text) in
            ["10.0.0.0/8", "10.1.0.0/16", "10.1.2.3/32", "0.0.0.0/0", "fd00::/8"].iter().enumerate()
        {
            networks.insert(text.parse().expect("a network"), number);
        }
        for (address, want) in [
            ("10.1.2.3", Some(2)),
            ("10.1.9.9", Some(1)),
            ("10.9.9.9", Some(0)),
            ("::ffff:10.9.9.9", Some(0)),
            ("192.0.2.1", Some(3)),
            ("fd12::1", Some(4)),
            ("2001:db8::1", None),
        ] {
            assert_eq!(networks.find(address.parse().expect("an address")).copied(), want, "{address}");
        }
    }
}
