//! QUIT lets requests finish, TERM and INT do not wait for them.

use std::time::{Duration, Instant};

use drover_tests::wait::SOON;
use drover_tests::{Client, Config, Directory, Drover, Port, eventually, process};
use nix::sys::signal::Signal;

struct Running {
    drover: Drover,
    port: Port,
    directory: Directory,
}

fn start(delay: &str, process_keys: &str) -> Running {
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, 2)
        .process(process_keys)
        .answering(&port)
        .location("/slow", &format!("return = {{ status = 200, body = \"slow\\n\", delay = \"{delay}\" }}"));
    Running { drover: Drover::start(&directory, &config), port, directory }
}

impl Running {
    /// A client whose request is being worked on.
    fn slow_client(&self) -> Client {
        let mut client = Client::to(self.port.address());
        client.ask("/slow");
        eventually("the slow request is under way", || {
            (self.drover.status().workers.iter().map(|worker| worker.connections).sum::<u64>() == 1)
                .then_some(())
        });
        client
    }

    /// The exit is clean, and nothing is left over.
    #[track_caller]
    fn assert_gone(&mut self) {
        let status = self.drover.wait(SOON);
        assert!(status.success(), "{status}");
        assert!(self.drover.processes().is_empty(), "processes are left: {:?}", self.drover.processes());
        assert!(!self.directory.join("drover.pid").exists(), "the pid file is left");
        assert!(self.port.is_free());
    }
}

#[test]
fn quit_finishes_what_is_under_way() {
    let mut running = start("4s", "nice = 0");
    let mut slow = running.slow_client();
    let mut idle = Client::to(running.port.address());
    assert_eq!(idle.get("/").status, 200);
    running.drover.signal(Signal::SIGQUIT);
    // Not before the second that a request may be on its way.
    assert!(idle.is_closed_within(SOON) && slow.is_open(), "idle connections do not wait for busy ones");
    eventually("nobody listens any more", || Client::connect(running.port.address()).is_err().then_some(()));
    let response = slow.response();
    assert_eq!(response.text(), "slow\n");
    assert!(slow.is_closed_within(SOON), "no further request is awaited");
    drop(slow);
    running.assert_gone();
}

#[test]
fn quit_waits_no_longer_than_the_shutdown_timeout() {
    let mut running = start("60s", "shutdown_timeout = \"1s\"");
    let _slow = running.slow_client();
    let asked = Instant::now();
    running.drover.signal(Signal::SIGQUIT);
    running.assert_gone();
    let took = asked.elapsed();
    assert!(took >= Duration::from_millis(900), "took {took:?}");
}

fn is_fast(signal: Signal) {
    let mut running = start("60s", "nice = 0");
    let mut slow = running.slow_client();
    running.drover.signal(signal);
    // Long before what is under way would be finished.
    running.assert_gone();
    assert!(slow.is_closed_within(SOON));
}

#[test]
fn term_is_fast() {
    is_fast(Signal::SIGTERM);
}

#[test]
fn int_is_fast() {
    is_fast(Signal::SIGINT);
}

#[test]
fn term_ends_a_stopped_worker_too() {
    let mut running = start("60s", "nice = 0");
    process::send(running.drover.workers()[0], Signal::SIGSTOP);
    running.drover.signal(Signal::SIGTERM);
    running.assert_gone();
}

#[test]
fn a_worker_obeys_quit_sent_straight_to_it() {
    let running = start("1s", "nice = 0");
    let mut slow = running.slow_client();
    let status = running.drover.status();
    let holder = status.workers.iter().find(|worker| worker.connections == 1).expect("one has it");
    let holder = nix::unistd::Pid::from_raw(holder.pid);
    process::send(holder, Signal::SIGQUIT);
    assert_eq!(slow.response().text(), "slow\n");
    drop(slow);
    eventually("it exits and is replaced", || {
        let workers = running.drover.workers();
        (workers.len() == 2 && !workers.contains(&holder)).then_some(())
    });
}

#[test]
fn drover_stop_stops_it() {
    let mut running = start("1s", "nice = 0");
    let output =
        drover_tests::binary::run(["stop".as_ref(), "-c".as_ref(), running.drover.config().as_os_str()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    running.assert_gone();
}
