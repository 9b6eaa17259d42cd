//! Old workers finish what they have after a reload, and not more than that.

use std::time::{Duration, Instant};

use drover_tests::http::get;
use drover_tests::{Client, Config, Directory, Drover, Load, Port, eventually, process};
use nix::sys::signal::Signal;

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
    assert!(idle.is_closed_within(Duration::from_secs(5)));
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
    assert!(slow.is_closed_within(Duration::from_secs(4)));
    let after = asked.elapsed();
    assert!((Duration::from_millis(900)..Duration::from_millis(2500)).contains(&after), "{after:?}");
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

#[test]
fn a_worker_that_drains_uses_no_processor_time() {
    let (directory, port) = (Directory::new(), Port::new());
    let config = config(&directory, &port, "3s").events("worker_connections = 50000");
    let drover = Drover::start(&directory, &config);
    let old = drover.worker();
    let mut slow = slow_client(&drover, &port);
    drover.reload_begun();
    let before = process::cpu_time(old).expect("it drains");
    assert!(drover_tests::wait::stays(Duration::from_secs(1), || process::alive(old)));
    let used = process::cpu_time(old).expect("it drains").since(before).total();
    assert!(used < Duration::from_millis(20), "used {used:?} in a second");
    assert_eq!(slow.response().text(), "slow\n");
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
