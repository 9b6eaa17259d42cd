//! `make bench`, the part of streams: drover beside nginx and haproxy, in one run.
//!
//! Each proxy has one worker, pinned to core 0. Core 1 has one thread that plays both ends, all clients and the servers
//! behind the proxies, so that a proxy never waits for two others to take turns. All proxies run at once and are asked
//! in turns (A B C, A B C, ...), so that whatever else the machine does meets all of them.
//!
//! CPU time is what the kernel accounts to the worker meanwhile, over what was passed: connections, messages, MiB or
//! datagrams, as the row says. System calls come from a short run of its own under `strace -c`.

#![allow(clippy::print_stdout, reason = "a program whose output is a table")]

mod datagrams;
mod load;
mod proxies;
mod report;
mod rows;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use drover_tests::rounds::{Round, Rounds};
use drover_tests::{process, strace};

use load::{Outcome, Servers};
use proxies::{Kind, Proxy};
use rows::Row;

/// Seconds of load under strace.
const TRACED: u32 = 2;

/// Compares drover with nginx and haproxy as proxies of streams: CPU time and system calls.
#[derive(Debug, Parser)]
#[command(name = "bench_streams")]
struct Options {
    /// Rows to measure, by name [default: all]
    #[arg(long, value_delimiter = ',')]
    rows: Vec<String>,
    /// Proxies to measure; ratios are to the first
    #[arg(long, value_delimiter = ',', default_values = ["drover", "nginx", "nginx-16k", "haproxy"])]
    proxies: Vec<Kind>,
    /// Seconds of load a round and proxy
    #[arg(long, default_value_t = 3)]
    seconds: u32,
    /// Rounds over all proxies
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Leave out system calls
    #[arg(long)]
    no_counts: bool,
}

/// All that was found of one proxy in one row.
#[derive(Debug, Default)]
struct Figures {
    rounds: Rounds,
    /// System calls for each of what is counted.
    calls: Option<f64>,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("bench_streams: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    let rows = rows::chosen(&options.rows)?;
    let servers = Servers::new();
    let mut proxies = Vec::new();
    for kind in &options.proxies {
        match Proxy::start(*kind, &servers) {
            Ok(proxy) => proxies.push(proxy),
            Err(reason) => eprintln!("SKIPPED {kind}: {reason}"),
        }
    }
    if proxies.is_empty() {
        return Err("no proxy to measure".to_owned());
    }
    report::heading(&proxies, options);
    let mut ahead = Vec::new();
    for row in rows {
        let figures = measure_row(row, &proxies, &servers, options)?;
        report::row(row, &figures);
        ahead.extend(report::leads(row, &figures));
    }
    report::summary(&ahead);
    Ok(())
}

fn measure_row(
    row: &Row,
    proxies: &[Proxy],
    servers: &Servers,
    options: &Options,
) -> Result<Vec<(Kind, Figures)>, String> {
    let proxies: Vec<&Proxy> = proxies.iter().filter(|proxy| row.suits(proxy.kind)).collect();
    let mut figures: Vec<(Kind, Figures)> =
        proxies.iter().map(|proxy| (proxy.kind, Figures::default())).collect();
    for proxy in &proxies {
        load::run(row, servers, proxy, 1)?;
    }
    for _ in 0..options.rounds {
        for (proxy, (_, figures)) in proxies.iter().zip(&mut figures) {
            figures.rounds.0.push(measure(row, servers, proxy, options.seconds)?);
        }
    }
    if !options.no_counts {
        for (proxy, (kind, figures)) in proxies.iter().zip(&mut figures) {
            let counted =
                strace::count(&proxy.directory, proxy.worker, || load::run(row, servers, proxy, TRACED));
            figures.calls = match counted {
                Ok((outcome, calls)) => Some(calls as f64 / outcome.passed),
                Err(reason) => {
                    eprintln!("{kind}: {reason}");
                    None
                }
            };
        }
    }
    Ok(figures)
}

/// Loads a proxy for some seconds and reads what its worker used meanwhile.
fn measure(row: &Row, servers: &Servers, proxy: &Proxy, seconds: u32) -> Result<Round, String> {
    let gone = || format!("the worker of {} is gone", proxy.kind);
    let before = process::cpu_time(proxy.worker).ok_or_else(gone)?;
    let Outcome { passed, seconds } = load::run(row, servers, proxy, seconds)?;
    let used = process::cpu_time(proxy.worker).ok_or_else(gone)?.since(before);
    let each = |time: Duration| time.as_secs_f64() * 1e6 / passed;
    Ok(Round { user: each(used.user), system: each(used.system), rate: passed / seconds })
}
