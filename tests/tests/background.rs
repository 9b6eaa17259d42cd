//! Ways to run it: in the background, as one process, under a small limit of descriptors.

use drover_tests::daemon::Surroundings;
use drover_tests::http::get;
use drover_tests::wait::SOON;
use drover_tests::{Client, Config, Directory, Drover, Port, binary, eventually, process};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

/// A daemon that left its starter, ended with the test.
struct Background(Pid);

impl Drop for Background {
    fn drop(&mut self) {
        process::send(self.0, Signal::SIGTERM);
        eventually("the daemon ends", || {
            let _ = waitpid(self.0, Some(WaitPidFlag::WNOHANG));
            (!process::alive(self.0)).then_some(())
        });
    }
}

#[test]
fn in_the_background_the_starter_returns_when_it_serves() {
    prctl::set_child_subreaper(true).expect("Linux has subreapers");
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, 1)
        .process("daemon = true")
        .log(&format!("file = \"{}\"", directory.join("drover.log").display()))
        .answering(&port)
        .write(&directory);
    // Its output ends with it: neither master nor worker holds it open.
    let output = binary::run(["run".as_ref(), "-c".as_ref(), config.as_os_str()]);
    let master = Background(Pid::from_raw(directory.read("drover.pid").trim().parse().expect("a pid")));
    assert!(output.status.success());
    // No waiting here: it serves when the starter has returned.
    assert_eq!(get(port.address(), "/").text(), "ok\n");
    assert_eq!(process::parent(master.0), Some(Pid::this()), "it left its starter");
    assert_eq!(nix::unistd::getsid(Some(master.0)).ok(), Some(master.0), "it has a session of its own");
}

#[test]
fn in_the_background_a_failure_is_the_starters() {
    let (directory, port) = (Directory::new(), Port::new());
    let _somebody = std::net::TcpListener::bind(port.address()).expect("the port is ours");
    let config = Config::new(&directory, 1)
        .process("daemon = true")
        .log(&format!("file = \"{}\"", directory.join("drover.log").display()))
        .answering(&port)
        .write(&directory);
    let output = binary::run(["run".as_ref(), "-c".as_ref(), config.as_os_str()]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains(&port.address().to_string()), "{text}");
    assert!(!directory.join("drover.pid").exists());
}

#[test]
fn with_few_descriptors_it_serves_what_it_can() {
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, 1).answering(&port);
    let wrapper = ["prlimit", "--nofile=64:64"].map(Into::into).to_vec();
    let surroundings = Surroundings { wrapper, ..Surroundings::default() };
    let drover = Drover::try_start(&directory, &config, &surroundings).expect("it starts");
    assert_eq!(get(port.address(), "/").text(), "ok\n");
    let mut clients: Vec<Client> = (0..100).map(|_| Client::to(port.address())).collect();
    drover.log_line(&["accepting pauses"]);
    for client in &mut clients {
        assert_eq!(client.get("/").text(), "ok\n");
        client.half_close();
    }
    drover.reload();
    assert_eq!(get(port.address(), "/").text(), "ok\n");
}

#[test]
fn logs_may_be_json() {
    let (directory, port) = (Directory::new(), Port::new());
    let log = directory.join("drover.log");
    let config = Config::new(&directory, 1)
        .log("format = \"json\"")
        .log(&format!("file = \"{}\"", log.display()))
        .answering(&port);
    let mut drover = Drover::start(&directory, &config);
    drover.signal(Signal::SIGTERM);
    assert!(drover.wait(SOON).success());
    let text = directory.read("drover.log");
    assert!(text.lines().count() >= 2, "{text}");
    for line in text.lines() {
        let value: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        for key in ["time", "level", "pid", "process", "message"] {
            assert!(value.get(key).is_some(), "no {key}: {line}");
        }
    }
}
