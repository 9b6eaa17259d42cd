//! A worker that stays inside one turn is reported, and killed where the config says so; one that sleeps is not.

use std::time::Duration;

use drover_tests::http::{exchange, get, request};
use drover_tests::{Client, Config, Directory, Drover, Port, Strace, eventually, process, wait};
use nix::sys::signal::Signal;

const INSIDE: &str = "has been inside one turn for";

fn config(directory: &Directory, port: &Port) -> Config {
    // Longer than what a busy machine does to a worker.
    Config::new(directory, 1).process("stall_warn = \"400ms\"").answering(port)
}

#[test]
fn a_stall_is_reported_once_with_the_connection_and_what_it_was_doing() {
    let (directory, port) = (Directory::new(), Port::new());
    let root = directory.join("www");
    std::fs::create_dir(&root).expect("the directory is ours");
    std::fs::write(root.join("large"), vec![b'x'; 128 << 10]).expect("the directory is ours");
    let config = config(&directory, &port).location("/large", &format!("root = \"{}\"", root.display()));
    let drover = Drover::start(&directory, &config);
    let worker = drover.worker();
    // The first connection is another one, so that its number means something.
    assert_eq!(get(port.address(), "/").text(), "ok\n");
    let slow = Strace::slow_down(&directory, worker, "sendfile", Duration::from_secs(2));
    if slow.is_none() {
        return;
    }
    let mut client = Client::to(port.address());
    client.ask("/large");
    let line = drover.log_line(&[INSIDE]);
    assert!(line.contains(" WARN ") && line.contains(&format!("(process {worker})")), "{line}");
    assert!(line.contains("handling connection 2 (sending), with 1 connection"), "{line}");
    assert_eq!(drover.workers(), [worker], "it may take its time");
    drover.log_line(&["is out of its turn after"]);
    drop(slow);
    assert_eq!(client.response().body.len(), 128 << 10);
    // Each call stalled, each was a turn of its own or more of the same one: never two lines about one turn.
    let (reports, ends) =
        (drover.log_lines(&[INSIDE]).len(), drover.log_lines(&["is out of its turn"]).len());
    assert!(reports - ends <= 1, "{reports} reports and {ends} ends");
}

#[test]
fn a_stall_that_lasts_is_ended_where_the_config_says_so() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = Drover::start(&directory, &config(&directory, &port).process("stall_kill = \"800ms\""));
    let worker = drover.worker();
    let slow = Strace::slow_down(&directory, worker, "recvfrom", Duration::from_secs(60));
    if slow.is_none() {
        return;
    }
    let client = exchange(port.address(), request("GET", "/", ""));
    assert!(client.is_err(), "{client:?}");
    drop(slow);
    drover.log_line(&[INSIDE, "killing it"]);
    drover.log_line(&[&worker.to_string(), "SIGKILL", "handling connection 1"]);
    eventually("another takes its place", || {
        drover.workers().first().filter(|pid| **pid != worker).map(drop)
    });
    assert_eq!(get(port.address(), "/").text(), "ok\n");
}

#[test]
fn a_worker_that_sleeps_or_is_stopped_in_its_sleep_does_not_stall() {
    let (directory, port) = (Directory::new(), Port::new());
    let keys = ["stall_warn = \"50ms\"", "stall_kill = \"1s\""];
    let config =
        keys.iter().fold(Config::new(&directory, 1).answering(&port), |config, key| config.process(key));
    let drover = Drover::start(&directory, &config);
    let worker = drover.worker();
    assert_eq!(get(port.address(), "/").text(), "ok\n");
    eventually("it sleeps", || (process::state(worker) == Some('S')).then_some(()));
    let reports = drover.log_lines(&[INSIDE]).len();
    assert!(wait::stays(Duration::from_millis(1300), || process::alive(worker)));
    process::send(worker, Signal::SIGSTOP);
    drover.log_line(&["was stopped by SIGSTOP"]);
    assert!(wait::stays(Duration::from_millis(1300), || process::alive(worker)));
    process::send(worker, Signal::SIGCONT);
    drover.log_line(&["goes on after a stop"]);
    assert_eq!(drover.log_lines(&[INSIDE]).len(), reports);
    assert_eq!(get(port.address(), "/").text(), "ok\n");
    assert_eq!(drover.workers(), [worker]);
}
