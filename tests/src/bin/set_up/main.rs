//! How long a connection takes to be set up, by accept strategy: from `connect` to the first answer.
//!
//! Four workers are given 400 connections that stay, one after another, and then 200 at once. The
//! strategies take turns, each round with a daemon of its own, so that whatever else the machine does
//! meets all of them. Ratios are to the first strategy.

#![allow(clippy::print_stdout, reason = "a program whose output is a table")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use clap::Parser;
use drover_tests::{Client, Config, Directory, Drover, Port};

const WORKERS: u32 = 4;
const ONE_AFTER_ANOTHER: usize = 400;
const AT_ONCE: usize = 200;

/// Compares accept strategies by the time that a new connection takes.
#[derive(Debug, Parser)]
#[command(name = "set_up")]
struct Options {
    /// Strategies to measure; ratios are to the first
    #[arg(long, value_delimiter = ',', default_values = ["exclusive", "balanced"])]
    strategies: Vec<String>,
    /// Daemons started for each strategy
    #[arg(long, default_value_t = 10)]
    rounds: u32,
}

/// What was seen of one strategy.
#[derive(Debug, Default)]
struct Seen {
    singly: Vec<Duration>,
    at_once: Vec<Duration>,
    /// The connections of the busiest and of the idlest worker, by round.
    spread: Vec<(usize, usize)>,
}

fn main() {
    let options = Options::parse();
    let mut all: Vec<(String, Seen)> =
        options.strategies.iter().map(|strategy| (strategy.clone(), Seen::default())).collect();
    for _ in 0..options.rounds {
        all.iter_mut().for_each(|(strategy, seen)| round(strategy, seen));
    }
    println!(
        "set-up of a connection, {WORKERS} workers, {} rounds; µs from connect to the answer",
        options.rounds
    );
    println!("{:10}{:>28}{:>28}{:>22}", "", "one after another", "at once", "most / fewest held");
    let base = (percentiles(&mut all[0].1.singly), percentiles(&mut all[0].1.at_once));
    for (strategy, seen) in &mut all {
        let (singly, at_once) = (percentiles(&mut seen.singly), percentiles(&mut seen.at_once));
        let most = seen.spread.iter().map(|(most, _)| most).max();
        let fewest = seen.spread.iter().map(|(_, fewest)| fewest).min();
        println!(
            "{strategy:10}{}{}{:>22}",
            figure(singly, base.0),
            figure(at_once, base.1),
            format!("{} / {}", most.unwrap_or(&0), fewest.unwrap_or(&0))
        );
    }
}

/// One daemon's life.
fn round(strategy: &str, seen: &mut Seen) {
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, WORKERS)
        .events(&format!("accept = \"{strategy}\"\nworker_connections = 1024"))
        .http("access_log = \"off\"")
        .answering(&port)
        .location("/pid", "return = { status = 200, body = \"$pid\" }");
    let _drover = Drover::start(&directory, &config);
    let mut held: BTreeMap<String, Vec<Client>> = BTreeMap::new();
    for _ in 0..ONE_AFTER_ANOTHER {
        let start = Instant::now();
        let mut client = Client::to(port.address());
        client.ask("/pid");
        let pid = client.response().text().to_owned();
        seen.singly.push(start.elapsed());
        held.entry(pid).or_default().push(client);
    }
    let begun: Vec<(Instant, Client)> = (0..AT_ONCE)
        .map(|_| {
            let start = Instant::now();
            let mut client = Client::to(port.address());
            client.ask("/pid");
            (start, client)
        })
        .collect();
    for (start, mut client) in begun {
        let pid = client.response().text().to_owned();
        seen.at_once.push(start.elapsed());
        held.entry(pid).or_default().push(client);
    }
    let counts = || held.values().map(Vec::len);
    seen.spread.push((counts().max().unwrap_or(0), counts().min().unwrap_or(0)));
}

/// The median and the 99th percentile in microseconds.
fn percentiles(times: &mut [Duration]) -> (f64, f64) {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6;
    (at(0.5), at(0.99))
}

fn figure((median, high): (f64, f64), base: (f64, f64)) -> String {
    format!("  p50 {median:>6.0} p99 {high:>6.0} ({:.2})", high / base.1)
}
