//! A client that opens a new connection for every request sees no failure while masters come and go, and what
//! was counted never falls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use drover_tests::masters::{named, quit, upgrade};
use drover_tests::status::Status;
use drover_tests::{Config, Directory, Drover, Load, Port, eventually, process};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

const THREADS: u8 = 4;

fn config(directory: &Directory, port: &Port, strategy: &str) -> Config {
    Config::new(directory, 2)
        .http("access_log = \"off\"")
        .events(&format!("accept = \"{strategy}\""))
        .answering(port)
}

fn back_to(directory: &Directory, old: Pid) {
    eventually("the old master has the name", || (named(directory) == old).then_some(()));
}

/// There, back, and there for good, three times over.
fn there_and_back(strategy: &str) {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = Drover::start(&directory, &config(&directory, &port, strategy));
    let load = Load::start(THREADS, port.address(), "/");
    load.wait_for(100);
    for number in 1..=3 {
        let old = named(&directory);
        let new = upgrade(&directory);
        load.wait_for(100);
        load.assert_no_loss(&format!("upgrade {number} with {strategy}"));
        quit(new);
        back_to(&directory, old);
        load.wait_for(100);
        load.assert_no_loss(&format!("taking upgrade {number} back with {strategy}"));
        upgrade(&directory);
        load.wait_for(100);
        quit(old);
        load.wait_for(100);
        load.assert_no_loss(&format!("the end of the old master {number} with {strategy}"));
    }
    let tally = load.stop();
    assert!(tally.failures.is_empty(), "{strategy}: {tally}");
    assert_eq!(drover.status().totals.requests, tally.answered, "every request was counted once");
}

#[test]
fn with_exclusive() {
    there_and_back("exclusive");
}

#[test]
fn with_shared() {
    there_and_back("shared");
}

#[test]
fn with_mutex() {
    there_and_back("mutex");
}

#[test]
fn with_reuseport() {
    there_and_back("reuseport");
}

#[test]
fn with_balanced() {
    there_and_back("balanced");
}

/// The new master has more or fewer sockets in the group than the old one.
#[test]
fn with_another_number_of_sockets_each() {
    let (directory, port) = (Directory::new(), Port::new());
    let with = |workers: u32| config(&directory, &port, "reuseport").process(&format!("workers = {workers}"));
    let _drover = Drover::start(&directory, &with(2));
    let load = Load::start(THREADS, port.address(), "/");
    load.wait_for(100);
    for workers in [4, 1, 3] {
        let old = named(&directory);
        with(workers).write(&directory);
        let new = upgrade(&directory);
        load.wait_for(200);
        load.assert_no_loss(&format!("to {workers} workers"));
        quit(new);
        back_to(&directory, old);
        load.wait_for(200);
        load.assert_no_loss(&format!("back from {workers} workers"));
        upgrade(&directory);
        load.wait_for(100);
        quit(old);
        load.wait_for(200);
        load.assert_no_loss(&format!("to {workers} workers alone"));
    }
    let tally = load.stop();
    assert!(tally.failures.is_empty(), "{tally}");
}

/// The new master listens on a wider address of the same port, which takes over the connections of the old one's.
#[test]
fn with_a_wider_address() {
    let (directory, port) = (Directory::new(), Port::new());
    let with = |ip: &str| {
        Config::new(&directory, 2)
            .http("access_log = \"off\"")
            .server_with(&format!("listen = [\"{ip}:{port}\"]"))
            .location("/", "return = { status = 200 }")
    };
    let drover = Drover::start(&directory, &with("127.0.0.1"));
    let load = Load::start(THREADS, port.address(), "/");
    load.wait_for(100);
    for ip in ["0.0.0.0", "127.0.0.1"] {
        let old = named(&directory);
        with(ip).write(&directory);
        let new = upgrade(&directory);
        load.wait_for(100);
        quit(new);
        back_to(&directory, old);
        load.wait_for(100);
        load.assert_no_loss(&format!("back from {ip}"));
        let new = upgrade(&directory);
        load.wait_for(100);
        quit(old);
        load.wait_for(100);
        load.assert_no_loss(&format!("to {ip} alone"));
        drover.log_line(&[&format!("{new} master"), "has left"]);
        // Not before what was taken over is let go of.
        let generation = drover.status().generation();
        assert!(process::send(new, Signal::SIGHUP));
        drover.generation_after(generation);
        load.wait_for(100);
        load.assert_no_loss(&format!("a reload with {ip}"));
    }
    let tally = load.stop();
    assert!(tally.failures.is_empty(), "{tally}");
}

#[test]
fn what_was_counted_never_falls() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = Drover::start(&directory, &config(&directory, &port, "exclusive"));
    let load = Load::start(THREADS, port.address(), "/");
    let over = Arc::new(AtomicBool::new(false));
    let readings = Arc::new(AtomicU64::new(0));
    let (watched, config) = (drover.config().to_owned(), directory.path().to_owned());
    let (end, read) = (Arc::clone(&over), Arc::clone(&readings));
    let watcher = thread::spawn(move || {
        let mut last = 0;
        while !end.load(Ordering::Relaxed) {
            let requests = Status::read(&watched).expect("there is a master at every moment").totals.requests;
            assert!(requests >= last, "{requests} after {last} in {}", config.display());
            last = requests;
            read.fetch_add(1, Ordering::Relaxed);
        }
    });
    // Read at every stage, whole: the reading under way may have begun before.
    let stage = |answered| {
        load.wait_for(answered);
        let before = readings.load(Ordering::Relaxed);
        eventually("the sums are read", || {
            let read = readings.load(Ordering::Relaxed) >= before + 2;
            (read || watcher.is_finished()).then_some(())
        });
    };
    for _ in 0..5 {
        let old = named(&directory);
        let new = upgrade(&directory);
        stage(100);
        quit(new);
        back_to(&directory, old);
        stage(50);
        upgrade(&directory);
        quit(old);
        stage(50);
    }
    over.store(true, Ordering::Relaxed);
    watcher.join().expect("sums that do not fall");
    assert!(load.stop().failures.is_empty());
}
