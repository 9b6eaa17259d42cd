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

use crate::config;
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
    pub(crate) fn of(server: &config::Server) -> Rules {
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX >> 1);
        Rules {
            max_fails: u64::from(server.max_fails),
            fail_timeout_ms: ms(server.fail_timeout),
            slow_start_ms: ms(server.slow_start),
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
#[inline]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use drover_config::ServerAddress;
    use proptest::prelude::*;

    const RULES: Rules = Rules { max_fails: 2, fail_timeout_ms: 100, slow_start_ms: 0 };

    fn words() -> PeerBlock {
        let address = ServerAddress::parse("127.0.0.1:1").expect("an address");
        let config = config::Upstream::new(vec![config::Server::new(address)]);
        Plan::new("test", &config, 1).expect("memory").words().peer(0).expect("a block")
    }

    fn give_up(words: &PeerBlock, rules: &Rules, now: u64) {
        assert!(!fail(words, rules, now));
        assert!(fail(words, rules, now));
    }

    #[test]
    fn failures_far_apart_are_not_added_up() {
        let words = words();
        assert!(!fail(&words, &RULES, 1000));
        assert!(!fail(&words, &RULES, 1101), "the window of the first is over");
        assert_eq!(standing(&words, &RULES, 1101), Standing::Usable(WEIGHT_UNIT));
        assert!(fail(&words, &RULES, 1150));
        assert_eq!(standing(&words, &RULES, 1249), Standing::Unusable);
        assert_eq!(standing(&words, &RULES, 1250), Standing::Trial);
    }

    #[test]
    fn one_request_tries_and_the_others_wait_for_it() {
        let words = words();
        give_up(&words, &RULES, 1000);
        assert!(!claim_trial(&words, &RULES, 1099));
        assert!(claim_trial(&words, &RULES, 1100));
        assert!(!claim_trial(&words, &RULES, 1100));
        assert_eq!(standing(&words, &RULES, 1100), Standing::Unusable);
        assert!(!fail(&words, &RULES, 1120), "given up already");
        assert_eq!(standing(&words, &RULES, 1219), Standing::Unusable);
        assert!(claim_trial(&words, &RULES, 1220));
        assert!(succeed(&words, &RULES, 1220, 1230));
        assert_eq!(standing(&words, &RULES, 1230), Standing::Usable(WEIGHT_UNIT));
        assert!(!fail(&words, &RULES, 1231), "counted from nothing again");
    }

    #[test]
    fn a_success_that_began_before_the_failure_proves_nothing() {
        let words = words();
        give_up(&words, &RULES, 1000);
        assert!(!succeed(&words, &RULES, 999, 1001));
        assert!(!succeed(&words, &RULES, 1000, 1001));
        assert_eq!(standing(&words, &RULES, 1001), Standing::Unusable);
        assert!(succeed(&words, &RULES, 1001, 1002));
    }

    #[test]
    fn a_slow_start_grows_from_the_first_to_the_whole() {
        let (words, rules) = (words(), Rules { slow_start_ms: 1000, ..RULES });
        assert_eq!(standing(&words, &rules, 5000), Standing::Usable(WEIGHT_UNIT), "not at the start");
        give_up(&words, &rules, 5000);
        assert!(succeed(&words, &rules, 5200, 5300));
        assert_eq!(standing(&words, &rules, 5300), Standing::Usable(1));
        assert_eq!(standing(&words, &rules, 5800), Standing::Usable(WEIGHT_UNIT / 2));
        assert_eq!(standing(&words, &rules, 6300), Standing::Usable(WEIGHT_UNIT));
        assert_eq!(trouble(&words), 0);
    }

    #[test]
    fn a_peer_with_max_fails_of_zero_is_never_given_up() {
        let (words, rules) = (words(), Rules { max_fails: 0, ..RULES });
        assert!((0..100).all(|now| !fail(&words, &rules, now)));
        assert_eq!(trouble(&words), 0);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Fail,
        Succeed { began_ago: u64 },
        Trial,
        Wait(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            Just(Step::Fail),
            (0u64..150).prop_map(|began_ago| Step::Succeed { began_ago }),
            Just(Step::Trial),
            (0u64..150).prop_map(Step::Wait),
        ]
    }

    proptest! {
        /// Whatever happened: a peer is given up only after `max_fails` failures within the window, waits no
        /// longer than `fail_timeout` after the last failure or trial, and trials are that far apart.
        #[test]
        fn nobody_is_given_up_for_too_little_or_for_too_long(
            steps in proptest::collection::vec(step(), 1..60),
            max_fails in 1u64..4,
        ) {
            let (words, rules) = (words(), Rules { max_fails, ..RULES });
            let mut now = 10_000;
            let mut failures: Vec<u64> = Vec::new();
            let mut blocked_until = 0;
            for step in steps {
                match step {
                    Step::Fail => {
                        failures.push(now);
                        let given_up = fail(&words, &rules, now);
                        let recent = failures.iter().filter(|&&at| now - at <= RULES.fail_timeout_ms).count();
                        prop_assert!(!given_up || recent as u64 >= max_fails, "{failures:?} at {now}");
                        blocked_until = now + RULES.fail_timeout_ms;
                    }
                    Step::Succeed { began_ago } => {
                        succeed(&words, &rules, now - began_ago, now);
                        if failures.last().is_some_and(|&last| now - began_ago > last) {
                            prop_assert_eq!(standing(&words, &rules, now), Standing::Usable(WEIGHT_UNIT));
                            failures.clear();
                        }
                    }
                    Step::Trial => {
                        if standing(&words, &rules, now) == Standing::Trial {
                            prop_assert!(now >= blocked_until);
                            prop_assert!(claim_trial(&words, &rules, now));
                            blocked_until = now + RULES.fail_timeout_ms;
                        }
                    }
                    Step::Wait(time) => now += time,
                }
                if failures.is_empty() || now >= blocked_until {
                    prop_assert!(standing(&words, &rules, now) != Standing::Unusable);
                }
            }
        }
    }
}
