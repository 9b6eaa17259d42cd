//! `drover status`: what the scoreboard says, as a table and as JSON.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt;

use drover_tests::http::get;
use drover_tests::status::Status;
use drover_tests::{Client, Config, Directory, Drover, Port, binary, eventually, process};
use nix::sys::signal::Signal;
use serde_json::Value;

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

#[test]
fn sums_do_not_fall_when_a_worker_is_killed() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = Drover::start(&directory, &Config::new(&directory, 1).answering(&port));
    (0..5).for_each(|_| drop(get(port.address(), "/")));
    let sums = || {
        let status: Value =
            serde_json::from_str(&Status::text(drover.config()).expect("a status")).expect("JSON");
        let closes = status["totals"]["closes"].as_object().expect("reasons");
        let closes: u64 = closes.values().filter_map(Value::as_u64).sum();
        (status["totals"]["requests"].as_u64(), status["totals"]["turns"].as_u64(), closes)
    };
    let before =
        eventually("all are counted", || Some(sums()).filter(|sums| sums.0 == Some(5) && sums.2 == 5));
    let worker = drover.worker();
    process::send(worker, Signal::SIGKILL);
    eventually("it is replaced", || {
        (drover.status().all_serve() && drover.workers() != [worker]).then_some(())
    });
    let after = sums();
    assert!(after >= before && after.1 >= before.1, "{after:?} after {before:?}");
    get(port.address(), "/");
    eventually("the sums go on", || (sums().0 == Some(6)).then_some(()));
}

#[test]
fn a_scoreboard_of_another_version_is_not_read_but_said() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = Drover::start(&directory, &Config::new(&directory, 1).answering(&port));
    // The second word of the file is its version.
    let scoreboard =
        File::options().write(true).open(directory.join("run/scoreboard")).expect("the scoreboard");
    scoreboard.write_all_at(&u64::MAX.to_ne_bytes(), 8).expect("written");
    for arguments in [&["status"][..], &["status", "--json"], &["reload"]] {
        let config = [OsStr::new("-c"), drover.config().as_os_str()];
        let output = binary::run(arguments.iter().map(OsStr::new).chain(config));
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("another version of drover: use its own binary"), "{text}");
        assert!(output.stdout.is_empty());
    }
}
