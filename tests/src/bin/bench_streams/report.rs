//! The table in the terminal.

use drover_tests::rounds::{Round, grouped, percent, ratio};

use crate::proxies::{Kind, Proxy};
use crate::rows::Row;
use crate::{Figures, Options};

/// A worker that is busy for less than this share of the time waits for the load, whose pace it is then.
const LOAD_BOUND: f64 = 0.9;
/// A peer within this share of the first is called even: a run cannot tell them apart.
const EVEN: f64 = 0.01;

pub(crate) fn heading(proxies: &[Proxy], options: &Options) {
    let versions: Vec<&str> = proxies.iter().map(|proxy| proxy.version.as_str()).collect();
    println!("{}", versions.join(", "));
    println!(
        "one worker each on core 0, both ends on core 1; {} rounds of {} s; medians; CPU time in µs for each of what is \
         counted",
        options.rounds, options.seconds
    );
    // One that paces makes a timer for each burst most of what a single stream costs, in every proxy.
    let congestion = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
    println!("congestion control of this system: {}", congestion.as_deref().unwrap_or("unknown").trim());
}

pub(crate) fn row(row: &Row, figures: &[(Kind, Figures)]) {
    println!("\n{} ({} clients) [{}]", row.title, row.clients, row.name);
    println!(
        "{:8}{:>9}{:>9}{:>9}{:>15}{:>14}{:>15}{:>8}{:>8}",
        "",
        "user",
        "system",
        "total",
        "ratio",
        format!("{}/s", row.unit),
        "ratio",
        "busy",
        "calls"
    );
    let Some((_, first)) = figures.first() else { return };
    for (kind, Figures { rounds, calls }) in figures {
        println!(
            "{kind:8}{:>9.2}{:>9.2}{:>9.2}{:>15}{:>14}{:>15}{:>8}{:>8}",
            rounds.median(|round| round.user),
            rounds.median(|round| round.system),
            rounds.median(Round::total),
            ratio(rounds.ratio(&first.rounds, Round::total)),
            grouped(rounds.median(|round| round.rate)),
            ratio(rounds.ratio(&first.rounds, |round| round.rate)),
            percent(rounds.median(Round::busy)),
            calls.map_or("-".to_owned(), |calls| format!("{calls:.2}")),
        );
    }
}

/// Where others are ahead of the first.
pub(crate) fn leads(row: &Row, figures: &[(Kind, Figures)]) -> Vec<String> {
    let Some(((first, base), peers)) = figures.split_first() else { return Vec::new() };
    let mut lines = Vec::new();
    for (kind, peer) in peers {
        let (time, _) = peer.rounds.ratio(&base.rounds, Round::total);
        let (rate, _) = peer.rounds.ratio(&base.rounds, |round| round.rate);
        if time < 1.0 - EVEN {
            lines.push(format!("{}: {kind} needs {time:.2} of the CPU time of {first}", row.name));
        }
        if rate > 1.0 + EVEN {
            let busy = base.rounds.median(Round::busy);
            let bound = match busy < LOAD_BOUND {
                true => format!("; the load sets the pace, {first} is busy {}", percent(busy)),
                false => String::new(),
            };
            lines.push(format!("{}: {kind} passes {rate:.2} times as much as {first}{bound}", row.name));
        }
    }
    lines
}

pub(crate) fn summary(lines: &[String]) {
    println!();
    if lines.is_empty() {
        println!("Nobody is ahead of the first proxy in any row.");
    }
    for line in lines {
        println!("{line}");
    }
}
