//! The scoreboard as a table for people, in 80 columns.

use std::time::Duration;

use drover_event::{CloseReason, Counter, Gauge};

use super::{Now, accept_skew, findings, is_waiting, last, servers, serving};
use crate::scoreboard::{ListenerView, Snapshot, WaitingAt, WorkerView};

/// What a terminal has at least.
const COLUMNS: usize = 80;

/// The whole picture.
pub(crate) fn table(snapshot: &Snapshot, now: Now) -> String {
    let mut text = head(snapshot, now);
    text.push_str(&workers(snapshot, now));
    text.push_str(&listeners(snapshot));
    text.push_str(&servers::table(snapshot));
    text.push_str(&closes(snapshot));
    let findings = findings(snapshot, now);
    if !findings.is_empty() {
        text.push('\n');
    }
    for finding in findings {
        text.push_str(&wrapped("! ", "  ", &finding.text));
    }
    text
}

fn head(snapshot: &Snapshot, now: Now) -> String {
    let master = &snapshot.master;
    let mut text = format!(
        "drover {}: master {}, {}, generation {}, up {}\n",
        env!("CARGO_PKG_VERSION"),
        master.pid,
        master.state.name(),
        master.generation,
        duration(now.since(master.started_ms)),
    );
    if let Some(verdict) = &master.verdict {
        let word = if verdict.accepted { "accepted" } else { "refused" };
        text.push_str(&format!("last reload {word} {} ago\n", duration(now.since(verdict.at_ms))));
    }
    text
}

fn workers(snapshot: &Snapshot, now: Now) -> String {
    let mut text = format!(
        "\n{:>6} {:>7} {:>5} {:<8} {:>7} {:>7} {:>6} {:>9} {:>9} {:>7}\n",
        "worker", "pid", "gen", "state", "up", "conns", "free", "accepts", "requests", "lag"
    );
    for worker in &snapshot.workers {
        text.push_str(&row(worker, now));
    }
    let open: u64 = snapshot.workers.iter().map(|worker| worker.gauge(Gauge::OpenConnections)).sum();
    let free: u64 = serving(snapshot).map(|worker| worker.gauge(Gauge::FreeSlots)).sum();
    let lag = serving(snapshot).map(|worker| last(worker, 10, now).1.p99()).max().unwrap_or_default();
    text.push_str(&format!(
        "{:<37} {:>7} {:>6} {:>9} {:>9} {:>7}\n",
        " total, with workers that have ended",
        figure(open, 7),
        figure(free, 6),
        figure(snapshot.total(Counter::Accepts), 9),
        figure(snapshot.total(Counter::Requests), 9),
        milliseconds(lag),
    ));
    if let Some(skew) = accept_skew(snapshot) {
        text.push_str(&format!("accept skew {skew:.2} (busiest worker over the mean)\n"));
    }
    text
}

fn row(worker: &WorkerView, now: Now) -> String {
    format!(
        "{:>6} {:>7} {:>5} {:<8} {:>7} {:>7} {:>6} {:>9} {:>9} {:>7}\n",
        worker.number,
        if is_waiting(worker) { "-".to_owned() } else { worker.pid.to_string() },
        worker.generation,
        worker.state.name(),
        duration(now.since(worker.started_ms)),
        figure(worker.gauge(Gauge::OpenConnections), 7),
        figure(worker.gauge(Gauge::FreeSlots), 6),
        figure(worker.counter(Counter::Accepts), 9),
        figure(worker.counter(Counter::Requests), 9),
        milliseconds(last(worker, 10, now).1.p99()),
    )
}

fn listeners(snapshot: &Snapshot) -> String {
    let serving: Vec<&ListenerView> =
        snapshot.listeners.iter().filter(|listener| listener.sockets() > 0).collect();
    if serving.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "\n{:<32} {:<9} {:>7} {:>9} {:>9} {:>9}\n",
        "listener", "accept", "sockets", "accepts", "waiting", "overflows"
    );
    for listener in serving {
        let waiting = match listener.queue() {
            Some(WaitingAt::Connections { waiting, room, .. }) => format!("{waiting}/{room}"),
            Some(WaitingAt::Datagrams { bytes }) => format!("{}B", figure(bytes, 8)),
            None => "?".to_owned(),
        };
        text.push_str(&format!(
            "{:<32} {:<9} {:>7} {:>9} {waiting:>9} {:>9}\n",
            shortened(&listener.address, 32),
            listener.strategy.name(),
            listener.sockets(),
            figure(snapshot.total_accepts(listener), 9),
            figure(listener.overflows(), 9),
        ));
    }
    text
}

/// `closed: 12 client_closed, 3 keepalive_timeout`, the most frequent reason first.
fn closes(snapshot: &Snapshot) -> String {
    let counts = CloseReason::ALL.iter().map(|&reason| (snapshot.total_closes(reason), reason.name()));
    let mut counts: Vec<(u64, &str)> = counts.filter(|(count, _)| *count > 0).collect();
    if counts.is_empty() {
        return String::new();
    }
    counts.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let counts: Vec<String> = counts.into_iter().map(|(count, name)| format!("{count} {name}")).collect();
    format!("\n{}", wrapped("closed: ", "        ", &counts.join(", ")))
}

/// A paragraph that fits. A word that is longer stays whole.
fn wrapped(first: &str, others: &str, text: &str) -> String {
    let (mut lines, mut line) = (String::new(), first.to_owned());
    let mut is_empty = true;
    for word in text.split_whitespace() {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines.push_str(line.trim_end());
            lines.push('\n');
            line = others.to_owned();
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    lines + &line + "\n"
}

/// A number in at most `width` columns: as it is if it fits, else in thousands, millions and so on.
pub(super) fn figure(number: u64, width: usize) -> String {
    let plain = number.to_string();
    if plain.len() <= width {
        return plain;
    }
    let units = ["k", "M", "G", "T", "P", "E"];
    let mut scaled = number as f64;
    let mut unit = "";
    for larger in units {
        if scaled < 1000.0 {
            break;
        }
        (scaled, unit) = (scaled / 1000.0, larger);
    }
    // Cut, not rounded: 999.96 must not become 1000.0.
    format!("{:.1}{unit}", (scaled * 10.0).floor() / 10.0)
}

/// The end of a text that is too long, which tells paths apart.
pub(super) fn shortened(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    format!("…{}", text.chars().skip(length + 1 - width).collect::<String>())
}

/// `120us`, `3.4ms`, `1.2s`: in at most seven columns.
pub(super) fn milliseconds(duration: Duration) -> String {
    match duration.as_micros() {
        0 => "0".to_owned(),
        micros if micros < 1000 => format!("{micros}us"),
        micros if micros < 1_000_000 => format!("{:.1}ms", micros as f64 / 1e3),
        micros => format!("{:.1}s", micros as f64 / 1e6),
    }
}

/// Two units at most: "12s", "3h 5m", "8d 2h".
pub(super) fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match () {
        () if days > 0 => format!("{days}d {}h", hours % 24),
        () if hours > 0 => format!("{hours}h {}m", minutes % 60),
        () if minutes > 0 => format!("{minutes}m {}s", seconds % 60),
        () => format!("{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_units_at_most() {
        assert_eq!(duration(999), "0s");
        assert_eq!(duration(61_000), "1m 1s");
        assert_eq!(duration(7_260_000), "2h 1m");
        assert_eq!(duration(90_000_000), "1d 1h");
        assert_eq!(milliseconds(Duration::ZERO), "0");
        assert_eq!(milliseconds(Duration::from_micros(999)), "999us");
        assert_eq!(milliseconds(Duration::from_micros(999_949)), "999.9ms");
        assert_eq!(milliseconds(Duration::from_secs(17)), "17.0s");
    }

    #[test]
    fn numbers_that_do_not_fit_are_scaled() {
        assert_eq!(figure(123_456_789, 9), "123456789");
        assert_eq!(figure(1_234_567_890, 9), "1.2G");
        assert_eq!(figure(999_999, 5), "999.9k");
        assert_eq!(figure(u64::MAX, 9), "18.4E");
    }

    #[test]
    fn paragraphs_fit_and_lose_no_word() {
        let text = "word ".repeat(50) + &"x".repeat(100) + " end";
        let paragraph = wrapped("! ", "  ", &text);
        assert_eq!(paragraph.split_whitespace().count(), 1 + 50 + 1 + 1);
        let long: Vec<&str> = paragraph.lines().filter(|line| line.chars().count() > COLUMNS).collect();
        assert_eq!(long.len(), 1, "the word that is too long: {paragraph}");
        assert!(paragraph.starts_with("! word"));
        assert_eq!(shortened(&"/a".repeat(60), 32).chars().count(), 32);
    }
}
