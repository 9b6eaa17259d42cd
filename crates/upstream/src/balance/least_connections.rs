//! Least connections: the candidate with the fewest under way for its weight; among equals, round robin.

use super::{Candidates, has_less, round_robin};

pub(crate) fn least_connections(candidates: &impl Candidates) -> Option<usize> {
    let mut least: Option<(u64, u64)> = None;
    for number in 0..candidates.count() {
        let weight = candidates.weight(number);
        if weight == 0 {
            continue;
        }
        let active = candidates.active(number);
        if least.is_none_or(|(than_active, than_weight)| has_less(active, weight, than_active, than_weight)) {
            least = Some((active, weight));
        }
    }
    let (least_active, least_weight) = least?;
    let is_least = |number, weight| !has_less(least_active, least_weight, candidates.active(number), weight);
    // Another worker may have changed what is under way since; then the least loaded one a moment ago is
    // as good as any, and round robin among all finds one.
    round_robin::among(candidates, is_least).or_else(|| round_robin::among(candidates, |_, _| true))
}
