//! CPU time and rate of one server in one row.

use std::time::Duration;

use drover_tests::process;
use drover_tests::rounds::{Round, Rounds};

use crate::rows::Row;
use crate::servers::Server;
use crate::wrk::Wrk;

/// All that was found of one server in one row.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub rounds: Rounds,
    /// System calls a request.
    pub calls: Option<f64>,
    /// Instructions outside the kernel a request.
    pub instructions: Option<f64>,
    /// Bytes of a response, head and body.
    pub response_bytes: usize,
}

/// Loads a server for some seconds and reads what its worker used meanwhile.
pub(crate) fn measure(server: &Server, row: &Row, wrk: &Wrk, seconds: u32) -> Result<Round, String> {
    let gone = || format!("the worker of {} is gone", server.kind);
    let before = process::cpu_time(server.worker).ok_or_else(gone)?;
    let outcome = wrk.run(server, row, seconds)?;
    let used = process::cpu_time(server.worker).ok_or_else(gone)?.since(before);
    let a_request = |time: Duration| time.as_secs_f64() * 1e6 / outcome.requests as f64;
    Ok(Round {
        user: a_request(used.user),
        system: a_request(used.system),
        rate: outcome.requests as f64 / outcome.seconds,
    })
}
