//! The table in the terminal, and the same as JSON.

use drover_tests::rounds::{Round, grouped, percent, ratio};
use serde_json::{Value, json};

use crate::figures::Figures;
use crate::idle;
use crate::options::Options;
use crate::rows::Row;
use crate::servers::{Kind, Server};

/// What was found in all rows.
pub(crate) type Table = [(&'static Row, Vec<(Kind, Figures)>)];

/// A worker that is busy for less than this share of the time waits for the client, whose pace it is then.
const CLIENT_BOUND: f64 = 0.9;
/// A peer within this share of the first server is called even: a run cannot tell them apart.
const EVEN: f64 = 0.01;

pub(crate) fn heading(servers: &[Server], options: &Options) {
    let versions: Vec<&str> = servers.iter().map(|server| server.version.as_str()).collect();
    println!("{}", versions.join(", "));
    println!(
        "one worker each on core 0, wrk on core 1; {} rounds of {} s; medians; CPU time in µs a request",
        options.rounds, options.seconds
    );
}

pub(crate) fn row(row: &Row, figures: &[(Kind, Figures)]) {
    println!("\n{} ({} connections) [{}]", row.title, row.connections, row.name);
    println!(
        "{:8}{:>8}{:>9}{:>9}{:>15}{:>12}{:>15}{:>8}{:>8}{:>15}{:>12}",
        "",
        "user",
        "system",
        "total",
        "ratio",
        "requests/s",
        "ratio",
        "busy",
        "calls",
        "instructions",
        "bytes"
    );
    let Some((_, first)) = figures.first() else { return };
    for (kind, figures) in figures {
        println!(
            "{kind:8}{:>8.2}{:>9.2}{:>9.2}{:>15}{:>12}{:>15}{:>8}{:>8}{:>15}{:>12}",
            figures.rounds.median(|round| round.user),
            figures.rounds.median(|round| round.system),
            figures.rounds.median(Round::total),
            ratio(figures.rounds.ratio(&first.rounds, Round::total)),
            grouped(figures.rounds.median(|round| round.rate)),
            ratio(figures.rounds.ratio(&first.rounds, |round| round.rate)),
            percent(figures.rounds.median(Round::busy)),
            figures.calls.map_or("-".to_owned(), |calls| format!("{calls:.2}")),
            figures.instructions.map_or("-".to_owned(), grouped),
            grouped(figures.response_bytes as f64),
        );
    }
}

/// Bytes for each idle connection.
pub(crate) fn idle(bytes: &[(Kind, f64)]) {
    println!("\nmemory of {} idle connections [{}]", grouped(idle::CONNECTIONS as f64), idle::NAME);
    println!("{:8}{:>12}", "", "bytes each");
    for (kind, bytes) in bytes {
        println!("{kind:8}{:>12}", grouped(*bytes));
    }
}

/// Who is ahead of the first server, and where.
pub(crate) fn summary(table: &Table) {
    println!();
    let ahead: Vec<String> = table.iter().flat_map(|(row, figures)| leads(row, figures)).collect();
    if ahead.is_empty() {
        println!("Nobody is ahead of the first server in any row.");
    }
    for line in ahead {
        println!("{line}");
    }
}

fn leads(row: &Row, figures: &[(Kind, Figures)]) -> Vec<String> {
    let Some(((first, base), peers)) = figures.split_first() else { return Vec::new() };
    let mut lines = Vec::new();
    for (kind, peer) in peers {
        let (time, time_spread) = peer.rounds.ratio(&base.rounds, Round::total);
        let (rate, rate_spread) = peer.rounds.ratio(&base.rounds, |round| round.rate);
        if time < 1.0 - EVEN {
            let sure = certainty(1.0 - time, time_spread);
            lines.push(format!("{}: {kind} needs {time:.2} of the CPU time of {first}{sure}", row.name));
        }
        if rate > 1.0 + EVEN {
            let sure = certainty(rate - 1.0, rate_spread);
            let busy = base.rounds.median(Round::busy);
            let bound = match busy < CLIENT_BOUND {
                true => format!("; the client sets the pace, {first} is busy {}", percent(busy)),
                false => String::new(),
            };
            lines.push(format!(
                "{}: {kind} answers {rate:.2} times as many requests as {first}{sure}{bound}",
                row.name
            ));
        }
    }
    lines
}

fn certainty(lead: f64, spread: f64) -> &'static str {
    if lead > spread { "" } else { " (less than the rounds differ)" }
}

pub(crate) fn json(table: &Table) -> String {
    let rows: Vec<Value> = table.iter().map(|(row, figures)| json_row(row, figures)).collect();
    format!("{:#}\n", json!({ "rows": rows }))
}

fn json_row(row: &Row, figures: &[(Kind, Figures)]) -> Value {
    let first = figures.first().map(|(_, first)| first);
    let servers: Vec<Value> = figures
        .iter()
        .zip(std::iter::repeat(first))
        .filter_map(|((kind, figures), first)| Some((kind, figures, first?)))
        .map(|(kind, figures, first)| {
            json!({
                "server": kind.to_string(),
                "user_us": figures.rounds.median(|round| round.user),
                "system_us": figures.rounds.median(|round| round.system),
                "requests_per_second": figures.rounds.median(|round| round.rate),
                "cpu_ratio": figures.rounds.ratio(&first.rounds, Round::total).0,
                "busy": figures.rounds.median(Round::busy),
                "rate_ratio": figures.rounds.ratio(&first.rounds, |round| round.rate).0,
                "system_calls": figures.calls,
                "instructions": figures.instructions,
                "response_bytes": figures.response_bytes,
            })
        })
        .collect();
    json!({ "row": row.name, "servers": servers })
}
