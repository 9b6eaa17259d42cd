//! Requests under way at once, counted for each key over all workers.
//!
//! Each worker has a table of its own, which it alone writes and all read; what a key has in all is the sum. So no
//! count is lost when a worker dies: whoever comes with its number begins with an empty table. The tables are arrays
//! of sets of entries, a key's number and its count.
//!
//! A worker counts first and then looks at the sum. Two that do so at once may both see too many and refuse, but never
//! let too many through.

use std::io;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release, SeqCst};

use drover_event::SharedWords;

const WAYS: usize = 8;
/// Words of an entry.
const ENTRY: usize = 2;

/// The tables of one limit.
#[derive(Clone)]
pub struct UnderWay {
    words: Rc<SharedWords>,
    sets: usize,
    workers: usize,
}

/// A request under way; dropping it ends it.
pub struct Held {
    words: Rc<SharedWords>,
    /// Where its count is.
    count: usize,
}

impl UnderWay {
    /// Tables for so many keys each.
    ///
    /// # Errors
    /// What `mmap(2)` reports.
    pub fn new(entries: u32, workers: u32) -> io::Result<UnderWay> {
        let (sets, workers) = ((entries as usize).div_ceil(WAYS).max(1), (workers as usize).max(1));
        let words = Rc::new(SharedWords::anonymous(sets * WAYS * ENTRY * workers)?);
        Ok(UnderWay { words, sets, workers })
    }

    /// Counts a request of `key` in `worker`, unless `most` are under way already. None as well where the worker's table
    /// has no room for another key.
    pub fn begin(&self, key: u64, worker: u32, most: u64) -> Option<Held> {
        let worker = worker as usize % self.workers;
        let own = self.set(key, worker);
        let entries = || (own..own + WAYS * ENTRY).step_by(ENTRY);
        let with = |number: u64| entries().find(|at| self.words[*at].load(Acquire) == number);
        // An entry without a count is free, whoever had it.
        let free = || entries().find(|at| self.words[at + 1].load(Acquire) == 0);
        let at = with(key).or_else(|| {
            let at = free()?;
            self.words[at].store(key, Release);
            Some(at)
        })?;
        // The count is written by this worker alone, and is seen before others are read.
        self.words[at + 1].fetch_add(1, SeqCst);
        let held = Held { words: Rc::clone(&self.words), count: at + 1 };
        let sum: u64 = (0..self.workers).map(|worker| self.count(key, worker)).sum();
        (sum <= most).then_some(held)
    }

    /// Begins anew with a worker's table.
    pub fn forget_worker(&self, worker: u32) {
        let length = self.sets * WAYS * ENTRY;
        let own = (worker as usize % self.workers) * length;
        self.words[own..own + length].iter().filter(|word| word.load(Acquire) != 0).for_each(clear);
    }

    /// Where a key's set begins in a worker's table.
    fn set(&self, key: u64, worker: usize) -> usize {
        let set = ((u128::from(key) * self.sets as u128) >> 64) as usize;
        (worker * self.sets + set) * WAYS * ENTRY
    }

    fn count(&self, key: u64, worker: usize) -> u64 {
        let set = &self.words[self.set(key, worker)..][..WAYS * ENTRY];
        let entry = set.chunks_exact(ENTRY).find(|entry| entry[0].load(Acquire) == key);
        entry.map_or(0, |entry| entry[1].load(SeqCst))
    }
}

fn clear(word: &AtomicU64) {
    word.store(0, Release);
}

impl Drop for Held {
    fn drop(&mut self) {
        self.words[self.count].fetch_sub(1, AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_are_under_way_over_all_workers() {
        let limit = UnderWay::new(64, 2).expect("memory");
        let (a, b) = (limit.begin(5, 0, 2), limit.begin(5, 1, 2));
        assert!(a.is_some() && b.is_some());
        assert!(limit.begin(5, 0, 2).is_none() && limit.begin(5, 1, 2).is_none());
        assert!(limit.begin(6, 0, 2).is_some(), "another key");
        drop(a);
        assert!(limit.begin(5, 1, 2).is_some());
        drop(b);
        assert!((0..2).all(|worker| limit.count(5, worker) == 0));
    }

    #[test]
    fn a_full_table_refuses_and_an_ended_worker_holds_nothing() {
        let limit = UnderWay::new(1, 2).expect("memory");
        let held: Vec<Held> = (1..=8).map(|key| limit.begin(key, 1, 9).expect("there is room")).collect();
        assert!(limit.begin(9, 1, 9).is_none());
        assert!(limit.begin(9, 0, 9).is_some(), "the other worker has room");
        held.into_iter().for_each(std::mem::forget);
        limit.forget_worker(1);
        assert!(limit.begin(9, 1, 9).is_some());
        assert_eq!(limit.count(1, 1), 0);
    }
}
