//! `make bench`: drover beside nginx, h2o and, where requests are passed on, haproxy, in one run.
//!
//! Each server has one worker, pinned to core 0; the load generator, wrk, has core 1. All servers
//! run at once and are asked in turns (A B C, A B C, ...), so that whatever else the machine does meets
//! all of them. A ratio is the median over the rounds of a peer's figure over that of the first server
//! in the same round.
//!
//! * *CPU time per request* is what the kernel accounts to the worker while wrk runs, over the requests
//!   that wrk counted. The sum is exact; its split into user and system is sampled at clock ticks.
//! * *Busy* is the share of the time that the worker was running. Where it is well below 100 %, wrk is the limit
//!   and the rates tell of the client: how it batches, and what it finds in its caches.
//! * *System calls per request* come from a short run of its own under `strace -c`.
//! * *Instructions per request* outside the kernel come from callgrind: two runs with a different number
//!   of requests, and the difference between them.

#![allow(clippy::print_stdout, reason = "a program whose output is a table")]

mod configs;
mod counts;
mod figures;
mod idle;
mod options;
mod origin;
mod report;
mod rows;
mod servers;
mod wrk;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;

use figures::Figures;
use options::Options;
use rows::Row;
use servers::{Files, Kind, Server};

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("bench: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    let wrk = wrk::Wrk::find()?;
    let loads: Vec<String> = options.rows.iter().filter(|name| *name != idle::NAME).cloned().collect();
    let rows = if loads.is_empty() && !options.rows.is_empty() { Vec::new() } else { rows::chosen(&loads)? };
    let files = Files::new();
    let servers = start_all(&options.servers, &files);
    if servers.is_empty() {
        return Err("no server to measure".to_owned());
    }
    report::heading(&servers, options);
    let mut all = Vec::new();
    for row in rows {
        let figures = measure_row(row, &servers, &wrk, options, &files)?;
        report::row(row, &figures);
        all.push((row, figures));
    }
    if options.rows.is_empty() || options.rows.iter().any(|name| name == idle::NAME) {
        let bytes = servers
            .iter()
            .filter_map(|server| Some((server.kind, noted(server.kind, idle::bytes_each(server))?)));
        report::idle(&bytes.collect::<Vec<_>>());
    }
    report::summary(&all);
    match &options.json {
        Some(path) => std::fs::write(path, report::json(&all))
            .map_err(|error| format!("cannot write {}: {error}", path.display())),
        None => Ok(()),
    }
}

/// Starts what can be started, and says of the rest why not.
fn start_all(kinds: &[Kind], files: &Files) -> Vec<Server> {
    let mut servers = Vec::new();
    for kind in kinds {
        match Server::start(*kind, files, &[]) {
            Ok(server) => servers.push(server),
            Err(reason) => eprintln!("SKIPPED {kind}: {reason}"),
        }
    }
    servers
}

fn measure_row(
    row: &'static Row,
    servers: &[Server],
    wrk: &wrk::Wrk,
    options: &Options,
    files: &Files,
) -> Result<Vec<(Kind, Figures)>, String> {
    let servers: Vec<&Server> = servers.iter().filter(|server| row.suits(server.kind)).collect();
    let mut figures: Vec<(Kind, Figures)> =
        servers.iter().map(|server| (server.kind, Figures::default())).collect();
    // Files into the page cache, the servers' own caches filled, branch predictors warm.
    for server in &servers {
        wrk.run(server, row, options.warm_up())?;
    }
    for round in 0..options.rounds {
        progress(&format!("{}: round {} of {}", row.name, round + 1, options.rounds));
        for (server, (_, figures)) in servers.iter().zip(&mut figures) {
            figures.rounds.0.push(figures::measure(server, row, wrk, options.seconds)?);
        }
    }
    progress("");
    for (server, (_, figures)) in servers.iter().zip(&mut figures) {
        figures.response_bytes = wrk::response_size(server, row)?;
        if !options.no_counts {
            figures.calls = noted(server.kind, counts::system_calls(server, row, wrk));
            figures.instructions = noted(server.kind, counts::instructions(server.kind, row, files));
        }
    }
    Ok(figures)
}

/// One line on a terminal that the next one overwrites.
fn progress(text: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r{text:50}\r");
    }
}

/// A count that could not be had is left out of the table, with its reason on stderr.
fn noted<T>(kind: Kind, outcome: Result<T, String>) -> Option<T> {
    outcome.map_err(|reason| eprintln!("{kind}: {reason}")).ok()
}
