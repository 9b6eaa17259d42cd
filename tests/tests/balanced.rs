//! `balanced`: long-lived connections are spread evenly, whatever the order in which they come and go.

use std::collections::BTreeMap;
use std::time::Duration;

use drover_tests::{Client, Config, Directory, Drover, Port, eventually, process};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

const WORKERS: u32 = 4;
/// `balance_slack`, left at its default; a thirty-second of the mean of these tests is less than 5.
const SLACK: usize = 1;

/// Clients by the worker that serves them.
#[derive(Default)]
struct Held(BTreeMap<i32, Vec<Client>>);

impl Held {
    fn take(&mut self, mut client: Client) {
        let pid = client.response().text().parse().expect("the answer is the worker's pid");
        self.0.entry(pid).or_default().push(client);
    }

    fn open(&mut self, port: &Port, count: usize) {
        for _ in 0..count {
            let mut client = Client::to(port.address());
            client.ask("/pid");
            self.take(client);
        }
    }

    /// Opens so many at once, and only then looks who took them.
    fn burst(&mut self, port: &Port, count: usize) {
        let mut clients: Vec<Client> = (0..count).map(|_| Client::to(port.address())).collect();
        clients.iter_mut().for_each(|client| client.ask("/pid"));
        clients.into_iter().for_each(|client| self.take(client));
    }

    fn counts(&self, workers: &[Pid]) -> Vec<usize> {
        workers.iter().map(|pid| self.0.get(&pid.as_raw()).map_or(0, Vec::len)).collect()
    }

    #[track_caller]
    fn assert_balanced(&self, workers: &[Pid], when: &str) {
        let counts = self.counts(workers);
        let total: usize = counts.iter().sum();
        let mean = total.div_ceil(counts.len());
        let slack = SLACK.max(total / counts.len() / 32);
        let most = counts.iter().max().copied().unwrap_or_default();
        assert!(most <= mean + slack, "{when}: {counts:?}");
    }
}

fn start(directory: &Directory, port: &Port) -> Drover {
    let config = Config::new(directory, WORKERS)
        .events("accept = \"balanced\"")
        .http("access_log = \"off\"")
        .answering(port)
        .location("/pid", "return = { status = 200, body = \"$pid\" }");
    Drover::start(directory, &config)
}

#[test]
fn one_after_another_and_in_bursts_no_worker_is_ahead_of_the_mean() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = start(&directory, &port);
    let workers = drover.workers();
    let mut held = Held::default();
    for opened in 1..=400 {
        held.open(&port, 1);
        held.assert_balanced(&workers, &format!("after {opened}"));
    }
    for burst in 1..=2 {
        held.burst(&port, 100);
        held.assert_balanced(&workers, &format!("after burst {burst}"));
    }
    let spread: Vec<usize> = held.counts(&workers);
    assert_eq!(spread.iter().sum::<usize>(), 600);
    assert!(spread.iter().all(|count| (140..=160).contains(count)), "{spread:?}");
}

#[test]
fn level_workers_take_turns_without_waking_each_other() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = start(&directory, &port);
    let mut held = Held::default();
    held.open(&port, 400);
    let closed: u64 = drover.status().workers.iter().map(|worker| worker.gate_closed).sum();
    assert!(closed < 80, "a gate closed {closed} times in 400 accepts, each time at the cost of a wake-up");
}

#[test]
fn a_worker_that_lost_its_connections_gets_the_new_ones() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = start(&directory, &port);
    let workers = drover.workers();
    let mut held = Held::default();
    held.open(&port, 80);
    let emptied = workers[2];
    held.0.remove(&emptied.as_raw());
    eventually("the worker has seen its clients go", || {
        let status = drover.status();
        let worker = status.workers.iter().find(|worker| worker.pid == emptied.as_raw())?;
        (worker.connections == 0).then_some(())
    });
    let before = held.counts(&workers);
    held.open(&port, 16);
    let after = held.counts(&workers);
    let gained: Vec<usize> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
    assert!(gained[2] >= 15, "of 16 new connections: {gained:?}");
}

#[test]
fn a_stopped_worker_with_the_fewest_connections_holds_up_nobody() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = start(&directory, &port);
    let workers = drover.workers();
    let mut held = Held::default();
    held.open(&port, 80);
    let stopped = workers[1];
    held.0.remove(&stopped.as_raw());
    eventually("the worker has seen its clients go", || {
        let status = drover.status();
        let worker = status.workers.iter().find(|worker| worker.pid == stopped.as_raw())?;
        (worker.connections == 0).then_some(())
    });
    process::send(stopped, Signal::SIGSTOP);
    // One that is woken for a connection at the very moment keeps that one, as with any exclusive wake-up.
    eventually("it has stopped", || (process::state(stopped) == Some('T')).then_some(()));
    for _ in 0..12 {
        let mut client = Client::to(port.address());
        // Far less than the time after which a kernel or a person gives up.
        client.set_patience(Duration::from_secs(10));
        client.ask("/pid");
        held.take(client);
    }
    assert_eq!(held.counts(&workers)[1], 0);
    process::send(stopped, Signal::SIGCONT);
    // Until it runs again and has answered, it does not count.
    for _ in 0..100 {
        held.open(&port, 1);
        if held.counts(&workers)[1] > 0 {
            break;
        }
    }
    let before = held.counts(&workers)[1];
    held.open(&port, 16);
    assert!(held.counts(&workers)[1] - before >= 12, "it answers again: {:?}", held.counts(&workers));
}
