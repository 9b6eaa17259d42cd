//! Random two: of two different candidates drawn by their weights, the one with fewer under way for its
//! weight. Workers that do not know of each other's choices do not all run to the same least loaded
//! server.
//!
//! M. Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing", 1996.

use std::cell::Cell;

use super::{Candidates, has_less, mix};

/// Random numbers, good enough to draw servers by (SplitMix64: Steele, Lea and Flood, 2014).
#[derive(Debug)]
pub(crate) struct Random(Cell<u64>);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(Cell::new(seed))
    }

    /// A number below `bound`, which is not 0, each as likely as another but for a 2^-32nd.
    fn below(&self, bound: u64) -> u64 {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        ((u128::from(mix(state)) * u128::from(bound)) >> 64) as u64
    }
}

pub(crate) fn random_two(candidates: &impl Candidates, random: &Random) -> Option<usize> {
    let first = draw(candidates, random, None)?;
    let Some(second) = draw(candidates, random, Some(first)) else { return Some(first) };
    let less = has_less(
        candidates.active(second),
        candidates.weight(second),
        candidates.active(first),
        candidates.weight(first),
    );
    Some(if less { second } else { first })
}

/// Draws one by the weights, but not `except`.
fn draw(candidates: &impl Candidates, random: &Random, except: Option<usize>) -> Option<usize> {
    let weight = |number| if Some(number) == except { 0 } else { candidates.weight(number) };
    let sum: u64 = (0..candidates.count()).map(weight).sum();
    if sum == 0 {
        return None;
    }
    let mut left = random.below(sum);
    for number in 0..candidates.count() {
        let weight = weight(number);
        if left < weight {
            return Some(number);
        }
        left -= weight;
    }
    // Weights that shrank meanwhile: another worker found a peer down.
    (0..candidates.count()).rev().find(|&number| weight(number) > 0)
}
