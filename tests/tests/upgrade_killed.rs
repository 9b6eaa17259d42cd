//! One of two masters is killed with no chance to tidy up, at any point of an upgrade.

use std::thread;
use std::time::{Duration, Instant};

use drover_tests::http::get;
use drover_tests::masters::{gone, named, try_named, upgrade, workers};
use drover_tests::{Config, Directory, Drover, Load, Port, eventually, process};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

fn kill(master: Pid) {
    assert!(process::send(master, Signal::SIGKILL));
    gone(master);
}

fn config(directory: &Directory, port: &Port) -> Config {
    Config::new(directory, 2).http("access_log = \"off\"").answering(port)
}

fn left_over(directory: &Directory) -> Vec<&'static str> {
    let names = ["drover.pid.oldbin", "drover.pid.new", "run/scoreboard.oldbin", "run/scoreboard.new"];
    names.into_iter().filter(|name| directory.join(name).exists()).collect()
}

#[test]
fn the_new_one_while_both_serve() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = Drover::start(&directory, &config(&directory, &port));
    let old = drover.master();
    let load = Load::start(2, port.address(), "/");
    load.wait_for(20);
    let new = upgrade(&directory);
    load.wait_for(20);
    let counted = drover.status().totals.requests;
    kill(new);
    eventually("the old master has the name", || (named(&directory) == old).then_some(()));
    load.wait_for(20);
    assert!(drover.status().totals.requests >= counted);
    drover.log_line(&[
        &format!("{old} master"),
        &format!("the new master (process {new}) was killed by SIGKILL"),
    ]);
    eventually("its workers leave", || (drover.processes().len() == 3).then_some(()));
    assert_eq!(left_over(&directory), [""; 0]);
    let tally = load.stop();
    assert!(tally.failures.is_empty(), "{tally}");
    // What was left neither holds up nor breaks another one.
    upgrade(&directory);
    assert_eq!(get(port.address(), "/").text(), "ok\n");
}

#[test]
fn the_old_one_while_both_serve() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = Drover::start(&directory, &config(&directory, &port));
    let load = Load::start(2, port.address(), "/");
    load.wait_for(20);
    let new = upgrade(&directory);
    load.wait_for(20);
    kill(drover.master());
    eventually("its workers leave", || (drover.processes().len() == 3).then_some(()));
    load.wait_for(20);
    assert_eq!(left_over(&directory), [""; 0]);
    assert_eq!((named(&directory), drover.status().master.pid), (new, new.as_raw()));
    let tally = load.stop();
    assert!(tally.failures.is_empty(), "{tally}");
    let newest = upgrade(&directory);
    assert_eq!(workers(newest).len(), 2);
}

#[test]
fn the_old_one_before_the_new_one_serves() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = Drover::start(&directory, &config(&directory, &port));
    let old = drover.master();
    drover.signal(Signal::SIGUSR2);
    let new = eventually("the new master is there", || {
        process::children(old).into_iter().find(|child| !process::title(*child).contains(": worker "))
    });
    assert!(process::send(new, Signal::SIGSTOP));
    let served = try_named(&directory, "drover.pid") == Some(new);
    kill(old);
    assert!(process::send(new, Signal::SIGCONT));
    eventually("the new master has the name", || {
        (try_named(&directory, "drover.pid") == Some(new)).then_some(())
    });
    eventually("its workers serve alone", || (drover.processes().len() == 3).then_some(()));
    assert_eq!(drover.status().master.pid, new.as_raw());
    assert_eq!(get(port.address(), "/").text(), "ok\n");
    assert!(served || left_over(&directory).is_empty(), "{:?}", left_over(&directory));
}

/// Kills one of the two after a growing delay, so that each step of the hand-over is met by some round.
fn at_any_time(victim: impl Fn(Pid, Pid) -> Pid, survivor_serves: impl Fn(&Drover, &Directory)) {
    for step in 0..24 {
        let (directory, port) = (Directory::new(), Port::new());
        let drover = Drover::start(&directory, &config(&directory, &port));
        let old = drover.master();
        drover.signal(Signal::SIGUSR2);
        let new = eventually("the new master is there", || {
            process::children(old).into_iter().find(|child| !process::title(*child).contains(": worker "))
        });
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(2 * step) {
            thread::yield_now();
        }
        kill(victim(old, new));
        survivor_serves(&drover, &directory);
        eventually("one master and its workers are left", || (drover.processes().len() == 3).then_some(()));
        assert_eq!(get(port.address(), "/").text(), "ok\n");
        eventually("nothing of the other one is left", || left_over(&directory).is_empty().then_some(()));
    }
}

#[test]
fn the_new_one_at_any_time() {
    at_any_time(
        |_, new| new,
        |drover, directory| {
            eventually("the old master has the name", || (named(directory) == drover.master()).then_some(()));
        },
    );
}

#[test]
fn the_old_one_at_any_time() {
    at_any_time(
        |old, _| old,
        |drover, directory| {
            let old = drover.master();
            eventually("the new master has the name", || {
                try_named(directory, "drover.pid").filter(|named| *named != old)
            });
        },
    );
}
