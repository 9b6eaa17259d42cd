//! The proxies, each tuned for this and with one worker pinned to a core; nginx once more with the buffer that it has
//! where nobody tunes it.
//!
//! All do the same: the end of one direction is passed on and leaves the other open.

use std::ffi::OsString;
use std::fmt;
use std::net::TcpStream;
use std::path::Path;
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use drover_tests::daemon::Surroundings;
use drover_tests::{Config, Directory, Drover, Port, Program, eventually, packages, process, program};
use nix::unistd::Pid;

use crate::load::Servers;

/// What Debian's nginx passes streams on with.
const NGINX_STREAM: &str = "/usr/lib/nginx/modules/ngx_stream_module.so";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Drover,
    Nginx,
    NginxUntuned,
    Haproxy,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Drover => "drover",
            Kind::Nginx => "nginx",
            Kind::NginxUntuned => "nginx-16k",
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
            "nginx-16k" => Ok(Kind::NginxUntuned),
            "haproxy" => Ok(Kind::Haproxy),
            _ => Err("one of drover, nginx, nginx-16k, haproxy is expected".to_owned()),
        }
    }
}

/// A proxy at work.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub kind: Kind,
    pub version: String,
    pub worker: Pid,
    pub connections: Port,
    pub datagrams: Port,
    _running: Running,
    /// After the processes that use it: fields are dropped in this order.
    pub directory: Directory,
}

#[derive(Debug)]
enum Running {
    Drover(Drover),
    Other(Program),
}

impl Proxy {
    /// Starts it and waits until it listens.
    pub(crate) fn start(kind: Kind, servers: &Servers) -> Result<Proxy, String> {
        let (directory, connections, datagrams) = (Directory::new(), Port::new(), Port::new());
        let (running, version) = match kind {
            Kind::Drover => drover(&directory, &connections, &datagrams, servers)?,
            Kind::Nginx => nginx(&directory, &connections, &datagrams, servers, "64k")?,
            Kind::NginxUntuned => nginx(&directory, &connections, &datagrams, servers, "16k")?,
            Kind::Haproxy => haproxy(&directory, &connections, servers)?,
        };
        let begun = Instant::now();
        while TcpStream::connect(connections.address()).is_err() {
            if begun.elapsed() > Duration::from_secs(5) {
                return Err(format!("it does not listen: {}", directory.read("taskset.said")));
            }
            thread::sleep(Duration::from_millis(10));
        }
        let worker = match (&running, kind) {
            (Running::Drover(drover), _) => drover.worker(),
            (Running::Other(nginx), Kind::Nginx | Kind::NginxUntuned) => {
                eventually("nginx has a worker", || process::children(nginx.pid()).pop())
            }
            // It is one process.
            (Running::Other(other), _) => other.pid(),
        };
        Ok(Proxy { kind, version, worker, connections, datagrams, _running: running, directory })
    }
}

fn on_core_0() -> Vec<OsString> {
    ["taskset", "-c", "0"].map(OsString::from).to_vec()
}

fn drover(
    directory: &Directory,
    connections: &Port,
    datagrams: &Port,
    servers: &Servers,
) -> Result<(Running, String), String> {
    let config = Config::new(directory, 1)
        .log("level = \"warn\"")
        .events("worker_connections = 12000")
        .stream("access_log = \"off\"")
        .proxy(&format!(
            "listen = [{{ address = \"{}\", backlog = 4096 }}]\nproxy_pass = \"{}\"",
            connections.address(),
            servers.tcp()
        ))
        .proxy(&format!(
            "listen = [{{ address = \"{}\", udp = true }}]\nproxy_pass = \"{}\"",
            datagrams.address(),
            servers.udp()
        ));
    let surroundings = Surroundings { wrapper: on_core_0(), ..Surroundings::default() };
    let drover = Drover::try_start(directory, &config, &surroundings)
        .map_err(|failure| format!("it ended with {:?}: {}", failure.code, failure.stderr))?;
    let version = program::version(drover_tests::binary::drover(), "--version");
    Ok((Running::Drover(drover), version))
}

fn nginx(
    directory: &Directory,
    connections: &Port,
    datagrams: &Port,
    servers: &Servers,
    buffer: &str,
) -> Result<(Running, String), String> {
    let nginx = packages::tool("nginx", "nginx")?;
    packages::file(Path::new(NGINX_STREAM), "libnginx-mod-stream")?;
    let place = directory.path().display();
    let config = format!(
        r#"load_module {NGINX_STREAM};
daemon off;
user root;
worker_processes 1;
pid {place}/nginx.pid;
error_log {place}/nginx.errors crit;
worker_rlimit_nofile 20000;
events {{ worker_connections 12000; use epoll; accept_mutex off; multi_accept off; }}
stream {{
    proxy_buffer_size {buffer};
    proxy_half_close on;
    server {{ listen {} backlog=4096; proxy_pass {}; }}
    server {{ listen {} udp; proxy_pass {}; }}
}}
"#,
        connections.address(),
        servers.tcp(),
        datagrams.address(),
        servers.udp()
    );
    let config = directory.write("nginx.conf", config);
    let version = program::version(&nginx, "-v");
    let arguments = ["-p".into(), directory.path().into(), "-c".into(), config.into_os_string()];
    Ok((pinned(directory, &nginx, arguments)?, version.trim_start_matches("nginx version: ").to_owned()))
}

fn haproxy(
    directory: &Directory,
    connections: &Port,
    servers: &Servers,
) -> Result<(Running, String), String> {
    let haproxy = packages::tool("haproxy", "haproxy")?;
    let config = format!(
        "global
    nbthread 1
    maxconn 7000
defaults
    mode tcp
    option splice-auto
    timeout connect 5s
    timeout client 60s
    timeout server 60s
listen streams
    bind {} backlog 4096
    server behind {}
",
        connections.address(),
        servers.tcp()
    );
    let config = directory.write("haproxy.cfg", config);
    let version = program::version(&haproxy, "-v");
    // In the foreground, as one process.
    Ok((pinned(directory, &haproxy, ["-db".into(), "-f".into(), config.into_os_string()])?, version))
}

fn pinned(
    directory: &Directory,
    program: &Path,
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<Running, String> {
    let taskset = packages::tool("taskset", "util-linux")?;
    let pin = on_core_0().into_iter().skip(1).chain([program.into()]);
    Ok(Running::Other(Program::start(directory, &taskset, pin.chain(arguments))))
}
