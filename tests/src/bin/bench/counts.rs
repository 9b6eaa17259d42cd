//! System calls and instructions per request, each from a run of its own: counting changes the timing.

use std::ffi::OsString;

use drover_tests::http::Client;
use drover_tests::{Directory, eventually, packages, process, strace};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::rows::Row;
use crate::servers::{Files, Kind, Server};
use crate::wrk::Wrk;

/// Seconds of load under strace.
const TRACED: u32 = 2;

/// The system calls a worker makes per request under load.
pub(crate) fn system_calls(server: &Server, row: &Row, wrk: &Wrk) -> Result<f64, String> {
    let load = || wrk.run(server, row, TRACED);
    let (outcome, calls) = strace::count(&server.directory, server.worker, load)?;
    Ok(calls as f64 / outcome.requests as f64)
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
