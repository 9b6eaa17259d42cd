//! A worker that is out of descriptors closes connections that are kept and idle. Without any it waits until it
//! has descriptors again, and does not spin meanwhile.

use std::time::Duration;

use drover_tests::{Client, Config, Directory, Drover, Port, descriptors, eventually, process, wait};
use nix::unistd::Pid;

const LIMIT: usize = 64;

/// True when every number below the limit is taken. Higher ones may have been inherited from whoever runs the tests.
fn is_out(worker: Pid) -> bool {
    descriptors::open(worker).into_keys().filter(|number| *number < LIMIT as i32).count() == LIMIT
}

fn runs_out(strategy: &str) {
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, 1)
        .process(&format!("rlimit_nofile = {LIMIT}"))
        .events(&format!("accept = \"{strategy}\""))
        .answering(&port);
    let drover = Drover::start(&directory, &config);
    let worker = drover.worker();
    let mut clients: Vec<Client> = (0..LIMIT + 20).map(|_| Client::to(port.address())).collect();
    drover.log_line(&["accepting pauses"]);
    assert!(is_out(worker));

    let (lines, used) = (drover.log().lines().count(), process::cpu_time(worker).expect("it lives"));
    assert!(wait::stays(Duration::from_secs(2), || is_out(worker)));
    let used = process::cpu_time(worker).expect("it lives").since(used).total();
    assert!(used < Duration::from_millis(250), "used {used:?} in 2 s");
    let lines = drover.log().lines().count() - lines;
    assert!(lines <= 6, "{lines} lines in 2 s:\n{}", drover.log());

    // Those that were accepted are served, and as they go those that waited are too.
    for client in &mut clients {
        assert_eq!(client.get("/").text(), "ok\n");
        client.half_close();
    }
}

#[test]
fn with_a_shared_socket() {
    runs_out("exclusive");
}

#[test]
fn with_a_socket_of_its_own() {
    runs_out("reuseport");
}

#[test]
fn kept_connections_make_room() {
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, 1).process(&format!("rlimit_nofile = {LIMIT}")).answering(&port);
    let drover = Drover::start(&directory, &config);
    let mut clients: Vec<Client> = Vec::new();
    for _ in 0..LIMIT + 20 {
        let mut client = Client::to(port.address());
        assert_eq!(client.get("/").text(), "ok\n");
        clients.push(client);
    }
    drover.log_line(&["descriptors are short: closing"]);
    assert!(!drover.log().contains("accepting pauses"), "{}", drover.log());
    assert!(clients[0].is_closed_within(wait::SOON));
    assert_eq!(clients[LIMIT].get("/").text(), "ok\n", "the longest idle were closed");
}

#[test]
fn another_worker_may_accept_meanwhile() {
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, 2)
        .process(&format!("rlimit_nofile = {LIMIT}"))
        .events("accept = \"mutex\"")
        .answering(&port)
        .location("/slow", "return = { status = 200, delay = \"60s\" }");
    let drover = Drover::start(&directory, &config);
    let connections = || drover.status().workers.iter().map(|worker| worker.connections).sum::<u64>();
    // More than one worker can hold, less than two can; and none is idle, to be closed for others.
    let mut clients = Vec::new();
    for number in 1..=LIMIT as u64 + 20 {
        let mut client = Client::to(port.address());
        client.ask("/slow");
        clients.push(client);
        eventually("somebody accepts it", || (connections() == number).then_some(()));
    }
}
