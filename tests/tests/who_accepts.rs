//! Experiment: two workers, 300 new connections, ten at a time. Who accepts them, and by which mechanism,
//! for each accept strategy.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use drover_tests::http::{exchange, request};
use drover_tests::{Config, Directory, Drover, Port, eventually, sockets};
use nix::unistd::Pid;

const CONNECTIONS: usize = 300;
const AT_A_TIME: usize = 10;

struct Experiment {
    drover: Drover,
    port: Port,
    directory: Directory,
}

impl Experiment {
    fn start(strategy: &str, level: &str) -> Experiment {
        let (directory, port) = (Directory::new(), Port::new());
        let config = Config::new(&directory, 2)
            .log(&format!("level = \"{level}\""))
            .events(&format!("accept = \"{strategy}\""))
            .answering(&port);
        let drover = Drover::start(&directory, &config);
        assert_eq!(drover.workers().len(), 2);
        Experiment { drover, port, directory }
    }

    /// Opens the connections; returns the number that each worker accepted, by its process id.
    fn run(&self) -> BTreeMap<Pid, usize> {
        let address = self.port.address();
        let clients: Vec<_> = (0..AT_A_TIME)
            .map(|_| {
                thread::spawn(move || {
                    for _ in 0..CONNECTIONS / AT_A_TIME {
                        let response = exchange(address, request("GET", "/", "Connection: close\r\n"));
                        assert_eq!(response.expect("an answer").status, 200);
                    }
                })
            })
            .collect();
        for client in clients {
            client.join().expect("every request is answered");
        }
        let log = eventually("every request is in the access log", || {
            Some(self.directory.read("access.log")).filter(|log| log.lines().count() >= CONNECTIONS)
        });
        let mut counts: BTreeMap<Pid, usize> =
            self.drover.workers().into_iter().map(|pid| (pid, 0)).collect();
        for line in log.lines() {
            let pid =
                line.split(' ').next().and_then(|pid| pid.parse().ok()).map(Pid::from_raw).expect("a pid");
            *counts.get_mut(&pid).expect("only the workers accept") += 1;
        }
        assert_eq!(counts.values().sum::<usize>(), CONNECTIONS);
        counts
    }

    /// The listener's sockets that the workers have in their backends: inode and whether exclusively, by worker.
    fn watched(&self) -> Vec<(Pid, u64, bool)> {
        let of = |worker: Pid| {
            let watched = sockets::watched(worker, self.port.number());
            watched.into_iter().map(move |(inode, how)| {
                assert!(!how.is_edge_triggered(), "a listener is level-triggered: {how:x?}");
                (worker, inode, how.is_exclusive())
            })
        };
        self.drover.workers().into_iter().flat_map(of).collect()
    }
}

#[test]
fn exclusive_has_one_socket_that_both_workers_watch_exclusively() {
    let experiment = Experiment::start("exclusive", "info");
    let watched = experiment.watched();
    assert_eq!(watched.len(), 2, "{watched:?}");
    assert!(watched.iter().all(|(_, _, exclusive)| *exclusive), "{watched:?}");
    assert_ne!(watched[0].0, watched[1].0, "one each");
    assert_eq!(watched[0].1, watched[1].1, "the same socket");
    let counts = experiment.run();
    assert!(counts.values().all(|count| *count >= 30), "both get a share: {counts:?}");
}

#[test]
fn shared_has_one_socket_that_both_workers_watch_plainly() {
    let experiment = Experiment::start("shared", "info");
    let watched = experiment.watched();
    assert_eq!(watched.len(), 2, "{watched:?}");
    assert!(watched.iter().all(|(_, _, exclusive)| !*exclusive), "{watched:?}");
    assert_eq!(watched[0].1, watched[1].1, "the same socket");
    experiment.run();
}

#[test]
fn reuseport_has_a_socket_for_each_worker() {
    let experiment = Experiment::start("reuseport", "info");
    let watched = experiment.watched();
    assert_eq!(watched.len(), 2, "{watched:?}");
    assert!(watched.iter().all(|(_, _, exclusive)| !*exclusive), "{watched:?}");
    assert_ne!(watched[0].0, watched[1].0, "one each");
    assert_ne!(watched[0].1, watched[1].1, "two sockets");
    let counts = experiment.run();
    assert!(counts.values().all(|count| *count >= 90), "the kernel hashes evenly: {counts:?}");
}

#[test]
fn mutex_has_one_socket_that_only_the_winner_watches() {
    let experiment = Experiment::start("mutex", "debug");
    let winner = |experiment: &Experiment| {
        eventually("one worker alone watches the listener", || {
            let watched = experiment.watched();
            (watched.len() == 1).then(|| watched[0])
        })
    };
    let (_, inode, exclusive) = winner(&experiment);
    assert!(!exclusive);
    let counts = experiment.run();
    assert_eq!(winner(&experiment).1, inode, "the same socket, whoever has it now");

    // Whoever accepted had won the mutex, and posted the event before it was handled.
    for (pid, count) in counts {
        let lines = |part: &str| experiment.drover.log_lines(&[&format!(" {pid} "), part]).len();
        if count > 0 {
            assert!(lines("mutex locked") > 0, "{pid} accepted {count}");
            assert!(lines("posted event from Accept") > 0, "{pid} accepted {count}");
        }
    }
    // The other one has tried, or does before long.
    experiment.drover.log_line(&["lock failed"]);
}

#[test]
fn one_socket_is_one_socket_in_every_process() {
    let experiment = Experiment::start("exclusive", "info");
    let of = |pid| sockets::held(pid, experiment.port.number()).into_values().collect::<BTreeSet<u64>>();
    let master = of(experiment.drover.master());
    assert_eq!(master.len(), 1, "the master owns the socket");
    for worker in experiment.drover.workers() {
        assert_eq!(of(worker), master);
    }
}
