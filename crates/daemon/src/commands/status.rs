//! `drover status`: the scoreboard for people, or as JSON.
//!
//! Everything is read from the file: nothing here asks a process, so it works while all of them hang.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use drover_event::{Counter, Durations, Gauge, Phase};
use serde_json::{Map, Value, json};

use super::control::scoreboard_path;
use super::findings::findings;
use super::print;
use crate::cli::StatusArgs;
use crate::clock;
use crate::scoreboard::{Snapshot, WorkerState, WorkerView};

/// What of the moment of reading a picture needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    /// Unix time, in milliseconds.
    pub(super) unix_ms: u64,
    /// The monotonic clock, in milliseconds: what workers stamp their turns with.
    pub(super) monotonic_ms: u64,
}

impl Now {
    fn read() -> Self {
        Self { unix_ms: clock::unix_ms(), monotonic_ms: clock::monotonic_ms() }
    }
}

/// Prints the state of the daemon of a config.
pub(crate) fn status(args: &StatusArgs) -> io::Result<ExitCode> {
    let snapshot = Snapshot::read(&scoreboard_path(&args.file.path)).map_err(io::Error::other)?;
    let now = Now::read();
    if args.json {
        print(&format!("{:#}\n", json(&snapshot, now)))?;
    } else {
        print(&table(&snapshot, now))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The busiest worker's accepts over the mean, among the workers of the generation that serves; 1 is even.
fn accept_skew(snapshot: &Snapshot) -> Option<f64> {
    let accepts: Vec<u64> = serving(snapshot).map(|worker| worker.counter(Counter::Accepts)).collect();
    let sum: u64 = accepts.iter().sum();
    let busiest = *accepts.iter().max()?;
    (sum > 0 && accepts.len() > 1).then(|| busiest as f64 * accepts.len() as f64 / sum as f64)
}

/// The workers that accept.
pub(super) fn serving(snapshot: &Snapshot) -> impl Iterator<Item = &WorkerView> {
    snapshot.workers.iter().filter(|worker| worker.state == WorkerState::Serving)
}

/// A worker number without a process: its last one ended and the next has to wait a moment.
fn waiting(worker: &WorkerView) -> bool {
    worker.state == WorkerState::Waiting
}

/// At most 80 columns.
fn table(snapshot: &Snapshot, now: Now) -> String {
    let master = &snapshot.master;
    let mut text = format!(
        "drover {}: master {}, {}, generation {}, up {}\n",
        env!("CARGO_PKG_VERSION"),
        master.pid,
        master.state.name(),
        master.generation,
        duration(now.unix_ms.saturating_sub(master.started_ms)),
    );
    if let Some(verdict) = &master.verdict {
        let word = if verdict.accepted { "accepted" } else { "refused" };
        let age = duration(now.unix_ms.saturating_sub(verdict.at_ms));
        text.push_str(&format!("last reload {word} {age} ago\n"));
    }
    text.push_str(&format!(
        "\n{:>6} {:>8} {:>4} {:<8} {:>8} {:>7} {:>7} {:>11} {:>12}\n",
        "worker", "pid", "gen", "state", "up", "conns", "free", "accepts", "requests"
    ));
    for worker in &snapshot.workers {
        text.push_str(&row(worker, now));
    }
    let open: u64 = snapshot.workers.iter().map(|worker| worker.gauge(Gauge::OpenConnections)).sum();
    let free: u64 = serving(snapshot).map(|worker| worker.gauge(Gauge::FreeSlots)).sum();
    text.push_str(&format!(
        "{:<38} {open:>8} {free:>7} {:>11} {:>12}\n",
        " total, with workers that have ended",
        snapshot.total(Counter::Accepts),
        snapshot.total(Counter::Requests),
    ));
    if let Some(skew) = accept_skew(snapshot) {
        text.push_str(&format!("\naccept skew {skew:.2} (busiest worker over the mean)\n"));
    }
    let findings = findings(snapshot, now);
    if !findings.is_empty() {
        text.push('\n');
    }
    for finding in findings {
        text.push_str(&wrapped(&finding));
    }
    text
}

/// A finding as a paragraph of at most 80 columns. A word that is longer stays whole.
fn wrapped(finding: &str) -> String {
    let (mut text, mut column) = ("!".to_owned(), 1);
    for word in finding.split_whitespace() {
        let length = word.chars().count();
        if column + 1 + length > 80 {
            text.push_str("\n ");
            column = 1;
        }
        text.push(' ');
        text.push_str(word);
        column += 1 + length;
    }
    text + "\n"
}

fn row(worker: &WorkerView, now: Now) -> String {
    format!(
        "{:>6} {:>8} {:>4} {:<8} {:>8} {:>7} {:>7} {:>11} {:>12}\n",
        worker.number,
        if waiting(worker) { "-".to_owned() } else { worker.pid.to_string() },
        worker.generation,
        worker.state.name(),
        duration(now.unix_ms.saturating_sub(worker.started_ms)),
        worker.gauge(Gauge::OpenConnections),
        worker.gauge(Gauge::FreeSlots),
        worker.counter(Counter::Accepts),
        worker.counter(Counter::Requests),
    )
}

/// Two units at most: "12 s", "3 h 5 m", "8 d 2 h".
fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match () {
        () if days > 0 => format!("{days}d {}h", hours % 24),
        () if hours > 0 => format!("{hours}h {}m", minutes % 60),
        () if minutes > 0 => format!("{minutes}m {}s", seconds % 60),
        () => format!("{seconds}s"),
    }
}

fn json(snapshot: &Snapshot, now: Now) -> Value {
    let master = &snapshot.master;
    let [asked, clean, failed, killed] = master.exits;
    let totals: Map<String, Value> = Counter::ALL
        .iter()
        .map(|&counter| (counter.name().to_owned(), snapshot.total(counter).into()))
        .collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "master": {
            "pid": master.pid.as_raw(),
            "state": master.state.name(),
            "generation": master.generation,
            "workers": master.workers,
            "started_ms": master.started_ms,
            "reloads": master.reloads,
            "last_reload": master.verdict.as_ref().map(|verdict| json!({
                "accepted": verdict.accepted,
                "message": verdict.message,
                "at_ms": verdict.at_ms,
            })),
            "worker_exits": { "asked": asked, "clean": clean, "failed": failed, "killed": killed },
        },
        "workers": snapshot.workers.iter().filter(|worker| !waiting(worker)).map(|worker| worker_json(worker, now)).collect::<Vec<_>>(),
        "waiting": snapshot.workers.iter().filter(|worker| waiting(worker)).map(|worker| worker.number).collect::<Vec<_>>(),
        "totals": totals,
        "accept_skew": accept_skew(snapshot),
        "findings": findings(snapshot, now),
    })
}

/// Lag and turns of a worker over some windows, in microseconds.
fn lag_json(worker: &WorkerView, now: Now) -> Value {
    let windows = [("last_1s", 1), ("last_10s", 10), ("last_60s", 60)].map(|(name, seconds)| {
        let (turns, lags) = worker.lag().last(Duration::from_secs(seconds), now.monotonic_ms * 1_000_000);
        let json = |durations: &Durations| {
            json!({
                "p99_us": durations.p99().as_micros() as u64,
                "max_us": durations.longest.as_micros() as u64,
            })
        };
        (name.to_owned(), json!({ "lag": json(&lags), "turn": json(&turns) }))
    });
    Value::Object(windows.into_iter().collect())
}

fn worker_json(worker: &WorkerView, now: Now) -> Value {
    let counters = Counter::ALL.iter().map(|&counter| (counter.name(), worker.counter(counter)));
    let gauges = Gauge::ALL.iter().map(|&gauge| (gauge.name(), worker.gauge(gauge)));
    let phases: Map<String, Value> =
        Phase::ALL.iter().map(|phase| (phase.name().to_owned(), worker.in_phase(*phase).into())).collect();
    let mut object: Map<String, Value> =
        counters.chain(gauges).map(|(name, value)| (name.to_owned(), value.into())).collect();
    let identity = [
        ("worker", json!(worker.number)),
        ("pid", json!(worker.pid.as_raw())),
        ("generation", json!(worker.generation)),
        ("state", json!(worker.state.name())),
        ("started_ms", json!(worker.started_ms)),
        ("slots", json!(worker.slots)),
        ("connections", json!(worker.gauge(Gauge::OpenConnections))),
        ("phases", Value::Object(phases)),
        ("lag", lag_json(worker, now)),
    ];
    object.extend(identity.map(|(name, value)| (name.to_owned(), value)));
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scoreboard::{Block, MasterState, Scoreboard, path_in, unlocked};
    use nix::unistd::Pid;

    /// A daemon with two workers, changed by `change`, and what is seen of it.
    fn seen(name: &str, change: impl FnOnce(&Scoreboard, &[Block])) -> Snapshot {
        let directory = std::env::temp_dir().join(format!("drover-status-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("directory");
        let board = Scoreboard::create(&directory).expect("scoreboard");
        board.set_generation(1, 2);
        board.set_state(MasterState::Serving);
        let blocks: Vec<Block> = (0..2).map(|number| board.lend(1, number, 512).expect("block")).collect();
        for block in &blocks {
            block.set_state(WorkerState::Serving);
            block.stats().set(Gauge::FreeSlots, 500);
        }
        change(&board, &blocks);
        let snapshot = unlocked(&path_in(&directory)).snapshot_as(Pid::this());
        std::fs::remove_dir_all(directory).expect("removed");
        snapshot
    }

    fn sentences(snapshot: &Snapshot) -> String {
        findings(snapshot, Now { unix_ms: 0, monotonic_ms: 5_000 }).join("\n")
    }

    #[test]
    fn the_table_fits_eighty_columns_with_large_figures() {
        let snapshot = seen("wide", |board, blocks| {
            blocks[0].stats().add(Counter::Requests, 123_456_789_012);
            blocks[0].stats().add(Counter::Accepts, 12_345_678_901);
            blocks[0].stats().set(Gauge::OpenConnections, 4_194_304);
            blocks[0].set_pid(Pid::from_raw(4_194_304));
            board.reload_begins();
            board.reload_ends(false, "error");
        });
        let now = Now { unix_ms: snapshot.master.started_ms + 400 * 86_400_000, monotonic_ms: 0 };
        let text = table(&snapshot, now);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("123456789012") && text.contains("400d 0h"), "{text}");
    }

    #[test]
    fn nothing_is_said_where_nothing_is_off() {
        assert_eq!(sentences(&seen("well", |_, _| {})), "");
    }

    #[test]
    fn what_is_off_is_said_with_its_figure() {
        let uneven = seen("uneven", |_, blocks| {
            blocks[1].stats().set(Gauge::OpenConnections, 81);
            blocks[0].stats().set(Gauge::OpenConnections, 19);
        });
        assert!(sentences(&uneven).contains("worker 1 holds 81 %"), "{}", sentences(&uneven));
        let hanging = seen("hanging", |_, blocks| {
            blocks[0].stats().set(Gauge::TurnStarted, 2_000);
            blocks[0].stats().set(Gauge::RunningConnection, 17);
        });
        let text = sentences(&hanging);
        assert!(text.contains("inside one turn for 3.0 s, with connection 17"), "{text}");
        let short = seen("short", |_, blocks| {
            blocks[0].stats().set(Gauge::FreeSlots, 0);
            blocks[0].stats().add(Counter::Dropped, 4);
        });
        let text = sentences(&short);
        assert!(
            text.contains("worker 0 has 0 of 512 slots free") && text.contains("4 connections were dropped"),
            "{text}"
        );
        let refused = seen("refused", |board, blocks| {
            board.reload_begins();
            board.reload_ends(false, "error: unknown key\n --> x");
            blocks[1].set_state(WorkerState::Starting);
        });
        let text = sentences(&refused);
        assert!(
            text.contains("refused (error: unknown key)") && text.contains("1 of 2 workers serve"),
            "{text}"
        );
    }

    #[test]
    fn json_has_what_the_table_has() {
        let snapshot = seen("json", |_, blocks| {
            blocks[0].stats().add(Counter::Accepts, 30);
            blocks[1].stats().add(Counter::Accepts, 10);
        });
        let value = json(&snapshot, Now { unix_ms: 0, monotonic_ms: 0 });
        assert_eq!(value["workers"][0]["accepts"], 30);
        assert_eq!(value["workers"][1]["free_slots"], 500);
        assert_eq!(value["workers"][1]["state"], "serving");
        assert_eq!(value["totals"]["accepts"], 40);
        assert_eq!(value["accept_skew"], 1.5);
        assert_eq!(value["master"]["last_reload"], Value::Null);
    }

    #[test]
    fn durations_have_two_units_at_most() {
        assert_eq!(duration(999), "0s");
        assert_eq!(duration(61_000), "1m 1s");
        assert_eq!(duration(7_260_000), "2h 1m");
        assert_eq!(duration(90_000_000), "1d 1h");
    }
}
