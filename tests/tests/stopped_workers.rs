//! A worker that is stopped (SIGSTOP) does not hold up the others: not with the accept mutex in its hands, and not
//! over a reload.

use std::time::{Duration, Instant};

use drover_tests::http::get;
use drover_tests::{Client, Config, Directory, Drover, Port, binary, eventually, process, sockets};
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
    client.set_patience(Duration::from_secs(10));
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
    client.set_patience(Duration::from_secs(10));
    assert_eq!(client.get("/").text(), "ok\n");
    // Let go, they do as they were told meanwhile.
    for worker in &workers {
        process::send(*worker, Signal::SIGCONT);
    }
    eventually("the old workers go", || workers.iter().all(|pid| !process::alive(*pid)).then_some(()));
    assert_eq!(drover.workers().len(), 2);
    assert_eq!(get(port.address(), "/").text(), "ok\n");
}

#[test]
fn a_reload_does_not_wait_for_sockets_that_it_is_to_release() {
    let (directory, port) = (Directory::new(), Port::new());
    let with = |workers: u32| {
        let config = config(&directory, &port).events("accept = \"reuseport\"");
        config.process(&format!("workers = {workers}"))
    };
    let drover = Drover::start(&directory, &with(4));
    with(2).write(&directory);
    drover.reload_begun();
    // They accept from the two surplus sockets, and cannot let go of them.
    let workers = drover.workers();
    for worker in &workers {
        process::send(*worker, Signal::SIGSTOP);
    }
    for workers in [3, 1] {
        with(workers).write(&directory);
        let begun = Instant::now();
        let output = binary::run(["reload".as_ref(), "-c".as_ref(), drover.config().as_os_str()]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(begun.elapsed() < Duration::from_secs(10), "took {:?}", begun.elapsed());
        for _ in 0..30 {
            assert_eq!(get(port.address(), "/").text(), "ok\n");
        }
    }
    for worker in &workers {
        process::send(*worker, Signal::SIGCONT);
    }
    eventually("one worker is left", || (drover.workers().len() == 1).then_some(()));
    eventually("one socket is left", || (sockets::listening(port.number()).len() == 1).then_some(()));
    assert_eq!(get(port.address(), "/").text(), "ok\n");
}
