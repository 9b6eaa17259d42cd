//! Round robin by weights, smoothly: of weights 5, 1, 1 comes `a a b a c a a` and not `a a a a a b c`.
//!
//! Each time every candidate gains its weight, the one that has most is chosen, and pays for it with the
//! sum of all weights (the scheme that nginx introduced in 2012). What a candidate has stays between minus
//! the sum and the sum, and over one round of the sum of the weights each is chosen as often as its weight
//! says.

use super::Candidates;

pub(crate) fn round_robin(candidates: &impl Candidates) -> Option<usize> {
    among(candidates, |_, _| true)
}

/// Round robin among those that `wanted` takes, which is given their weights.
pub(super) fn among(candidates: &impl Candidates, wanted: impl Fn(usize, u64) -> bool) -> Option<usize> {
    let (mut chosen, mut most) = (None, i64::MIN);
    let mut sum = 0;
    for number in 0..candidates.count() {
        let weight = candidates.weight(number);
        if weight == 0 || !wanted(number, weight) {
            continue;
        }
        let current = candidates.current(number);
        let gained = current.get() + weight as i64;
        current.set(gained);
        sum += weight as i64;
        if gained > most {
            (chosen, most) = (Some(number), gained);
        }
    }
    candidates.current(chosen?).set(most - sum);
    chosen
}
