//! Experiment: `worker_connections = 6` and one worker. The listener and the channel take a slot each,
//! four are left.

use drover_tests::http::{Failure, exchange, request};
use drover_tests::wait::SOON;
use drover_tests::{Client, Config, Directory, Drover, Port, eventually};

fn start(directory: &Directory, port: &Port) -> Drover {
    let config = Config::new(directory, 1)
        .events("worker_connections = 6")
        .answering(port)
        .location("/slow", "return = { status = 200, body = \"slow\\n\", delay = \"2s\" }");
    Drover::start(directory, &config)
}

/// Waits until the worker has exactly this many connections, so that each is accepted before the next.
#[track_caller]
fn settle(drover: &Drover, connections: u64) {
    eventually(&format!("{connections} connections"), || {
        (drover.status().workers[0].connections == connections).then_some(())
    });
}

#[test]
fn idle_connections_make_room_longest_idle_first() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = start(&directory, &port);
    assert_eq!(drover.status().workers[0].free_slots, 4);

    let mut idle = Vec::new();
    for number in 1..=4 {
        idle.push(Client::to(port.address()));
        settle(&drover, number);
    }
    assert_eq!(drover.status().workers[0].free_slots, 0);
    assert!(idle.iter_mut().all(Client::is_open), "four fit");

    let mut fifth = Client::to(port.address());
    assert_eq!(fifth.get("/").text(), "ok\n");
    assert!(idle[0].is_closed_within(SOON), "number 1 was idle longest");
    for (number, client) in idle.iter_mut().enumerate().skip(1) {
        assert!(client.is_open(), "number {} stays", number + 1);
    }
    drover.log_line(&["WARN", "slots are short"]);
    // The ones that stayed still work.
    assert_eq!(idle[3].get("/").status, 200);
}

#[test]
fn busy_connections_keep_their_slots() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = start(&directory, &port);
    let mut busy: Vec<Client> = (1..=4)
        .map(|number| {
            let mut client = Client::to(port.address());
            client.ask("/slow");
            settle(&drover, number);
            client
        })
        .collect();

    match exchange(port.address(), request("GET", "/", "")) {
        Err(Failure::Closed | Failure::Io(_)) => {}
        other => panic!("the fifth is closed without an answer, not {other:?}"),
    }
    drover.log_line(&["ERROR", "no slot is free"]);
    for client in &mut busy {
        assert_eq!(client.response().text(), "slow\n");
    }
    drop(busy);
    settle(&drover, 0);
    assert_eq!(drover.status().workers[0].free_slots, 4);
    assert_eq!(drover_tests::http::get(port.address(), "/").text(), "ok\n");
}
