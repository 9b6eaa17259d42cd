//! Least connections: the candidate with the fewest under way for its weight; among equals, round robin.

use super::{Candidates, has_less, round_robin};

pub(crate) fn least_connections(candidates: &impl Candidates) -> Option<usize> {
    let (mut least_active, mut least_weight) = (0, 0);
    for number in 0..candidates.count() {
        let weight = candidates.weight(number);
        if weight == 0 {
            continue;
        }
        let active = candidates.active(number);
        if least_weight == 0 || has_less(active, weight, least_active, least_weight) {
            (least_active, least_weight) = (active, weight);
        }
    }
    if least_weight == 0 {
        return None;
    }
    let is_least = |number, weight| !has_less(least_active, least_weight, candidates.active(number), weight);
    // Another worker may have changed what is under way since; then the least loaded one a moment ago is
    // as good as any, and round robin among all finds one.
    round_robin::among(candidates, is_least).or_else(|| round_robin::among(candidates, |_, _| true))
}
