//! USR1: renamed logs are left behind, new files take what follows, in the master and in all workers.

use std::fs;

use drover_tests::http::get;
use drover_tests::{Config, Directory, Drover, Port, eventually};
use nix::sys::signal::Signal;
use nix::unistd::Uid;

fn reopen(user: Option<&str>) {
    let (directory, port) = (Directory::new(), Port::new());
    let logs = directory.shared_folder("logs");
    let place = |name: &str| logs.join(name).display().to_string();
    let mut config = Config::new(&directory, 2)
        .log(&format!("file = \"{}\"", place("drover.log")))
        .http(&format!(
            "access_log = {{ file = \"{}\", format = \"by_worker\", flush = \"10ms\" }}",
            place("access.log")
        ))
        .answering(&port);
    if let Some(user) = user {
        config = config.process(&format!("user = \"{user}\""));
    }
    let drover = Drover::start(&directory, &config);
    let access = |name: &str| directory.read(&format!("logs/{name}"));

    // Enough that both workers have written.
    ask(&port, "/before");
    eventually("requests are logged", || (access("access.log").lines().count() == 20).then_some(()));
    for name in ["access.log", "drover.log"] {
        fs::rename(place(name), place(&format!("{name}.1"))).expect("renamed");
    }
    drover.signal(Signal::SIGUSR1);
    eventually("both files are there again", || {
        (logs.join("access.log").exists() && logs.join("drover.log").exists()).then_some(())
    });
    // Until every worker has reopened, one may still write to the old file: ask until nothing does.
    eventually("only the new file grows", || {
        let old = access("access.log.1").len();
        let new = access("access.log").lines().count();
        ask(&port, "/after");
        eventually("twenty more lines", || {
            let lines = access("access.log").lines().count();
            (lines + access("access.log.1").lines().count() >= new + 40).then_some(())
        });
        (access("access.log.1").len() == old).then_some(())
    });
    assert!(!access("access.log.1").is_empty());
    assert!(!access("access.log").contains("/before"));

    // The log of the daemon itself: a reload writes to it.
    let old = access("drover.log.1");
    drover.reload();
    eventually("the new log grows", || access("drover.log").contains("generation").then_some(()));
    assert_eq!(access("drover.log.1"), old);
}

fn ask(port: &Port, target: &str) {
    for _ in 0..20 {
        get(port.address(), target);
    }
}

#[test]
fn usr1_reopens_every_log() {
    reopen(None);
}

#[test]
fn workers_without_privileges_can_write_to_the_new_files() {
    if !Uid::effective().is_root() {
        drover_tests::packages::skip("only root can give workers another user");
        return;
    }
    reopen(Some("nobody"));
}
