//! `drover upgrade` does the whole sequence; what is asked for afterwards reaches the right master.

use std::path::Path;
use std::process::Output;

use drover_tests::http::get;
use drover_tests::masters::{gone, named, try_named, workers};
use drover_tests::{Client, Config, Directory, Drover, Load, Port, binary, eventually, process};

fn run(command: &str, config: &Path, more: &[&str]) -> Output {
    let mut line = vec![command.as_ref(), "-c".as_ref(), config.as_os_str()];
    line.extend(more.iter().map(std::ffi::OsStr::new));
    binary::run(line)
}

#[track_caller]
fn succeeds(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn start(directory: &Directory, port: &Port) -> Drover {
    Drover::start(directory, &Config::new(directory, 2).answering(port))
}

#[test]
fn the_old_master_has_left_when_it_returns() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = start(&directory, &port);
    let load = Load::start(2, port.address(), "/");
    load.wait_for(20);
    for generation in 2..5 {
        let old = named(&directory);
        let text = succeeds(&run("upgrade", drover.config(), &[]));
        let new = named(&directory);
        assert!(text.contains(&format!("(process {new})")), "{text}");
        assert!(text.contains(&format!("process {old} has left")), "{text}");
        assert!(new != old);
        gone(old);
        assert_eq!((workers(new).len(), drover.status().generation()), (2, generation));
        load.wait_for(20);
    }
    let tally = load.stop();
    assert!(tally.failures.is_empty(), "{tally}");
}

#[test]
fn with_keep_old_it_can_be_taken_back() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = start(&directory, &port);
    let old = drover.master();
    let text = succeeds(&run("upgrade", drover.config(), &["--keep-old"]));
    let new = named(&directory);
    let hint = format!("kill -QUIT {old} makes the upgrade final, kill -QUIT {new} takes it back");
    assert!(text.contains(&hint), "{text}");
    assert_eq!(try_named(&directory, "drover.pid.oldbin"), Some(old));

    let again = run("upgrade", drover.config(), &[]);
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains(&format!("process {old}")));
    assert!(process::alive(old) && process::alive(new));
}

#[test]
fn reload_and_status_speak_to_the_new_master() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = start(&directory, &port);
    for options in [&[][..], &["--keep-old"]] {
        succeeds(&run("upgrade", drover.config(), options));
        let before = drover.status().generation();
        let text = succeeds(&run("reload", drover.config(), &[]));
        assert!(text.contains(&format!("generation {} serves", before + 1)), "{text}");
        assert_eq!(drover.status().master.pid, named(&directory).as_raw());
    }
}

#[test]
fn stop_ends_both_masters() {
    for options in [&[][..], &["--fast"]] {
        let (directory, port) = (Directory::new(), Port::new());
        let drover = start(&directory, &port);
        succeeds(&run("upgrade", drover.config(), &["--keep-old"]));
        let masters = [drover.master(), named(&directory)];
        let text = succeeds(&run("stop", drover.config(), options));
        for master in masters {
            assert!(text.contains(&format!("process {master}")), "{text}");
            // The kernel lets go of what a process has open a moment before the process has ended.
            eventually("it has ended", || (!process::alive(master)).then_some(()));
        }
        eventually("nothing is left", || (port.is_free() && drover.processes().is_empty()).then_some(()));
        for name in ["drover.pid", "drover.pid.oldbin", "run/scoreboard", "run/scoreboard.oldbin"] {
            assert!(!directory.join(name).exists(), "{name}");
        }
    }
}

#[test]
fn connections_of_the_old_master_may_finish() {
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, 1)
        .answering(&port)
        .location("/slow", "return = { status = 200, body = \"slow\\n\", delay = \"2s\" }");
    let drover = Drover::start(&directory, &config);
    let mut slow = Client::to(port.address());
    slow.ask("/slow");
    eventually("the slow request is under way", || {
        (drover.status().workers.iter().map(|worker| worker.connections).sum::<u64>() == 1).then_some(())
    });
    succeeds(&run("upgrade", drover.config(), &[]));
    assert_eq!(slow.response().text(), "slow\n");
    assert_eq!(get(port.address(), "/").text(), "ok\n");
}

#[test]
fn without_a_daemon_it_says_so() {
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, 1).answering(&port).write(&directory);
    let output = run("upgrade", &config, &[]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("no drover runs with this configuration"), "{text}");
}
