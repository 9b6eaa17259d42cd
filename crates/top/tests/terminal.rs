//! The viewer in a pseudo-terminal, with its screen read back. A script plays the daemon.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nix::pty::{Winsize, openpty};
use serde_json::{Value, json};

/// Ample, on a busy machine too.
const SOON: Duration = Duration::from_secs(15);

fn worker(number: u64, connections: u64, accepts: u64) -> Value {
    let window =
        json!({ "lag": { "p99_us": 1500 * number, "max_us": 9000 }, "turn": { "p99_us": 40, "max_us": 80 } });
    json!({
        "worker": number, "pid": 4100 + number, "generation": 3, "state": "serving", "started_ms": 1_000,
        "slots": 1024, "connections": connections, "free_slots": 1024 - connections, "reusable_connections": 1,
        "descriptors": connections + 9, "descriptor_limit": 65_536, "turns": 7, "accepts": accepts, "dropped": 0,
        "reclaimed": 0, "requests": accepts * 10, "bytes_received": 0, "bytes_sent": 0, "working_ns": 0,
        "phases": { "idle": connections, "sending": 0 }, "closes": { "client_closed": 5, "keepalive_timeout": 0 },
        "lag": { "now_us": 0, "last_1s": window, "last_10s": window, "last_60s": window },
    })
}

/// The daemon after some seconds: worker 1 accepts nine times as much as worker 0.
fn status(second: u64) -> Value {
    let sums =
        json!({ "accepts": 100 * second, "requests": 1000 * second, "bytes_received": 0, "bytes_sent": 0 });
    json!({
        "version": "9.9.9", "at_ms": 61_000 + 1000 * second,
        "master": { "pid": 4099, "state": "serving", "generation": 3, "started_ms": 1_000 },
        "workers": [worker(0, 512, 10 * second), worker(1, 100, 90 * second), worker(2, 0, 0)],
        "listeners": [
            { "address": "127.0.0.1:8080", "strategy": "exclusive", "serves": true, "sockets": 1,
              "accepts": 100 * second, "backlog_granted": 511, "waiting": 3, "waiting_bytes": null,
              "overflows": 0 },
            { "address": "udp:[::]:53", "strategy": "reuseport", "serves": true, "sockets": 2,
              "accepts": 10 * second, "backlog_granted": null, "waiting": null, "waiting_bytes": 2304,
              "overflows": 0 },
            { "address": "127.0.0.1:9999", "strategy": "mutex", "serves": false, "sockets": 0,
              "accepts": 1, "backlog_granted": null, "waiting": null, "waiting_bytes": null, "overflows": 0 },
        ],
        "upstreams": [{ "service": "http", "name": "app", "servers": [
            { "address": "10.0.0.1:80", "backup": false, "addresses": [
                { "address": "10.0.0.1:80", "state": "up", "active": 4, "kept": 2, "requests": 77 * second, "failures": 0 },
            ] },
            { "address": "10.0.0.2:80", "backup": true, "addresses": [
                { "address": "10.0.0.2:80", "state": "given_up", "active": 0, "kept": 0, "requests": 9, "failures": 9 },
            ] },
            { "address": "app.example:80", "backup": false, "addresses": [] },
        ] }],
        "totals": sums,
        "findings": [{ "about": "skew", "text": "worker 1 took 90 % of the connections" }],
    })
}

/// A terminal with the viewer in it.
struct Terminal {
    child: Child,
    keys: File,
    screen: Arc<Mutex<vt100::Parser>>,
    directory: PathBuf,
}

impl Terminal {
    /// A viewer of a daemon that says `said`, a line each, and then goes on doing what `then` is in the shell.
    fn new(name: &str, (rows, columns): (u16, u16), said: &[Value], then: &str, no_colour: bool) -> Self {
        let directory = std::env::temp_dir().join(format!("drover-top-{}-{name}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        let drover = daemon(&directory, said, then);
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(&size, None).expect("a pseudo-terminal");
        let side = || Stdio::from(pty.slave.try_clone().expect("a duplicate"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_drover-top"));
        command.arg("--drover").arg(drover).env("TERM", "xterm-256color").env_remove("NO_COLOR");
        if no_colour {
            command.env("NO_COLOR", "1");
        }
        let child = command.stdin(side()).stdout(side()).stderr(side()).spawn().expect("it starts");
        drop(pty.slave);
        let keys = File::from(pty.master);
        let screen = Arc::new(Mutex::new(vt100::Parser::new(rows, columns, 0)));
        let (mut output, shared) = (keys.try_clone().expect("a duplicate"), Arc::clone(&screen));
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The end is an error here: nobody has the other side open.
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                shared.lock().expect("no panic").process(&bytes[..count]);
            }
        });
        Self { child, keys, screen, directory }
    }

    fn contents(&self) -> String {
        self.screen.lock().expect("no panic").screen().contents()
    }

    /// Waits for a screen of which `wanted` is true.
    #[track_caller]
    fn shows(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let start = Instant::now();
        loop {
            let contents = self.contents();
            if wanted(&contents) {
                return contents;
            }
            assert!(start.elapsed() < SOON, "never shown: {what}; the screen is\n{contents}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    #[track_caller]
    fn shows_text(&self, text: &str) -> String {
        self.shows(text, |screen| screen.contains(text))
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    /// The last columns of each row, whether anything is drawn there.
    fn row(&self, containing: &str) -> String {
        let contents = self.contents();
        let row = contents.lines().find(|line| line.contains(containing));
        row.unwrap_or_else(|| panic!("no {containing} in\n{contents}")).to_owned()
    }

    fn ends(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("our child") {
                return status;
            }
            assert!(start.elapsed() < SOON, "it goes on");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// A program that takes the place of drover.
fn daemon(directory: &Path, said: &[Value], then: &str) -> PathBuf {
    let (path, text) = (directory.join("drover"), directory.join("drover.text"));
    let lines: String = said.iter().map(|status| format!("{status}\n")).collect();
    let script = format!(
        "#!/bin/sh\n[ \"$1 $2 $3\" = 'status --json --every' ] || exit 9\ncat <<'END'\n{lines}END\n{then}\n"
    );
    fs::write(&text, script).expect("written");
    // By another process: nobody may execute what somebody has open for writing, as does whatever another thread starts.
    assert!(Command::new("cp").arg(&text).arg(&path).status().expect("cp is there").success());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
    path
}

const LIVE: &str = "exec sleep 1000";

/// Where a row's parts stand among each other.
fn order(screen: &str) -> Vec<usize> {
    let mut found: Vec<(usize, usize)> = ["4100", "4101", "4102"]
        .iter()
        .enumerate()
        .filter_map(|(n, pid)| Some((screen.find(pid)?, n)))
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, number)| number).collect()
}

#[test]
fn everything_fits_a_terminal_of_80_by_24() {
    let mut terminal = Terminal::new("small", (24, 80), &[status(1), status(2)], LIVE, false);
    let screen =
        terminal.shows("two looks", |screen| screen.contains("acc/s 100") && screen.contains("q quit"));
    assert!(screen.contains("drover 9.9.9  master 4099  serving  generation 3  up 1m 2s  live"), "{screen}");
    assert!(screen.contains("conns 612  req/s 1000  acc/s 100") && screen.contains("skew 2.70"), "{screen}");
    assert!(screen.contains("! skew: worker 1 took 90 % of the connections"), "{screen}");
    assert!(screen.lines().all(|line| line.chars().count() <= 80) && screen.lines().count() <= 24);
    let busiest = terminal.row("4101");
    assert!(
        busiest.contains("serving") && busiest.contains(" 90 ") && busiest.contains("1.5ms"),
        "{busiest}"
    );
    let half_full = terminal.row("4100");
    assert!(half_full.contains("█████ ") && half_full.contains(" 512 "), "half of its slots: {half_full}");
    assert!(
        half_full.trim_end().ends_with('▁') && busiest.trim_end().ends_with('█'),
        "{half_full}\n{busiest}"
    );
    assert!(
        terminal.row("127.0.0.1:8080").contains("3/511") && !screen.contains("127.0.0.1:9999"),
        "{screen}"
    );
    assert!(terminal.row("udp:[::]:53").contains(" 2304B "), "{screen}");
    let busy = terminal.row("10.0.0.1:80");
    assert!(busy.contains(" up ") && busy.contains(" 77 ") && busy.contains(" 154 "), "{busy}");
    terminal.press("q");
    assert!(terminal.ends().success());
    let screen = terminal.screen.lock().expect("no panic");
    assert!(!screen.screen().alternate_screen(), "the terminal is given back as it was");
}

#[test]
fn a_large_terminal_has_more_columns_and_longer_bars() {
    let terminal = Terminal::new("large", (60, 200), &[status(1), status(2)], LIVE, false);
    let screen =
        terminal.shows("two looks", |screen| screen.contains("acc/s 100") && screen.contains("q quit"));
    let titles = screen.lines().find(|line| line.contains("slots used")).expect("titles");
    for title in ["free", "fds", "skew", "turn"] {
        assert!(titles.contains(title), "{title} in {titles}");
    }
    assert!(terminal.row("4100").contains(&"█".repeat(20)) && terminal.row("4101").contains(" 2.70 "));
    assert_eq!(screen.lines().last().map(|line| line.starts_with("q quit")), Some(true), "{screen}");
}

#[test]
fn keys_sort_choose_show_detail_and_pause() {
    let mut terminal = Terminal::new("keys", (24, 80), &[status(1), status(2)], LIVE, false);
    let screen = terminal.shows_text("acc/s 100");
    assert_eq!(order(&screen), [0, 1, 2]);
    terminal.press("ss");
    let screen = terminal.shows_text("s sort (accepts ↓)");
    assert_eq!(order(&screen), [1, 0, 2]);
    terminal.press("r");
    let screen = terminal.shows_text("s sort (accepts ↑)");
    assert_eq!(order(&screen), [2, 0, 1]);
    // The arrow down, twice, and Enter.
    terminal.press("\x1b[B\x1b[B\r");
    let screen = terminal.shows_text("worker 1, generation 3, process 4101");
    assert!(screen.contains("5  client closed") && screen.contains("100  idle"), "{screen}");
    assert!(screen.contains("lag p99        1.5ms   1.5ms   1.5ms"), "{screen}");
    terminal.press("u");
    let screen = terminal.shows_text("u or esc back");
    assert!(screen.contains("http app") && screen.contains("10.0.0.2:80 (backup)"), "{screen}");
    assert!(terminal.row("app.example:80").contains("no address"), "{screen}");
    terminal.press("\x1b[B");
    terminal.shows("the first line is above the screen", |screen| !screen.contains("http app"));
    terminal.press("?");
    terminal.shows_text("the picture stands still, the daemon does not");
    terminal.press("?p");
    terminal.shows_text("PAUSED");
    terminal.press("p");
    terminal.shows("it is live again", |screen| screen.contains("  live") && !screen.contains("PAUSED"));
}

#[test]
fn without_colour_nothing_is_coloured_and_nothing_missing() {
    let coloured = |terminal: &Terminal| {
        let parser = terminal.screen.lock().expect("no panic");
        let screen = parser.screen();
        let (rows, columns) = screen.size();
        let cells = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
        cells
            .filter_map(|(row, column)| screen.cell(row, column))
            .filter(|cell| cell.fgcolor() != vt100::Color::Default || cell.bgcolor() != vt100::Color::Default)
            .count()
    };
    let said = [status(1), status(2)];
    let (plain, colour) = (
        Terminal::new("plain", (24, 80), &said, LIVE, true),
        Terminal::new("colour", (24, 80), &said, LIVE, false),
    );
    plain.shows_text("acc/s 100");
    let same = |screen: &str| screen.contains("acc/s 100") && screen == plain.contents();
    colour.shows("the same letters", same);
    assert_eq!(coloured(&plain), 0);
    assert!(coloured(&colour) > 10);
}

#[test]
fn the_end_of_the_daemon_is_said_and_what_was_seen_stays() {
    let mut terminal =
        Terminal::new("lost", (24, 80), &[status(1), status(2)], "echo 'drover: it has stopped' >&2", false);
    let screen = terminal.shows_text("LOST: it has stopped");
    assert!(screen.contains("4101"), "{screen}");
    terminal.press("\x03");
    assert!(terminal.ends().success());
}

#[test]
fn without_a_daemon_the_reason_is_said_and_the_screen_left_alone() {
    let mut terminal =
        Terminal::new("none", (24, 80), &[], "echo 'drover: no drover runs here' >&2; exit 1", false);
    assert_eq!(terminal.ends().code(), Some(1));
    terminal.shows_text("drover top: no drover runs here");
}
