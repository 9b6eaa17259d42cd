//! What systemd hears: readiness, reloads, the end, what is served; and of two masters only from the main process.

use std::time::Duration;

use drover_tests::http::get;
use drover_tests::masters::{quit, upgrade};
use drover_tests::systemd::NotifySocket;
use drover_tests::{Client, Config, Directory, Drover, Port, eventually, process};
use nix::sys::signal::Signal;

fn started(directory: &Directory, port: &Port, socket: &NotifySocket) -> Drover {
    let config = Config::new(directory, 2).answering(port);
    Drover::try_start(directory, &config, &socket.surroundings()).expect("it starts")
}

fn main_pid(drover: &Drover) -> String {
    format!("MAINPID={}", drover.master())
}

#[test]
fn a_life_from_ready_to_stopping() {
    let (directory, port) = (Directory::new(), Port::new());
    let socket = NotifySocket::new(&directory);
    let mut drover = started(&directory, &port, &socket);
    let ready = socket.next().expect("it is ready, so it has said so");
    assert!(ready.says("READY=1") && ready.says(&main_pid(&drover)), "{ready:?}");
    let status = ready.value("STATUS").expect("a status");
    let expected = format!("generation 1, 2 workers, 0 connections: http on http://{}", port.address());
    assert_eq!(status, expected);
    assert_eq!(get(port.address(), "/").text(), "ok\n", "what is ready serves");

    let before = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).expect("a clock");
    drover.signal(Signal::SIGHUP);
    let reloading = socket.wait_for("RELOADING=1");
    let micros: i64 = reloading.value("MONOTONIC_USEC").expect("a time").parse().expect("a number");
    let after = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).expect("a clock");
    let micros_of = |time: nix::sys::time::TimeSpec| time.tv_sec() * 1_000_000 + time.tv_nsec() / 1000;
    assert!((micros_of(before)..=micros_of(after)).contains(&micros), "{micros}");
    let ready = socket.wait_for("READY=1");
    assert!(ready.value("STATUS").is_some_and(|status| status.starts_with("generation 2, 2 workers")));

    drover.signal(Signal::SIGQUIT);
    socket.wait_for("STOPPING=1");
    assert!(drover.wait(Duration::from_secs(10)).success());
    assert_eq!(socket.next(), None);
}

#[test]
fn a_refused_reload_ends_too() {
    let (directory, port) = (Directory::new(), Port::new());
    let socket = NotifySocket::without_file(&directory);
    let drover = started(&directory, &port, &socket);
    let text = directory.read("drover.toml");
    directory.write("drover.toml", "nonsense");
    drover.signal(Signal::SIGHUP);
    socket.wait_for("RELOADING=1");
    let ready = socket.wait_for("READY=1");
    let status = ready.value("STATUS").expect("a status");
    assert!(
        status.starts_with("generation 1,") && status.ends_with("the last reload was refused"),
        "{status}"
    );
    directory.write("drover.toml", text);
    drover.signal(Signal::SIGHUP);
    socket.wait_for("RELOADING=1");
    let ready = socket.wait_for("READY=1");
    assert!(ready.value("STATUS").is_some_and(|status| !status.contains("refused")), "{ready:?}");
}

#[test]
fn the_status_follows_the_connections() {
    let (directory, port) = (Directory::new(), Port::new());
    let socket = NotifySocket::new(&directory);
    let _drover = started(&directory, &port, &socket);
    let mut clients: Vec<Client> = (0..3).map(|_| Client::to(port.address())).collect();
    for client in &mut clients {
        assert_eq!(client.get("/").status, 200);
    }
    eventually("a status with three connections", || {
        let status = socket.next()?;
        status.value("STATUS")?.starts_with("generation 1, 2 workers, 3 connections:").then_some(())
    });
}

#[test]
fn the_new_main_process_is_announced_before_the_old_one_leaves() {
    let (directory, port) = (Directory::new(), Port::new());
    let socket = NotifySocket::new(&directory);
    let drover = started(&directory, &port, &socket);
    socket.wait_for("READY=1");
    let new = upgrade(&directory);

    // The old one is the main process: it is heard, and the new one has nothing to say.
    drover.signal(Signal::SIGHUP);
    socket.wait_for("RELOADING=1");
    assert!(socket.wait_for("READY=1").says(&main_pid(&drover)));

    quit(drover.master());
    let mut heard = Vec::new();
    eventually("the new one is the main process", || {
        heard.push(socket.next()?);
        heard.last()?.says("READY=1").then_some(())
    });
    let said = |line: &str| heard.iter().position(|notification| notification.says(line));
    let (announced, ready) = (said(&format!("MAINPID={new}")), said("READY=1"));
    assert!(announced.is_some() && announced < ready, "{heard:?}");
    assert_eq!(said("STOPPING=1"), None, "the service does not stop: {heard:?}");

    assert!(process::send(new, Signal::SIGHUP));
    socket.wait_for("RELOADING=1");
    assert!(socket.wait_for("READY=1").says(&format!("MAINPID={new}")));
    quit(new);
    socket.wait_for("STOPPING=1");
}

#[test]
fn an_upgrade_that_is_taken_back_is_nothing_to_systemd() {
    let (directory, port) = (Directory::new(), Port::new());
    let socket = NotifySocket::new(&directory);
    let drover = started(&directory, &port, &socket);
    socket.wait_for("READY=1");
    let new = upgrade(&directory);
    quit(new);
    drover.signal(Signal::SIGQUIT);
    let mut heard = Vec::new();
    eventually("the end", || {
        heard.push(socket.next()?);
        heard.last()?.says("STOPPING=1").then_some(())
    });
    let others = heard.iter().filter(|notification| notification.value("STATUS").is_none()).count();
    assert_eq!(others, 1, "{heard:?}");
}
