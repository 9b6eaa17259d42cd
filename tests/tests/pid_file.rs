//! The pid file, and a second daemon beside a running one.

use std::fs;

use drover_tests::daemon::Surroundings;
use drover_tests::http::get;
use drover_tests::wait::SOON;
use drover_tests::{Config, Directory, Drover, Port};
use nix::sys::signal::Signal;

#[test]
fn it_holds_the_masters_pid_as_long_as_the_master_lives() {
    let (directory, port) = (Directory::new(), Port::new());
    let mut drover = Drover::start(&directory, &Config::new(&directory, 1).answering(&port));
    assert_eq!(directory.read("drover.pid"), format!("{}\n", drover.master()));
    drover.reload();
    assert_eq!(directory.read("drover.pid"), format!("{}\n", drover.master()));
    drover.signal(Signal::SIGTERM);
    assert!(drover.wait(SOON).success());
    assert!(!directory.join("drover.pid").exists());
}

#[test]
fn a_stale_one_is_no_obstacle() {
    let (directory, port) = (Directory::new(), Port::new());
    directory.write("drover.pid", "999999999\n");
    let drover = Drover::start(&directory, &Config::new(&directory, 1).answering(&port));
    assert_eq!(directory.read("drover.pid"), format!("{}\n", drover.master()));
}

#[test]
fn a_second_daemon_is_refused_and_harms_nothing() {
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, 1).answering(&port);
    let drover = Drover::start(&directory, &config);
    let pid_file = directory.read("drover.pid");

    // The same config again; its log goes elsewhere.
    let elsewhere = Directory::new();
    let failure = Drover::try_start(&elsewhere, &config, &Surroundings::default()).expect_err("refused");
    assert_eq!(failure.code, Some(1), "{}", failure.stderr);
    assert!(failure.stderr.contains(&drover.master().to_string()), "{}", failure.stderr);

    assert_eq!(directory.read("drover.pid"), pid_file);
    assert_eq!(get(port.address(), "/").text(), "ok\n");
    assert_eq!(drover.status().workers.len(), 1);
}

#[test]
fn an_address_in_use_is_named() {
    let (directory, port) = (Directory::new(), Port::new());
    let _somebody = std::net::TcpListener::bind(port.address()).expect("the port is ours");
    let config = Config::new(&directory, 1).answering(&port);
    let failure = Drover::try_start(&directory, &config, &Surroundings::default()).expect_err("refused");
    assert_eq!(failure.code, Some(1));
    assert!(failure.stderr.contains(&port.address().to_string()), "{}", failure.stderr);
    assert!(!fs::exists(directory.join("drover.pid")).expect("can be asked"));
}
