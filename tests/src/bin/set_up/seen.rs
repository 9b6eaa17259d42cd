//! What was seen of each strategy, and the table that tells it.

use std::time::Duration;

use drover_tests::Random;

/// What one daemon showed.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// Times of connections one after another that the same worker took as the one before.
    pub(crate) same_worker: Vec<Duration>,
    /// Times of those that another worker took.
    pub(crate) other_worker: Vec<Duration>,
    /// How often a worker closed its gate meanwhile.
    pub(crate) closed: u64,
    /// How often workers slept meanwhile.
    pub(crate) slept: u64,
    /// Times of connections that came at once.
    pub(crate) at_once: Vec<Duration>,
    /// The connections of the busiest and of the idlest worker at the end.
    pub(crate) held: (usize, usize),
}

/// What was seen of one strategy.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) rounds: Vec<Round>,
}

/// Which times of a round are meant.
type Times = fn(&Round) -> Vec<Duration>;

/// How often as many rounds are chosen anew, with repetition, to see how much of a ratio is chance.
const CHOICES: usize = 400;

/// Prints a line for each strategy and kind of times, with ratios to the first strategy.
pub(crate) fn print(all: &[(String, Seen)]) {
    println!(
        "{:10}{:>20}{:>8}{:>8}{:>20}{:>8}{:>16}{:>8}{:>8}{:>12}",
        "", "", "p50", "p99", "ratio", "of all", "same / other", "closed", "slept", "most/fewest"
    );
    let singly: Times = |round| [round.same_worker.clone(), round.other_worker.clone()].concat();
    let at_once: Times = |round| round.at_once.clone();
    for (label, times) in [("one after another", singly), ("at once", at_once)] {
        for (strategy, seen) in all {
            print!("{strategy:10}{label:>20}{}", figures(seen, &all[0].1, times));
            println!("{}", if label == "at once" { ends(seen) } else { counts(seen) });
        }
    }
}

/// The median, the 99th percentile and its ratio.
fn figures(seen: &Seen, base: &Seen, times: Times) -> String {
    let all: Vec<Duration> = seen.rounds.iter().flat_map(times).collect();
    let (highs, base_highs) = (highs(seen, times), highs(base, times));
    let every: Vec<usize> = (0..highs.len()).collect();
    let ratio = |chosen: &[usize]| median_of(&highs, chosen) / median_of(&base_highs, chosen);
    let mut random = Random::new(1);
    let mut chance: Vec<f64> = (0..CHOICES)
        .map(|_| ratio(&every.iter().map(|_| random.below(every.len())).collect::<Vec<usize>>()))
        .collect();
    chance.sort_by(f64::total_cmp);
    let (low, up) = (chance[CHOICES / 20], chance[CHOICES - 1 - CHOICES / 20]);
    format!(
        "{:>8.1}{:>8.0}{:>20}{:>8.0}",
        percentile(all.clone(), 0.5),
        median_of(&highs, &every),
        format!("{:.2} ({low:.2} - {up:.2})", ratio(&every)),
        percentile(all, 0.99)
    )
}

/// The 99th percentile of each round.
fn highs(seen: &Seen, times: Times) -> Vec<f64> {
    seen.rounds.iter().map(|round| percentile(times(round), 0.99)).collect()
}

fn median_of(values: &[f64], chosen: &[usize]) -> f64 {
    let mut values: Vec<f64> = chosen.iter().map(|&index| values[index]).collect();
    values.sort_by(f64::total_cmp);
    f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2])
}

/// A percentile in microseconds.
fn percentile(mut times: Vec<Duration>, share: f64) -> f64 {
    times.sort_unstable();
    let at = (times.len().saturating_sub(1) as f64 * share) as usize;
    times.get(at).map_or(0.0, |time| time.as_secs_f64() * 1e6)
}

/// The medians by worker, and what happened so often in a round, on average.
fn counts(seen: &Seen) -> String {
    let all = |times: fn(&Round) -> &Vec<Duration>| -> f64 {
        percentile(seen.rounds.iter().flat_map(|round| times(round).iter().copied()).collect(), 0.5)
    };
    let mean = |count: fn(&Round) -> u64| {
        seen.rounds.iter().map(count).sum::<u64>() as f64 / seen.rounds.len() as f64
    };
    let by_worker =
        format!("{:.1} / {:.1}", all(|round| &round.same_worker), all(|round| &round.other_worker));
    format!("{by_worker:>16}{:>8.1}{:>8.1}", mean(|round| round.closed), mean(|round| round.slept))
}

fn ends(seen: &Seen) -> String {
    let most = seen.rounds.iter().map(|round| round.held.0).max().unwrap_or(0);
    let fewest = seen.rounds.iter().map(|round| round.held.1).min().unwrap_or(0);
    format!("{:>44}", format!("{most} / {fewest}"))
}
