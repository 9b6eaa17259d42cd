//! Holding a flow of bytes to a rate. Pure: time is a parameter.
//!
//! A bucket holds what may pass; it fills at the rate and holds an eighth of a second's worth at most, so
//! that over any time *t* no more than `rate * (t + 1/8 s)` bytes pass.

use std::num::NonZeroU64;
use std::time::Duration;

use crate::clock::Millis;

/// The bucket holds what comes in this time.
const BURST_MS: u64 = 125;
/// An empty bucket is worth going on with after this time: half full.
const PAUSE: Duration = Duration::from_millis(BURST_MS.div_ceil(2));

/// A bucket of bytes.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Bytes a second, which is thousandths of a byte a millisecond.
    rate: u64,
    /// What may pass, in thousandths of a byte.
    available: u64,
    filled_at: Millis,
}

impl Pace {
    /// A full bucket for `rate` bytes a second.
    pub(crate) fn new(rate: NonZeroU64, now: Millis) -> Self {
        let rate = rate.get();
        Self { rate, available: Self::most(rate), filled_at: now }
    }

    /// At least one byte, or nothing would ever pass.
    fn most(rate: u64) -> u64 {
        rate.saturating_mul(BURST_MS).max(1000)
    }

    /// How many bytes may pass now.
    pub(crate) fn allowance(&mut self, now: Millis) -> usize {
        let come = self.rate.saturating_mul(now.since(self.filled_at));
        self.filled_at = now;
        self.available = self.available.saturating_add(come).min(Self::most(self.rate));
        usize::try_from(self.available / 1000).unwrap_or(usize::MAX)
    }

    /// Takes note of what passed.
    pub(crate) fn spend(&mut self, bytes: usize) {
        self.available = self.available.saturating_sub((bytes as u64).saturating_mul(1000));
    }

    /// How long to wait with an empty bucket.
    pub(crate) fn pause(&self) -> Duration {
        // A rate so low that a byte takes longer waits for that byte.
        let byte = Duration::from_millis(1000u64.div_ceil(self.rate));
        PAUSE.max(byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pace(rate: u64) -> Pace {
        Pace::new(NonZeroU64::new(rate).expect("a rate"), Millis::new(1000))
    }

    #[test]
    fn a_second_brings_a_seconds_worth() {
        let mut pace = pace(8000);
        let mut passed = 0;
        for now in (1000..=2000).step_by(10) {
            let allowed = pace.allowance(Millis::new(now));
            pace.spend(allowed);
            passed += allowed;
        }
        assert_eq!(passed, 8000 + 1000, "a second's worth and the burst");
    }

    #[test]
    fn the_lowest_rate_passes_a_byte_a_second() {
        let mut pace = pace(1);
        pace.spend(1);
        assert_eq!(pace.allowance(Millis::new(1999)), 0);
        assert_eq!(pace.pause(), Duration::from_secs(1));
        assert_eq!(pace.allowance(Millis::new(2000)), 1);
    }

    proptest! {
        #[test]
        fn never_more_than_the_rate_and_never_stuck(
            rate in 1u64..10_000_000_000,
            steps in prop::collection::vec((0u64..500, 1usize..2_000_000), 1..100),
        ) {
            let mut pace = pace(rate);
            let (mut now, mut passed) = (1000, 0u64);
            for (step, wanted) in steps {
                now += step;
                let taken = pace.allowance(Millis::new(now)).min(wanted);
                pace.spend(taken);
                passed += taken as u64;
                prop_assert!(passed * 1000 <= rate * (now - 1000) + Pace::most(rate));
            }
            let later = now + pace.pause().as_millis() as u64;
            prop_assert!(pace.allowance(Millis::new(later)) > 0);
        }
    }
}
