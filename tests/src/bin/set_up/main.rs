//! How long a connection takes to be set up, by accept strategy: from `connect` to the first answer.
//!
//! Four workers are given 400 connections that stay, one after another, and then 200 at once. Some
//! connections come before, so that every worker has run once: what a worker's first steps cost is no
//! strategy's doing, and with four workers it would be the slowest hundredth of 400. The strategies take
//! turns, each round with a daemon of its own and every other round in the opposite order, so that
//! whatever else the machine does meets all of them alike. Ratios are to the first strategy.
//!
//! A connection that another worker takes than the one before meets colder caches. How many there are
//! depends on the strategy, so they are told apart. The last columns count what costs time: how often a
//! worker closed its gate in a round, and how often workers slept.

#![allow(clippy::print_stdout, reason = "a program whose output is a table")]

mod seen;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use clap::Parser;
use drover_tests::{Client, Config, Directory, Drover, Port, process};

use crate::seen::{Round, Seen};

const WORKERS: u32 = 4;
const BEFORE: usize = 100;
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
    #[arg(long, default_value_t = 40)]
    rounds: usize,
}

fn main() {
    let options = Options::parse();
    let mut all: Vec<(String, Seen)> =
        options.strategies.iter().map(|strategy| (strategy.clone(), Seen::default())).collect();
    for number in 0..options.rounds {
        let mut order: Vec<&mut (String, Seen)> = all.iter_mut().collect();
        if number % 2 == 1 {
            order.reverse();
        }
        order.into_iter().for_each(|(strategy, seen)| seen.rounds.push(round(strategy)));
    }
    println!("{WORKERS} workers, {} rounds; µs from connect to the answer", options.rounds);
    println!(
        "p99: the median of the rounds' own, its ratio to the first strategy's and the range that nine of ten"
    );
    println!("choices of rounds give; then that of all rounds together, which the worst rounds decide");
    seen::print(&all);
}

/// Clients by the worker that serves them.
type Held = BTreeMap<String, Vec<Client>>;

/// One daemon's life.
fn round(strategy: &str) -> Round {
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, WORKERS)
        .events(&format!("accept = \"{strategy}\"\nworker_connections = 1024"))
        .http("access_log = \"off\"")
        .answering(&port)
        .location("/pid", "return = { status = 200, body = \"$pid\" }");
    let drover = Drover::start(&directory, &config);
    let mut held = Held::new();
    one_after_another(&port, BEFORE, &mut held);
    let before = counts(&drover);
    let mut round = Round::default();
    (round.same_worker, round.other_worker) = one_after_another(&port, ONE_AFTER_ANOTHER, &mut held);
    let after = counts(&drover);
    (round.closed, round.slept) = (after.0 - before.0, after.1 - before.1);
    round.at_once = at_once(&port, &mut held);
    let clients = || held.values().map(Vec::len);
    round.held = (clients().max().unwrap_or(0), clients().min().unwrap_or(0));
    round
}

/// Opens connections one after another. Tells the times of those that the same worker took as the one
/// before, and of the others.
fn one_after_another(port: &Port, count: usize, held: &mut Held) -> (Vec<Duration>, Vec<Duration>) {
    let (mut same_worker, mut other_worker, mut last) = (Vec::new(), Vec::new(), String::new());
    for _ in 0..count {
        let start = Instant::now();
        let mut client = Client::to(port.address());
        client.ask("/pid");
        let pid = client.response().text().to_owned();
        let time = start.elapsed();
        if pid == last {
            same_worker.push(time)
        } else {
            other_worker.push(time)
        }
        last.clone_from(&pid);
        held.entry(pid).or_default().push(client);
    }
    (same_worker, other_worker)
}

fn at_once(port: &Port, held: &mut Held) -> Vec<Duration> {
    let begin = || {
        let start = Instant::now();
        let mut client = Client::to(port.address());
        client.ask("/pid");
        (start, client)
    };
    let begun: Vec<(Instant, Client)> = (0..AT_ONCE).map(|_| begin()).collect();
    let answered = begun.into_iter().map(|(start, mut client)| {
        let pid = client.response().text().to_owned();
        let time = start.elapsed();
        held.entry(pid).or_default().push(client);
        time
    });
    answered.collect()
}

/// How often workers closed their gates, and how often they slept, since they began.
fn counts(drover: &Drover) -> (u64, u64) {
    let closed = drover.status().workers.iter().map(|worker| worker.gate_closed).sum();
    let slept = |pid| process::status_line(pid, "voluntary_ctxt_switches")?.parse::<u64>().ok();
    (closed, drover.workers().into_iter().filter_map(slept).sum())
}
