//! How long a peer is waited for: at most so long at a time, and no longer in all than a least rate allows.
//!
//! A limit of silence alone lets a peer that sends a byte now and then hold a connection for ever. Only time
//! counts in which the peer was waited for, so that nobody is blamed for what somebody else holds up.

use std::num::NonZeroU64;
use std::time::Duration;

use crate::clock::Millis;
use crate::error::StreamError;
use crate::stream::Stream;

/// How long a peer is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patience {
    silence: Duration,
    least_rate: Option<NonZeroU64>,
}

impl From<Duration> for Patience {
    /// So long at a time, and as often as need be.
    fn from(silence: Duration) -> Patience {
        Patience { silence, least_rate: None }
    }
}

impl Patience {
    /// At most `silence` at a time, and in all that and as long as `least_rate` bytes a second take; 0 for any rate.
    pub fn new(silence: Duration, least_rate: u64) -> Patience {
        Patience { silence, least_rate: NonZeroU64::new(least_rate) }
    }

    /// How long to wait for a peer that moved so many bytes while it was waited for so long.
    fn left(&self, moved: u64, waited_ms: u64) -> Duration {
        let Some(rate) = self.least_rate else { return self.silence };
        let owed = Duration::from_millis(moved.saturating_mul(1000) / rate);
        let allowed = self.silence.saturating_add(owed);
        allowed.saturating_sub(Duration::from_millis(waited_ms)).min(self.silence)
    }
}

/// How long a peer was waited for so far.
#[derive(Clone, Copy, Debug)]
pub struct Waited {
    patience: Patience,
    in_all_ms: u64,
    since: Option<Millis>,
    /// What a count of bytes stood at when it was first told.
    first: Option<u64>,
}

impl Waited {
    /// Not yet.
    pub fn new(patience: impl Into<Patience>) -> Waited {
        Waited { patience: patience.into(), in_all_ms: 0, since: None, first: None }
    }

    /// The time-out for the next wait for `receiver` to take something. What the kernel holds is not taken yet.
    pub fn left_for(&mut self, receiver: &Stream) -> Duration {
        if self.patience.least_rate.is_none() {
            return self.patience.silence;
        }
        let taken = receiver.bytes_taken();
        let first = *self.first.get_or_insert(taken);
        self.left(taken.saturating_sub(first))
    }

    /// Takes note of whether a peer is waited for.
    pub fn note(&mut self, peer: &Stream, waits: bool) {
        let now = peer.core().now();
        if waits { self.begin(now) } else { self.end(now) }
    }

    /// Waits until `receiver` takes something.
    ///
    /// # Errors
    /// [`StreamError::TimedOut`] where patience has come to its end.
    pub async fn writable(&mut self, receiver: &Stream) -> Result<(), StreamError> {
        receiver.set_write_timeout(self.left_for(receiver));
        self.begin(receiver.core().now());
        let ready = receiver.writable().await;
        self.end(receiver.core().now());
        receiver.clear_write_timeout();
        ready
    }

    /// The peer is waited for from now on, unless it is already.
    pub fn begin(&mut self, now: Millis) {
        self.since.get_or_insert(now);
    }

    /// It is waited for no longer.
    pub fn end(&mut self, now: Millis) {
        if let Some(since) = self.since.take() {
            self.in_all_ms += now.since(since);
        }
    }

    /// The time-out for the next wait, after the peer moved so many bytes in all.
    pub fn left(&self, moved: u64) -> Duration {
        self.patience.left(moved, self.in_all_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn who_drips_is_waited_for_in_all_as_long_as_the_rate_takes() {
        let mut waited = Waited::new(Patience::new(Duration::from_secs(10), 100));
        // A byte every nine seconds.
        let (mut now, mut bytes) = (0, 0);
        while waited.left(bytes) >= Duration::from_secs(9) {
            waited.begin(Millis::new(now));
            now += 9000;
            waited.end(Millis::new(now));
            bytes += 1;
        }
        assert_eq!(bytes, 1, "ten seconds, and hundredths for what came");
        assert!(waited.left(bytes) > Duration::from_millis(1000));
    }

    #[test]
    fn only_time_counts_in_which_the_peer_was_waited_for() {
        let mut waited = Waited::new(Patience::new(Duration::from_secs(1), 1000));
        waited.begin(Millis::new(100));
        waited.begin(Millis::new(200));
        waited.end(Millis::new(400));
        waited.end(Millis::new(90_000));
        assert_eq!(waited.left(0), Duration::from_millis(700));
        assert_eq!(waited.left(200), Duration::from_millis(900));
        assert_eq!(waited.left(1_000_000), Duration::from_secs(1));
        assert_eq!(Waited::new(Duration::from_secs(3)).left(0), Duration::from_secs(3));
    }

    proptest! {
        #[test]
        fn nobody_below_the_rate_goes_on_for_ever(
            rate in 1_u64..10_000,
            silence in 1_u64..100_000,
            steps in prop::collection::vec((0_u64..100_000, 0_u64..1000), 1..50),
        ) {
            let mut waited = Waited::new(Patience::new(Duration::from_millis(silence), rate));
            let (mut now, mut moved, mut in_all) = (0, 0, 0);
            for (wait, bytes) in steps {
                let left = u64::try_from(waited.left(moved).as_millis()).expect("short");
                prop_assert!(left <= silence);
                waited.begin(Millis::new(now));
                now += wait.min(left);
                in_all += wait.min(left);
                waited.end(Millis::new(now));
                moved += bytes;
                prop_assert!(in_all <= silence + moved * 1000 / rate);
            }
        }
    }
}
