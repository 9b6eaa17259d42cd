//! As the first process of a container, in the foreground: orphans are collected, TERM is graceful where the
//! config says so, and the log on standard error is for machines where they read it.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use drover_tests::http::get;
use drover_tests::packages::{skip, tool_or_skip};
use drover_tests::status::Status;
use drover_tests::{Client, Config, Directory, Port, binary, eventually, eventually_within, process};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

/// A drover that is process 1 of a pid namespace of its own.
struct Container {
    /// `unshare`, which waits for it.
    outer: Child,
    master: Pid,
    directory: Directory,
}

impl Container {
    /// None, with a message, where namespaces are not permitted.
    fn start(directory: Directory, config: &Config) -> Option<Container> {
        let unshare = tool_or_skip("unshare", "util-linux")?;
        let namespace = ["--pid", "--fork", "--mount-proc", "--kill-child=KILL"];
        let try_out = Command::new(&unshare).args(namespace).arg("true").output().expect("unshare starts");
        if !try_out.status.success() {
            skip(&String::from_utf8_lossy(&try_out.stderr));
            return None;
        }
        let config = config.write(&directory);
        let outer = Command::new(unshare)
            .args(namespace)
            .args([binary::drover().into(), "run".into(), "-c".into(), config.clone().into_os_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(directory.join("stderr.log")).expect("the directory is ours"))
            .process_group(0)
            .spawn()
            .expect("unshare starts");
        let master = eventually("it serves", || {
            let serves = Status::read(&config).is_ok_and(|status| status.all_serve());
            serves.then(|| process::children(Pid::from_raw(outer.id() as i32)).first().copied())?
        });
        Some(Container { outer, master, directory })
    }

    /// Runs a shell script in the container.
    fn run(&self, script: &str) {
        let status = Command::new("nsenter")
            .args(["-t", &self.master.to_string(), "-p", "-m", "sh", "-c", script])
            .stdin(Stdio::null())
            .status()
            .expect("nsenter comes with unshare");
        assert!(status.success(), "{script}");
    }

    fn log(&self) -> String {
        self.directory.read("stderr.log")
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // Its end is the end of all processes in its namespace.
        process::send(self.master, Signal::SIGKILL);
        let _ = self.outer.wait();
    }
}

fn config(directory: &Directory, port: &Port) -> Config {
    Config::new(directory, 2)
        .process("stop_on_term = \"graceful\"")
        .log("format = \"json\"")
        .answering(port)
        .location("/slow", "return = { status = 200, body = \"slow\\n\", delay = \"1s\" }")
}

#[test]
fn the_first_process_collects_orphans() {
    let (directory, port) = (Directory::new(), Port::new());
    let config = config(&directory, &port);
    let Some(container) = Container::start(directory, &config) else { return };
    assert_eq!(container.directory.read("drover.pid"), "1\n");
    let marker = "sleep 1.375";
    container.run(&format!("{marker} & exit 0"));
    let orphan = eventually("the orphan is the first process' child", || {
        process::children(container.master).into_iter().find(|pid| process::title(*pid) == marker)
    });
    // Not even a zombie is left.
    eventually("the orphan is collected", || process::state(orphan).is_none().then_some(()));
    // A worker that is killed in there is replaced as ever.
    let worker = process::children(container.master)[0];
    process::send(worker, Signal::SIGKILL);
    eventually("it is replaced", || {
        let workers = process::children(container.master);
        (workers.len() == 2 && !workers.contains(&worker)).then_some(())
    });
    assert_eq!(get(port.address(), "/").text(), "ok\n");
}

/// `stop` sends TERM to the master; a request that is under way is finished.
fn term_is_graceful(stop: impl FnOnce(&Container)) {
    let (directory, port) = (Directory::new(), Port::new());
    let config = config(&directory, &port);
    let Some(mut container) = Container::start(directory, &config) else { return };
    let mut slow = Client::to(port.address());
    slow.ask("/slow");
    eventually("the slow request is under way", || {
        let status = Status::read(&container.directory.join("drover.toml")).ok()?;
        (status.workers.iter().map(|worker| worker.connections).sum::<u64>() == 1).then_some(())
    });
    stop(&container);
    assert_eq!(slow.response().text(), "slow\n");
    drop(slow);
    let status = eventually_within(Duration::from_secs(15), "it ends", || {
        container.outer.try_wait().expect("it is our child")
    });
    assert!(status.success(), "{status}");
    assert!(port.is_free());
    for left in ["drover.pid", "run/scoreboard"] {
        assert!(!container.directory.join(left).exists(), "{left} is left");
    }
}

#[test]
fn term_from_outside_lets_requests_finish() {
    term_is_graceful(|container| assert!(process::send(container.master, Signal::SIGTERM)));
}

#[test]
fn term_from_inside_lets_requests_finish() {
    term_is_graceful(|container| container.run("kill -TERM 1"));
}

#[test]
fn every_line_on_standard_error_is_an_object_where_json_is_asked_for() {
    let (directory, port) = (Directory::new(), Port::new());
    // Something to warn about, which is for people otherwise.
    let listen = format!("listen = [{{ address = \"{}\", backlog = 1000000000 }}]", port.address());
    let config = Config::new(&directory, 1)
        .log("format = \"json\"")
        .server_with(&listen)
        .location("/", "return = { status = 200, body = \"ok\\n\" }");
    let Some(container) = Container::start(directory, &config) else { return };
    process::send(container.master, Signal::SIGHUP);
    eventually("it has reloaded", || container.log().contains("generation 2 serves").then_some(()));
    let log = container.log();
    for line in log.lines() {
        let value: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(value["level"].is_string() && value["message"].is_string(), "{line}");
    }
    assert!(log.contains("backlog") && log.lines().count() > 5, "{log}");
}

#[test]
fn the_log_is_for_people_where_nothing_else_is_asked_for() {
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, 1).answering(&port);
    let Some(container) = Container::start(directory, &config) else { return };
    let log = eventually("it says what it serves", || {
        Some(container.log()).filter(|log| log.contains("stop with Ctrl-C"))
    });
    assert!(log.contains(" INFO ") && log.contains("generation 1 serves"), "{log}");
    assert!(fs::read_to_string(format!("/proc/{}/status", container.master)).is_ok());
}
