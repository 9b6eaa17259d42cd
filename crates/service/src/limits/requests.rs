//! Requests a time: a leaky bucket for each key, as in nginx, shared by all workers.
//!
//! The table is an array of sets of [`WAYS`] entries; a key's number chooses the set. An entry is two words: the key's
//! number, and the *time until which its past requests take*, at the rate of the limit, in microseconds of the
//! monotonic clock (the generic cell rate algorithm; ITU-T I.371). A request at `now` finds a backlog of that time less
//! `now`, and adds one interval. An entry whose time has passed says no more than none: it is what makes room for
//! another key. So nothing is lost as long as a set has such an entry; else the one that would have passed first goes.
//!
//! Both words are changed by compare-and-swap, one after the other. Where two workers meet a key for the first time at
//! once, or one is given up while another counts on it, as many requests more may pass as there are workers in that
//! race; never less are let through than may be.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use drover_event::SharedWords;

/// Entries of a set: 128 bytes, two cache lines.
const WAYS: usize = 8;
/// Words of an entry.
const ENTRY: usize = 2;
/// How often a place is tried for while others take it.
const TRIES: u32 = 8;

/// The table of one limit.
pub struct Requests {
    words: SharedWords,
    sets: u64,
    /// Microseconds from one request to the next at the limit's rate.
    interval: u64,
}

/// What a limit says about a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It may pass after so many microseconds.
    Pass(u64),
    /// It may not.
    Refuse,
}

impl Requests {
    /// A table for so many keys at least.
    ///
    /// # Errors
    /// What `mmap(2)` reports.
    pub fn new(entries: u32, interval: u64) -> io::Result<Requests> {
        let sets = (entries as usize).div_ceil(WAYS).max(1);
        let words = SharedWords::anonymous(sets * WAYS * ENTRY)?;
        Ok(Requests { words, sets: sets as u64, interval })
    }

    /// Counts a request of `key` at `now`, unless more than `burst` are above the rate already. Of those above,
    /// `at_once` do not wait.
    pub fn take(&self, key: u64, now: u64, burst: u64, at_once: u64) -> Verdict {
        // The upper bits choose the set; the whole number tells its keys apart.
        let set = ((u128::from(key) * u128::from(self.sets)) >> 64) as usize;
        let set = &self.words[set * WAYS * ENTRY..][..WAYS * ENTRY];
        for _ in 0..TRIES {
            if let Some(until) = find(set, key).or_else(|| claim(set, key, now)) {
                return self.charge(until, now, burst, at_once);
            }
        }
        // Others were quicker eight times: a crowd, of which this one passes.
        Verdict::Pass(0)
    }

    fn charge(&self, until: &AtomicU64, now: u64, burst: u64, at_once: u64) -> Verdict {
        let mut old = until.load(Acquire);
        loop {
            let backlog = old.saturating_sub(now);
            if backlog > burst.saturating_mul(self.interval) {
                return Verdict::Refuse;
            }
            let new = old.max(now) + self.interval;
            match until.compare_exchange_weak(old, new, AcqRel, Acquire) {
                Ok(_) => return Verdict::Pass(backlog.saturating_sub(at_once.saturating_mul(self.interval))),
                Err(other) => old = other,
            }
        }
    }
}

/// The time of a key that has an entry.
fn find(set: &[AtomicU64], key: u64) -> Option<&AtomicU64> {
    set.chunks_exact(ENTRY).find(|entry| entry[0].load(Acquire) == key).map(|entry| &entry[1])
}

/// Takes the entry that has passed, or would first, for a key. None where another was quicker.
fn claim(set: &[AtomicU64], key: u64, now: u64) -> Option<&AtomicU64> {
    let entry = set.chunks_exact(ENTRY).min_by_key(|entry| entry[1].load(Relaxed))?;
    let (old, until) = (entry[0].load(Acquire), entry[1].load(Acquire));
    entry[0].compare_exchange(old, key, AcqRel, Acquire).ok()?;
    if until > now {
        // It was another key's. Where that counts a request just now, this key is the better off by it.
        let _ = entry[1].compare_exchange(until, now, AcqRel, Acquire);
    }
    Some(&entry[1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64 as Count;

    const SECOND: u64 = 1_000_000;

    fn table(entries: u32, a_second: u64) -> Requests {
        Requests::new(entries, SECOND / a_second).expect("memory")
    }

    #[test]
    fn a_rate_is_kept_and_a_burst_waits_for_its_time() {
        let table = table(64, 10);
        let at = |millis: u64| 5 * SECOND + millis * 1000;
        let take = |millis, burst, at_once| table.take(7, at(millis), burst, at_once);
        assert_eq!(take(0, 0, 0), Verdict::Pass(0));
        assert_eq!(take(50, 0, 0), Verdict::Refuse);
        assert_eq!(take(100, 0, 0), Verdict::Pass(0));
        assert_eq!(take(100, 3, 0), Verdict::Pass(100_000));
        assert_eq!(take(100, 3, 1), Verdict::Pass(100_000));
        assert_eq!(take(100, 3, 3), Verdict::Pass(0));
        assert_eq!(take(100, 3, 3), Verdict::Refuse);
        assert_eq!(table.take(8, at(100), 0, 0), Verdict::Pass(0), "another key is another bucket");
        // What was refused did not count: 0.4 s later all is paid for.
        assert_eq!(take(500, 0, 0), Verdict::Pass(0));
    }

    #[test]
    fn what_makes_room_is_what_is_paid_for_or_would_be_first() {
        let table = table(1, 1);
        // All keys fall into the one set. Each owes for a second.
        for key in 1..=8 {
            assert_eq!(table.take(key, key, 0, 0), Verdict::Pass(0));
        }
        assert_eq!(table.take(9, 100, 0, 0), Verdict::Pass(0), "it takes the place of 1");
        assert_eq!(table.take(2, 100, 0, 0), Verdict::Refuse, "2 is still known");
        assert_eq!(table.take(1, 100, 0, 0), Verdict::Pass(0), "1 is not, and takes the place of 2");
        assert_eq!(table.take(9, 200, 0, 0), Verdict::Refuse);
        // Later all are paid for, and any makes room without a loss.
        assert_eq!(table.take(10, 2 * SECOND, 0, 0), Verdict::Pass(0));
    }

    /// Threads stand for workers: they share the words and nothing else.
    #[test]
    fn workers_together_let_through_what_one_would() {
        const WORKERS: u64 = 4;
        let table = table(1024, 1000);
        for round in 0..20 {
            let (passed, burst) = (Count::new(0), 50);
            std::thread::scope(|scope| {
                for _ in 0..WORKERS {
                    scope.spawn(|| {
                        for step in 0..1000 {
                            let now = (round + 1) * 10 * SECOND + step * 100;
                            if table.take(round + 1, now, burst, burst) == Verdict::Pass(0) {
                                passed.fetch_add(1, Relaxed);
                            }
                        }
                    });
                }
            });
            // 0.1 s at 1,000 a second, the first, and the burst. More only in the race for the entry.
            let passed = passed.into_inner();
            let rate = 100 + 1 + burst;
            assert!((rate - WORKERS..=rate + WORKERS).contains(&passed), "{passed} of {rate}");
        }
    }

    #[test]
    fn memory_is_bounded_and_a_crowd_of_keys_keeps_the_busy_ones_limited() {
        let table = table(64, 1);
        let mut refused = 0;
        for step in 0..100_000_u64 {
            let now = SECOND + step * 10;
            let key = if step % 10 == 0 { 42 } else { step.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 };
            refused += u64::from(table.take(key, now, 0, 0) == Verdict::Refuse && key == 42);
        }
        // Alone it would be refused 9,999 times in this second; each loss of its entry lets one pass.
        assert!(refused > 5_000, "{refused}");
    }
}
