//! No datagram is lost and no flow changes its worker: with four workers, under every accept strategy, over
//! reloads and changes of the number of workers.

use std::net::SocketAddr;
use std::time::Duration;

use drover_tests::datagrams::{Flows, Tally, UdpBackend};
use drover_tests::{Config, Directory, Drover, Port, eventually, process};
use nix::sys::signal::Signal;

const FLOWS: u32 = 200;
const PER_SECOND: u32 = 50;

fn proxy(directory: &Directory, workers: u32, port: &Port, backend: &UdpBackend) -> Config {
    let listen = format!("listen = [{{ address = \"{}\", udp = true }}]", port.address());
    let config = Config::new(directory, workers).events("worker_connections = 2048");
    config.proxy(&format!("{listen}\nproxy_pass = \"{}\"", backend.address()))
}

#[track_caller]
fn assert_none_lost(tally: Tally, expected: u64) {
    assert_eq!(tally, Tally { sent: expected, answered: expected });
}

/// Each flow had one session, and the workers shared them.
#[track_caller]
fn assert_whole(backend: &UdpBackend, flows: usize) {
    let sessions = backend.sessions();
    assert_eq!(sessions.len(), flows);
    let split: Vec<_> = sessions.iter().filter(|(_, sessions)| **sessions != 1).collect();
    assert!(split.is_empty(), "flows with more than one session: {split:?}");
}

fn under(strategy: &str) {
    let (directory, port, backend) = (Directory::new(), Port::new(), UdpBackend::echo());
    let config = proxy(&directory, 4, &port, &backend).events(&format!("accept = \"{strategy}\""));
    let drover = Drover::start(&directory, &config);
    let tally = Flows::new(0, FLOWS).run(port.address().into(), PER_SECOND, Duration::from_secs(1));
    assert_none_lost(tally, u64::from(FLOWS * PER_SECOND));
    assert_whole(&backend, FLOWS as usize);
    let shares: Vec<u64> = drover.status().workers.iter().map(|worker| worker.connections).collect();
    assert!(shares.iter().all(|share| *share > 0), "sessions by worker: {shares:?}");
}

#[test]
fn under_exclusive() {
    under("exclusive");
}

#[test]
fn under_shared() {
    under("shared");
}

#[test]
fn under_mutex() {
    under("mutex");
}

#[test]
fn under_reuseport() {
    under("reuseport");
}

#[test]
fn under_balanced() {
    under("balanced");
}

#[test]
fn over_reloads_with_more_and_fewer_workers() {
    let (directory, port, backend) = (Directory::new(), Port::new(), UdpBackend::echo());
    let with = |workers| proxy(&directory, workers, &port, &backend);
    let drover = Drover::start(&directory, &with(4));
    let server = SocketAddr::from(port.address());
    let old = Flows::new(0, FLOWS);
    let begun = old.run(server, PER_SECOND, Duration::from_millis(200));
    assert_none_lost(begun, u64::from(FLOWS) * 10);
    let mut first = FLOWS;
    for workers in [4, 2, 5] {
        with(workers).write(&directory);
        // The flows of before go on while the new workers come, and new flows begin at every moment of it.
        let (lasting, new) = std::thread::scope(|scope| {
            let lasting = scope.spawn(|| old.run(server, PER_SECOND, Duration::from_secs(2)));
            let new = scope.spawn(|| {
                let parts = (0..10).map(|part| Flows::new(first + part * 10, 10));
                let run = |flows: Flows| flows.run(server, PER_SECOND, Duration::from_millis(200));
                parts.map(run).collect::<Vec<Tally>>()
            });
            drover.reload_begun();
            (lasting.join().expect("runs"), new.join().expect("runs"))
        });
        assert_none_lost(lasting, u64::from(FLOWS * PER_SECOND) * 2);
        new.into_iter().for_each(|tally| assert_none_lost(tally, 100));
        first += 100;
    }
    assert_whole(&backend, first as usize);
    assert!(drover.processes().len() > 6, "the old workers still serve their sessions");
}

#[test]
fn a_worker_that_dies_costs_its_sessions_and_no_more() {
    let (directory, port, backend) = (Directory::new(), Port::new(), UdpBackend::echo());
    let drover = Drover::start(&directory, &proxy(&directory, 4, &port, &backend));
    let server = SocketAddr::from(port.address());
    let flows = Flows::new(0, FLOWS);
    flows.run(server, PER_SECOND, Duration::from_millis(200));
    let victim = drover.workers()[0];
    process::send(victim, Signal::SIGKILL);
    eventually("it is replaced", || {
        let workers = drover.workers();
        (workers.len() == 4 && !workers.contains(&victim) && drover.status().all_serve()).then_some(())
    });
    let tally = flows.run(server, PER_SECOND, Duration::from_millis(400));
    assert_none_lost(tally, u64::from(FLOWS) * 20);
    let sessions = backend.sessions();
    assert!(sessions.values().all(|sessions| *sessions <= 2), "{sessions:?}");
    assert!(sessions.values().any(|sessions| *sessions == 1), "others keep theirs");
}

/// Until it is replaced it serves whoever comes, besides those that it has.
#[test]
fn a_worker_that_is_asked_to_leave_serves_until_it_is_replaced() {
    let (directory, port, backend) = (Directory::new(), Port::new(), UdpBackend::echo());
    let drover = Drover::start(&directory, &proxy(&directory, 1, &port, &backend));
    let (server, old, new) = (SocketAddr::from(port.address()), Flows::new(0, 10), Flows::new(10, 10));
    let tenth = Duration::from_millis(100);
    assert_none_lost(old.run(server, PER_SECOND, tenth), 50);
    process::send(drover.workers()[0], Signal::SIGQUIT);
    drover.log_line(&["worker 0", "drains"]);
    for _ in 0..3 {
        assert_none_lost(old.run(server, PER_SECOND, tenth), 50);
        assert_none_lost(new.run(server, PER_SECOND, tenth), 50);
    }
    assert_whole(&backend, 20);
}
