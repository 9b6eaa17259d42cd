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
use crate::passive::Rules;
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

    pub(crate) fn get(&self, number: u16) -> Option<&Rc<Peer>> {
        self.all.get(usize::from(number))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Rc<Peer>> {
        self.all.iter()
    }

    /// The numbers of those that come first, and of the backups.
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
        weight: u64::from(server.weight),
        backup: server.backup,
        max_connections: u64::from(server.max_connections),
        rules: Rules::new(server.max_fails, server.fail_timeout, server.slow_start),
        shared,
        own,
        counted,
        current: Cell::new(0),
        kept: RefCell::default(),
        gone: Cell::new(false),
    };
    peer.forget_predecessor();
    Ok(Rc::new(peer))
}

/// Some of the peers as they stand at a moment, without those that were tried.
pub(crate) struct Present<'a> {
    pub(crate) peers: &'a Peers,
    pub(crate) group: Range<usize>,
    pub(crate) tried: &'a [u16],
    pub(crate) now: Millis,
}

impl Present<'_> {
    fn peer(&self, number: usize) -> &Peer {
        &self.peers.all[self.group.start + number]
    }
}

impl Candidates for Present<'_> {
    fn count(&self) -> usize {
        self.group.len()
    }

    fn weight(&self, number: usize) -> u64 {
        if self.tried.iter().any(|&tried| usize::from(tried) == self.group.start + number) {
            return 0;
        }
        self.peer(number).weight_now(self.now)
    }

    fn active(&self, number: usize) -> u64 {
        self.peer(number).active()
    }

    fn identity(&self, number: usize) -> u64 {
        self.peer(number).identity
    }

    fn current(&self, number: usize) -> &Cell<i64> {
        &self.peer(number).current
    }
}
