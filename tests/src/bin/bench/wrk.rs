//! The load generator.

use std::path::PathBuf;
use std::process::Command;

use drover_tests::http::{Client, request};
use drover_tests::packages;

use crate::rows::Row;
use crate::servers::Server;

#[derive(Debug)]
pub(crate) struct Wrk {
    path: PathBuf,
}

/// What one run of wrk counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Outcome {
    pub requests: u64,
    pub seconds: f64,
}

impl Wrk {
    pub(crate) fn find() -> Result<Wrk, String> {
        packages::tool("wrk", "wrk").map(|path| Wrk { path })
    }

    /// Loads a server for some seconds. Any failed request is an error: figures of it would mean nothing.
    pub(crate) fn run(&self, server: &Server, row: &Row, seconds: u32) -> Result<Outcome, String> {
        let mut command = Command::new("taskset");
        command.args(["-c", "1"]).arg(&self.path);
        command.args(["-t", "1", "-c", &row.connections.to_string(), "-d", &format!("{seconds}s")]);
        if row.closes {
            command.args(["-H", "Connection: close"]);
        }
        if row.upload > 0 {
            let text = format!("wrk.method = \"POST\"\nwrk.body = string.rep(\"x\", {})\n", row.upload);
            command.arg("-s").arg(server.directory.write("upload.lua", text));
        }
        if let Some(field) = row.dated_field() {
            command.args(["-H", &field]);
        }
        let port = if row.deferred { &server.deferred } else { &server.plain };
        command.arg(format!("http://{}{}", port.address(), row.target));
        let output = command.output().map_err(|error| format!("wrk: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        parse(&text).ok_or_else(|| {
            let errors = String::from_utf8_lossy(&output.stderr);
            format!("{} {}: wrk says\n{text}{errors}", server.kind, row.name)
        })
    }
}

/// `  304050 requests in 3.10s, 64.96MB read`, without lines that tell of failures.
fn parse(text: &str) -> Option<Outcome> {
    if text.contains("Socket errors:") || text.contains("Non-2xx or 3xx responses:") {
        return None;
    }
    let line = text.lines().find(|line| line.contains(" requests in "))?;
    let mut words = line.split_whitespace();
    let requests = words.next()?.parse().ok().filter(|requests| *requests > 0)?;
    let seconds = duration(words.nth(2)?.trim_end_matches(','))?;
    Some(Outcome { requests, seconds })
}

fn duration(text: &str) -> Option<f64> {
    let number = |unit: &str| text.strip_suffix(unit)?.parse::<f64>().ok();
    number("ms").map(|ms| ms / 1e3).or_else(|| number("m").map(|m| m * 60.0)).or_else(|| number("s"))
}

/// The bytes of one response, head and body.
pub(crate) fn response_size(server: &Server, row: &Row) -> Result<usize, String> {
    let mut client = Client::connect(server.plain.address()).map_err(|error| error.to_string())?;
    client
        .try_send(request(
            "GET",
            row.target,
            &(row.dated_field().map_or(String::new(), |field| field + "\r\n") + "Connection: close\r\n"),
        ))
        .map_err(|error| error.to_string())?;
    let (bytes, end) = client.rest();
    end.map_err(|failure| failure.to_string())?;
    Ok(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_wrk_says() {
        let text = "  Latency  1ms\n  304050 requests in 3.10s, 64.96MB read\nRequests/sec: 98000.1\n";
        assert_eq!(parse(text), Some(Outcome { requests: 304_050, seconds: 3.1 }));
        assert_eq!(duration("1.50m"), Some(90.0));
        assert_eq!(duration("500.00ms"), Some(0.5));
    }

    #[test]
    fn failures_are_no_outcome() {
        let text =
            "  9 requests in 3.10s, 6MB read\n  Socket errors: connect 0, read 1, write 0, timeout 0\n";
        assert_eq!(parse(text), None);
        assert_eq!(parse("  9 requests in 3.10s, 6MB read\n  Non-2xx or 3xx responses: 9\n"), None);
        assert_eq!(parse("  0 requests in 3.10s, 0B read\n"), None);
    }
}
