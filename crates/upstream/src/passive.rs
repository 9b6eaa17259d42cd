//! Passive health: what requests show of a peer, and what follows for the next ones.
//!
//! Failures are counted within a window of `fail_timeout` from the first. When they are `max_fails`, the
//! peer is given up for `fail_timeout`; then one request tries it, and the others wait for what comes of
//! that. A success that began after the last failure ends it all. The words are shared by the workers;
//! two that report at the same moment may lose one count, never the verdict.
//!
//! All functions are given the time; none reads a clock.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::Duration;

use crate::words::{PeerBlock, PeerWord};

/// Found down by checks.
pub(crate) const DOWN: u64 = 1;
/// Given up for a while after failures.
pub(crate) const OUT: u64 = 2;
/// Failures were counted.
pub(crate) const FAILED: u64 = 4;
/// Starting slowly.
pub(crate) const SLOW: u64 = 8;

/// One unit of weight, in which a slow start is counted.
pub(crate) const WEIGHT_UNIT: u64 = 256;

/// What a server's config says of failures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Failures after which the peer is given up; 0 for never.
    pub(crate) max_fails: u64,
    pub(crate) fail_timeout_ms: u64,
    pub(crate) slow_start_ms: u64,
}

impl Rules {
    pub(crate) fn new(max_fails: u32, fail_timeout: Duration, slow_start: Duration) -> Rules {
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX >> 1);
        Rules {
            max_fails: u64::from(max_fails),
            fail_timeout_ms: ms(fail_timeout),
            slow_start_ms: ms(slow_start),
        }
    }
}

/// What a peer is good for at some moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// Not to be used.
    Unusable,
    /// To be tried by one request: it must [`claim_trial`] first.
    Trial,
    /// To be used as this thousandth of its weight says, in [`WEIGHT_UNIT`]s.
    Usable(u64),
}

fn load(words: &PeerBlock, word: PeerWord) -> u64 {
    words[word as usize].load(Relaxed)
}

fn store(words: &PeerBlock, word: PeerWord, value: u64) {
    words[word as usize].store(value, Relaxed);
}

/// The bits of [`PeerWord::Trouble`].
pub(crate) fn trouble(words: &PeerBlock) -> u64 {
    words[PeerWord::Trouble as usize].load(Acquire)
}

/// What the peer is good for now.
pub(crate) fn standing(words: &PeerBlock, rules: &Rules, now: u64) -> Standing {
    match trouble(words) {
        0 => Standing::Usable(WEIGHT_UNIT),
        trouble => standing_in_trouble(words, trouble, rules, now),
    }
}

#[cold]
fn standing_in_trouble(words: &PeerBlock, trouble: u64, rules: &Rules, now: u64) -> Standing {
    if trouble & DOWN != 0 {
        return Standing::Unusable;
    }
    if trouble & OUT != 0 {
        return if now < load(words, PeerWord::OutUntil) { Standing::Unusable } else { Standing::Trial };
    }
    if trouble & SLOW == 0 {
        return Standing::Usable(WEIGHT_UNIT);
    }
    let elapsed = now.saturating_sub(load(words, PeerWord::UpSince));
    if elapsed >= rules.slow_start_ms {
        words[PeerWord::Trouble as usize].fetch_and(!SLOW, AcqRel);
        return Standing::Usable(WEIGHT_UNIT);
    }
    // Both are far below 2^55 milliseconds, and a slow start without length ended above.
    Standing::Usable((WEIGHT_UNIT * elapsed / rules.slow_start_ms).max(1))
}

/// Takes on the one request that tries a peer which was given up. False where another was faster.
pub(crate) fn claim_trial(words: &PeerBlock, rules: &Rules, now: u64) -> bool {
    let until = load(words, PeerWord::OutUntil);
    let next = now.saturating_add(rules.fail_timeout_ms);
    now >= until && words[PeerWord::OutUntil as usize].compare_exchange(until, next, AcqRel, Relaxed).is_ok()
}

/// Counts a failure. True where the peer is given up because of it.
pub(crate) fn fail(words: &PeerBlock, rules: &Rules, now: u64) -> bool {
    if rules.max_fails == 0 {
        return false;
    }
    let trouble = trouble(words);
    let expired = now.saturating_sub(load(words, PeerWord::WindowStart)) > rules.fail_timeout_ms;
    let fails = if trouble & FAILED == 0 || (expired && trouble & OUT == 0) {
        store(words, PeerWord::WindowStart, now);
        store(words, PeerWord::Fails, 1);
        1
    } else {
        words[PeerWord::Fails as usize].fetch_add(1, Relaxed).saturating_add(1)
    };
    store(words, PeerWord::LastFailed, now);
    if fails < rules.max_fails {
        words[PeerWord::Trouble as usize].fetch_or(FAILED, Release);
        return false;
    }
    store(words, PeerWord::OutUntil, now.saturating_add(rules.fail_timeout_ms));
    words[PeerWord::Trouble as usize].fetch_or(FAILED | OUT, AcqRel) & OUT == 0
}

/// Takes note of a success that began at `begun`. True where the peer is back because of it.
pub(crate) fn succeed(words: &PeerBlock, rules: &Rules, begun: u64, now: u64) -> bool {
    let trouble = trouble(words);
    if trouble & (FAILED | OUT) == 0 || begun <= load(words, PeerWord::LastFailed) {
        return false;
    }
    store(words, PeerWord::Fails, 0);
    let was_out = trouble & OUT != 0;
    if was_out {
        come_up(words, rules, now);
    }
    words[PeerWord::Trouble as usize].fetch_and(!(FAILED | OUT), AcqRel);
    was_out
}

/// Begins the slow start, where there is one.
pub(crate) fn come_up(words: &PeerBlock, rules: &Rules, now: u64) {
    if rules.slow_start_ms > 0 {
        store(words, PeerWord::UpSince, now);
        words[PeerWord::Trouble as usize].fetch_or(SLOW, Release);
    }
}
