//! When a worker that ended unexpectedly is replaced.
//!
//! A worker that lived for a while is replaced at once. One that ended young is replaced after a delay
//! that doubles with each such end, so that a crash loop neither storms nor stops service; a minute of
//! life forgets the past. One [`Backoff`] per worker number. No clock in here: lives go in, delays come
//! out.

use std::time::Duration;

/// A worker that lived less than this ended young.
const YOUNG: Duration = Duration::from_secs(5);
/// A life this long resets the delay.
const MATURE: Duration = Duration::from_secs(60);
const FIRST_DELAY: Duration = Duration::from_millis(100);
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// The delay before the next replacement of one worker number.
#[derive(Debug, Clone, Default)]
pub(crate) struct Backoff {
    /// What the last young end had to wait for; zero when there was none.
    last: Duration,
}

impl Backoff {
    /// Takes note of an end after `life` and says how long the replacement has to wait.
    pub(crate) fn ended(&mut self, life: Duration) -> Duration {
        if life >= MATURE {
            self.last = Duration::ZERO;
        }
        if life >= YOUNG {
            return Duration::ZERO;
        }
        self.last = (self.last * 2).clamp(FIRST_DELAY, LONGEST_DELAY);
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn young_ends_wait_twice_as_long_each_time_up_to_half_a_minute() {
        let mut backoff = Backoff::default();
        let delays: Vec<u64> =
            (0..11).map(|_| backoff.ended(Duration::from_millis(20)).as_millis() as u64).collect();
        assert_eq!(delays, [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
    }

    #[test]
    fn a_longer_life_is_replaced_at_once_and_only_a_minute_forgets() {
        let mut backoff = Backoff::default();
        backoff.ended(Duration::ZERO);
        backoff.ended(Duration::ZERO);
        assert_eq!(backoff.ended(Duration::from_secs(5)), Duration::ZERO);
        assert_eq!(backoff.ended(Duration::from_secs(4)), Duration::from_millis(400));
        assert_eq!(backoff.ended(Duration::from_secs(60)), Duration::ZERO);
        assert_eq!(backoff.ended(Duration::from_secs(1)), Duration::from_millis(100));
    }
}
