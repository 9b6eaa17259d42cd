//! A worker that is stopped (SIGSTOP) does not hold up the others: not with the accept mutex in its hands, and not
//! over a reload.

use std::time::Duration;

use drover_tests::http::get;
use drover_tests::{Client, Config, Directory, Drover, Port, eventually, process, sockets};
use nix::sys::signal::Signal;

fn config(directory: &Directory, port: &Port) -> Config {
    Config::new(directory, 2)
        .process("shutdown_timeout = \"60s\"")
        .events("accept = \"mutex\"")
        .events("accept_mutex_delay = \"100ms\"")
        .answering(port)
}

#[test]
fn the_accept_mutex_goes_to_another_worker() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = Drover::start(&directory, &config(&directory, &port));
    let holder = sockets::only_watcher(&drover, &port);
    process::send(holder, Signal::SIGSTOP);
    drover.log_line(&[&format!("(process {holder})"), "was stopped by SIGSTOP", "the accept mutex"]);
    let mut client = Client::to(port.address());
    client.set_patience(Duration::from_secs(5));
    assert_eq!(client.get("/").text(), "ok\n", "the other worker accepts");
    process::send(holder, Signal::SIGCONT);
    drover.log_line(&[&format!("(process {holder})"), "goes on"]);
    // It finds that it holds the mutex no longer.
    sockets::only_watcher(&drover, &port);
    for _ in 0..50 {
        assert_eq!(get(port.address(), "/").text(), "ok\n");
    }
    assert!(drover.workers().contains(&holder));
}

#[test]
fn a_reload_does_not_wait_for_it() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = Drover::start(&directory, &config(&directory, &port));
    let workers = drover.workers();
    for worker in &workers {
        process::send(*worker, Signal::SIGSTOP);
    }
    drover.reload_begun();
    let mut client = Client::to(port.address());
    client.set_patience(Duration::from_secs(5));
    assert_eq!(client.get("/").text(), "ok\n");
    // Let go, they do as they were told meanwhile.
    for worker in &workers {
        process::send(*worker, Signal::SIGCONT);
    }
    eventually("the old workers go", || workers.iter().all(|pid| !process::alive(*pid)).then_some(()));
    assert_eq!(drover.workers().len(), 2);
    assert_eq!(get(port.address(), "/").text(), "ok\n");
}
