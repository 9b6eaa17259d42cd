//! The servers, each tuned for this and with one worker pinned to a core.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::net::SocketAddrV4;
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use drover_tests::daemon::Surroundings;
use drover_tests::http::Client;
use drover_tests::{Directory, Drover, Port, packages, process};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::configs;
use crate::origin::Origin;
use crate::rows::DATE_SECONDS;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Drover,
    Nginx,
    H2o,
    Haproxy,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Drover => "drover",
            Kind::Nginx => "nginx",
            Kind::H2o => "h2o",
            Kind::Haproxy => "haproxy",
        })
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Kind, String> {
        match name {
            "drover" => Ok(Kind::Drover),
            "nginx" => Ok(Kind::Nginx),
            "h2o" => Ok(Kind::H2o),
            "haproxy" => Ok(Kind::Haproxy),
            _ => Err("one of drover, nginx, h2o, haproxy is expected".to_owned()),
        }
    }
}

/// A server at work.
#[derive(Debug)]
pub(crate) struct Server {
    pub kind: Kind,
    pub version: String,
    pub worker: Pid,
    pub plain: Port,
    pub deferred: Port,
    running: Running,
    /// After the processes that use it: fields are dropped in this order.
    pub directory: Directory,
}

#[derive(Debug)]
enum Running {
    Drover(Drover),
    Other(Child),
}

impl Server {
    /// Starts it behind a wrapper such as valgrind, and waits until it answers.
    pub(crate) fn start(kind: Kind, files: &Files, wrapper: &[OsString]) -> Result<Server, String> {
        let (directory, plain, deferred) = (Directory::new(), Port::new(), Port::new());
        let mut line: Vec<OsString> = ["taskset", "-c", "0"].map(OsString::from).to_vec();
        line.extend(wrapper.iter().cloned());
        let (running, version) = match kind {
            Kind::Drover => {
                let surroundings = Surroundings { wrapper: line, ..Surroundings::default() };
                let drover = Drover::try_start(
                    &directory,
                    &configs::drover(&directory, files, &plain, &deferred),
                    &surroundings,
                )
                .map_err(|failure| format!("it ended with {:?}: {}", failure.code, failure.stderr))?;
                (
                    Running::Drover(drover),
                    version("drover", drover_tests::binary::drover().into(), "--version"),
                )
            }
            Kind::Nginx => {
                let nginx = packages::tool("nginx", "nginx")?;
                let config =
                    directory.write("nginx.conf", configs::nginx(&directory, files, &plain, &deferred));
                line.extend([
                    nginx.clone().into(),
                    "-p".into(),
                    directory.path().into(),
                    "-c".into(),
                    config.into(),
                ]);
                (Running::Other(spawn(&line, &directory)?), version("nginx", nginx.into(), "-v"))
            }
            Kind::H2o => {
                let h2o = packages::tool("h2o", "h2o")?;
                let config = directory.write("h2o.yaml", configs::h2o(&directory, files, &plain, &deferred));
                line.extend([h2o.clone().into(), "-c".into(), config.into()]);
                (Running::Other(spawn(&line, &directory)?), version("h2o", h2o.into(), "--version"))
            }
            Kind::Haproxy => {
                let haproxy = packages::tool("haproxy", "haproxy")?;
                let config = directory.write("haproxy.cfg", configs::haproxy(files, &plain, &deferred));
                // In the foreground, as one process.
                line.extend([haproxy.clone().into(), "-db".into(), "-f".into(), config.into()]);
                (Running::Other(spawn(&line, &directory)?), version("haproxy", haproxy.into(), "-v"))
            }
        };
        let mut server = Server { kind, version, worker: Pid::this(), plain, deferred, directory, running };
        server.wait_until_it_answers()?;
        server.worker = server.find_worker()?;
        Ok(server)
    }

    fn wait_until_it_answers(&self) -> Result<(), String> {
        let start = Instant::now();
        let listens = |port: &Port| Client::connect(port.address()).is_ok();
        while !(listens(&self.plain) && listens(&self.deferred)) {
            if start.elapsed() > Duration::from_secs(30) {
                return Err(format!("it does not listen: {}", self.directory.read("errors.txt")));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn find_worker(&self) -> Result<Pid, String> {
        match (&self.running, self.kind) {
            (Running::Drover(drover), _) => Ok(drover.worker()),
            // These are one process; the one thread that works is the first.
            (Running::Other(child), Kind::H2o | Kind::Haproxy) => Ok(Pid::from_raw(child.id() as i32)),
            (Running::Other(child), _) => {
                // nginx listens before it forks.
                let master = Pid::from_raw(child.id() as i32);
                Ok(drover_tests::eventually("nginx has a worker", || process::children(master).pop()))
            }
        }
    }

    /// Stops it gracefully and waits until its worker has gone; hands over its directory.
    pub(crate) fn stop(self) -> Directory {
        match &self.running {
            Running::Drover(drover) => drover.signal(Signal::SIGQUIT),
            Running::Other(child) => {
                let signal = match self.kind {
                    Kind::Nginx => Signal::SIGQUIT,
                    Kind::Haproxy => Signal::SIGUSR1,
                    Kind::Drover | Kind::H2o => Signal::SIGTERM,
                };
                process::send(Pid::from_raw(child.id() as i32), signal);
            }
        }
        drover_tests::eventually_within(Duration::from_secs(60), "the server stops", || {
            (!process::alive(self.worker)).then_some(())
        });
        self.directory
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Running::Other(child) = self {
            process::send(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
            let start = Instant::now();
            while matches!(child.try_wait(), Ok(None)) {
                if start.elapsed() > Duration::from_secs(5) {
                    let _ = child.kill();
                }
                thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

fn spawn(line: &[OsString], directory: &Directory) -> Result<Child, String> {
    let errors = File::create(directory.join("errors.txt")).map_err(|error| error.to_string())?;
    Command::new(&line[0])
        .args(&line[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(errors)
        .spawn()
        .map_err(|error| format!("cannot start it: {error}"))
}

/// The first line that tells a version, for the report's heading.
fn version(name: &str, program: OsString, option: &str) -> String {
    let Ok(output) = Command::new(program).arg(option).output() else { return name.to_owned() };
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let first = text.lines().next().unwrap_or(name);
    first.trim_start_matches("nginx version: ").to_owned()
}

/// What all servers serve: the same files, so that they lie in the page cache alike, and what one origin answers.
#[derive(Debug)]
pub(crate) struct Files {
    // Before the files that it serves: fields are dropped in this order.
    origin: Origin,
    directory: Directory,
}

impl Files {
    pub(crate) fn new() -> Files {
        let files = Directory::new();
        let line =
            [b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+".as_slice(), b"\n"].concat();
        let date = UNIX_EPOCH + Duration::from_secs(DATE_SECONDS);
        for (name, kib) in [("1k", 1), ("100k", 100), ("10m", 10 * 1024), ("gzip/100k", 100)] {
            let path = files.write(&format!("{name}.txt"), line.repeat(kib * 16));
            let file = File::options().write(true).open(path).expect("the file was written just now");
            file.set_modified(date).expect("a file's date can be set");
        }
        Files { origin: Origin::start(files.path()), directory: files }
    }

    pub(crate) fn root(&self) -> std::path::Display<'_> {
        self.directory.path().display()
    }

    /// Where requests are passed on to.
    pub(crate) fn origin(&self) -> SocketAddrV4 {
        self.origin.address()
    }
}
