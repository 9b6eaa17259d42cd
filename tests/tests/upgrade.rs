//! USR2 starts a new master on the same sockets; both serve until one of them is stopped, whichever it is.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use drover_tests::http::get;
use drover_tests::masters::{gone, named, quit, try_named, upgrade, workers};
use drover_tests::wait::SOON;
use drover_tests::{Client, Config, Directory, Drover, Port, eventually, process};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

fn started(directory: &Directory, port: &Port) -> Drover {
    Drover::start(directory, &Config::new(directory, 2).answering(port))
}

/// The files that masters have in the directory, by their names.
fn files(directory: &Directory) -> Vec<String> {
    let names = |folder: &str| {
        let entries = std::fs::read_dir(directory.join(folder)).expect("a folder");
        entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect()
    };
    let mut files: Vec<String> = names("");
    files.extend(names("run"));
    files.retain(|name| name.starts_with("drover.pid") || name.starts_with("scoreboard"));
    files.sort();
    files
}

#[test]
fn both_serve_and_the_old_one_is_stopped() {
    let (directory, port) = (Directory::new(), Port::new());
    let mut drover = started(&directory, &port);
    let old = drover.master();
    let mut kept = Client::to(port.address());
    assert_eq!(kept.get("/").status, 200);

    let new = upgrade(&directory);
    assert_eq!(try_named(&directory, "drover.pid.oldbin"), Some(old));
    assert_eq!(files(&directory), ["drover.pid", "drover.pid.oldbin", "scoreboard", "scoreboard.oldbin"]);
    assert_eq!((workers(old).len(), workers(new).len()), (2, 2));
    let status = drover.status();
    assert_eq!((status.master.pid, status.generation()), (new.as_raw(), 2));
    assert_eq!(kept.get("/").status, 200, "connections stay with their worker");

    drover.signal(Signal::SIGQUIT);
    assert!(drover.wait(Duration::from_secs(10)).success());
    assert!(kept.is_closed_within(SOON));
    drover.log_line(&[&format!("{new} master"), &format!("the old master (process {old}) has left")]);
    assert_eq!(files(&directory), ["drover.pid", "scoreboard"]);
    assert_eq!(named(&directory), new);
    assert_eq!(get(port.address(), "/").text(), "ok\n");

    quit(new);
    assert_eq!(files(&directory), [""; 0]);
    eventually("nothing is left", || (port.is_free() && drover.processes().is_empty()).then_some(()));
}

#[test]
fn the_new_one_is_stopped_and_the_old_one_goes_on() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = started(&directory, &port);
    let old = drover.master();
    for _ in 0..3 {
        let before = workers(old);
        quit(upgrade(&directory));
        eventually("the old master has the name", || (named(&directory) == old).then_some(()));
        assert_eq!(files(&directory), ["drover.pid", "scoreboard"]);
        assert_eq!(workers(old), before, "its workers never left");
        assert_eq!(drover.status().master.pid, old.as_raw());
        assert_eq!(get(port.address(), "/").text(), "ok\n");
    }
    drover.reload();
    assert_eq!(get(port.address(), "/").text(), "ok\n");
}

fn parked(old: Pid) {
    assert!(process::send(old, Signal::SIGWINCH));
    eventually("its workers leave", || workers(old).is_empty().then_some(()));
}

#[test]
fn hup_brings_the_workers_of_the_old_one_back_with_their_own_config() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = started(&directory, &port);
    let (old, new) = (drover.master(), upgrade(&directory));
    parked(old);
    // By now the file may be for the new version alone.
    directory.write("drover.toml", "[process]\nthis_is = \"of another version\"\n");
    drover.signal(Signal::SIGHUP);
    eventually("its workers come back", || (workers(old).len() == 2).then_some(()));
    assert_eq!(workers(new).len(), 2);
    drover.log_line(&[&format!("{old} master"), "generation 2 serves"]);
    quit(new);
    assert_eq!(get(port.address(), "/").text(), "ok\n");
}

#[test]
fn workers_of_the_old_one_come_back_by_themselves_when_the_new_one_stops() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = started(&directory, &port);
    let (old, new) = (drover.master(), upgrade(&directory));
    parked(old);
    // Whoever drains accepts no more: it must not take until the end of the drain that somebody does.
    let mut slow = Client::to(port.address());
    slow.send("GET / HTTP/1.1\r\n");
    eventually("the new master's worker has it", || {
        (drover.status().workers.iter().map(|worker| worker.connections).sum::<u64>() == 1).then_some(())
    });
    assert!(process::send(new, Signal::SIGQUIT));
    eventually("workers are back", || (workers(old).len() == 2).then_some(()));
    assert_eq!(get(port.address(), "/").text(), "ok\n");
    assert!(process::alive(new), "it still drains");
    slow.send("Host: localhost\r\nConnection: close\r\n\r\n");
    assert_eq!(slow.response().text(), "ok\n");
    gone(new);
    eventually("the old master has the name", || (named(&directory) == old).then_some(()));
    assert_eq!(drover.status().master.pid, old.as_raw());
}

#[test]
fn a_second_one_is_refused_while_there_are_two() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = started(&directory, &port);
    let (old, new) = (drover.master(), upgrade(&directory));
    for (master, other) in [(old, new), (new, old)] {
        assert!(process::send(master, Signal::SIGUSR2));
        drover.log_line(&[&format!("{master} master"), "no upgrade", &format!("process {other}")]);
    }
    assert_eq!((workers(old).len(), workers(new).len()), (2, 2));
    assert_eq!(drover.processes().len(), 6);
}

#[test]
fn one_that_is_asked_for_during_a_reload_follows_it_and_the_other_way_round() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = started(&directory, &port);
    let old = drover.master();
    drover.signal(Signal::SIGSTOP);
    // Both are pending when it goes on.
    drover.signal(Signal::SIGHUP);
    drover.signal(Signal::SIGUSR2);
    drover.signal(Signal::SIGCONT);
    let new = eventually("a new master has the name", || {
        try_named(&directory, "drover.pid").filter(|new| *new != old)
    });
    drover.log_line(&[&format!("{old} master"), "generation 2 serves"]);
    assert_eq!(drover.status().master.pid, new.as_raw());
    assert!(process::send(new, Signal::SIGHUP));
    drover.log_line(&[&format!("{new} master"), "generation 4 serves"]);
    quit(old);
    assert_eq!(get(port.address(), "/").text(), "ok\n");
}

#[test]
fn the_file_of_a_unix_socket_goes_with_the_last_master_that_listens_there() {
    let (directory, port) = (Directory::new(), Port::new());
    let (shared, removed) = (directory.join("shared.sock"), directory.join("removed.sock"));
    let listening = |paths: &[&std::path::Path]| {
        let listens: Vec<String> = paths.iter().map(|path| format!("\"unix:{}\"", path.display())).collect();
        Config::new(&directory, 1)
            .answering(&port)
            .server_with(&format!("listen = [{}]", listens.join(", ")))
            .location("/", "return = { status = 200 }")
    };
    let reaches = |path: &std::path::Path| UnixStream::connect(path).is_ok();
    let drover = Drover::start(&directory, &listening(&[&shared, &removed]));
    let old = drover.master();

    // There and back.
    quit(upgrade(&directory));
    eventually("the old master has the name", || (named(&directory) == old).then_some(()));
    assert!(reaches(&shared) && reaches(&removed));

    // The new master does not want one of them.
    listening(&[&shared]).write(&directory);
    let new = upgrade(&directory);
    assert!(reaches(&shared) && reaches(&removed), "the old master still listens on both");
    quit(old);
    assert!(reaches(&shared));
    assert!(!removed.exists(), "nobody listens there any more");
    quit(new);
    assert!(!shared.exists());
}

#[test]
fn two_masters_that_stop_at_once_leave_nothing() {
    let (directory, port) = (Directory::new(), Port::new());
    let path = directory.join("both.sock");
    let config = Config::new(&directory, 1)
        .answering(&port)
        .server_with(&format!("listen = [\"unix:{}\"]", path.display()))
        .location("/", "return = { status = 200 }");
    let drover = Drover::start(&directory, &config);
    let (old, new) = (drover.master(), upgrade(&directory));
    for master in [old, new] {
        assert!(process::send(master, Signal::SIGQUIT));
    }
    gone(old);
    gone(new);
    assert!(!path.exists());
    assert_eq!(files(&directory), [""; 0]);
}
