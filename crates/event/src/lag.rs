//! Lag: how long what is ready waits for this worker, and how long its turns take.
//!
//! Two histograms per worker, of which only cumulative counts are written, once a turn:
//!
//! * *turns*: the time from waking up to going to sleep again, counted for each turn;
//! * *lag*: how long an event can have been ready before the worker woke up and looked, counted for each event
//!   that the backend reported. A worker that slept was woken by the event: no lag. One that did not sleep was
//!   busy with the turn before, during which the event became ready: at most the length of that turn.
//!
//! An event is handled within lag plus turn of having become ready, apart from the time that the kernel took to
//! let the worker run.
//!
//! Once a second, in the first turn that ends then, the counts so far are copied to the next entry of a ring. A
//! reader takes the difference to an entry for what happened since: windows of up to a minute cost the worker
//! nothing. All times come from the two readings of the clock that each turn makes anyway, to the nanosecond.

use std::time::Duration;

use crate::core::Core;
use crate::histogram::{BUCKETS, Histogram, bucket_end, bucket_of};
use crate::stats::{Counter, Stats};

/// Entries of the ring: a minute, and some to spare for the one that is being overwritten.
const ENTRIES: usize = 64;
/// The least time between two entries, in nanoseconds.
const ENTRY_TIME: u64 = 1_000_000_000;

/// Words of the section of a worker's block that holds all this.
pub(crate) const LAG_WORDS: usize = RING_AT + ENTRIES * ENTRY_WORDS;
/// Those of them that only grow, at its beginning.
pub(crate) const CUMULATIVE_LAG_WORDS: usize = LAGS_AT + BUCKETS;
const TURNS_AT: usize = 0;
const LAGS_AT: usize = BUCKETS;
const LAGS_ROOM: usize = BUCKETS.next_power_of_two();
const RING_AT: usize = LAGS_AT + LAGS_ROOM;

/// Words of an entry: when it began in nanoseconds of the monotonic clock (zero while it is written), the longest
/// turn and lag since, and for each bucket the counts before, turns in the upper half of the word, lags in the lower.
const ENTRY_WORDS: usize = COUNTS + BUCKETS;
const BEGAN: usize = 0;
const LONGEST_TURN: usize = 1;
const LONGEST_LAG: usize = 2;
const COUNTS: usize = 3;

/// The words that only grow, with their names.
pub(crate) fn named_words() -> impl Iterator<Item = (usize, String)> {
    let end = |bucket| bucket_end(bucket).map_or("any".to_owned(), |end| format!("{} ns", end.as_nanos()));
    let turns = (0..BUCKETS).map(move |bucket| (TURNS_AT + bucket, format!("turns under {}", end(bucket))));
    turns.chain((0..BUCKETS).map(move |bucket| (LAGS_AT + bucket, format!("lags under {}", end(bucket)))))
}

/// A wait that took no longer than this is taken for one that found something ready, in nanoseconds: with a full
/// array of reports it takes some 25 µs, and a sleep that is shorter than this makes lag look longer than it is by
/// a turn at most.
const NO_SLEEP: u64 = 30_000;

/// What the owner of the histograms remembers between two turns.
#[derive(Default)]
pub(crate) struct TurnTimes {
    /// When the turn woke up, in nanoseconds; zero before the first.
    woke_at: u64,
    /// The length of the turn before, in nanoseconds, and its bucket.
    turn: u64,
    turn_bucket: usize,
    /// Of the entry that is under way.
    longest_turn: u64,
    longest_lag: u64,
    entry: usize,
    next_entry_at: u64,
}

impl TurnTimes {
    /// A turn ends at `now`, in nanoseconds, and the worker goes to sleep.
    #[inline]
    pub(crate) fn turn_ends(&mut self, core: &Core, now: u64) {
        let stats = core.stats();
        if now >= self.next_entry_at {
            self.begin_entry(stats, now);
            core.call_each_second();
        }
        self.turn = now.wrapping_sub(self.woke_at);
        self.turn_bucket = bucket_of(self.turn);
        stats.count_duration(TURNS_AT + self.turn_bucket, 1);
        stats.add(Counter::WorkingNs, self.turn);
        if self.turn > self.longest_turn {
            self.longest_turn = self.turn;
            stats.set_duration(self.entry_word(LONGEST_TURN), self.turn);
        }
    }

    /// The worker wakes up, having gone to sleep at `asleep_from`, and finds this many events ready.
    #[inline]
    pub(crate) fn wakes_up(&mut self, stats: &Stats, now: u64, asleep_from: u64, reports: usize) {
        let slept = now.wrapping_sub(asleep_from);
        stats.add(Counter::AsleepNs, slept);
        self.woke_at = now;
        let mut bucket = 0;
        if slept <= NO_SLEEP {
            bucket = self.turn_bucket;
            if self.turn > self.longest_lag && reports > 0 {
                self.longest_lag = self.turn;
                stats.set_duration(self.entry_word(LONGEST_LAG), self.turn);
            }
        }
        // The mask changes no bucket's number, and makes a check of bounds needless.
        stats.count_duration(LAGS_AT + (bucket & (LAGS_ROOM - 1)), reports as u64);
    }

    fn entry_word(&self, word: usize) -> usize {
        RING_AT + self.entry * ENTRY_WORDS + word
    }

    #[cold]
    fn begin_entry(&mut self, stats: &Stats, now: u64) {
        if self.woke_at == 0 {
            // What happens before the first turn is no turn.
            self.woke_at = now;
        }
        self.entry = (self.entry + 1) % ENTRIES;
        let entry = self.entry_word(0);
        stats.set_duration(entry + BEGAN, 0);
        std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
        for bucket in 0..BUCKETS {
            let (turns, lags) = (stats.duration(TURNS_AT + bucket), stats.duration(LAGS_AT + bucket));
            stats.set_duration(entry + COUNTS + bucket, turns << 32 | u64::from(lags as u32));
        }
        (self.longest_turn, self.longest_lag) = (0, 0);
        stats.set_duration(entry + LONGEST_TURN, 0);
        stats.set_duration(entry + LONGEST_LAG, 0);
        std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
        stats.set_duration(entry + BEGAN, now);
        self.next_entry_at = now + ENTRY_TIME;
    }
}

/// Turns or lag over some time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Durations {
    /// How often each length occurred.
    pub histogram: Histogram,
    /// The longest one.
    pub longest: Duration,
}

impl Durations {
    /// The duration that 99 of 100 do not exceed; see [`Histogram::quantile`].
    pub fn p99(&self) -> Duration {
        self.histogram.quantile(0.99, self.longest)
    }

    /// Adds those of another worker.
    pub fn add(&mut self, other: &Durations) {
        self.histogram.add(&other.histogram);
        self.longest = self.longest.max(other.longest);
    }
}

/// What a reader sees of one worker's lag: its section of a copy of the worker's block.
#[derive(Clone, Copy, Debug)]
pub struct Lag<'a>(&'a [u64]);

impl<'a> Lag<'a> {
    /// From all words of a worker's block.
    ///
    /// # Panics
    /// If they are fewer than [`Stats::WORDS`].
    pub fn of_block(words: &'a [u64]) -> Self {
        Self(&words[Stats::LAG_AT..][..LAG_WORDS])
    }

    /// How often turns took how long since the worker started.
    pub fn turns(self) -> Histogram {
        self.cumulative(TURNS_AT)
    }

    /// How often lag was how long since the worker started.
    pub fn lags(self) -> Histogram {
        self.cumulative(LAGS_AT)
    }

    fn cumulative(self, at: usize) -> Histogram {
        let mut histogram = Histogram::default();
        histogram.0.copy_from_slice(&self.0[at..at + BUCKETS]);
        histogram
    }

    /// Turns and lag of the last `window` before `now_ns` of the monotonic clock, at most a minute, and of up to a
    /// second before that.
    pub fn last(self, window: Duration, now_ns: u64) -> (Durations, Durations) {
        let since = now_ns.saturating_sub(window.as_nanos() as u64);
        let entries = self.0[RING_AT..].chunks_exact(ENTRY_WORDS);
        // An entry is about the second after its beginning: one that ended before says nothing.
        let recent = entries.filter(|entry| entry[BEGAN] != 0 && entry[BEGAN] + ENTRY_TIME > since);
        let (mut turns, mut lags) = (Durations::default(), Durations::default());
        let mut first: Option<&[u64]> = None;
        for entry in recent {
            if first.is_none_or(|first| entry[BEGAN] < first[BEGAN]) {
                first = Some(entry);
            }
            turns.longest = turns.longest.max(Duration::from_nanos(entry[LONGEST_TURN]));
            lags.longest = lags.longest.max(Duration::from_nanos(entry[LONGEST_LAG]));
        }
        let Some(first) = first else { return (turns, lags) };
        for bucket in 0..BUCKETS {
            let before = first[COUNTS + bucket];
            let count = |at: usize, before: u32| u64::from((self.0[at + bucket] as u32).wrapping_sub(before));
            turns.histogram.0[bucket] = count(TURNS_AT, (before >> 32) as u32);
            lags.histogram.0[bucket] = count(LAGS_AT, before as u32);
        }
        (turns, lags)
    }
}
