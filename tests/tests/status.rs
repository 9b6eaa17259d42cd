//! `drover status`: what the scoreboard says, as a table and as JSON.

use drover_tests::http::get;
use drover_tests::status::Status;
use drover_tests::{Client, Config, Directory, Drover, Port, binary, eventually, process};
use nix::sys::signal::Signal;

#[test]
fn it_counts_connections_accepts_and_requests() {
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, 2).events("worker_connections = 100").answering(&port);
    let drover = Drover::start(&directory, &config);
    let mut clients: Vec<Client> = (0..5).map(|_| Client::to(port.address())).collect();
    for client in &mut clients {
        client.get("/");
        client.get("/");
    }
    let status = eventually("five connections", || {
        let status = drover.status();
        (status.workers.iter().map(|worker| worker.connections).sum::<u64>() == 5).then_some(status)
    });
    let pids: Vec<i32> = drover.workers().into_iter().map(nix::unistd::Pid::as_raw).collect();
    for worker in &status.workers {
        assert!(pids.contains(&worker.pid));
        assert_eq!(worker.generation, 1);
        assert_eq!(worker.state, "serving");
        assert_eq!(
            worker.connections + worker.free_slots,
            98,
            "the listener and the channel have a slot each"
        );
    }
    assert_eq!(status.workers.iter().map(|worker| worker.accepts).sum::<u64>(), 5);
    assert_eq!(status.workers.iter().map(|worker| worker.requests).sum::<u64>(), 10);
}

#[test]
fn sums_do_not_fall_over_a_reload() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = Drover::start(&directory, &Config::new(&directory, 2).answering(&port));
    for _ in 0..7 {
        get(port.address(), "/");
    }
    eventually("seven are counted", || (drover.status().totals.accepts == 7).then_some(()));
    drover.reload();
    get(port.address(), "/");
    eventually("eight are counted", || {
        let totals = drover.status().totals;
        (totals.accepts == 8 && totals.requests == 8).then_some(())
    });
}

#[test]
fn the_table_has_a_row_for_each_worker() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = Drover::start(&directory, &Config::new(&directory, 2).answering(&port));
    let output = binary::run(["status".as_ref(), "-c".as_ref(), drover.config().as_os_str()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let table = String::from_utf8(output.stdout).expect("text");
    for worker in drover.workers() {
        assert_eq!(table.lines().filter(|line| line.contains(&worker.to_string())).count(), 1, "{table}");
    }
    assert!(table.contains("generation 1"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
}

#[test]
fn without_a_daemon_it_says_so() {
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, 1).answering(&port).write(&directory);
    let output = binary::run(["status".as_ref(), "-c".as_ref(), config.as_os_str()]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("no drover runs"), "{text}");
}

#[test]
fn a_worker_that_is_stopped_is_pointed_out() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = Drover::start(&directory, &Config::new(&directory, 1).answering(&port));
    let table = || Status::text(drover.config()).expect("a table");
    let sentence = "is stopped, by SIGSTOP or a debugger";
    assert!(!table().contains(sentence));
    process::send(drover.worker(), Signal::SIGSTOP);
    eventually("status says so", || table().contains(sentence).then_some(()));
    process::send(drover.worker(), Signal::SIGCONT);
    eventually("it goes on", || (!table().contains(sentence)).then_some(()));
}
