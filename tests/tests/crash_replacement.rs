//! Workers that are killed are replaced, and what they held is released.

use drover_tests::http::{Failure, exchange, get, request};
use drover_tests::wait::SOON;
use drover_tests::{Client, Config, Directory, Drover, Port, eventually, process, sockets};
use nix::sys::signal::Signal;

/// Waits until so many workers serve, none of which is among `gone`.
#[track_caller]
fn replaced(drover: &Drover, count: usize, gone: &[nix::unistd::Pid]) {
    eventually("the killed workers are replaced", || {
        let status = drover.status();
        let fresh = status.workers.iter().all(|worker| gone.iter().all(|pid| pid.as_raw() != worker.pid));
        (status.workers.len() == count && fresh && status.all_serve()).then_some(())
    });
}

#[test]
fn a_killed_worker_is_replaced() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = Drover::start(&directory, &Config::new(&directory, 2).answering(&port));
    let workers = drover.workers();
    process::send(workers[0], Signal::SIGKILL);
    replaced(&drover, 2, &workers[..1]);
    assert!(drover.workers().contains(&workers[1]), "the other one is left alone");
    let line = drover.log_line(&[&workers[0].to_string(), "SIGKILL"]);
    assert!(line.contains("worker 0"), "{line}");
    assert_eq!(get(port.address(), "/").text(), "ok\n");
    assert_eq!(drover.status().generation(), 1);
}

#[test]
fn the_log_says_how_it_ended_and_what_it_was_doing() {
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, 1)
        .answering(&port)
        .location("/slow", "return = { status = 200, body = \"slow\\n\", delay = \"60s\" }");
    let drover = Drover::start(&directory, &config);
    let mut idle = Client::to(port.address());
    assert_eq!(idle.get("/").status, 200);
    let mut slow = Client::to(port.address());
    slow.ask("/slow");
    let victim = drover.worker();
    eventually("the slow request is under way", || {
        (drover.status().workers[0].connections == 2 && process::state(victim) == Some('S')).then_some(())
    });
    process::send(victim, Signal::SIGKILL);
    let line = drover.log_line(&["worker 0 of generation 1", &format!("(process {victim})")]);
    assert!(line.contains(" ERROR ") && line.contains("was killed by SIGKILL after "), "{line}");
    assert!(line.contains("serving, asleep, with 2 connections: 1 working, 1 idle"), "{line}");
}

/// The master's sockets go on queueing: a client that comes meanwhile is served by the next worker.
fn all_killed_at_once(strategy: &str) {
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, 3).events(&format!("accept = \"{strategy}\"")).answering(&port);
    let drover = Drover::start(&directory, &config);
    let workers = drover.workers();
    for worker in &workers {
        process::send(*worker, Signal::SIGKILL);
    }
    eventually("they have ended", || workers.iter().all(|pid| !process::alive(*pid)).then_some(()));
    let mut clients: Vec<Client> = (0..20).map(|_| Client::to(port.address())).collect();
    for client in &mut clients {
        client.ask("/");
    }
    replaced(&drover, 3, &workers);
    for client in &mut clients {
        assert_eq!(client.response().text(), "ok\n");
    }
}

#[test]
fn all_workers_killed_at_once_are_replaced() {
    all_killed_at_once("exclusive");
}

#[test]
fn each_socket_is_there_for_the_next_worker() {
    all_killed_at_once("reuseport");
}

#[test]
fn connections_of_the_other_workers_survive() {
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, 2).http("access_log = \"off\"").answering(&port);
    let config = config.location("/pid", "return = { status = 200, body = \"$pid\" }");
    let drover = Drover::start(&directory, &config);
    let mut clients: Vec<Client> = (0..20).map(|_| Client::to(port.address())).collect();
    let holders: Vec<String> = clients.iter_mut().map(|client| client.get("/pid").text()).collect();
    let victim = drover.workers()[0];
    process::send(victim, Signal::SIGKILL);
    replaced(&drover, 2, &[victim]);
    for (client, holder) in clients.iter_mut().zip(&holders) {
        if *holder == victim.to_string() {
            assert!(client.is_closed_within(SOON));
        } else {
            assert_eq!(client.get("/pid").text(), *holder);
        }
    }
}

#[test]
fn a_mutex_is_released_when_its_owner_is_killed() {
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, 2)
        .events("accept = \"mutex\"")
        .events("accept_mutex_delay = \"100ms\"")
        .answering(&port);
    let drover = Drover::start(&directory, &config);
    let owner = sockets::only_watcher(&drover, &port);
    process::send(owner, Signal::SIGKILL);
    // One connection may be lost with the owner: the kernel may have given it to that process.
    let answered =
        eventually("somebody accepts", || match exchange(port.address(), request("GET", "/", "")) {
            Ok(response) => Some(response.status),
            Err(Failure::Closed | Failure::Io(_)) => None,
            Err(failure) => panic!("{failure}"),
        });
    assert_eq!(answered, 200);
    replaced(&drover, 2, &[owner]);
}
