//! Logs that go to a terminal: it may be stopped (Ctrl-S), or whoever shows it may not read. No request, no signal and
//! no reload waits for that; lines are lost instead, and counted.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use drover_tests::daemon::Surroundings;
use drover_tests::http::get;
use drover_tests::wait::SOON;
use drover_tests::{Client, Config, Directory, Drover, Port, binary, eventually, packages};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::pty::openpty;
use nix::sys::signal::Signal;
use nix::sys::termios::{FlowArg, tcflow};
use nix::unistd::ttyname;

/// More than a terminal takes when nobody reads, in targets that the access log repeats.
const REQUESTS: usize = 100;
const TARGET_LENGTH: usize = 2000;

/// A terminal with drover's standard output and error.
struct Terminal {
    /// The side of whoever shows it.
    shown: OwnedFd,
    /// The side of programs.
    line: OwnedFd,
    port: Port,
    drover: Drover,
    _directory: Directory,
}

impl Terminal {
    fn start() -> Terminal {
        let (directory, port) = (Directory::new(), Port::new());
        let pair = openpty(None, None).expect("a terminal");
        let script = r#"exec "$@" >"$0" 2>&1"#;
        let name = ttyname(&pair.slave).expect("it has a name");
        let wrapper = vec!["sh".into(), "-c".into(), script.into(), name.into()];
        let surroundings = Surroundings { wrapper, ..Surroundings::default() };
        let config = Config::new(&directory, 1)
            .http("access_log = { file = \"stdout\", buffer = \"0b\", format = \"by_worker\" }")
            .answering(&port);
        let drover = Drover::try_start(&directory, &config, &surroundings)
            .unwrap_or_else(|failure| panic!("{failure:?}"));
        Terminal { shown: pair.master, line: pair.slave, port, drover, _directory: directory }
    }

    fn ask_much(&self) {
        let target = format!("/{}", "x".repeat(TARGET_LENGTH));
        for _ in 0..REQUESTS {
            assert_eq!(get(self.port.address(), &target).status, 200);
        }
    }

    /// Somebody reads from now on; what came is added to the text.
    fn read(&self) -> Arc<Mutex<String>> {
        let text = Arc::new(Mutex::new(String::new()));
        let (mut from, seen) = (File::from(self.shown.try_clone().expect("a descriptor")), Arc::clone(&text));
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length @ 1..) = from.read(&mut bytes) {
                seen.lock().expect("no panic").push_str(&String::from_utf8_lossy(&bytes[..length]));
            }
        });
        text
    }

    /// Master and worker say that lines were lost, once there is room for it.
    fn confesses(&self, text: &Mutex<String>) {
        eventually("what was lost is told", || {
            self.drover.signal(Signal::SIGUSR1);
            get(self.port.address(), "/");
            let text = text.lock().expect("no panic");
            (text.contains("lines of the log were lost")
                && text.contains("access log stdout: written again after"))
            .then_some(())
        });
    }

    fn stops(mut self) {
        self.drover.signal(Signal::SIGQUIT);
        assert!(self.drover.wait(SOON).success());
    }
}

#[test]
fn one_that_nobody_reads_holds_up_nothing() {
    let terminal = Terminal::start();
    terminal.ask_much();
    terminal.drover.reload();
    terminal.ask_much();
    let text = terminal.read();
    terminal.confesses(&text);
    terminal.stops();
}

#[test]
fn one_that_is_stopped_holds_up_nothing() {
    let terminal = Terminal::start();
    let text = terminal.read();
    tcflow(terminal.line.as_fd(), FlowArg::TCOOFF).expect("stopped");
    terminal.ask_much();
    terminal.drover.reload();
    terminal.ask_much();
    tcflow(terminal.line.as_fd(), FlowArg::TCOON).expect("going on");
    terminal.confesses(&text);
    tcflow(terminal.line.as_fd(), FlowArg::TCOOFF).expect("stopped");
    terminal.stops();
}

/// Others have the terminal open too, and may want to wait for it.
#[test]
fn what_others_have_open_stays_as_it_was() {
    let (directory, port) = (Directory::new(), Port::new());
    let pair = openpty(None, None).expect("a terminal");
    let line = Arc::new(pair.slave);
    let surroundings =
        Surroundings { passed: vec![Arc::clone(&line), Arc::clone(&line)], ..Surroundings::default() };
    let config = Config::new(&directory, 1).http("access_log = \"stdout\"").answering(&port);
    let _drover =
        Drover::try_start(&directory, &config, &surroundings).unwrap_or_else(|failure| panic!("{failure:?}"));
    assert_eq!(get(port.address(), "/").status, 200);
    let flags = OFlag::from_bits_retain(fcntl(&line, FcntlArg::F_GETFL).expect("flags"));
    assert!(!flags.contains(OFlag::O_NONBLOCK), "{flags:?}");
}

/// `stty tostop`: who writes from the background is stopped, unless it does not let itself be.
#[test]
fn one_that_stops_the_background_stops_no_daemon() {
    let Some(script) = packages::tool_or_skip("script", "bsdutils") else { return };
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, 1).answering(&port).write(&directory);
    let (drover, config) = (binary::drover().display(), config.display());
    // Monitor mode gives each job a process group of its own, as in a shell that people use.
    let command = format!("stty tostop; set -m; {drover} run -c {config} & wait");
    let mut terminal = Command::new(script)
        .args(["-qfec", &command, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("script starts");
    eventually("it serves", || Client::connect(port.address()).ok());
    assert_eq!(get(port.address(), "/").status, 200);
    let stopped = binary::run(["stop".as_ref(), "-c".as_ref(), directory.join("drover.toml").as_os_str()]);
    assert!(stopped.status.success(), "{stopped:?}");
    let ended = eventually("the terminal is closed", || terminal.try_wait().expect("our child"));
    assert!(ended.success());
}
