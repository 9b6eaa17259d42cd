//! A config that does not check out changes nothing, and the log says why.

use drover_tests::http::get;
use drover_tests::{Config, Directory, Drover, Port, eventually};
use nix::sys::signal::Signal;

#[test]
fn a_bad_config_keeps_the_running_generation() {
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, 2).answering(&port);
    let drover = Drover::start(&directory, &config);
    let workers = drover.workers();

    config.clone().events("worker_conections = 100").write(&directory);
    drover.signal(Signal::SIGHUP);
    drover.log_line(&["unknown key"]);
    drover.log_line(&["worker_connections"]);
    drover.log_line(&["drover.toml:"]);
    assert_eq!(get(port.address(), "/").text(), "ok\n");
    assert_eq!(drover.workers(), workers);
    assert_eq!(drover.status().generation(), 1);

    // Mended, it is taken.
    config.write(&directory);
    drover.reload();
    assert_eq!(drover.status().generation(), 2);
    assert!(drover.workers().iter().all(|worker| !workers.contains(worker)));
    assert_eq!(get(port.address(), "/").text(), "ok\n");
}

#[test]
fn an_address_that_is_taken_keeps_the_running_generation() {
    let (directory, port, taken) = (Directory::new(), Port::new(), Port::new());
    let config = Config::new(&directory, 1).answering(&port);
    let drover = Drover::start(&directory, &config);
    let workers = drover.workers();
    let _somebody = std::net::TcpListener::bind(taken.address()).expect("the port is ours");

    config.clone().answering(&taken).write(&directory);
    drover.signal(Signal::SIGHUP);
    drover.log_line(&[&taken.address().to_string(), "in use"]);
    assert_eq!(drover.workers(), workers);
    assert_eq!(drover.status().generation(), 1);
    assert_eq!(get(port.address(), "/").text(), "ok\n");
}

#[test]
fn a_file_that_is_gone_keeps_the_running_generation() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = Drover::start(&directory, &Config::new(&directory, 1).answering(&port));
    std::fs::remove_file(drover.config()).expect("the file is ours");
    drover.signal(Signal::SIGHUP);
    drover.log_line(&["drover.toml", "No such file"]);
    assert_eq!(get(port.address(), "/").text(), "ok\n");
}

#[test]
fn what_is_reloaded_takes_effect() {
    let (directory, port, further) = (Directory::new(), Port::new(), Port::new());
    let config = Config::new(&directory, 1).answering(&port);
    let drover = Drover::start(&directory, &config);

    // A listener more, and one worker more.
    config.clone().process("workers = 2").answering(&further).write(&directory);
    drover.reload();
    assert_eq!(drover.workers().len(), 2);
    assert_eq!(get(further.address(), "/").text(), "ok\n");
    assert_eq!(get(port.address(), "/").text(), "ok\n");

    // And back: the socket is closed.
    config.write(&directory);
    drover.reload();
    eventually("the listener is gone", || further.is_free().then_some(()));
    assert_eq!(drover.workers().len(), 1);
    assert_eq!(get(port.address(), "/").text(), "ok\n");
}
