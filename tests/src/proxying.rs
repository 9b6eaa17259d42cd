//! A drover that passes everything on to an upstream, as most tests of the proxy need it.

use std::net::SocketAddrV4;

use crate::status::Status;
use crate::{Client, Config, Directory, Drover, HttpBackend, Port, Response, eventually};

/// What the access log tells of a request.
const FORMAT: &str = "by_worker = \"$request_method $request_uri $status $body_bytes_sent [$upstream_addr] [$upstream_status] $upstream_error\"";

/// A running drover with one worker, which passes everything on to the upstream `app`.
#[derive(Debug)]
pub struct Proxying {
    /// The daemon.
    pub drover: Drover,
    /// Its directory, with `access.log`.
    pub directory: Directory,
    /// Where it listens.
    pub port: Port,
}

impl Proxying {
    /// Passes on to this backend alone.
    #[track_caller]
    pub fn to(backend: &HttpBackend) -> Proxying {
        Proxying::start(&[backend.address()], "", "")
    }

    /// Passes on to this backend alone, with these keys of `proxy`.
    #[track_caller]
    pub fn to_with(backend: &HttpBackend, proxy: &str) -> Proxying {
        Proxying::start(&[backend.address()], "", proxy)
    }

    /// Passes on to these servers, with these keys of the upstream and of `proxy`.
    #[track_caller]
    pub fn start(servers: &[SocketAddrV4], upstream: &str, proxy: &str) -> Proxying {
        Proxying::with(|config| config, servers, upstream, proxy)
    }

    /// The same with a config that `change` changes before its locations come.
    #[track_caller]
    pub fn with(
        change: impl FnOnce(Config) -> Config,
        servers: &[SocketAddrV4],
        upstream: &str,
        proxy: &str,
    ) -> Proxying {
        let (directory, port) = (Directory::new(), Port::new());
        let config = Config::new(&directory, 1).log_format(FORMAT).upstream("app", servers, upstream);
        let config = change(config).server(&port).passing("/", "app", proxy);
        Proxying { drover: Drover::start(&directory, &config), directory, port }
    }

    /// A connection of its own.
    #[track_caller]
    pub fn client(&self) -> Client {
        Client::to(self.port.address())
    }

    /// The answer to these bytes on a connection of its own.
    #[track_caller]
    pub fn ask(&self, bytes: impl AsRef<[u8]>) -> Response {
        let mut client = self.client();
        client.send(bytes);
        client.response()
    }

    /// The line of the access log that contains all of `parts`; waits for it.
    #[track_caller]
    pub fn logged(&self, parts: &[&str]) -> String {
        eventually(&format!("a line of the access log with {parts:?}"), || {
            let log = self.directory.read("access.log");
            log.lines().find(|line| parts.iter().all(|part| line.contains(part))).map(str::to_owned)
        })
    }

    /// A counter over all workers, as `drover status --json` has it.
    #[track_caller]
    pub fn counter(&self, name: &str) -> u64 {
        self.number(&format!("/totals/{name}"))
    }

    /// What `drover status --json` tells of the first server of `app`: `active`, `kept` and so on.
    #[track_caller]
    pub fn of_server(&self, name: &str) -> u64 {
        self.number(&format!("/upstreams/0/servers/0/addresses/0/{name}"))
    }

    #[track_caller]
    fn number(&self, pointer: &str) -> u64 {
        let text = Status::text(self.drover.config()).expect("a status");
        let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let value = json.pointer(pointer).and_then(serde_json::Value::as_u64);
        value.unwrap_or_else(|| panic!("no {pointer} in {text}"))
    }
}
