//! A test's config file, written table by table.

use std::fmt::Write;
use std::net::SocketAddrV4;
use std::path::PathBuf;

use crate::{Directory, Port};

/// The variable that names the backend which configs have unless they say another.
const BACKEND: &str = "DROVER_BACKEND";

/// The text of a config file under construction. Every file it names lies in the test's directory.
#[derive(Debug, Clone, Default)]
pub struct Config {
    process: Vec<String>,
    log: Vec<String>,
    events: Vec<String>,
    http: Vec<String>,
    log_formats: Vec<String>,
    stream: Vec<String>,
    stream_log_formats: Vec<String>,
    servers: String,
    /// The whole text, where somebody else wrote it.
    written: Option<String>,
}

impl Config {
    /// A config that somebody else wrote; its pid file and runtime directory must be the directory's
    /// `drover.pid` and `run`.
    pub fn written(text: String) -> Config {
        Config { written: Some(text), ..Config::default() }
    }

    /// A daemon with this many workers that logs to its stderr, every request to `access.log` as
    /// `PID METHOD TARGET STATUS`, and every connection that is passed on to `stream.log` as `PID PROTOCOL
    /// BYTES-RECEIVED BYTES-SENT SERVERS TLS-NAME REASON`.
    pub fn new(directory: &Directory, workers: u32) -> Config {
        let place = |name: &str| toml_string(&directory.join(name).display().to_string());
        Config {
            process: vec![
                format!("workers = {workers}"),
                format!("pid_file = {}", place("drover.pid")),
                format!("runtime_dir = {}", place("run")),
            ],
            log: vec!["file = \"stderr\"".to_owned()],
            events: std::env::var(BACKEND).iter().map(|name| format!("use = \"{name}\"")).collect(),
            http: vec![format!(
                "access_log = {{ file = {}, format = \"by_worker\", flush = \"50ms\" }}",
                place("access.log")
            )],
            log_formats: vec!["by_worker = \"$pid $request_method $request_uri $status\"".to_owned()],
            stream: vec![format!(
                "access_log = {{ file = {}, format = \"by_worker\", flush = \"50ms\" }}",
                place("stream.log")
            )],
            stream_log_formats: vec![
                "by_worker = \"$pid $protocol $bytes_received $bytes_sent $upstream_addr $tls_server_name $close_reason\""
                    .to_owned(),
            ],
            servers: String::new(),
            written: None,
        }
    }

    /// Sets a key in `[process]`, instead of the one that was there.
    pub fn process(mut self, line: &str) -> Config {
        set(&mut self.process, line);
        self
    }

    /// Sets a key in `[log]`.
    pub fn log(mut self, line: &str) -> Config {
        set(&mut self.log, line);
        self
    }

    /// Sets a key in `[events]`.
    pub fn events(mut self, line: &str) -> Config {
        set(&mut self.events, line);
        self
    }

    /// Sets a key in `[http]`.
    pub fn http(mut self, line: &str) -> Config {
        set(&mut self.http, line);
        self
    }

    /// Adds a format for access logs.
    pub fn log_format(mut self, line: &str) -> Config {
        set(&mut self.log_formats, line);
        self
    }

    /// Sets a key in `[stream]`.
    pub fn stream(mut self, line: &str) -> Config {
        set(&mut self.stream, line);
        self
    }

    /// Adds a format for access logs of proxies.
    pub fn stream_log_format(mut self, line: &str) -> Config {
        set(&mut self.stream_log_formats, line);
        self
    }

    /// Adds a proxy with these keys.
    pub fn proxy(mut self, keys: &str) -> Config {
        let _ = writeln!(self.servers, "\n[[stream.servers]]\n{keys}");
        self
    }

    /// Adds a group of servers for proxies, with these keys.
    pub fn stream_upstream(mut self, name: &str, keys: &str) -> Config {
        let _ = writeln!(self.servers, "\n[stream.upstreams.{name}]\n{keys}");
        self
    }

    /// Adds a server on a port of 127.0.0.1 that answers `/` with `ok`.
    pub fn answering(self, port: &Port) -> Config {
        self.server(port).location("/", "return = { status = 200, body = \"ok\\n\" }")
    }

    /// Adds a server on a port of 127.0.0.1, without locations.
    pub fn server(self, port: &Port) -> Config {
        self.server_with(&format!("listen = [\"{}\"]", port.address()))
    }

    /// Adds a server with these keys.
    pub fn server_with(mut self, keys: &str) -> Config {
        let _ = writeln!(self.servers, "\n[[http.servers]]\n{keys}");
        self
    }

    /// Adds an upstream with these keys, beside those of its servers.
    pub fn upstream(mut self, name: &str, servers: &[SocketAddrV4], keys: &str) -> Config {
        let servers: Vec<String> = servers.iter().map(|address| format!("\"{address}\"")).collect();
        let servers = servers.join(", ");
        let _ = writeln!(self.servers, "\n[http.upstreams.{name}]\nservers = [{servers}]\n{keys}");
        self
    }

    /// Adds a location that passes everything that begins with `path` on to an upstream or an address, with these
    /// keys of `proxy`.
    pub fn passing(self, path: &str, to: impl std::fmt::Display, keys: &str) -> Config {
        self.location(path, &format!("proxy_pass = \"http://{to}\"\n[http.servers.locations.proxy]\n{keys}"))
    }

    /// Adds a location with these keys to the last server: everything that begins with `path`.
    pub fn location(mut self, path: &str, keys: &str) -> Config {
        let path = toml_string(path);
        let _ = writeln!(self.servers, "\n[[http.servers.locations]]\npath = {path}\n{keys}");
        self
    }

    /// The file's text.
    pub fn text(&self) -> String {
        if let Some(text) = &self.written {
            return text.clone();
        }
        let mut text = String::new();
        let tables =
            [("process", &self.process), ("log", &self.log), ("events", &self.events), ("http", &self.http)];
        for (name, lines) in tables {
            let _ = writeln!(text, "[{name}]\n{}\n", lines.join("\n"));
        }
        if self.servers.contains("[[stream.servers]]") {
            let _ = writeln!(text, "[stream]\n{}\n", self.stream.join("\n"));
            let _ = writeln!(text, "[stream.log_formats]\n{}\n", self.stream_log_formats.join("\n"));
        }
        let _ = writeln!(text, "[http.log_formats]\n{}", self.log_formats.join("\n"));
        text.push_str(&self.servers);
        text
    }

    /// Writes it to `drover.toml` in the directory.
    pub fn write(&self, directory: &Directory) -> PathBuf {
        directory.write("drover.toml", self.text())
    }
}

/// Replaces the line of the same key, or appends it.
fn set(lines: &mut Vec<String>, line: &str) {
    let key = |line: &str| line.split('=').next().unwrap_or_default().trim().to_owned();
    match lines.iter_mut().find(|old| key(old) == key(line)) {
        Some(old) => line.clone_into(old),
        None => lines.push(line.to_owned()),
    }
}

/// A TOML basic string.
pub fn toml_string(text: &str) -> String {
    // TOML's escapes are a superset of JSON's.
    serde_json::to_string(text).expect("any text is a JSON string")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_keys_replace_earlier_ones() {
        let directory = Directory::new();
        let text = Config::new(&directory, 2).process("workers = 5").process("nice = 1").text();
        assert!(text.contains("\nworkers = 5\n") && text.contains("\nnice = 1\n"), "{text}");
        assert!(!text.contains("workers = 2"), "{text}");
    }

    #[test]
    fn locations_belong_to_the_last_server() {
        let directory = Directory::new();
        let port = Port::new();
        let text = Config::new(&directory, 1).answering(&port).location("/slow", "x = 1").text();
        let server = text.find("[[http.servers]]").expect("a server");
        assert!(text[server..].contains(&port.address().to_string()));
        assert_eq!(text.matches("[[http.servers.locations]]").count(), 2);
    }
}
