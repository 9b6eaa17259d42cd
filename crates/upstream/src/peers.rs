//! The peers of an upstream at one moment: one for each address of each server.
//!
//! A set never changes. When a name gets other addresses a new set takes its place; requests under way
//! finish with the one they began with. A peer that is in both is the same one, with its place in the
//! round robin and its kept connections.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use drover_config::ServerAddress;
use drover_event::{Millis, Target};

use crate::balance::Candidates;
use crate::config::{self, Balance};
use crate::passive::{Rules, WEIGHT_UNIT};
use crate::peer::{self, Peer};
use crate::plan::{Plan, StartError};
use crate::words::PeerWord;

/// The peers, those that are backups last.
#[derive(Debug)]
pub(crate) struct Peers {
    all: Vec<Rc<Peer>>,
    primaries: usize,
}

impl Peers {
    /// The peers that the words name now; those that `before` had already are taken from there.
    pub(crate) fn build(plan: &Plan, worker: u32, before: Option<&Peers>) -> Result<Peers, StartError> {
        let mut all = Vec::new();
        for (number, server) in plan.config().servers.iter().enumerate() {
            if server.down {
                continue;
            }
            for (block, target) in targets(plan, number, server) {
                all.push(peer_at(plan, worker, before, (number, block), target)?);
            }
        }
        all.sort_by_key(|peer| peer.backup);
        let primaries = all.iter().filter(|peer| !peer.backup).count();
        Ok(Peers { all, primaries })
    }

    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn contains(&self, peer: &Rc<Peer>) -> bool {
        self.all.iter().any(|other| Rc::ptr_eq(other, peer))
    }

    pub(crate) fn get(&self, number: u16) -> Option<&Rc<Peer>> {
        self.all.get(usize::from(number))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Rc<Peer>> {
        self.all.iter()
    }

    /// The numbers of those that come first, and of the backups.
    #[inline]
    pub(crate) fn groups(&self) -> [Range<usize>; 2] {
        [0..self.primaries, self.primaries..self.all.len()]
    }
}

/// The addresses of a server with the blocks they have.
fn targets(plan: &Plan, number: usize, server: &config::Server) -> Vec<(usize, Target)> {
    let blocks = plan.words().layout().peers_of(number);
    match &server.address {
        ServerAddress::Internet(address) => vec![(blocks.start, Target::Internet(*address))],
        ServerAddress::Unix(path) => vec![(blocks.start, Target::Unix(path.clone()))],
        ServerAddress::Name { .. } => {
            let address =
                |block| plan.words().address(block).map(|address| (block, Target::Internet(address)));
            blocks.filter_map(address).collect()
        }
    }
}

/// The peer of a server and block.
fn peer_at(
    plan: &Plan,
    worker: u32,
    before: Option<&Peers>,
    (number, block): (usize, usize),
    target: Target,
) -> Result<Rc<Peer>, StartError> {
    let (config, words) = (plan.config(), plan.words());
    let missing = || StartError::Words { upstream: plan.name().into(), worker };
    let shared = words.peer(block).ok_or_else(missing)?;
    let own = words.tally(worker, block).ok_or_else(missing)?;
    let life = shared[PeerWord::Active as usize].load(Relaxed) >> 32;
    let known = before.and_then(|before| {
        before.iter().find(|peer| peer.block == block && peer.life == life && peer.target == target)
    });
    if let Some(peer) = known {
        return Ok(Rc::clone(peer));
    }
    let server = &config.servers[number];
    let counted = server.max_connections > 0
        || config.hash_balance_factor.gt(&0)
        || matches!(*config.balance, Balance::LeastConnections | Balance::RandomTwo);
    let peer = Peer {
        server: number,
        block,
        life,
        name: target.to_string().into(),
        identity: peer::identity(&target),
        target,
        weight: u64::from(server.weight) * WEIGHT_UNIT,
        backup: server.backup,
        max_connections: u64::from(server.max_connections),
        rules: Rules::of(server),
        shared,
        own,
        counted,
        current: Cell::new(0),
        kept: RefCell::default(),
        gone: Cell::new(false),
    };
    peer.begin_tallies();
    Ok(Rc::new(peer))
}

/// Some of the peers as they stand at a moment, without those that were tried.
pub(crate) struct Present<'a> {
    peers: &'a [Rc<Peer>],
    /// The number of the first of them.
    first: usize,
    tried: &'a [u16],
    now: Millis,
}

impl<'a> Present<'a> {
    /// Those of `peers` that have the numbers of `group`.
    #[inline]
    pub(crate) fn new(peers: &'a Peers, group: Range<usize>, tried: &'a [u16], now: Millis) -> Self {
        Present { first: group.start, peers: &peers.all[group], tried, now }
    }

    fn was_tried(&self, number: usize) -> bool {
        self.tried.iter().any(|&tried| usize::from(tried) == self.first + number)
    }
}

impl Candidates for Present<'_> {
    #[inline]
    fn count(&self) -> usize {
        self.peers.len()
    }

    #[inline]
    fn weight(&self, number: usize) -> u64 {
        if !self.tried.is_empty() && self.was_tried(number) {
            return 0;
        }
        self.peers[number].weight_now(self.now)
    }

    #[inline]
    fn active(&self, number: usize) -> u64 {
        self.peers[number].active()
    }

    #[inline]
    fn identity(&self, number: usize) -> u64 {
        self.peers[number].identity
    }

    #[inline]
    fn current(&self, number: usize) -> &Cell<i64> {
        &self.peers[number].current
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Server;
    use crate::passive::{self, Standing};
    use crate::words::Tally;
    use proptest::prelude::*;

    const NOW: Millis = Millis::new(50_000);

    fn plan(change: impl Fn(&mut Server), balance: Balance) -> Plan {
        let address = |text| ServerAddress::parse(text).expect("an address");
        let mut servers: Vec<Server> =
            ["10.0.0.1:80", "10.0.0.2:80"].map(address).map(Server::new).into_iter().collect();
        servers.iter_mut().for_each(change);
        let mut config = config::Upstream::new(servers);
        config.balance = balance.into();
        Plan::new("test", &config, 2).expect("memory")
    }

    fn worker(plan: &Plan, number: u32) -> Peers {
        Peers::build(plan, number, None).expect("words")
    }

    #[test]
    fn workers_agree_on_what_is_under_way() {
        let plan = plan(|server| server.max_connections = 3, Balance::RoundRobin);
        let (one, two) = (worker(&plan, 0), worker(&plan, 1));
        assert!(one.all[0].acquire() && one.all[0].acquire() && two.all[0].acquire());
        assert!(!one.all[0].acquire() && !two.all[0].acquire(), "three in all");
        assert_eq!((one.all[0].active(), two.all[0].active(), one.all[1].active()), (3, 3, 0));
        assert_eq!(two.all[0].standing(NOW), Standing::Unusable);
        assert_eq!(plan.words().total(0, Tally::Active), 3);
        one.all[0].release();
        assert!(two.all[0].acquire());
    }

    #[test]
    fn what_a_dead_worker_had_under_way_is_given_back_by_the_one_that_replaces_it() {
        let plan = plan(|_| (), Balance::LeastConnections);
        let (one, two) = (worker(&plan, 0), worker(&plan, 1));
        (0..5).for_each(|_| assert!(one.all[1].acquire()));
        assert!(two.all[1].acquire());
        std::mem::forget(one);
        let replaced = worker(&plan, 0);
        assert_eq!((replaced.all[1].active(), plan.words().total(1, Tally::Active)), (1, 1));
    }

    #[test]
    fn workers_agree_on_who_is_given_up() {
        let plan = plan(|_| (), Balance::RoundRobin);
        let (one, two) = (worker(&plan, 0), worker(&plan, 1));
        let failed = &one.all[0];
        assert!(passive::fail(&failed.shared, &failed.rules, NOW.as_u64()));
        assert_eq!(two.all[0].standing(NOW), Standing::Unusable);
        assert_eq!((two.all[0].weight_now(NOW), two.all[1].weight_now(NOW)), (0, WEIGHT_UNIT));
    }

    #[test]
    fn backups_come_last_and_servers_that_are_down_do_not_come() {
        let mut plan = plan(|_| (), Balance::RoundRobin);
        let mut config = plan.config().clone();
        let mut servers: Vec<Server> = config.servers.iter().map(|server| Server::clone(server)).collect();
        (servers[0].backup, servers[1].down) = (true, true);
        servers.push(Server::new(ServerAddress::parse("unix:/run/c.sock").expect("an address")));
        config.servers = servers.into_iter().map(drover_config::Located::from).collect::<Vec<_>>().into();
        plan = Plan::new("test", &config, 1).expect("memory");
        let peers = worker(&plan, 0);
        let names: Vec<&str> = peers.iter().map(|peer| peer.name()).collect();
        assert_eq!(names, ["unix:/run/c.sock", "10.0.0.1:80"]);
        assert_eq!(peers.groups(), [0..1, 1..2]);
    }

    #[test]
    fn a_plan_for_fewer_workers_is_refused() {
        let plan = plan(|_| (), Balance::RoundRobin);
        let error = Peers::build(&plan, 2, None).expect_err("two workers");
        assert_eq!(error.to_string(), "upstream \"test\" has no words for worker 2");
    }

    #[derive(Clone, Debug)]
    enum Step {
        Take { worker: usize, peer: usize },
        Give { worker: usize, peer: usize },
        Die { worker: usize },
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0..3usize, 0..2usize).prop_map(|(worker, peer)| Step::Take { worker, peer }),
            5 => (0..3usize, 0..2usize).prop_map(|(worker, peer)| Step::Give { worker, peer }),
            1 => (0..3usize).prop_map(|worker| Step::Die { worker }),
        ]
    }

    proptest! {
        /// Whatever workers take, give back, or die with: what is counted is what living workers have, and
        /// never more than the limit.
        #[test]
        fn what_is_under_way_is_what_living_workers_have(steps in proptest::collection::vec(step(), 1..80)) {
            let config = plan(|server| server.max_connections = 4, Balance::RoundRobin).config().clone();
            let plan = Plan::new("test", &config, 3).expect("memory");
            let mut workers: Vec<Peers> = (0..3).map(|number| worker(&plan, number)).collect();
            let mut have = [[0u64; 2]; 3];
            for step in steps {
                match step {
                    Step::Take { worker, peer } => {
                        let all: u64 = have.iter().map(|have| have[peer]).sum();
                        prop_assert_eq!(workers[worker].all[peer].acquire(), all < 4);
                        have[worker][peer] += u64::from(all < 4);
                    }
                    Step::Give { worker, peer } if have[worker][peer] > 0 => {
                        workers[worker].all[peer].release();
                        have[worker][peer] -= 1;
                    }
                    Step::Give { .. } => {}
                    Step::Die { worker: number } => {
                        workers[number] = worker(&plan, number as u32);
                        have[number] = [0; 2];
                    }
                }
                for peer in 0..2 {
                    let all: u64 = have.iter().map(|have| have[peer]).sum();
                    prop_assert_eq!(workers[0].all[peer].active(), all);
                    prop_assert_eq!(plan.words().total(peer, Tally::Active), all);
                }
            }
        }
    }
}
