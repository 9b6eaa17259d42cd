//! Upgrades where something else is going on: storms of signals, reloads, drains, few descriptors, files that are
//! gone or elsewhere.

use std::fs;
use std::path::Path;
use std::process::Command;

use drover_tests::daemon::Surroundings;
use drover_tests::http::get;
use drover_tests::masters::{gone, named, quit, try_named, upgrade, workers};
use drover_tests::{Client, Config, Directory, Drover, Load, Port, binary, descriptors, eventually, process};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

fn run(command: &str, config: &Path) -> std::process::Output {
    binary::run([command.as_ref(), "-c".as_ref(), config.as_os_str()])
}

#[track_caller]
fn upgraded(drover: &Drover) {
    let output = run("upgrade", drover.config());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_storm_of_signals_makes_one_new_master() {
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, 2).http("access_log = \"off\"").answering(&port);
    let drover = Drover::start(&directory, &config);
    let load = Load::start(2, port.address(), "/");
    load.wait_for(20);
    let old = drover.master();
    for round in 0..300 {
        drover.signal(if round % 7 == 3 { Signal::SIGHUP } else { Signal::SIGUSR2 });
        if let Some(named) = try_named(&directory, "drover.pid").filter(|named| *named != old) {
            process::send(named, if round % 5 == 1 { Signal::SIGHUP } else { Signal::SIGUSR2 });
        }
    }
    let new = eventually("a new master has the name", || {
        try_named(&directory, "drover.pid").filter(|named| *named != old)
    });
    quit(old);
    eventually("one master and its workers are left", || {
        (drover.processes().len() == 3 && drover.status().serves_alone()).then_some(())
    });
    assert_eq!(named(&directory), new, "never a third master");
    load.wait_for(20);
    let tally = load.stop();
    assert!(tally.failures.is_empty(), "{tally}");
}

/// The old master drains for as long as a client takes; meanwhile the new one changes what it listens with.
#[test]
fn the_new_master_reloads_while_the_old_one_drains() {
    let (directory, port) = (Directory::new(), Port::new());
    let with = |workers: u32, strategy: &str| {
        Config::new(&directory, workers)
            .http("access_log = \"off\"")
            .events(&format!("accept = \"{strategy}\""))
            .answering(&port)
    };
    let drover = Drover::start(&directory, &with(3, "reuseport"));
    let mut slow = Client::to(port.address());
    slow.send("GET / HTTP/1.1\r\n");
    eventually("the first master's worker has it", || {
        (drover.status().workers.iter().map(|worker| worker.connections).sum::<u64>() == 1).then_some(())
    });
    let load = Load::start(3, port.address(), "/");
    load.wait_for(50);
    let old = drover.master();
    upgrade(&directory);
    load.wait_for(50);
    drover.signal(Signal::SIGQUIT);
    for (workers, strategy) in [(1, "reuseport"), (4, "reuseport"), (2, "exclusive"), (2, "reuseport")] {
        with(workers, strategy).write(&directory);
        let output = run("reload", drover.config());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        load.wait_for(50);
        load.assert_no_loss(&format!("{workers} workers with {strategy}"));
    }
    assert!(process::alive(old), "it still drains");
    slow.send("Host: localhost\r\nConnection: close\r\n\r\n");
    assert_eq!(slow.response().text(), "ok\n");
    gone(old);
    load.wait_for(200);
    let tally = load.stop();
    assert!(tally.failures.is_empty(), "{tally}");
}

#[test]
fn a_stop_while_the_new_master_starts_waits_for_what_becomes_of_it() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = Drover::start(&directory, &Config::new(&directory, 2).answering(&port));
    let old = drover.master();
    // Both are pending when it goes on, and it looks at QUIT after USR2 was heard.
    drover.signal(Signal::SIGUSR2);
    let new = eventually("the new master is there", || {
        process::children(old).into_iter().find(|child| !process::title(*child).contains(": worker "))
    });
    drover.signal(Signal::SIGQUIT);
    eventually("the new master has the name", || {
        (try_named(&directory, "drover.pid") == Some(new)).then_some(())
    });
    gone(old);
    assert_eq!(get(port.address(), "/").text(), "ok\n");
    eventually("it serves alone", || drover.status().serves_alone().then_some(()));
}

#[test]
fn upgrades_that_fail_leave_nothing_open() {
    let (directory, port) = (Directory::new(), Port::new());
    let executable = directory.program("drover", binary::drover());
    let config = Config::new(&directory, 2).events("accept = \"reuseport\"").answering(&port);
    let surroundings = Surroundings { executable: Some(executable.clone()), ..Surroundings::default() };
    let drover = Drover::try_start(&directory, &config, &surroundings).expect("it starts");
    let master = drover.master();
    let before = descriptors::open(master);
    fs::remove_file(&executable).expect("ours");
    for _ in 0..20 {
        assert!(!run("upgrade", drover.config()).status.success());
    }
    directory.program("drover", "/bin/false");
    for _ in 0..20 {
        assert!(!run("upgrade", drover.config()).status.success());
    }
    assert_eq!(descriptors::open(master), before);
    assert_eq!(process::children(master).len(), 2);
    let _ = fs::remove_file(&executable);
    directory.program("drover", binary::drover());
    upgraded(&drover);
    assert_eq!(get(port.address(), "/").text(), "ok\n");
}

#[test]
fn with_few_descriptors_it_fails_with_a_reason_or_succeeds() {
    for limit in [24, 40, 64] {
        let (directory, port) = (Directory::new(), Port::new());
        let config = Config::new(&directory, 8)
            .events("accept = \"reuseport\"")
            .events("worker_connections = 8")
            .answering(&port);
        let wrapper = vec!["prlimit".into(), format!("--nofile={limit}:{limit}").into()];
        let surroundings = Surroundings { wrapper, ..Surroundings::default() };
        // With fewer it does not even start.
        let Ok(drover) = Drover::try_start(&directory, &config, &surroundings) else { continue };
        let old = drover.master();
        let output = run("upgrade", drover.config());
        match output.status.success() {
            true => gone(old),
            false => {
                let reason = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(reason.contains("Too many open files") || reason.contains("os error"), "{reason}");
                assert_eq!(named(&directory), old);
            }
        }
        assert_eq!(get(port.address(), "/").text(), "ok\n", "with {limit} descriptors");
    }
}

#[test]
fn a_thousand_addresses_are_handed_over() {
    let (directory, port) = (Directory::new(), Port::new());
    let listens: Vec<String> = (0..1000)
        .map(|number| format!("\"127.0.{}.{}:{port}\"", 1 + number / 250, 1 + number % 250))
        .collect();
    let config = Config::new(&directory, 1)
        .events("worker_connections = 1100")
        .server_with(&format!("listen = [{}]", listens.join(", ")))
        .location("/", "return = { status = 200, body = \"ok\\n\" }");
    let drover = Drover::start(&directory, &config);
    let reach = |last: &str| {
        let address = format!("127.0.{last}:{port}").parse().expect("an address");
        assert_eq!(get(address, "/").text(), "ok\n");
    };
    let new = upgrade(&directory);
    quit(drover.master());
    reach("1.1");
    reach("4.250");
    quit(new);
}

#[test]
fn files_that_somebody_removed_are_there_again() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = Drover::start(&directory, &Config::new(&directory, 1).answering(&port));
    let old = drover.master();
    fs::remove_dir_all(directory.join("run")).expect("ours");
    fs::remove_file(directory.join("drover.pid")).expect("ours");
    drover.signal(Signal::SIGUSR2);
    let new = eventually("a new master has the name", || try_named(&directory, "drover.pid"));
    assert_eq!(drover.status().master.pid, new.as_raw());
    quit(old);
    assert_eq!(get(port.address(), "/").text(), "ok\n");
    assert_eq!(named(&directory), new);
}

#[test]
fn a_new_config_may_put_its_files_elsewhere() {
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, 1).answering(&port);
    let drover = Drover::start(&directory, &config);
    let old = drover.master();
    let (pid_file, runtime_dir) = (directory.join("other.pid"), directory.join("other"));
    config
        .process(&format!("pid_file = \"{}\"", pid_file.display()))
        .process(&format!("runtime_dir = \"{}\"", runtime_dir.display()))
        .write(&directory);
    drover.signal(Signal::SIGUSR2);
    let new = eventually("a new master has the other name", || try_named(&directory, "other.pid"));
    eventually("the old one has let go of its name", || {
        (try_named(&directory, "drover.pid").is_none()
            && try_named(&directory, "drover.pid.oldbin") == Some(old))
        .then_some(())
    });
    assert_eq!(drover.status().master.pid, new.as_raw());
    quit(new);
    eventually("the old one has its name back", || {
        (try_named(&directory, "drover.pid") == Some(old)).then_some(())
    });
    assert!(!directory.join("run/scoreboard.oldbin").exists());
    drover.signal(Signal::SIGUSR2);
    let new = eventually("a new master has the other name", || {
        try_named(&directory, "other.pid").filter(|pid| *pid != new && process::alive(*pid))
    });
    quit(old);
    quit(new);
    let left: Vec<_> = ["drover.pid", "drover.pid.oldbin", "other.pid", "run/scoreboard", "other/scoreboard"]
        .into_iter()
        .filter(|name| directory.join(name).exists())
        .collect();
    assert_eq!(left, [""; 0]);
}

#[test]
fn logs_of_both_masters_are_reopened() {
    let (directory, port) = (Directory::new(), Port::new());
    let log = directory.join("drover.log");
    let config = Config::new(&directory, 1).log(&format!("file = \"{}\"", log.display())).answering(&port);
    let drover = Drover::start(&directory, &config);
    let (old, new) = (drover.master(), upgrade(&directory));
    fs::rename(&log, directory.join("drover.log.1")).expect("ours");
    assert!(run("reopen", drover.config()).status.success());
    eventually("both write to the new file", || {
        let text = directory.read("drover.log");
        let worker =
            |master: Pid| workers(master).first().is_some_and(|pid| text.contains(&format!(" {pid} worker")));
        (worker(old) && worker(new)).then_some(())
    });
}

#[test]
fn in_the_background_the_new_master_stays_there() {
    nix::sys::prctl::set_child_subreaper(true).expect("Linux has subreapers");
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, 1)
        .process("daemon = true")
        .log(&format!("file = \"{}\"", directory.join("drover.log").display()))
        .answering(&port)
        .write(&directory);
    let started = Command::new(binary::drover())
        .args(["run".as_ref(), "-c".as_ref(), config.as_os_str()])
        .current_dir(directory.path())
        .output()
        .expect("drover starts");
    assert!(started.status.success());
    let old = named(&directory);
    let output = run("upgrade", &config);
    let new = named(&directory);
    let stopped = run("stop", &config);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(stopped.status.success(), "{}", String::from_utf8_lossy(&stopped.stderr));
    assert_ne!(new, old);
    let session = |pid: Pid| directory.read("drover.log").contains(&format!(" {pid} master"));
    assert!(session(old) && session(new));
    for master in [old, new] {
        eventually("it has ended", || {
            let _ = nix::sys::wait::waitpid(master, Some(nix::sys::wait::WaitPidFlag::WNOHANG));
            (!process::alive(master)).then_some(())
        });
    }
}
