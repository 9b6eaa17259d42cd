//! Logs that are pipes: whoever reads them may be slow, gone or never have come. No request, no signal and no
//! reload waits for that.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use drover_tests::config::toml_string;
use drover_tests::daemon::Surroundings;
use drover_tests::http::get;
use drover_tests::{Client, Config, Directory, Drover, Port, binary, eventually, process};
use nix::libc;
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};

/// More than a pipe takes when nobody reads, in targets that the access log repeats.
const REQUESTS: usize = 100;
const TARGET_LENGTH: usize = 2000;
const SOON: Duration = Duration::from_secs(10);

fn pipe(directory: &Directory, name: &str) -> PathBuf {
    let path = directory.join(name);
    mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).expect("the directory is ours");
    path
}

/// A reader that does not read by itself.
fn reader(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NONBLOCK).open(path).expect("a pipe can be read")
}

/// Standard output and error of drover go into the pipe.
fn into(pipe: &Path) -> Surroundings {
    let script = r#"exec "$@" >"$0" 2>&1"#;
    let wrapper = vec!["sh".into(), "-c".into(), script.into(), pipe.into()];
    Surroundings { wrapper, ..Surroundings::default() }
}

fn start(directory: &Directory, config: &Config, surroundings: &Surroundings) -> Drover {
    Drover::try_start(directory, config, surroundings).unwrap_or_else(|failure| panic!("{failure:?}"))
}

fn ask_much(port: &Port) {
    let target = format!("/{}", "x".repeat(TARGET_LENGTH));
    for _ in 0..REQUESTS {
        assert_eq!(get(port.address(), &target).status, 200);
    }
}

/// It reloads, serves and stops.
fn obeys(mut drover: Drover, port: &Port) {
    drover.reload();
    assert_eq!(get(port.address(), "/").status, 200);
    drover.signal(Signal::SIGQUIT);
    assert!(drover.wait(SOON).success());
}

#[test]
fn a_reader_that_ends_takes_nothing_with_it() {
    let (directory, port) = (Directory::new(), Port::new());
    let log = pipe(&directory, "log");
    let reader = reader(&log);
    let drover = start(&directory, &Config::new(&directory, 2).answering(&port), &into(&log));
    drop(reader);
    obeys(drover, &port);
}

#[test]
fn a_reader_that_stands_still_holds_up_nothing() {
    let (directory, port) = (Directory::new(), Port::new());
    let log = pipe(&directory, "log");
    let _reader = reader(&log);
    let config = Config::new(&directory, 2)
        .http("access_log = { file = \"stdout\", buffer = \"0b\", format = \"by_worker\" }")
        .answering(&port);
    let drover = start(&directory, &config, &into(&log));
    ask_much(&port);
    obeys(drover, &port);
}

#[test]
fn files_that_are_pipes_without_a_reader_hold_up_nothing() {
    let (directory, port) = (Directory::new(), Port::new());
    let (log, access) = (pipe(&directory, "log"), pipe(&directory, "access"));
    let config = Config::new(&directory, 2)
        .log(&format!("file = {}", toml_string(&log.display().to_string())))
        .http(&format!(
            "access_log = {{ file = {}, buffer = \"0b\", format = \"by_worker\" }}",
            toml_string(&access.display().to_string())
        ))
        .answering(&port);
    let drover = start(&directory, &config, &Surroundings::default());
    ask_much(&port);
    drover.signal(Signal::SIGUSR1);

    // Who comes late finds the oldest lines, all of them whole.
    let mut late = reader(&access);
    let text = eventually("lines wait in the pipe", || {
        let mut bytes = vec![0; 1 << 20];
        late.read(&mut bytes)
            .ok()
            .filter(|length| *length > 0)
            .map(|length| String::from_utf8(bytes[..length].to_vec()).expect("text"))
    });
    assert!(text.lines().all(|line| line.ends_with(" 200")), "a torn line");
    assert!(text.lines().count() < REQUESTS, "the pipe took all: the test shows nothing");
    obeys(drover, &port);
}

/// Ends the daemon with the test, however that ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_journal_that_stands_still_holds_up_nothing() {
    let (directory, port) = (Directory::new(), Port::new());
    let (_journal, output) = UnixStream::pair().expect("a pair of sockets");
    let config = Config::new(&directory, 1).log("level = \"debug\"").answering(&port);
    let mut daemon = Command::new(binary::drover());
    daemon.args(["run", "-c"]).arg(config.write(&directory)).stdin(Stdio::null()).stdout(Stdio::null());
    let mut daemon = Running(daemon.stderr(OwnedFd::from(output)).spawn().expect("drover starts"));
    eventually("it listens", || Client::connect(port.address()).ok());
    // Each request leaves more than a thousand bytes of debug lines; a socket takes 200 KiB.
    for _ in 0..2 {
        ask_much(&port);
    }
    process::send(Pid::from_raw(daemon.0.id() as i32), Signal::SIGQUIT);
    let ended = eventually("it stops", || daemon.0.try_wait().expect("it is our child"));
    assert!(ended.success());
}
