//! Sums that do not fall when one master takes over from another: each has a scoreboard of its own, and
//! shows what the other counts beside its own counts.
//!
//! Counters are exchanged by name, since another version has other ones. What came from the other master is
//! remembered, so that it is not told its own counts as somebody else's.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use drover_event::{Counter, Stats};
use nix::unistd::Pid;

use super::layout::{BLOCKS, Master, TOTALS_AT, block_at};
use super::{Scoreboard, Watch};

/// Counters by name.
pub(crate) type Totals = BTreeMap<String, u64>;

/// What the master itself counts and another goes on from.
const OF_THE_MASTER: [(&str, Master); 4] = [
    ("worker_exits_asked", Master::ExitsAsked),
    ("worker_exits_clean", Master::ExitsClean),
    ("worker_exits_failed", Master::ExitsFailed),
    ("worker_exits_killed", Master::ExitsKilled),
];

impl Scoreboard {
    /// What was counted here, without what another master counted.
    pub(crate) fn own_totals(&self) -> Totals {
        let carried = self.carried.borrow();
        let own = |(name, sum): (&str, u64)| {
            let carried = carried.get(name).copied().unwrap_or(0);
            (name.to_owned(), sum.wrapping_sub(carried))
        };
        let lent = self.lent_blocks();
        let counters = Counter::ALL.iter().map(|&counter| (counter.name(), self.sum(counter, &lent)));
        let master = OF_THE_MASTER.iter().map(|&(name, word)| (name, self.words[word.at()].load(Relaxed)));
        counters.chain(master).map(own).collect()
    }

    /// Shows what another master has counted by now beside what is counted here.
    pub(crate) fn carry(&self, totals: &Totals) {
        let mut carried = self.carried.borrow_mut();
        self.bump(Master::FoldSequence);
        for (word, name) in places() {
            let Some(&counted) = totals.get(name) else { continue };
            let before = carried.entry(name.to_owned()).or_default();
            self.add(word, counted.saturating_sub(*before));
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
        for &counter in Counter::ALL {
            let missing = left.total(counter).saturating_sub(self.sum(counter, &lent));
            self.add(total_word(counter), missing);
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

    fn sum(&self, counter: Counter, lent: &[usize]) -> u64 {
        let of_block = |base: &usize| self.words[base + Stats::counter_word(counter)].load(Relaxed);
        let ended = self.words[total_word(counter)].load(Relaxed);
        lent.iter().map(of_block).fold(ended, u64::wrapping_add)
    }

    fn add(&self, word: usize, more: u64) {
        let word = &self.words[word];
        word.store(word.load(Relaxed).wrapping_add(more), Relaxed);
    }
}

/// The words that are added to, and their names.
fn places() -> impl Iterator<Item = (usize, &'static str)> {
    let counters = Counter::ALL.iter().map(|&counter| (total_word(counter), counter.name()));
    counters.chain(OF_THE_MASTER.iter().map(|&(name, word)| (word.at(), name)))
}

/// Where the counters of workers that have ended are summed.
fn total_word(counter: Counter) -> usize {
    TOTALS_AT + Stats::counter_word(counter)
}
