//! A peer: one address of a server, as a worker sees it.
//!
//! What workers share of it stands in [words](crate::words); what is the worker's own, its place in the
//! round robin and the connections it keeps, stands here.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use drover_event::{Kept, Millis, Target};

use crate::balance::stable_hash;
use crate::passive::{self, Rules, Standing, WEIGHT_UNIT};
use crate::words::{PeerBlock, PeerWord, Tally, TallyBlock};

/// One address of a server.
pub struct Peer {
    /// Which server of the config.
    pub(crate) server: usize,
    /// The number of its block.
    pub(crate) block: usize,
    /// How often the block had been given another address.
    pub(crate) life: u64,
    pub(crate) target: Target,
    pub(crate) name: Box<str>,
    pub(crate) identity: u64,
    /// In [`WEIGHT_UNIT`]s.
    pub(crate) weight: u64,
    pub(crate) backup: bool,
    /// 0 for no limit.
    pub(crate) max_connections: u64,
    pub(crate) rules: Rules,
    pub(crate) shared: PeerBlock,
    pub(crate) own: TallyBlock,
    /// Whether [`PeerWord::Active`] is kept.
    pub(crate) counted: bool,
    pub(crate) current: Cell<i64>,
    /// The longest kept first.
    pub(crate) kept: RefCell<Vec<KeptConnection>>,
    /// The server has this address no longer, or the block is another peer's.
    pub(crate) gone: Cell<bool>,
}

/// A connection that is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptConnection {
    pub(crate) kept: Kept,
    pub(crate) requests: u32,
    pub(crate) since: Millis,
}

/// Under the half of [`PeerWord::Active`] that counts lives.
const COUNT: u64 = u32::MAX as u64;

impl Peer {
    /// Where it is.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Its address, for logs.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of its server in the config.
    pub fn server(&self) -> usize {
        self.server
    }

    /// The number of its block of shared words.
    pub fn block(&self) -> usize {
        self.block
    }

    /// What it is good for now.
    pub(crate) fn standing(&self, now: Millis) -> Standing {
        if self.is_full() {
            return Standing::Unusable;
        }
        passive::standing(&self.shared, &self.rules, now.as_u64())
    }

    /// Its weight at this moment; 0 where it is not to be used.
    #[inline]
    pub(crate) fn weight_now(&self, now: Millis) -> u64 {
        if self.max_connections == 0 && passive::trouble(&self.shared) == 0 {
            return self.weight;
        }
        match self.standing(now) {
            Standing::Unusable => 0,
            Standing::Trial => self.weight,
            Standing::Usable(part) => self.weight * part / WEIGHT_UNIT,
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.max_connections > 0 && self.active() >= self.max_connections
    }

    /// Requests and connections that all workers have with it, where that is counted; else this worker's.
    pub(crate) fn active(&self) -> u64 {
        match self.counted {
            true => self.shared[PeerWord::Active as usize].load(Relaxed) & COUNT,
            false => self.own[Tally::Active as usize].load(Relaxed),
        }
    }

    /// Takes one of its connections. False where there is none left, or it has left.
    pub(crate) fn acquire(&self) -> bool {
        if self.gone.get() {
            // A request that began before may still finish with it.
            return true;
        }
        if self.counted {
            let word = &self.shared[PeerWord::Active as usize];
            let take = |word: u64| {
                let fits = self.max_connections == 0 || word & COUNT < self.max_connections;
                (word >> 32 == self.life && fits).then_some(word + 1)
            };
            if word.fetch_update(AcqRel, Acquire, take).is_err() {
                return false;
            }
        }
        self.count(Tally::Active, 1);
        true
    }

    /// Gives one of its connections back.
    pub(crate) fn release(&self) {
        if !self.gone.get() {
            self.count(Tally::Active, 1u64.wrapping_neg());
            self.give_back(1);
        }
    }

    /// Changes one of this worker's tallies. One writer makes a load and a store enough.
    pub(crate) fn count(&self, tally: Tally, amount: u64) {
        if !self.gone.get() {
            let word = &self.own[tally as usize];
            word.store(word.load(Relaxed).wrapping_add(amount), Relaxed);
        }
    }

    /// Begins this worker's tallies. What is under way in them belongs to an earlier worker of the same
    /// number, which died with it, or to another life of the block.
    pub(crate) fn begin_tallies(&self) {
        let same = self.own[Tally::Life as usize].swap(self.life, Relaxed) == self.life;
        let left = self.own[Tally::Active as usize].swap(0, Relaxed);
        if same {
            self.give_back(left);
        }
        self.own[Tally::Kept as usize].store(0, Relaxed);
    }

    /// The server has this address no longer: what is still under way with it is not counted any more.
    pub(crate) fn end_tallies(&self) {
        self.gone.set(true);
        // The block may be another peer's already.
        if self.own[Tally::Life as usize].load(Relaxed) == self.life {
            self.give_back(self.own[Tally::Active as usize].swap(0, Relaxed));
            self.own[Tally::Kept as usize].store(0, Relaxed);
        }
    }

    /// Takes so many off the count that all workers share, unless the block has another life.
    fn give_back(&self, count: u64) {
        if self.counted && count > 0 {
            let word = &self.shared[PeerWord::Active as usize];
            let give = |word: u64| (word >> 32 == self.life).then(|| word - (word & COUNT).min(count));
            let _ = word.fetch_update(AcqRel, Acquire, give);
        }
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Peer({})", self.name)
    }
}

/// What distinguishes a peer from others in consistent hashing: its address, as text.
pub(crate) fn identity(target: &Target) -> u64 {
    stable_hash(target.to_string().as_bytes())
}
