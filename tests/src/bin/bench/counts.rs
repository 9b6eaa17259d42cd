//! System calls and instructions per request, each from a run of its own: counting changes the timing.

use std::ffi::OsString;
use std::process::{Command, Stdio};

use drover_tests::http::Client;
use drover_tests::{Directory, eventually, packages, process};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::rows::Row;
use crate::servers::{Files, Kind, Server};
use crate::wrk::Wrk;

/// Seconds of load under strace.
const TRACED: u32 = 2;

/// The system calls a worker makes per request under load.
pub(crate) fn system_calls(server: &Server, row: &Row, wrk: &Wrk) -> Result<f64, String> {
    let strace = packages::tool("strace", "strace")?;
    let (table, said) = (server.directory.join("calls.txt"), server.directory.join("strace.txt"));
    let errors = std::fs::File::create(&said).map_err(|error| error.to_string())?;
    let mut child = Command::new(strace)
        .args(["-c", "-f", "-p", &server.worker.to_string(), "-o"])
        .arg(&table)
        .stdin(Stdio::null())
        .stderr(errors)
        .spawn()
        .map_err(|error| format!("strace: {error}"))?;
    eventually("strace attaches", || {
        let attached = std::fs::read_to_string(&said).is_ok_and(|text| text.contains("attached"));
        (attached || child.try_wait().is_ok_and(|ended| ended.is_some())).then_some(())
    });
    let outcome = wrk.run(server, row, TRACED);
    process::send(Pid::from_raw(child.id() as i32), Signal::SIGINT);
    child.wait().map_err(|error| error.to_string())?;
    let text = std::fs::read_to_string(&table).map_err(|error| format!("strace: {error}"))?;
    let calls = total_calls(&text).ok_or_else(|| format!("strace says\n{text}"))?;
    Ok(calls as f64 / outcome?.requests as f64)
}

/// `100.00    1.234567           1   1234567        12 total`
fn total_calls(table: &str) -> Option<u64> {
    let line = table.lines().find(|line| line.trim_end().ends_with(" total"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

/// The instructions a worker executes outside the kernel for one request: those of a run with many requests,
/// less those of a run with few, so that starting and stopping cancel out.
pub(crate) fn instructions(kind: Kind, row: &Row, files: &Files) -> Result<f64, String> {
    let few = row.counted / 4;
    let spent = |requests| counted_run(kind, row, files, requests);
    Ok((spent(few + row.counted)? - spent(few)?) as f64 / f64::from(row.counted))
}

/// All the instructions of a worker that served this many requests, from its start to its end.
fn counted_run(kind: Kind, row: &Row, files: &Files, requests: u32) -> Result<i64, String> {
    let valgrind = packages::tool("valgrind", "valgrind")?;
    let output = Directory::new();
    output.set_mode("", 0o777);
    // By the environment: a server that sets its title may write over valgrind's arguments.
    let mut options = OsString::from("VALGRIND_OPTS=--callgrind-out-file=");
    options.push(output.join("out.%p"));
    let wrapper = ["env".into(), options, valgrind.into(), "--quiet".into(), "--tool=callgrind".into()];
    let server = Server::start(kind, files, &wrapper)?;
    let worker = server.worker;
    ask(&server, row, requests)?;
    server.stop();
    let name = format!("out.{worker}");
    let total = |line: &str| {
        line.strip_prefix("summary: ").or_else(|| line.strip_prefix("totals: "))?.trim().parse().ok()
    };
    let text = eventually("callgrind writes its result", || {
        Some(output.read(&name)).filter(|text| text.contains("totals: "))
    });
    text.lines().find_map(total).ok_or_else(|| "callgrind tells no total".to_owned())
}

fn stop(worker: Pid) {
    process::send(worker, Signal::SIGSTOP);
    eventually("the worker stands still", || (process::state(worker) == Some('T')).then_some(()));
}

/// Asks as wrk does: on as many connections, kept or one for each request. The worker stands still while a request
/// goes out on each of them, as if it were busy: so it finds the same at each turn, whatever else the machine does.
fn ask(server: &Server, row: &Row, requests: u32) -> Result<(), String> {
    let port = if row.deferred { &server.deferred } else { &server.plain };
    let request = row.request();
    let connect = || Client::connect(port.address()).map_err(|error| error.to_string());
    let mut clients: Vec<Client> = Vec::new();
    let mut left = requests;
    while left > 0 {
        let at_once = left.min(row.connections);
        if row.closes {
            clients.clear();
        }
        stop(server.worker);
        while clients.len() < at_once as usize {
            clients.push(connect()?);
        }
        let asked = &mut clients[..at_once as usize];
        asked
            .iter_mut()
            .try_for_each(|client| client.try_send(&request))
            .map_err(|error| error.to_string())?;
        process::send(server.worker, Signal::SIGCONT);
        for client in asked {
            let response = client.receive(true).map_err(|failure| failure.to_string())?;
            if !matches!(response.status, 200 | 206 | 302 | 304) {
                return Err(format!("status {} under callgrind", response.status));
            }
        }
        left -= at_once;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_total_of_strace() {
        let table = "% time     seconds  usecs/call     calls    errors syscall\n\
            ------ ----------- ----------- --------- --------- ----------------\n \
            60.00    0.000600           1       600           recvfrom\n \
            ------ ----------- ----------- --------- --------- ----------------\n\
            100.00    0.001000           1      1000         2 total\n";
        assert_eq!(total_calls(table), Some(1000));
    }
}
