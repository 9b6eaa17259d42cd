//! Workers that end young are replaced after a delay that doubles: a crash loop does not storm.

use std::time::{Duration, Instant};

use drover_tests::http::get;
use drover_tests::{Config, Directory, Drover, Port, eventually, process};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

#[test]
fn the_delay_doubles_from_100_ms_on() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = Drover::start(&directory, &Config::new(&directory, 2).answering(&port));
    let workers = drover.workers();
    let (steady, mut victim) = (workers[1], workers[0]);
    let mut delays = Vec::new();
    for _ in 0..4 {
        process::send(victim, Signal::SIGKILL);
        let killed = Instant::now();
        victim = next_worker(&drover, &[steady, victim]);
        delays.push(killed.elapsed());
        // The other worker serves all the while.
        assert_eq!(get(port.address(), "/").text(), "ok\n");
    }
    for (delay, expected) in delays.iter().zip([100, 200, 400, 800]) {
        // A machine under load adds to it.
        assert!(*delay >= Duration::from_millis(expected).mul_f64(0.9), "{delays:?}");
    }
    assert!(process::alive(steady), "the other worker is left alone");
    drover.log_line(&["800"]);
}

fn next_worker(drover: &Drover, known: &[Pid]) -> Pid {
    eventually("a worker takes its place", || drover.workers().into_iter().find(|pid| !known.contains(pid)))
}
