//! What workers agree on about servers: words of shared memory, made before the fork.
//!
//! ```text
//! servers   one block for each server of the config      [`ServerWord`]
//! peers     one block for each address a server may have  [`PeerWord`]
//! tallies   for each worker, a block for each peer        [`Tally`]
//! ```
//!
//! The words of a server and of a peer are written by any worker, rarely: when something fails, when a
//! check ends, when a name gets other addresses. A worker's tallies are written by it alone, with plain
//! stores, on lines that no other worker writes to; what a peer has in all is their sum. The only word
//! that every request changes in two workers' sight is [`PeerWord::Active`], and only where balancing or
//! `max_connections` need it.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use drover_sys::memory::{SharedWords, WordBlock};
use drover_sys::named_words;

use crate::config;

named_words! {
    /// The words of a server of the config.
    ServerWord {
        /// Even; grows with every change of the addresses. Odd while they are being changed.
        Sequence = "sequence",
        /// When the name is to be resolved next, in milliseconds of the monotonic clock.
        ResolveDue = "resolve_due",
        /// How often resolving succeeded.
        Resolved = "resolved",
        /// How often resolving failed.
        ResolveFailures = "resolve_failures",
    }
}

named_words! {
    /// The words of a peer: one address of a server.
    PeerWord {
        /// Zero where the peer is as it should be; else bits: 1 found down by checks, 2 given up for a while
        /// after failures, 4 failures were counted, 8 starting slowly.
        Trouble = "trouble",
        /// Until when it is given up after failures, in milliseconds of the monotonic clock.
        OutUntil = "out_until",
        /// Failures within the present window.
        Fails = "fails",
        /// When the present window began.
        WindowStart = "window_start",
        /// When it last failed.
        LastFailed = "last_failed",
        /// Since when it starts slowly.
        UpSince = "up_since",
        /// Checks in a row that contradict what is held of it.
        CheckStreak = "check_streak",
        /// When the next check is due.
        CheckDue = "check_due",
        /// Connections and requests that all workers have with it now, in the low half; the high half is how
        /// often the block was given another address. Kept only where balancing or a limit needs it.
        Active = "active",
        /// The address: its family (4 or 6; 0 for none) in the high half, the port in the low one.
        Family = "family",
        /// The first half of the address.
        AddressHigh = "address_high",
        /// The second half of the address; an IPv4 address stands here alone.
        AddressLow = "address_low",
        /// How many checks were made.
        Checks = "checks",
        /// How many checks failed.
        ChecksFailed = "checks_failed",
        /// When it was last found up or down.
        ChangedAt = "changed_at",
    }
}

named_words! {
    /// What a worker counts about a peer.
    Tally {
        /// Connections and requests under way.
        Active = "active",
        /// Connections kept open for later use.
        Kept = "kept",
        /// Requests, or connections where the service has no requests.
        Requests = "requests",
        /// Failures that were the server's.
        Failures = "failures",
        /// Connections made.
        Connects = "connects",
        /// Requests that used a kept connection.
        Reused = "reused",
        /// Which life of the peer's block this is about; see [`PeerWord::Active`].
        Life = "life",
    }
}

/// Words of a cache line.
const LINE: usize = 8;
const SERVER_WORDS: usize = ServerWord::ALL.len().next_multiple_of(LINE);
const PEER_WORDS: usize = PeerWord::ALL.len().next_multiple_of(LINE);
const TALLY_WORDS: usize = Tally::ALL.len().next_multiple_of(LINE);

/// The addresses that a name may have; further ones are not used.
pub const ADDRESSES_MOST: usize = 32;

pub(crate) type ServerBlock = WordBlock<SERVER_WORDS>;
pub(crate) type PeerBlock = WordBlock<PEER_WORDS>;
pub(crate) type TallyBlock = WordBlock<TALLY_WORDS>;

/// Where everything stands in the words of one upstream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// By server of the config: its first peer block.
    first_peers: Vec<usize>,
    peers: usize,
    workers: usize,
}

impl Layout {
    /// The layout for an upstream and a number of workers.
    pub fn new(upstream: &config::Upstream, workers: u32) -> Layout {
        let blocks = upstream.servers.iter().map(|server| server.addresses_most());
        Layout::of_blocks(blocks, workers as usize)
    }

    /// The layout for servers with so many peer blocks each.
    pub(crate) fn of_blocks(blocks: impl Iterator<Item = usize>, workers: usize) -> Layout {
        let mut peers = 0;
        let first = |blocks: usize| {
            let first = peers;
            peers += blocks;
            first
        };
        let first_peers = blocks.map(first).collect();
        Layout { first_peers, peers, workers }
    }

    /// For how many workers.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// How many words there are.
    pub fn words(&self) -> usize {
        self.tallies_at(self.workers)
    }

    /// The peer blocks of a server.
    pub fn peers_of(&self, server: usize) -> std::ops::Range<usize> {
        let end = self.first_peers.get(server + 1).copied().unwrap_or(self.peers);
        self.first_peers[server]..end
    }

    /// The word of a server.
    pub fn server_word(&self, server: usize, word: ServerWord) -> usize {
        server * SERVER_WORDS + word as usize
    }

    /// The word of a peer.
    pub fn peer_word(&self, peer: usize, word: PeerWord) -> usize {
        self.first_peers.len() * SERVER_WORDS + peer * PEER_WORDS + word as usize
    }

    /// The word of what a worker counts about a peer.
    pub fn tally_word(&self, worker: usize, peer: usize, word: Tally) -> usize {
        self.tallies_at(worker) + peer * TALLY_WORDS + word as usize
    }

    fn tallies_at(&self, worker: usize) -> usize {
        let before = self.first_peers.len() * SERVER_WORDS + self.peers * PEER_WORDS;
        before + worker * self.peers * TALLY_WORDS
    }
}

/// The words of one upstream, and where everything stands in them.
#[derive(Clone, Debug)]
pub struct Words {
    mapping: Rc<SharedWords>,
    base: usize,
    layout: Rc<Layout>,
}

impl Words {
    /// Words that the workers forked later share with each other.
    ///
    /// # Errors
    /// What `mmap(2)` reports.
    pub fn anonymous(layout: Layout) -> io::Result<Words> {
        let mapping = Rc::new(SharedWords::anonymous(layout.words().max(1))?);
        Ok(Words { mapping, base: 0, layout: Rc::new(layout) })
    }

    /// The words from `base` on; `None` if they are too few.
    pub fn within(mapping: &Rc<SharedWords>, base: usize, layout: Layout) -> Option<Words> {
        let end = base.checked_add(layout.words())?;
        let layout = Rc::new(layout);
        (end <= mapping.len()).then(|| Words { mapping: Rc::clone(mapping), base, layout })
    }

    /// Where everything stands.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// What a peer has of something over all workers.
    pub fn total(&self, peer: usize, tally: Tally) -> u64 {
        let word = |worker| self.load(self.layout.tally_word(worker, peer, tally));
        (0..self.layout.workers).map(word).fold(0, u64::wrapping_add)
    }

    pub(crate) fn server(&self, server: usize) -> Option<ServerBlock> {
        WordBlock::new(&self.mapping, self.base + self.layout.server_word(server, ServerWord::Sequence))
    }

    pub(crate) fn peer(&self, peer: usize) -> Option<PeerBlock> {
        WordBlock::new(&self.mapping, self.base + self.layout.peer_word(peer, PeerWord::Trouble))
    }

    /// What a word of a server holds.
    pub fn server_word(&self, server: usize, word: ServerWord) -> u64 {
        self.load(self.layout.server_word(server, word))
    }

    /// What a word of a peer holds.
    pub fn peer_word(&self, peer: usize, word: PeerWord) -> u64 {
        self.load(self.layout.peer_word(peer, word))
    }

    /// The address that a peer of a name has now.
    pub fn address(&self, peer: usize) -> Option<SocketAddr> {
        let [family, high, low] = [PeerWord::Family, PeerWord::AddressHigh, PeerWord::AddressLow]
            .map(|word| self.peer_word(peer, word));
        decode_address(family, high, low)
    }

    fn load(&self, at: usize) -> u64 {
        self.mapping.get(self.base + at).map_or(0, |word| word.load(Relaxed))
    }

    pub(crate) fn tally(&self, worker: u32, peer: usize) -> Option<TallyBlock> {
        let worker = worker as usize;
        let at = self.base + self.layout.tally_word(worker, peer, Tally::Active);
        (worker < self.layout.workers).then(|| WordBlock::new(&self.mapping, at))?
    }
}

/// The address that a block's words mean; see [`PeerWord::Family`].
pub(crate) fn decode_address(family: u64, high: u64, low: u64) -> Option<SocketAddr> {
    let port = (family & 0xffff) as u16;
    match family >> 32 {
        4 => Some(SocketAddr::from(((low as u32).to_be_bytes(), port))),
        6 => Some(SocketAddr::from((((u128::from(high) << 64) | u128::from(low)).to_be_bytes(), port))),
        _ => None,
    }
}

/// An address as the words of a block.
pub(crate) fn encode_address(address: SocketAddr) -> (u64, u64, u64) {
    let port = u64::from(address.port());
    match address {
        SocketAddr::V4(v4) => (4 << 32 | port, 0, u64::from(u32::from(*v4.ip()))),
        SocketAddr::V6(v6) => {
            let bits = u128::from(*v6.ip());
            (6 << 32 | port, (bits >> 64) as u64, bits as u64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_config::ServerAddress;
    use std::collections::HashSet;

    #[test]
    fn addresses_come_back_from_words() {
        for text in ["192.0.2.7:65535", "[2001:db8::1:2]:1", "0.0.0.0:0", "[::]:0"] {
            let address: SocketAddr = text.parse().expect("an address");
            let (family, high, low) = encode_address(address);
            assert_eq!(decode_address(family, high, low), Some(address));
        }
        assert_eq!(decode_address(0, 0, 0), None);
    }

    fn upstream(addresses: &[&str]) -> config::Upstream {
        let server = |text: &&str| config::Server::new(ServerAddress::parse(text).expect("an address"));
        config::Upstream::new(addresses.iter().map(server).collect())
    }

    #[test]
    fn every_word_is_somebodys_own() {
        let upstream = upstream(&["127.0.0.1:1", "a.example:2", "unix:/x"]);
        let layout = Layout::new(&upstream, 3);
        assert_eq!(layout.peers_of(1), 1..1 + ADDRESSES_MOST);
        assert_eq!(layout.peers_of(2), 33..34);
        let mut words = HashSet::new();
        for server in 0..3 {
            for word in ServerWord::ALL {
                assert!(words.insert(layout.server_word(server, *word)));
            }
        }
        for peer in 0..34 {
            for word in PeerWord::ALL {
                assert!(words.insert(layout.peer_word(peer, *word)));
            }
            for worker in 0..3 {
                for word in Tally::ALL {
                    assert!(words.insert(layout.tally_word(worker, peer, *word)));
                }
            }
        }
        assert!(words.into_iter().all(|word| word < layout.words()));
    }
}
