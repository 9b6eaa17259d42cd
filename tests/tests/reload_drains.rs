//! Old workers finish what they have after a reload, and not more than that.

use std::time::{Duration, Instant};

use drover_tests::http::get;
use drover_tests::wait::SOON;
use drover_tests::{Client, Config, Directory, Drover, Load, Port, eventually, process};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

fn config(directory: &Directory, port: &Port, delay: &str) -> Config {
    Config::new(directory, 1)
        .answering(port)
        .location("/pid", "return = { status = 200, body = \"$pid\" }")
        .location("/slow", &format!("return = {{ status = 200, body = \"slow\\n\", delay = \"{delay}\" }}"))
}

/// A client whose request the one worker is working on.
fn slow_client(drover: &Drover, port: &Port) -> Client {
    let mut client = Client::to(port.address());
    client.ask("/slow");
    eventually("the slow request is under way", || {
        (drover.status().workers.iter().map(|worker| worker.connections).sum::<u64>() > 0).then_some(())
    });
    client
}

#[test]
fn a_request_under_way_is_finished_by_the_old_worker() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = Drover::start(&directory, &config(&directory, &port, "1s"));
    let old = drover.worker();
    let mut slow = slow_client(&drover, &port);
    drover.reload_begun();
    let fresh = get(port.address(), "/pid").text();
    assert_ne!(fresh, old.to_string(), "new connections go to the new worker");
    assert!(process::alive(old));
    assert_eq!(process::title(old), "drover: worker 0, generation 1");
    let response = slow.response();
    assert_eq!(response.text(), "slow\n");
    assert!(response.closes(), "the old worker takes no further request: {response:?}");
    drop(slow);
    eventually("the old worker goes", || (!process::alive(old)).then_some(()));
    assert_eq!(drover.worker().to_string(), fresh);
}

#[test]
fn idle_connections_are_closed() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = Drover::start(&directory, &config(&directory, &port, "1s"));
    let mut idle = Client::to(port.address());
    assert_eq!(idle.get("/").status, 200);
    drover.signal(Signal::SIGHUP);
    assert!(idle.is_closed_within(SOON));
}

#[test]
fn what_does_not_finish_is_closed_after_the_shutdown_timeout() {
    let (directory, port) = (Directory::new(), Port::new());
    let config = config(&directory, &port, "60s").process("shutdown_timeout = \"1s\"");
    let drover = Drover::start(&directory, &config);
    let old = drover.worker();
    let mut slow = slow_client(&drover, &port);
    let asked = Instant::now();
    drover.signal(Signal::SIGHUP);
    assert!(slow.is_closed_within(SOON));
    let after = asked.elapsed();
    assert!(after >= Duration::from_millis(900), "{after:?}");
    eventually("the old worker goes", || (!process::alive(old)).then_some(()));
}

#[test]
fn an_old_worker_that_is_killed_while_it_drains_is_not_replaced() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = Drover::start(&directory, &config(&directory, &port, "60s"));
    let old = drover.worker();
    let _slow = slow_client(&drover, &port);
    drover.reload_begun();
    let fresh = get(port.address(), "/pid").text();
    process::send(old, Signal::SIGKILL);
    drover.log_line(&[&old.to_string(), "SIGKILL"]);
    eventually("one worker is left", || (drover.workers().len() == 1).then_some(()));
    assert_eq!(drover.worker().to_string(), fresh);
    assert_eq!(drover.status().generation(), 2);
}

/// Where nothing happens a worker that drains takes no turn, whatever accept strategy its listeners had.
fn sleeps_while_it_drains(backend: &str, slots: u32) {
    for strategy in ["exclusive", "shared", "mutex", "reuseport", "balanced"] {
        let (directory, port) = (Directory::new(), Port::new());
        let config = config(&directory, &port, "60s")
            .process("workers = 2")
            .events(&format!("worker_connections = {slots}"))
            .events(&format!("use = \"{backend}\""))
            .events(&format!("accept = \"{strategy}\""));
        let drover = Drover::start(&directory, &config);
        let mut slow = Client::to(port.address());
        slow.ask("/slow");
        eventually("the slow request is under way", || {
            (drover.status().workers.iter().map(|worker| worker.connections).sum::<u64>() == 1).then_some(())
        });
        drover.reload_begun();
        let old = eventually("one old worker is left, at rest", || {
            let mut old = drover.status().workers.into_iter().filter(|worker| worker.generation == 1);
            let (first, none) = (old.next()?, old.next().is_none());
            (none && process::state(Pid::from_raw(first.pid)) == Some('S')).then_some(first)
        });
        let pid = Pid::from_raw(old.pid);
        let turns = || drover.status().workers.iter().find(|each| each.pid == old.pid).map(|each| each.turns);
        let before = (turns().expect("it drains"), process::cpu_time(pid).expect("it drains").total());
        assert!(drover_tests::wait::stays(Duration::from_secs(1), || process::alive(pid)));
        let after = (turns().expect("it drains"), process::cpu_time(pid).expect("it drains").total());
        assert_eq!(after, before, "turns and processor time with {backend} and {strategy}");
    }
}

#[test]
fn a_worker_that_drains_sleeps() {
    sleeps_while_it_drains("epoll", 50_000);
}

#[test]
fn a_worker_that_drains_sleeps_with_poll() {
    sleeps_while_it_drains("poll", 50_000);
}

#[test]
fn a_worker_that_drains_sleeps_with_select() {
    sleeps_while_it_drains("select", 500);
}

#[test]
fn many_hups_at_once_are_few_reloads() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = Drover::start(&directory, &config(&directory, &port, "1s"));
    let load = Load::start(2, port.address(), "/");
    for _ in 0..200 {
        drover.signal(Signal::SIGHUP);
    }
    drover.generation_after(1);
    // Nothing further comes of them.
    let generation = eventually("the generations come to rest", || {
        let generation = drover.status().generation();
        let rests = drover_tests::wait::stays(Duration::from_millis(500), || {
            drover.status().generation() == generation
        });
        rests.then_some(generation)
    });
    assert!((2..100).contains(&generation), "{generation} generations");
    let tally = load.stop();
    assert!(tally.failures.is_empty(), "{tally}");
    drover.generation_after(generation - 1);
    assert_eq!(drover.workers().len(), 1);
}
