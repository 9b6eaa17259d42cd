//! Names: resolved off the loop, again and again, by one worker for all.
//!
//! Each worker has a task for each server with a name. Whoever finds the name due takes on the asking by
//! moving [`ServerWord::ResolveDue`] to the end of a term; if it dies, another asks when the term is over.
//! The answer is written into the peer blocks of the server between two steps of
//! [`ServerWord::Sequence`], by which every worker notices before its next request. Addresses that stay
//! keep their blocks, and so all that is known of them; new ones take blocks that are free, each time as
//! another life of the block, so that what ended with the old address cannot be counted for the new one.
//! A name that does not resolve keeps the addresses that it had.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::Duration;

use drover_event::{Core, Millis};
use tracing::{info, warn};

use crate::passive::{self, Rules};
use crate::upstream::Upstream;
use crate::words::{ADDRESSES_MOST, PeerBlock, PeerWord, ServerBlock, ServerWord, encode_address};

/// Who took on the asking has this long; then another may. Resolvers give up sooner by default
/// (resolv.conf(5): two tries of 5 s for each name server).
const TERM_MS: u64 = 30_000;
/// After a failure it is asked again this soon, or sooner where `resolve` says so.
const RETRY: Duration = Duration::from_secs(2);

/// A server with a name.
#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) words: ServerBlock,
    /// The blocks of its addresses.
    pub(crate) blocks: Vec<PeerBlock>,
    pub(crate) rules: Rules,
}

impl Name {
    fn word(&self, word: ServerWord) -> u64 {
        self.words[word as usize].load(Acquire)
    }

    /// Grows with every change of the addresses; odd while they change.
    pub(crate) fn sequence(&self) -> u64 {
        self.word(ServerWord::Sequence)
    }

    /// Whether an answer came yet, be it that there is none.
    pub(crate) fn is_answered(&self) -> bool {
        self.word(ServerWord::Resolved) + self.word(ServerWord::ResolveFailures) > 0
    }

    /// Takes on the asking until the end of the term that is returned; else when it is due.
    fn claim(&self, now: Millis) -> Result<u64, u64> {
        let due = self.word(ServerWord::ResolveDue);
        if now.as_u64() < due {
            return Err(due);
        }
        let term = now.as_u64() + TERM_MS;
        let word = &self.words[ServerWord::ResolveDue as usize];
        word.compare_exchange(due, term, AcqRel, Acquire).map(|_| term)
    }

    /// Says when it is due again. False where the term was over and somebody else is asking.
    fn settle(&self, term: u64, due: u64) -> bool {
        let word = &self.words[ServerWord::ResolveDue as usize];
        word.compare_exchange(term, due, AcqRel, Acquire).is_ok()
    }

    fn count(&self, word: ServerWord) {
        self.words[word as usize].fetch_add(1, Relaxed);
    }

    /// Puts the addresses into the blocks; tells whether anything changed. For who holds the term only.
    fn publish(&self, addresses: &[SocketAddr], now: Millis) -> bool {
        let had: Vec<Option<SocketAddr>> = self.blocks.iter().map(address_of).collect();
        let stays =
            |address: &Option<SocketAddr>| address.is_some_and(|address| addresses.contains(&address));
        let new = addresses.iter().filter(|address| !had.contains(&Some(**address)));
        let mut new = new.peekable();
        if had.iter().all(|address| address.is_none() || stays(address)) && new.peek().is_none() {
            return false;
        }
        // Odd: also where an earlier writer died in the middle.
        let sequence = self.sequence() | 1;
        self.words[ServerWord::Sequence as usize].store(sequence, Release);
        std::sync::atomic::fence(Release);
        let first = had.iter().all(Option::is_none);
        for (block, had) in self.blocks.iter().zip(&had) {
            if stays(had) {
                continue;
            }
            match new.next() {
                Some(&address) => self.begin_life(block, address, !first, now),
                None => block[PeerWord::Family as usize].store(0, Relaxed),
            }
        }
        self.words[ServerWord::Sequence as usize].store(sequence + 1, Release);
        true
    }

    /// Gives a block another address, of which nothing is known.
    fn begin_life(&self, block: &PeerBlock, address: SocketAddr, slowly: bool, now: Millis) {
        let life = (block[PeerWord::Active as usize].load(Relaxed) >> 32) + 1;
        for word in PeerWord::ALL {
            block[*word as usize].store(0, Relaxed);
        }
        block[PeerWord::Active as usize].store(life << 32, Relaxed);
        let (family, high, low) = encode_address(address);
        block[PeerWord::AddressHigh as usize].store(high, Relaxed);
        block[PeerWord::AddressLow as usize].store(low, Relaxed);
        block[PeerWord::Family as usize].store(family, Relaxed);
        if slowly {
            passive::come_up(block, &self.rules, now.as_u64());
        }
    }
}

/// The address that a block has.
pub(crate) fn address_of(block: &PeerBlock) -> Option<SocketAddr> {
    let word = |word: PeerWord| block[word as usize].load(Relaxed);
    crate::words::decode_address(
        word(PeerWord::Family),
        word(PeerWord::AddressHigh),
        word(PeerWord::AddressLow),
    )
}

/// Asks for the addresses of a name whenever they are due, for as long as the worker lives.
pub(crate) async fn keep_resolving(core: Core, upstream: Rc<Upstream>, number: usize) {
    let Some(name) = upstream.names().get(number) else { return };
    let config = upstream.plan().config();
    let only = config.source.map(|source| source.0.is_ipv4());
    while !core.is_draining() {
        let due = match name.claim(core.now()) {
            Err(due) => due,
            Ok(term) => {
                let (host, port) = (name.host.clone(), name.port);
                let resolver = Arc::clone(upstream.plan().resolver());
                let answer = core.run_blocking(move || usable(resolver(&host, port)?, only)).await;
                let answer = answer.and_then(|answer| answer);
                let now = core.now();
                let wait = if answer.is_ok() { config.resolve } else { config.resolve.min(RETRY) };
                take_answer(upstream.name(), name, answer, term, now);
                let due = now.as_u64() + wait.as_millis() as u64;
                name.settle(term, due);
                due
            }
        };
        core.sleep(Duration::from_millis(due.saturating_sub(core.now().as_u64()).max(1))).await;
    }
}

fn take_answer(upstream: &str, name: &Name, answer: io::Result<Vec<SocketAddr>>, term: u64, now: Millis) {
    // Whoever is late has no business in the blocks: the term's next holder may be writing there.
    if now.as_u64() >= term {
        return;
    }
    match answer {
        Ok(addresses) => {
            let used = &addresses[..addresses.len().min(ADDRESSES_MOST)];
            if name.publish(used, now) {
                let list: Vec<String> = used.iter().map(SocketAddr::to_string).collect();
                info!("upstream \"{upstream}\": {} is now {}", name.host, list.join(", "));
                if used.len() < addresses.len() {
                    let (host, all) = (&name.host, addresses.len());
                    warn!("upstream \"{}\": {host} has {all} addresses, {ADDRESSES_MOST} are used", upstream);
                }
            }
            name.count(ServerWord::Resolved);
        }
        Err(error) => {
            warn!("upstream \"{upstream}\": {} cannot be resolved: {error}", name.host);
            name.count(ServerWord::ResolveFailures);
        }
    }
}

/// The addresses that can be used, sorted, each once.
fn usable(mut addresses: Vec<SocketAddr>, ipv4_only: Option<bool>) -> io::Result<Vec<SocketAddr>> {
    addresses.retain(|address| ipv4_only.is_none_or(|ipv4| address.is_ipv4() == ipv4));
    addresses.sort();
    addresses.dedup();
    if addresses.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "it has no address that can be used"));
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, Balance, Server};
    use crate::peers::Peers;
    use crate::plan::Plan;
    use crate::words::Tally;
    use drover_config::ServerAddress;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn plan() -> Plan {
        let address = ServerAddress::parse("app.example:80").expect("an address");
        let mut config = config::Upstream::new(vec![Server::new(address)]);
        config.balance = Balance::LeastConnections.into();
        Plan::new("test", &config, 2).expect("memory")
    }

    fn name(plan: &Plan) -> Name {
        let words = plan.words();
        Name {
            host: "app.example".to_owned(),
            port: 80,
            words: words.server(0).expect("words"),
            blocks: words.layout().peers_of(0).map(|block| words.peer(block).expect("words")).collect(),
            rules: Rules::of(&plan.config().servers[0]),
        }
    }

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], 80))
    }

    const NOW: Millis = Millis::new(1000);

    #[test]
    fn one_worker_asks_until_its_term_is_over() {
        let plan = plan();
        let (one, two) = (name(&plan), name(&plan));
        let term = one.claim(NOW).expect("due");
        assert_eq!(two.claim(NOW), Err(term));
        assert!(one.settle(term, 5000));
        assert_eq!(two.claim(NOW), Err(5000));
        let term = two.claim(Millis::new(5000)).expect("due");
        // It died; another takes over, and finds out if the first one wakes up again.
        let next = one.claim(Millis::new(term)).expect("due");
        assert!(!two.settle(term, 9000));
        assert!(one.settle(next, 9000));
    }

    #[test]
    fn an_address_that_stays_keeps_all_that_is_known_of_it() {
        let plan = plan();
        let name = name(&plan);
        assert!(name.publish(&[address(1), address(2)], NOW));
        assert!(!name.publish(&[address(2), address(1)], NOW), "nothing changed");
        assert_eq!(name.sequence(), 2);
        let before = Peers::build(&plan, 0, None).expect("words");
        assert!(before.get(1).is_some_and(|peer| peer.acquire()));
        assert!(name.publish(&[address(2), address(3)], NOW));
        let after = Peers::build(&plan, 0, Some(&before)).expect("words");
        let names: Vec<&str> = after.iter().map(|peer| peer.name()).collect();
        assert_eq!(names, ["10.0.0.3:80", "10.0.0.2:80"], "the new one has the block of the old one");
        assert!(after.get(1).is_some_and(|peer| before.contains(peer) && peer.active() == 1));
        assert_eq!(plan.words().total(1, Tally::Active), 1);
    }

    #[test]
    fn what_ends_with_an_old_address_is_not_counted_for_the_new_one() {
        let plan = plan();
        let name = name(&plan);
        name.publish(&[address(1)], NOW);
        let before = Peers::build(&plan, 0, None).expect("words");
        let old = before.get(0).expect("a peer");
        (0..3).for_each(|_| assert!(old.acquire()));
        name.publish(&[address(9)], NOW);
        let after = Peers::build(&plan, 0, Some(&before)).expect("words");
        let new = after.get(0).expect("a peer");
        assert_eq!((new.active(), new.name()), (0, "10.0.0.9:80"));
        assert!(new.acquire());
        old.end_tallies();
        old.release();
        assert!(old.acquire(), "a request that began before may still use it");
        old.release();
        assert_eq!((new.active(), plan.words().total(0, Tally::Active)), (1, 1));
    }

    #[test]
    fn an_answer_that_comes_too_late_is_not_taken() {
        let plan = plan();
        let name = name(&plan);
        let term = name.claim(NOW).expect("due");
        take_answer("test", &name, Ok(vec![address(1)]), term, Millis::new(term));
        assert_eq!((name.sequence(), name.is_answered()), (0, false));
        take_answer("test", &name, Err(io::ErrorKind::NotFound.into()), term, NOW);
        assert_eq!((name.sequence(), name.is_answered()), (0, true));
    }

    #[test]
    fn only_addresses_of_the_family_of_source_are_used() {
        let all = vec![address(2), "[::1]:80".parse().expect("an address"), address(1), address(2)];
        assert_eq!(usable(all.clone(), Some(true)).expect("two"), [address(1), address(2)]);
        assert_eq!(usable(all.clone(), None).expect("three").len(), 3);
        assert!(usable(vec![address(1)], Some(false)).is_err());
    }

    proptest! {
        /// Whatever answers come, the peers are the addresses of the last one, each once.
        #[test]
        fn peers_are_what_the_last_answer_says(
            answers in proptest::collection::vec(proptest::collection::btree_set(0u8..60, 0..40), 1..8),
        ) {
            let plan = plan();
            let name = name(&plan);
            let mut peers = Peers::build(&plan, 0, None).expect("words");
            for answer in answers {
                let answer: Vec<SocketAddr> = answer.into_iter().map(address).take(ADDRESSES_MOST).collect();
                name.publish(&answer, NOW);
                prop_assert_eq!(name.sequence() % 2, 0);
                peers = Peers::build(&plan, 0, Some(&peers)).expect("words");
                let had: BTreeSet<String> = peers.iter().map(|peer| peer.name().to_owned()).collect();
                prop_assert_eq!(peers.count(), answer.len());
                prop_assert_eq!(had, answer.iter().map(SocketAddr::to_string).collect());
            }
        }
    }
}
