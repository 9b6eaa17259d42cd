//! What the viewer is about: what was last seen, and what the keys have chosen.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::history::History;
use crate::status::{Status, Worker};

/// By what workers are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Number,
    Connections,
    Accepts,
    Requests,
    Busy,
    Lag,
}

impl Order {
    const ALL: [Order; 6] =
        [Order::Number, Order::Connections, Order::Accepts, Order::Requests, Order::Busy, Order::Lag];

    /// The word for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Order::Number => "number",
            Order::Connections => "connections",
            Order::Accepts => "accepts",
            Order::Requests => "requests",
            Order::Busy => "busy",
            Order::Lag => "lag",
        }
    }

    fn next(self) -> Order {
        let at = Self::ALL.iter().position(|order| *order == self).unwrap_or(0);
        Self::ALL[(at + 1) % Self::ALL.len()]
    }
}

/// What is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Page {
    /// All workers and listeners.
    Overview,
    /// The chosen worker.
    Worker,
    /// The servers of upstreams.
    Servers,
    /// The keys.
    Help,
}

/// The viewer.
pub(crate) struct App {
    pub(crate) coloured: bool,
    pub(crate) paused: bool,
    pub(crate) order: Order,
    pub(crate) reversed: bool,
    pub(crate) page: Page,
    /// How many lines of the servers are above the screen.
    pub(crate) scrolled: usize,
    /// Why there is no more news.
    pub(crate) lost: Option<String>,
    pub(crate) history: History,
    /// The process of the chosen worker.
    chosen: Option<i32>,
    status: Option<Status>,
    over: bool,
}

impl App {
    /// A viewer that has seen nothing yet.
    pub(crate) fn new(coloured: bool) -> Self {
        Self {
            coloured,
            paused: false,
            order: Order::Number,
            reversed: false,
            page: Page::Overview,
            scrolled: 0,
            lost: None,
            history: History::default(),
            chosen: None,
            status: None,
            over: false,
        }
    }

    /// The daemon as it is now. While paused, nothing of it is shown, and nothing is missing afterwards.
    pub(crate) fn take(&mut self, status: Status) {
        self.lost = None;
        if self.paused {
            return;
        }
        if let Some(before) = &self.status {
            self.history.note(before, &status);
        }
        self.status = Some(status);
    }

    /// There will be no more news.
    pub(crate) fn lose(&mut self, reason: String) {
        self.lost = Some(reason);
    }

    /// What was last seen.
    pub(crate) fn status(&self) -> Option<&Status> {
        self.status.as_ref()
    }

    /// Whether to leave.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// The workers in the order that was chosen.
    pub(crate) fn workers(&self) -> Vec<&Worker> {
        let mut workers: Vec<&Worker> = self.status.iter().flat_map(|status| &status.workers).collect();
        let of = |worker: &Worker| self.history.of(worker);
        // The largest first, except for numbers.
        match self.order {
            Order::Number => {}
            Order::Connections => workers.sort_by_key(|worker| std::cmp::Reverse(worker.connections)),
            Order::Accepts => workers.sort_by(|a, b| of(b).accepts.total_cmp(&of(a).accepts)),
            Order::Requests => workers.sort_by(|a, b| of(b).requests.total_cmp(&of(a).requests)),
            Order::Busy => workers.sort_by(|a, b| of(b).busy.total_cmp(&of(a).busy)),
            Order::Lag => workers.sort_by_key(|worker| std::cmp::Reverse(worker.lag.last_10s.lag.p99_us)),
        }
        if self.reversed {
            workers.reverse();
        }
        workers
    }

    /// Where the chosen worker is among [`App::workers`].
    pub(crate) fn chosen(&self) -> usize {
        let workers = self.workers();
        workers.iter().position(|worker| Some(worker.pid) == self.chosen).unwrap_or(0)
    }

    /// A key was pressed.
    pub(crate) fn press(&mut self, key: KeyEvent) {
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => self.over = true,
            KeyCode::Char('q') => self.over = true,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Char('r') => self.reversed = !self.reversed,
            KeyCode::Char('?' | 'h') => {
                self.page = if self.page == Page::Help { Page::Overview } else { Page::Help }
            }
            KeyCode::Char('u') => {
                self.page = if self.page == Page::Servers { Page::Overview } else { Page::Servers }
            }
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1),
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1),
            KeyCode::Home => self.move_by(isize::MIN),
            KeyCode::End => self.move_by(isize::MAX),
            KeyCode::Enter => {
                self.page = if self.page == Page::Worker { Page::Overview } else { Page::Worker }
            }
            KeyCode::Esc | KeyCode::Backspace => self.page = Page::Overview,
            _ => {}
        }
    }

    fn move_by(&mut self, rows: isize) {
        if self.page == Page::Servers {
            let last = self.status.as_ref().map_or(0, Status::server_lines).saturating_sub(1);
            self.scrolled = self.scrolled.saturating_add_signed(rows).min(last);
            return;
        }
        let last = self.workers().len().saturating_sub(1);
        let row = self.chosen().saturating_add_signed(rows).min(last);
        self.chosen = self.workers().get(row).map(|worker| worker.pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn worker(number: u64, connections: u64, accepts: u64) -> serde_json::Value {
        let window =
            json!({ "lag": { "p99_us": number, "max_us": 9 }, "turn": { "p99_us": 1, "max_us": 2 } });
        json!({
            "worker": number, "pid": 100 + number, "generation": 1, "state": "serving", "started_ms": 0, "slots": 512,
            "connections": connections, "free_slots": 500, "reusable_connections": 0, "descriptors": 9,
            "descriptor_limit": 1024, "turns": 1, "accepts": accepts, "dropped": 0, "reclaimed": 0,
            "requests": 0, "bytes_received": 0, "bytes_sent": 0, "working_ns": 0, "phases": {}, "closes": {},
            "lag": { "now_us": 0, "last_1s": window, "last_10s": window, "last_60s": window },
        })
    }

    fn status(at_ms: u64, workers: [serde_json::Value; 3]) -> Status {
        serde_json::from_value(json!({
            "version": "0", "at_ms": at_ms, "workers": workers, "listeners": [], "upstreams": [], "findings": [],
            "master": { "pid": 1, "state": "serving", "generation": 1, "started_ms": 0 },
            "totals": { "accepts": 0, "requests": 0, "bytes_received": 0, "bytes_sent": 0 },
        }))
        .expect("a status")
    }

    fn numbers(app: &App) -> Vec<u64> {
        app.workers().iter().map(|worker| worker.worker).collect()
    }

    fn press(app: &mut App, keys: &str) {
        keys.chars().for_each(|key| app.press(KeyEvent::from(KeyCode::Char(key))));
    }

    #[test]
    fn workers_are_sorted_and_the_chosen_one_stays_chosen() {
        let mut app = App::new(false);
        app.take(status(0, [worker(0, 5, 0), worker(1, 9, 0), worker(2, 1, 0)]));
        app.take(status(1000, [worker(0, 5, 1), worker(1, 9, 2), worker(2, 1, 3)]));
        press(&mut app, "j");
        assert_eq!((numbers(&app), app.chosen()), (vec![0, 1, 2], 1));
        press(&mut app, "s");
        assert_eq!((app.order.name(), numbers(&app), app.chosen()), ("connections", vec![1, 0, 2], 0));
        press(&mut app, "s");
        assert_eq!((app.order.name(), numbers(&app)), ("accepts", vec![2, 1, 0]));
        press(&mut app, "r");
        assert_eq!((numbers(&app), app.chosen()), (vec![0, 1, 2], 1));
        app.press(KeyEvent::from(KeyCode::End));
        assert_eq!(app.chosen(), 2);
        app.press(KeyEvent::from(KeyCode::Down));
        assert_eq!(app.chosen(), 2);
        app.press(KeyEvent::from(KeyCode::Home));
        assert_eq!(app.chosen(), 0);
    }

    #[test]
    fn a_pause_shows_what_was_and_loses_nothing() {
        let mut app = App::new(false);
        app.take(status(0, [worker(0, 1, 0), worker(1, 1, 0), worker(2, 1, 0)]));
        press(&mut app, "p");
        app.take(status(1000, [worker(0, 7, 10), worker(1, 1, 0), worker(2, 1, 0)]));
        assert_eq!(app.workers()[0].connections, 1);
        press(&mut app, "p");
        app.take(status(2000, [worker(0, 8, 20), worker(1, 1, 0), worker(2, 1, 0)]));
        assert_eq!(app.workers()[0].connections, 8);
        assert_eq!(app.history.of(app.workers()[0]).accepts, 10.0, "20 in two seconds");
        press(&mut app, "q");
        assert!(app.is_over());
    }
}
