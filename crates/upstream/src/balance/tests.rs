//! The methods against what they promise, over random weights and loads.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

/// Candidates as a table.
#[derive(Clone, Debug)]
struct Row {
    weight: u64,
    active: u64,
    identity: u64,
    current: Cell<i64>,
}

impl Row {
    fn new(name: &str, weight: u64) -> Row {
        Row { weight, active: 0, identity: stable_hash(name.as_bytes()), current: Cell::new(0) }
    }
}

impl Candidates for Vec<Row> {
    fn count(&self) -> usize {
        self.len()
    }

    fn weight(&self, number: usize) -> u64 {
        self[number].weight
    }

    fn active(&self, number: usize) -> u64 {
        self[number].active
    }

    fn identity(&self, number: usize) -> u64 {
        self[number].identity
    }

    fn current(&self, number: usize) -> &Cell<i64> {
        &self[number].current
    }
}

fn rows(weights: &[u64]) -> Vec<Row> {
    weights
        .iter()
        .enumerate()
        .map(|(number, &weight)| Row::new(&format!("10.0.0.{number}:80"), weight))
        .collect()
}

fn counts(rows: &[Row], choices: impl Iterator<Item = Option<usize>>) -> Vec<u64> {
    let mut counts = vec![0; rows.len()];
    choices.flatten().for_each(|number| counts[number] += 1);
    counts
}

#[test]
fn round_robin_is_smooth() {
    let rows = rows(&[5, 1, 1]);
    let order: Vec<_> = (0..7).filter_map(|_| round_robin(&rows)).collect();
    assert_eq!(order, [0, 0, 1, 0, 2, 0, 0]);
}

#[test]
fn nobody_is_chosen_where_nobody_may_be() {
    for rows in [rows(&[]), rows(&[0, 0])] {
        let random = Random::new(1);
        assert_eq!(round_robin(&rows), None);
        assert_eq!(least_connections(&rows), None);
        assert_eq!(random_two(&rows, &random), None);
        assert_eq!(rendezvous(&rows, 7, Bound::None), None);
        assert_eq!(rendezvous(&rows, 7, Bound::Percent(150)), None);
    }
}

#[test]
fn least_connections_counts_by_weight_and_goes_round_among_equals() {
    let mut rows = rows(&[1, 2, 1]);
    (rows[0].active, rows[1].active, rows[2].active) = (2, 3, 2);
    assert_eq!(least_connections(&rows), Some(1), "3 of 2 is less than 2 of 1");
    rows[1].active = 4;
    let counts = counts(&rows, (0..8).map(|_| least_connections(&rows)));
    assert_eq!(counts, [2, 4, 2], "all are equal, so their weights decide");
}

#[test]
fn two_drawn_at_random_are_two_and_the_fuller_one_is_never_chosen() {
    let mut rows = rows(&[1, 1]);
    rows[0].active = 1;
    let random = Random::new(3);
    assert_eq!(counts(&rows, (0..1000).map(|_| random_two(&rows, &random))), [0, 1000]);
    rows.pop();
    assert_eq!(random_two(&rows, &random), Some(0));
}

#[test]
fn hashing_shares_keys_by_weight() {
    let rows = rows(&[1, 2, 3, 10]);
    let keys = 0..160_000u64;
    let counts = counts(&rows, keys.map(|key| rendezvous(&rows, mix(key), Bound::None)));
    for (count, weight) in counts.iter().zip([1.0, 2.0, 3.0, 10.0]) {
        let share = *count as f64 / (10_000.0 * weight);
        // Four standard deviations of the rarest: sqrt(10,000) of 10,000.
        assert!((share - 1.0).abs() < 0.04, "{counts:?}");
    }
}

#[test]
fn a_bound_keeps_one_key_from_filling_one_server() {
    let mut rows = rows(&[1, 1, 1, 1]);
    for _ in 0..400 {
        let number = rendezvous(&rows, 99, Bound::Percent(150)).expect("somebody");
        rows[number].active += 1;
    }
    let most = rows.iter().map(|row| row.active).max();
    assert!(most.is_some_and(|most| (140..=151).contains(&most)), "{rows:?}");
}

#[test]
fn scores_are_the_same_for_ever() {
    // Computed apart, with exact logarithms. A change would move the keys of every cache.
    assert_eq!(stable_hash(b"10.0.0.1:80"), 15_833_689_265_622_162_035);
    let rows = rows(&[1, 2, 3, 1, 1]);
    let chosen: Vec<_> = (0..12u64).filter_map(|key| rendezvous(&rows, mix(key), Bound::None)).collect();
    assert_eq!(chosen, [1, 1, 1, 4, 1, 0, 0, 4, 4, 2, 1, 2]);
}

fn weights() -> impl Strategy<Value = Vec<u64>> {
    proptest::collection::vec(prop_oneof![1 => Just(0u64), 5 => 1u64..20], 1..12)
}

proptest! {
    /// Over each round of the sum of the weights everybody has had its share exactly.
    #[test]
    fn round_robin_gives_shares_exactly(weights in weights(), rounds in 1u64..4) {
        let rows = rows(&weights);
        let sum: u64 = weights.iter().sum();
        let counts = counts(&rows, (0..sum * rounds).map(|_| round_robin(&rows)));
        let wanted: Vec<u64> = weights.iter().map(|weight| weight * rounds).collect();
        prop_assert_eq!(counts, wanted);
    }

    /// And at no moment is anybody further than one whole choice from its share.
    #[test]
    fn round_robin_never_strays(weights in weights()) {
        let rows = rows(&weights);
        let sum: u64 = weights.iter().sum();
        let mut had = vec![0u64; rows.len()];
        for step in 1..=sum {
            had[round_robin(&rows).expect("weights")] += 1;
            for (had, weight) in had.iter().zip(&weights) {
                let due = step as f64 * *weight as f64 / sum as f64;
                prop_assert!((*had as f64 - due).abs() < weights.len() as f64, "{had} of {due}");
            }
        }
    }

    /// Nobody has less for its weight than the one chosen.
    #[test]
    fn least_connections_is_least(rows in proptest::collection::vec((0u64..5, 0u64..9), 1..12)) {
        let rows: Vec<Row> = rows.into_iter().map(|(weight, active)| Row { active, ..Row::new("x", weight) }).collect();
        match least_connections(&rows) {
            None => prop_assert!(rows.iter().all(|row| row.weight == 0)),
            Some(chosen) => {
                let chosen = &rows[chosen];
                prop_assert!(chosen.weight > 0);
                let less = rows.iter().filter(|row| row.weight > 0).any(|row| {
                    has_less(row.active, row.weight, chosen.active, chosen.weight)
                });
                prop_assert!(!less);
            }
        }
    }

    /// When a peer goes its keys alone move; when its weight grows it only takes keys.
    #[test]
    fn hashing_moves_no_key_that_need_not(
        weights in proptest::collection::vec(1u64..20, 2..12),
        changed in any::<prop::sample::Index>(),
        weight in 0u64..40,
        keys in proptest::collection::vec(any::<u64>(), 100),
    ) {
        let before = rows(&weights);
        let changed = changed.index(weights.len());
        let mut after = before.clone();
        after[changed].weight = weight;
        for key in keys {
            let (old, new) = (rendezvous(&before, key, Bound::None), rendezvous(&after, key, Bound::None));
            match weight.cmp(&weights[changed]) {
                std::cmp::Ordering::Less => prop_assert!(old == new || old == Some(changed)),
                std::cmp::Ordering::Equal => prop_assert_eq!(old, new),
                std::cmp::Ordering::Greater => prop_assert!(old == new || new == Some(changed)),
            }
        }
    }

    /// The order in the config means nothing.
    #[test]
    fn hashing_does_not_look_at_the_order(
        weights in proptest::collection::vec(1u64..20, 2..12),
        key in any::<u64>(),
        seed in any::<u64>(),
    ) {
        let before = rows(&weights);
        let mut after = before.clone();
        after.sort_by_key(|row| mix(row.identity ^ seed));
        let of = |rows: &Vec<Row>| rendezvous(rows, key, Bound::None).map(|number| rows[number].identity);
        prop_assert_eq!(of(&before), of(&after));
    }

    /// Draws follow the weights: a peer with a third of the weight is drawn first a third of the time.
    #[test]
    fn random_draws_follow_the_weights(seed in any::<u64>()) {
        let rows = rows(&[1, 2, 3]);
        let random = Random::new(seed);
        let mut firsts: HashMap<usize, u64> = HashMap::new();
        for _ in 0..6000 {
            // Nobody has anything under way, so the first one drawn is chosen.
            *firsts.entry(random_two(&rows, &random).expect("somebody")).or_default() += 1;
        }
        for (number, wanted) in [(0, 1000.0), (1, 2000.0), (2, 3000.0f64)] {
            let had = firsts[&number] as f64;
            prop_assert!((had - wanted).abs() < 6.0 * wanted.sqrt(), "{firsts:?}");
        }
    }
}
