//! The servers, each tuned for this and with one worker pinned to a core.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use drover_tests::daemon::Surroundings;
use drover_tests::http::Client;
use drover_tests::{Config, Directory, Drover, Port, packages, process};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::rows::DATE_SECONDS;

/// As many bytes as h2o's answer to `/return` has: it can answer from memory only with a redirect.
const BODY: &str =
    "An answer of ninety-nine bytes, neither read from a file nor asked for elsewhere, but kept at hand.";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Drover,
    Nginx,
    H2o,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Drover => "drover",
            Kind::Nginx => "nginx",
            Kind::H2o => "h2o",
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
            _ => Err("one of drover, nginx, h2o is expected".to_owned()),
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
                    &drover_config(&directory, files, &plain, &deferred),
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
                    directory.write("nginx.conf", nginx_config(&directory, files, &plain, &deferred));
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
                let config = directory.write("h2o.yaml", h2o_config(&directory, files, &plain, &deferred));
                line.extend([h2o.clone().into(), "-c".into(), config.into()]);
                (Running::Other(spawn(&line, &directory)?), version("h2o", h2o.into(), "--version"))
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
            // h2o is one process; its one thread that works is the first.
            (Running::Other(child), Kind::H2o) => Ok(Pid::from_raw(child.id() as i32)),
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
                let signal = if self.kind == Kind::Nginx { Signal::SIGQUIT } else { Signal::SIGTERM };
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

/// The files all servers serve: the same ones, so that they lie in the page cache alike.
#[derive(Debug)]
pub(crate) struct Files(Directory);

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
        Files(files)
    }

    fn root(&self) -> std::path::Display<'_> {
        self.0.path().display()
    }
}

fn drover_config(directory: &Directory, files: &Files, plain: &Port, deferred: &Port) -> Config {
    let listen = format!(
        "listen = [{{ address = \"{}\", backlog = 4096 }}, {{ address = \"{}\", deferred = true, backlog = 4096 }}]",
        plain.address(),
        deferred.address()
    );
    Config::new(directory, 1)
        .log("level = \"warn\"")
        .events("worker_connections = 12000")
        .http("access_log = \"off\"")
        .http("keepalive_requests = 1000000000")
        .http("compression = { gzip_level = 1 }")
        .server_with(&format!("{listen}\nroot = \"{}\"", files.root()))
        .location("/", "")
        .location("/gzip/", "compression = [\"gzip\"]")
        .location("/return", &format!("return = {{ status = 200, body = \"{BODY}\" }}"))
}

/// `tcp_nopush` stays off: it would add two system calls to each file. Small files go by `sendfile` all the
/// same, which is faster here than reading them (`sendfile off` takes the same number of calls).
fn nginx_config(directory: &Directory, files: &Files, plain: &Port, deferred: &Port) -> String {
    let (directory, root) = (directory.path().display(), files.root());
    let (plain, deferred) = (plain.address(), deferred.address());
    format!(
        r#"daemon off;
user root;
worker_processes 1;
pid {directory}/nginx.pid;
error_log {directory}/nginx.errors crit;
worker_rlimit_nofile 20000;
events {{ worker_connections 12000; use epoll; accept_mutex off; multi_accept off; }}
http {{
    access_log off;
    client_body_temp_path {directory}/tmp-body; proxy_temp_path {directory}/tmp-proxy;
    fastcgi_temp_path {directory}/tmp-fcgi; uwsgi_temp_path {directory}/tmp-uwsgi; scgi_temp_path {directory}/tmp-scgi;
    sendfile on; tcp_nodelay on;
    keepalive_timeout 75s; keepalive_requests 1000000000;
    open_file_cache max=1024; open_file_cache_valid 60s; open_file_cache_min_uses 1;
    types {{ text/plain txt; }}
    default_type text/plain;
    root {root};
    server {{
        listen {plain} backlog=4096;
        listen {deferred} backlog=4096 deferred;
        location = /return {{ return 200 "{BODY}"; }}
        location / {{ }}
        location /gzip/ {{ gzip on; gzip_types text/plain; gzip_comp_level 1; }}
    }}
}}
"#
    )
}

fn h2o_config(directory: &Directory, files: &Files, plain: &Port, deferred: &Port) -> String {
    let (directory, root) = (directory.path().display(), files.root());
    let (plain, deferred) = (plain.number(), deferred.number());
    format!(
        r#"num-threads: 1
max-connections: 12000
user: root
error-log: {directory}/h2o.errors
listen: {{host: 127.0.0.1, port: {plain}}}
listen: {{host: 127.0.0.1, port: {deferred}}}
hosts:
  default:
    paths:
      "/return":
        redirect: {{url: "http://example.org/", status: 302}}
      "/gzip":
        file.dir: {root}/gzip
        gzip: ON
      "/":
        file.dir: {root}
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_of_one_size() {
        assert_eq!(BODY.len(), 99);
    }
}
