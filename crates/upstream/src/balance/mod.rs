//! Choosing a peer: pure functions over what is known of the candidates.
//!
//! Each method has its file. None allocates, none reads a clock, and each looks at every candidate at
//! most three times.

mod least_connections;
mod random_two;
mod rendezvous;
mod round_robin;
#[cfg(test)]
mod tests;

use std::cell::Cell;

pub(crate) use least_connections::least_connections;
pub(crate) use random_two::{Random, random_two};
pub(crate) use rendezvous::{Bound, mix, rendezvous, stable_hash};
pub(crate) use round_robin::round_robin;

/// The peers among which one is chosen, by number from 0.
pub(crate) trait Candidates {
    /// How many there are.
    fn count(&self) -> usize;

    /// The weight at this moment; 0 for one that may not be chosen. At most 2^22.
    fn weight(&self, number: usize) -> u64;

    /// Requests and connections under way; at most 2^32.
    fn active(&self, number: usize) -> u64;

    /// A number that is the peer's own wherever and whenever it is computed.
    fn identity(&self, number: usize) -> u64;

    /// What the round robin remembers of it.
    fn current(&self, number: usize) -> &Cell<i64>;
}

/// Whether the first candidate has less under way for its weight than the second: 3 of 2 is more than 1
/// of 1. Both have weights that are not 0.
fn has_less(active: u64, weight: u64, than_active: u64, than_weight: u64) -> bool {
    active * than_weight < than_active * weight
}
