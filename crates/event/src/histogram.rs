//! Histograms of durations: a fixed number of buckets, two for each doubling.
//!
//! Finding the bucket of a duration costs a conversion and a shift: the exponent and the first bit of the
//! mantissa of a floating-point number (IEEE 754, binary32) grow with the logarithm of its value.

use std::time::Duration;

/// How many buckets there are.
pub const BUCKETS: usize = 48;

/// What the bits of the first bucket's end are, less one: the end is 2 µs (2,048 ns).
const BEFORE_FIRST: u32 = f32::to_bits(2048.0) >> SHIFT;
/// Of the mantissa's 23 bits one is kept.
const SHIFT: u32 = 22;

/// The bucket of a duration in nanoseconds: the first holds what is shorter than 2 µs, the last what takes 17 s
/// or longer.
#[inline]
pub(crate) fn bucket_of(nanoseconds: u64) -> usize {
    // As a signed number: no duration has 292 years, and the processor converts those at once.
    let bits = (nanoseconds as i64 as f32).to_bits() >> SHIFT;
    (bits.saturating_sub(BEFORE_FIRST - 1) as usize).min(BUCKETS - 1)
}

/// The duration that everything in `bucket` is shorter than; `None` for the last, which has no end.
pub fn bucket_end(bucket: usize) -> Option<Duration> {
    let bits = (BEFORE_FIRST + bucket as u32) << SHIFT;
    (bucket + 1 < BUCKETS).then(|| Duration::from_nanos(f32::from_bits(bits) as u64))
}

/// How often durations fell into each bucket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Histogram(pub(crate) [u64; BUCKETS]);

impl Default for Histogram {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

impl Histogram {
    /// How often a duration fell into `bucket`.
    ///
    /// # Panics
    /// If there is no such bucket.
    pub fn count_in(&self, bucket: usize) -> u64 {
        self.0[bucket]
    }

    /// How many durations there are.
    pub fn count(&self) -> u64 {
        self.0.iter().fold(0, |sum, count| sum.wrapping_add(*count))
    }

    /// Adds those of another one.
    pub fn add(&mut self, other: &Histogram) {
        for (own, others) in self.0.iter_mut().zip(other.0) {
            *own = own.wrapping_add(others);
        }
    }

    /// The duration that `share` of all (0 to 1) do not exceed, rounded up to the end of its bucket, which is at
    /// most half as much again; `longest`, where that is known to be less. Zero for an empty histogram.
    pub fn quantile(&self, share: f64, longest: Duration) -> Duration {
        let rank = (share * self.count() as f64).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in self.0.iter().enumerate() {
            seen += count;
            if seen >= rank && seen > 0 {
                return bucket_end(bucket).map_or(longest, |end| end.min(longest));
            }
        }
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        assert_eq!(bucket_of(0), 0);
        let mut start = 0;
        for bucket in 0..BUCKETS - 1 {
            let end = bucket_end(bucket).expect("not the last").as_nanos() as u64;
            assert!(end > start, "bucket {bucket} ends at {end}, after {start}");
            // A binary32 has 24 bits: what is closer to the end counts as the end.
            let just_before = end - 1 - (end >> 24);
            assert_eq!((bucket_of(start), bucket_of(just_before)), (bucket, bucket));
            assert_eq!(bucket_of(end), bucket + 1);
            start = end;
        }
        assert_eq!(start, 1 << 34, "about 17 s");
        assert_eq!((bucket_of(u64::MAX >> 1), bucket_end(BUCKETS - 1)), (BUCKETS - 1, None));
    }

    #[test]
    fn a_quantile_is_the_end_of_its_bucket_or_the_longest() {
        let mut histogram = Histogram::default();
        let longest = Duration::from_millis(700);
        assert_eq!(histogram.quantile(0.99, longest), Duration::ZERO);
        histogram.0[bucket_of(3_000)] = 99;
        histogram.0[bucket_of(700_000_000)] = 1;
        assert_eq!(histogram.quantile(0.99, longest), Duration::from_nanos(3072));
        assert_eq!(histogram.quantile(1.0, longest), longest);
        assert_eq!(histogram.count(), 100);
        let mut twice = histogram.clone();
        twice.add(&histogram);
        assert_eq!(twice.count_in(bucket_of(3_000)), 198);
    }
}
