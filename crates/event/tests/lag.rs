//! Lag and the lengths of turns, under a scripted clock.

mod support;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use drover_event::{Counter, Durations, Lag, Settings, Strategy, Stream};
use support::{Closure, SECOND, Scripted};

const MS: Duration = Duration::from_millis(1);

/// A worker whose connections take as long as is said here, in milliseconds of the script's clock.
struct Slow {
    scripted: Scripted,
    takes: Rc<Cell<u64>>,
    listener: (std::os::fd::RawFd, std::net::SocketAddr),
    clients: Vec<std::net::TcpStream>,
}

impl Slow {
    fn new() -> Self {
        let scripted = Scripted::new(Settings { connections: 4000, ..Settings::default() });
        let takes = Rc::new(Cell::new(0));
        let (script, takes_now) = (scripted.script.clone(), Rc::clone(&takes));
        let service = Closure(move |_: Stream| {
            script.pass(takes_now.get());
            async {}
        });
        let listener = scripted.listen(Strategy::Shared, service);
        Self { scripted, takes, listener, clients: Vec::new() }
    }

    /// A turn that finds a connection, after a sleep of this long, and takes this long for it.
    fn turn(&mut self, slept: u64, takes: u64) {
        self.takes.set(takes);
        self.scripted.script.advance(slept);
        self.clients.push(self.scripted.connect(self.listener));
    }

    /// Sleeps, so that the last turn is over and counted.
    fn sleep(&mut self, slept: u64) {
        self.scripted.script.advance(slept);
        self.scripted.turn();
    }

    fn last(&self, window: Duration) -> (Durations, Durations) {
        let words = self.scripted.worker.core().stats().copy();
        Lag::of_block(&words).last(window, self.scripted.script.now() * 1_000_000)
    }
}

#[test]
fn what_became_ready_during_a_turn_has_waited_for_its_end() {
    let mut slow = Slow::new();
    slow.turn(50, 30);
    // Ready before the wait: no sleep.
    slow.turn(0, 5);
    slow.turn(100, 5);
    slow.sleep(10);
    let (turns, lags) = slow.last(SECOND);
    assert_eq!(turns.longest, 30 * MS);
    assert_eq!(lags.longest, 30 * MS, "the second connection waited for the first one's turn");
    assert_eq!(lags.histogram.count(), 3, "one for each event");
    assert_eq!(lags.histogram.count_in(0), 2, "the worker slept before two of them");
}

#[test]
fn a_turn_without_events_adds_to_no_lag() {
    let mut slow = Slow::new();
    slow.turn(50, 30);
    slow.scripted.worker.core().spawn(async {});
    slow.sleep(0);
    slow.sleep(10);
    let (_, lags) = slow.last(SECOND);
    assert_eq!((lags.longest, lags.histogram.count()), (Duration::ZERO, 1));
}

#[test]
fn what_comes_before_the_first_turn_is_none() {
    let mut slow = Slow::new();
    slow.scripted.script.pass(5000);
    slow.sleep(1);
    slow.sleep(1);
    assert_eq!(slow.last(SECOND).0.longest, Duration::ZERO);
}

#[test]
fn windows_forget_what_is_older() {
    let mut slow = Slow::new();
    slow.turn(10, 400);
    slow.sleep(1);
    for _ in 0..20 {
        slow.turn(100, 2);
    }
    slow.sleep(1);
    let longest = |slow: &Slow, seconds| slow.last(seconds * SECOND).0.longest;
    assert_eq!((longest(&slow, 1), longest(&slow, 10)), (2 * MS, 400 * MS));
    let (turns, _) = slow.last(10 * SECOND);
    assert!(turns.p99() >= 400 * MS && turns.histogram.quantile(0.5, turns.longest) < 4 * MS);
    // Asleep for long: nothing happened lately, and the one long turn counts as long as the window reaches it.
    slow.sleep(30_000);
    assert_eq!((longest(&slow, 10), longest(&slow, 60)), (Duration::ZERO, 400 * MS));
    assert_eq!(slow.last(10 * SECOND).0.histogram.count(), 0);
    slow.sleep(60_000);
    assert_eq!(longest(&slow, 60), Duration::ZERO);
}

#[test]
fn the_ring_goes_round() {
    let mut slow = Slow::new();
    for second in 0..200 {
        slow.turn(995, if second == 150 { 70 } else { 5 });
    }
    slow.sleep(1);
    let (turns, _) = slow.last(60 * SECOND);
    assert_eq!(turns.longest, 70 * MS);
    let count = turns.histogram.count();
    assert!((60..=62).contains(&count), "{count} turns in a minute of one a second");
    assert_eq!(slow.last(10 * SECOND).0.longest, 5 * MS);
}

#[test]
fn times_asleep_and_at_work_are_counted() {
    let mut slow = Slow::new();
    slow.turn(50, 30);
    slow.sleep(20);
    slow.sleep(0);
    let stats = slow.scripted.worker.core().stats();
    assert_eq!(stats.counter(Counter::WorkingNs), 30_000_000);
    assert_eq!(stats.counter(Counter::AsleepNs), 70_000_000);
    let words = stats.copy();
    let turns = Lag::of_block(&words).turns();
    assert_eq!(turns.count(), stats.counter(Counter::Turns), "the one that goes on is not counted");
}
