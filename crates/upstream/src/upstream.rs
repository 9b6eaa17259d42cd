//! An upstream in a worker: its peers, how one is chosen, and the connections that are kept.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{Ordering::Acquire, fence};
use std::time::Duration;

use drover_config::ServerAddress;
use drover_event::{Core, Keeper, KeeperNumber, Kept, KeptEnd, Millis, Stream};
use tracing::debug;

use crate::attempts::Attempts;
use crate::balance::{Bound, Candidates, Random, least_connections, random_two, rendezvous, round_robin};
use crate::check;
use crate::config::{self, Balance, SourceAddress};
use crate::failure::NoPeer;
use crate::lease::Claim;
use crate::passive::{self, Rules, Standing};
use crate::peer::{KeptConnection, Peer};
use crate::peers::{Peers, Present};
use crate::plan::{Plan, StartError};
use crate::resolve::{self, Name};
use crate::words::Tally;

/// How often a request looks whether the first answer for a name is there.
const FIRST_ANSWER: Duration = Duration::from_millis(5);

/// An upstream in a worker.
pub struct Upstream {
    plan: Plan,
    core: Core,
    /// The servers with names.
    names: Vec<Name>,
    /// The sum of the names' sequences that the peers were built from.
    sequences: Cell<u64>,
    balance: Balance,
    bound: Bound,
    random: Random,
    peers: RefCell<Rc<Peers>>,
    keeper: Cell<Option<KeeperNumber>>,
    /// How many connections are kept, over all peers.
    kept: Cell<usize>,
}

impl Upstream {
    /// Starts an upstream in the worker that `core` belongs to.
    ///
    /// # Errors
    /// When the plan was made for fewer workers.
    pub fn start(core: &Core, plan: &Plan) -> Result<Rc<Upstream>, StartError> {
        let worker = core.settings().worker;
        let config = plan.config();
        let names = names(plan, worker)?;
        // Before the addresses are read: if they change meanwhile, the sum does, and the first request looks.
        let sequences = Cell::new(sum_of_sequences(&names));
        let upstream = Rc::new(Upstream {
            balance: *config.balance,
            bound: match u64::from(*config.hash_balance_factor) {
                0 => Bound::None,
                percent => Bound::Percent(percent),
            },
            // Workers must not all draw alike.
            random: Random::new(RandomState::new().hash_one(worker)),
            peers: RefCell::new(Rc::new(Peers::build(plan, worker, None)?)),
            keeper: Cell::new(None),
            kept: Cell::new(0),
            names,
            sequences,
            core: core.clone(),
            plan: plan.clone(),
        });
        upstream.keeper.set(Some(core.add_keeper(Rc::clone(&upstream) as Rc<dyn Keeper>)));
        upstream.part_ways(&upstream.peers());
        for number in 0..upstream.names.len() {
            core.spawn(resolve::keep_resolving(core.clone(), Rc::clone(&upstream), number));
        }
        if config.health_check.is_some() {
            core.spawn(check::keep_checking(core.clone(), Rc::clone(&upstream)));
        }
        Ok(upstream)
    }

    /// Begins the round robin as if this worker's predecessors had each sent one request, so that the first
    /// requests of all workers do not go to the same peer.
    fn part_ways(&self, peers: &Peers) {
        let [group, _] = peers.groups();
        let now = self.core.now();
        for _ in 0..self.core.settings().worker as usize % group.len().max(1) {
            let _ = round_robin(&Present::new(peers, group.clone(), &[], now));
        }
    }

    /// Its name in the config.
    pub fn name(&self) -> &str {
        self.plan.name()
    }

    /// What it was made from.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Begins a request or connection. `key` is what [`hash_key`](crate::hash_key) makes of the rendered
    /// text of `hash`; other methods do not look at it.
    pub fn begin(self: &Rc<Self>, key: u64) -> Attempts {
        Attempts::new(self, self.peers(), key)
    }

    /// The peers at this moment.
    pub(crate) fn peers(&self) -> Rc<Peers> {
        if !self.names.is_empty() {
            self.follow_names();
        }
        Rc::clone(&self.peers.borrow())
    }

    pub(crate) fn names(&self) -> &[Name] {
        &self.names
    }

    /// Builds the peers anew where a name got other addresses.
    fn follow_names(&self) {
        let sum = sum_of_sequences(&self.names);
        if sum == self.sequences.get() || self.names.iter().any(|name| name.sequence() % 2 == 1) {
            return;
        }
        fence(Acquire);
        let before = self.peers.borrow().clone();
        let Ok(peers) = Peers::build(&self.plan, self.core.settings().worker, Some(&before)) else { return };
        fence(Acquire);
        if sum_of_sequences(&self.names) != sum {
            // They changed again meanwhile; the next request looks again.
            return;
        }
        self.sequences.set(sum);
        let peers = Rc::new(peers);
        if before.count() == 0 {
            self.part_ways(&peers);
        }
        *self.peers.borrow_mut() = Rc::clone(&peers);
        for peer in before.iter().filter(|peer| !peers.contains(peer)) {
            self.part_with(peer);
        }
    }

    /// Closes what is kept of a peer that is one no longer.
    fn part_with(&self, peer: &Peer) {
        peer.end_tallies();
        loop {
            let Some(connection) = peer.kept.borrow_mut().pop() else { break };
            self.one_less(peer);
            drop(self.core.take_kept(connection.kept, Duration::ZERO));
        }
    }

    /// Waits until there is a peer, or every name has had its first answer, at most for `connect_timeout`.
    pub(crate) async fn wait_for_names(&self) {
        let started = self.core.now();
        let longest = self.plan.config().connect_timeout.as_millis();
        let waits = || self.peers().count() == 0 && !self.names.iter().all(Name::is_answered);
        while waits() && u128::from(self.core.now().since(started)) < longest {
            self.core.sleep(FIRST_ANSWER).await;
        }
    }

    pub(crate) fn tries(&self) -> usize {
        self.plan.config().tries as usize
    }

    pub(crate) fn connecting(&self) -> (Option<SocketAddr>, Duration) {
        let config = self.plan.config();
        (config.source.map(SourceAddress::socket_address), config.connect_timeout)
    }

    /// Whether there is only one peer, which is asked whatever it did.
    pub(crate) fn is_single(&self) -> bool {
        self.peers.borrow().count() == 1
    }

    /// Chooses among the peers that were not tried, backups last, and takes a place there.
    pub(crate) fn choose(
        self: &Rc<Self>,
        peers: &Peers,
        key: u64,
        tried: &[u16],
        now: Millis,
    ) -> Result<(u16, Claim), NoPeer> {
        for group in peers.groups() {
            // One that looked usable may have been taken by another worker a moment ago.
            for _ in 0..group.len() {
                let present = Present::new(peers, group.clone(), tried, now);
                let Some(chosen) = self.choose_among(&present, key) else { break };
                let number = (group.start + chosen) as u16;
                let Some(peer) = peers.get(number) else { break };
                if passive::trouble(&peer.shared) != 0 && !may_try(peer, now) {
                    continue;
                }
                if let Some(claim) = Claim::new(self, peer, now) {
                    return Ok((number, claim));
                }
            }
        }
        Err(self.why_none(peers, tried))
    }

    #[cold]
    fn why_none(&self, peers: &Peers, tried: &[u16]) -> NoPeer {
        let mut servers = self.plan.config().servers.iter();
        if peers.count() == 0 && servers.any(|server| server.has_name() && !server.down) {
            return NoPeer::Unresolved;
        }
        if !tried.is_empty() {
            return NoPeer::Exhausted;
        }
        if peers.iter().any(|peer| peer.is_full()) { NoPeer::Full } else { NoPeer::Down }
    }

    fn choose_among(&self, present: &Present<'_>, key: u64) -> Option<usize> {
        if present.count() == 1 {
            return (present.weight(0) > 0).then_some(0);
        }
        match self.balance {
            Balance::RoundRobin => round_robin(present),
            Balance::LeastConnections => least_connections(present),
            Balance::RandomTwo => random_two(present, &self.random),
            Balance::Hash => rendezvous(present, key, self.bound),
        }
    }

    /// The connection with `peer` that was kept last, if it has not been idle for longer than this, and how
    /// many requests it has had.
    pub(crate) fn take_kept(
        &self,
        core: &Core,
        peer: &Peer,
        longest_idle_ms: u64,
        read_timeout: Duration,
    ) -> Option<(Stream, u32)> {
        loop {
            let fits = |last: &mut KeptConnection| core.now().since(last.since) <= longest_idle_ms;
            let connection = peer.kept.borrow_mut().pop_if(fits)?;
            self.one_less(peer);
            match core.take_kept(connection.kept, read_timeout) {
                Ok(stream) => return Some((stream, connection.requests)),
                Err(end) => debug!("{}: a kept connection had ended: {end:?}", peer.name),
            }
        }
    }

    /// Keeps a connection, if there is room and it is worth it; closes it otherwise.
    pub(crate) fn keep(&self, peer: &Peer, stream: Stream, requests: u32) {
        let config = self.plan.config();
        let Some(keeper) = self.keeper.get() else { return };
        if config.keepalive == 0 || requests >= config.keepalive_requests || peer.gone.get() {
            return;
        }
        let core = stream.core().clone();
        if self.kept.get() >= config.keepalive as usize {
            self.close_longest_kept(&core);
        }
        let since = core.now();
        if let Ok(kept) = stream.keep(keeper, config.keepalive_timeout) {
            peer.kept.borrow_mut().push(KeptConnection { kept, requests, since });
            peer.count(Tally::Kept, 1);
            self.kept.set(self.kept.get() + 1);
        }
    }

    fn close_longest_kept(&self, core: &Core) {
        let peers = self.peers();
        let first = |peer: &Rc<Peer>| peer.kept.borrow().first().map(|connection| connection.since);
        let longest = peers.iter().filter(|peer| first(peer).is_some()).min_by_key(|peer| first(peer));
        let Some(peer) = longest else { return };
        let connection = peer.kept.borrow_mut().remove(0);
        self.one_less(peer);
        drop(core.take_kept(connection.kept, Duration::ZERO));
    }

    fn one_less(&self, peer: &Peer) {
        self.kept.set(self.kept.get() - 1);
        peer.count(Tally::Kept, 1u64.wrapping_neg());
    }
}

/// Whether this request may be sent to a peer in trouble: if it was given up, only one tries it.
#[cold]
fn may_try(peer: &Peer, now: Millis) -> bool {
    match peer.standing(now) {
        Standing::Unusable => false,
        Standing::Trial => passive::claim_trial(&peer.shared, &peer.rules, now.as_u64()),
        Standing::Usable(_) => true,
    }
}

fn sum_of_sequences(names: &[Name]) -> u64 {
    names.iter().fold(0, |sum, name| sum.wrapping_add(name.sequence()))
}

/// The servers of a plan that have names.
fn names(plan: &Plan, worker: u32) -> Result<Vec<Name>, StartError> {
    let missing = || StartError::Words { upstream: plan.name().into(), worker };
    let words = plan.words();
    let name = |(number, server): (usize, &config::Server)| {
        let ServerAddress::Name { host, port } = &server.address else { return None };
        let blocks = words.layout().peers_of(number).map(|block| words.peer(block).ok_or_else(missing));
        Some(blocks.collect::<Result<Vec<_>, _>>().and_then(|blocks| {
            Ok(Name {
                host: host.clone(),
                port: *port,
                words: words.server(number).ok_or_else(missing)?,
                blocks,
                rules: Rules::of(server),
            })
        }))
    };
    let servers = plan.config().servers.iter().map(|server| &**server).enumerate();
    servers.filter(|(_, server)| !server.down).filter_map(name).collect()
}

impl Keeper for Upstream {
    fn ended(&self, kept: Kept, end: KeptEnd) {
        let peers = self.peers();
        for peer in peers.iter() {
            let at = peer.kept.borrow().iter().position(|connection| connection.kept == kept);
            if let Some(at) = at {
                peer.kept.borrow_mut().remove(at);
                self.one_less(peer);
                debug!("{}: a kept connection ended: {end:?}", peer.name);
                return;
            }
        }
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Upstream({})", self.name())
    }
}
