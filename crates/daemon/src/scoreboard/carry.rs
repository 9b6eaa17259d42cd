//! Sums that do not fall when one master takes over from another: each has a scoreboard of its own, and
//! shows what the other counts beside its own counts.
//!
//! Sums are exchanged by name, since another version has other ones. What came from the other master is
//! remembered, so that it is not told its own counts as somebody else's.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use drover_event::Stats;
use nix::unistd::Pid;

use super::layout::{BLOCKS, Listener, Master, TOTALS_AT, block_at, listener_at};
use super::{Scoreboard, Watch};

/// Sums by name.
pub(crate) type Totals = BTreeMap<String, u64>;

/// What the master itself counts and another goes on from.
const OF_THE_MASTER: [(&str, Master); 4] = [
    ("worker_exits_asked", Master::ExitsAsked),
    ("worker_exits_clean", Master::ExitsClean),
    ("worker_exits_failed", Master::ExitsFailed),
    ("worker_exits_killed", Master::ExitsKilled),
];

/// One of the sums: where in the totals and in each block it is counted, or where the master counts it.
#[derive(Debug, Clone, Copy)]
enum Sum {
    OfBlocks(usize),
    OfMaster(usize),
}

impl Scoreboard {
    /// What was counted here, without what another master counted.
    pub(crate) fn own_totals(&self) -> Totals {
        let (carried, lent) = (self.carried.borrow(), self.lent_blocks());
        let own = |(name, sum): (String, Sum)| {
            let own = self.sum(sum, &lent).wrapping_sub(carried.get(&name).copied().unwrap_or(0));
            (own > 0).then_some((name, own))
        };
        self.sums().into_iter().filter_map(own).collect()
    }

    /// Shows what another master has counted by now beside what is counted here.
    pub(crate) fn carry(&self, totals: &Totals) {
        self.number_listeners(totals.keys().filter_map(|name| address_in(name)), 0);
        let mut carried = self.carried.borrow_mut();
        self.bump(Master::FoldSequence);
        for (name, sum) in self.sums() {
            let Some(&counted) = totals.get(&name) else { continue };
            let before = carried.entry(name).or_default();
            self.add(sum, counted.saturating_sub(*before));
            *before = counted.max(*before);
        }
        self.bump(Master::FoldSequence);
    }

    /// The other master is gone: what it counted belongs to this one from now on.
    pub(crate) fn keep_carried(&self) {
        self.carried.borrow_mut().clear();
    }

    /// Shows no less than another master did that was killed before it could say what it had counted; `path` is
    /// its scoreboard. One of another version cannot be read, and has said most of it.
    pub(crate) fn catch_up_with(&self, path: &Path) {
        let Ok(watch) = Watch::open_left_behind(path) else { return };
        let (left, lent) = (watch.snapshot_as(Pid::this()), self.lent_blocks());
        self.bump(Master::FoldSequence);
        for (word, _) in Stats::named_words() {
            let sum = Sum::OfBlocks(word);
            self.add(sum, left.total_of(word).saturating_sub(self.sum(sum, &lent)));
        }
        self.bump(Master::FoldSequence);
    }

    /// Has readers wait for another master to take over, or go on.
    pub(crate) fn set_handing_over(&self, handing_over: bool) {
        self.set(Master::HandingOver, u64::from(handing_over));
    }

    /// Where the counters of workers begin that have not ended.
    fn lent_blocks(&self) -> Vec<usize> {
        let lent = (0..BLOCKS).filter(|index| self.lent(*index));
        lent.map(block_at).collect()
    }

    fn sum(&self, sum: Sum, lent: &[usize]) -> u64 {
        let load = |word: usize| self.words[word].load(Relaxed);
        match sum {
            Sum::OfBlocks(word) => {
                lent.iter().fold(load(TOTALS_AT + word), |sum, block| sum.wrapping_add(load(block + word)))
            }
            Sum::OfMaster(word) => load(word),
        }
    }

    fn add(&self, sum: Sum, more: u64) {
        let word = match sum {
            Sum::OfBlocks(word) => &self.words[TOTALS_AT + word],
            Sum::OfMaster(word) => &self.words[word],
        };
        word.store(word.load(Relaxed).wrapping_add(more), Relaxed);
    }

    /// All sums by their names. Those of listeners are named by address: numbers differ from master to master.
    fn sums(&self) -> Vec<(String, Sum)> {
        let blocks = Stats::named_words().map(|(word, name)| (name, Sum::OfBlocks(word)));
        let master = OF_THE_MASTER.iter().map(|&(name, word)| (name.to_owned(), Sum::OfMaster(word.at())));
        let mut sums: Vec<(String, Sum)> = blocks.chain(master).collect();
        for (number, address) in self.numbered_listeners() {
            sums.push((format!("{ACCEPTS_AT}{address}"), Sum::OfBlocks(Stats::accepts_word(number))));
            let overflows = listener_at(number, Listener::Overflows);
            sums.push((format!("{OVERFLOWS_AT}{address}"), Sum::OfMaster(overflows)));
        }
        sums
    }
}

/// What stands before the address of a listener in the names of its sums.
const ACCEPTS_AT: &str = "accepts at ";
const OVERFLOWS_AT: &str = "overflows at ";

/// The address in the name of a listener's sum.
fn address_in(name: &str) -> Option<&str> {
    name.strip_prefix(ACCEPTS_AT).or_else(|| name.strip_prefix(OVERFLOWS_AT))
}
