//! Consistent hashing by rendezvous, with weights: every candidate gets a score from the key and its own
//! identity, and the best one is chosen.
//!
//! Beside a ring of points this needs no memory and no rebuilding, shares keys exactly by weight, and
//! moves as few keys as can be: when a peer goes, its keys alone move, spread over all others by weight;
//! when one comes, or gains weight, it takes keys and no other pair exchanges any. The same key has the
//! same server in every worker, on every machine, whatever the order in the config. The cost is one
//! score a candidate: some 50 instructions where weights are equal, 80 where not (`cargo bench`).
//!
//! D. Thaler and C. Ravishankar, "A Name-Based Mapping Scheme for Rendezvous", 1996; weights as in
//! J. Resch, "New Hashing Algorithms for Data Storage", 2015: a candidate with the weight *w* has the cost
//! -log(*u*) / *w* for its uniform number *u*, and the least cost wins.

use super::Candidates;

/// Whom balancing passes over for having too much under way.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// Nobody.
    None,
    /// Who has more than this percentage of its share (Mirrokni, Thorup and Zadimoghaddam, "Consistent
    /// Hashing with Bounded Loads", 2016).
    Percent(u64),
}

pub(crate) fn rendezvous(candidates: &impl Candidates, key: u64, bound: Bound) -> Option<usize> {
    let numbers = 0..candidates.count();
    let Bound::Percent(percent) = bound else { return best(candidates, key, |_, _| true) };
    let (weights, active) = numbers.fold((0u128, 0u128), |(weights, active), number| {
        let weight = candidates.weight(number);
        let own = if weight == 0 { 0 } else { candidates.active(number) };
        (weights + u128::from(weight), active + u128::from(own))
    });
    let within = |number, weight| {
        // What it would have, against its share of what all would have, rounded up.
        let share = u128::from(percent) * (active + 1) * u128::from(weight);
        u128::from(candidates.active(number)) * weights * 100 < share
    };
    best(candidates, key, within).or_else(|| best(candidates, key, |_, _| true))
}

fn best(candidates: &impl Candidates, key: u64, wanted: impl Fn(usize, u64) -> bool) -> Option<usize> {
    let mut best = None;
    let (mut best_score, mut best_weight) = (0, 0);
    for number in 0..candidates.count() {
        let weight = candidates.weight(number);
        if weight == 0 || !wanted(number, weight) {
            continue;
        }
        let score = mix(key ^ candidates.identity(number));
        if best_weight == 0 || wins(score, weight, best_score, best_weight) {
            (best, best_score, best_weight) = (Some(number), score, weight);
        }
    }
    best
}

/// Whether the first has the lesser cost.
#[inline]
fn wins(score: u64, weight: u64, than_score: u64, than_weight: u64) -> bool {
    if weight == than_weight {
        return score > than_score;
    }
    cost(score) * than_weight < cost(than_score) * weight
}

/// -log2 of `score` as a fraction of 2^64, in 2^-32nds: below 2^38.
///
/// In whole numbers, so that it is the same on every machine: the logarithm between two powers of two is
/// *x* + *x*(1 - *x*)*p*(*x*) with a *p* fitted to it, right to 5e-5.
fn cost(score: u64) -> u64 {
    const ONE: i64 = 1 << 32;
    const P: [i64; 4] = [1_900_173_326, -1_157_828_758, 646_535_156, -192_732_170];
    let score = score | 1;
    let zeros = score.leading_zeros();
    let x = ((score << zeros << 1) >> 32) as i64;
    let times = |a: i64, b: i64| ((i128::from(a) * i128::from(b)) >> 32) as i64;
    let p = P.iter().rev().fold(0, |sum, term| times(sum, x) + term);
    let fraction = x + times(times(x, ONE - x), p);
    ((i64::from(zeros) + 1) * ONE - fraction) as u64
}

/// Spreads a number over all of 64 bits: every bit of it changes half of them (the last step of SplitMix64).
pub(crate) fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// A number for bytes that is the same wherever and whenever it is computed (FNV-1a, spread).
pub(crate) fn stable_hash(bytes: &[u8]) -> u64 {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    mix(hash)
}
