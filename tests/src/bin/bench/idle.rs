//! The row without a load: what a worker's memory grows by for each connection that is open and idle.

use drover_tests::http::Client;
use drover_tests::process;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::servers::{Kind, Server};

/// How the row is chosen on the command line.
pub(crate) const NAME: &str = "idle";

/// How many connections are held open.
pub(crate) const CONNECTIONS: usize = 10_000;

/// Connections whose requests are under way at a time.
const AT_ONCE: usize = 200;

/// Bytes of the worker's own memory for each idle connection. One request was answered on each.
pub(crate) fn bytes_each(server: &Server) -> Result<f64, String> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(|error| error.to_string())?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map_err(|error| error.to_string())?;
    let memory = || process::private_dirty(server.worker).ok_or("the worker is gone".to_owned());
    // What every load needs once.
    drop(connect(server, AT_ONCE)?);
    let before = memory()?;
    let held = connect(server, CONNECTIONS)?;
    let after = memory()?;
    drop(held);
    Ok(after.saturating_sub(before) as f64 / CONNECTIONS as f64)
}

fn connect(server: &Server, count: usize) -> Result<Vec<Client>, String> {
    let target = match server.kind {
        Kind::Drover | Kind::Nginx => "/return",
        Kind::H2o => "/1k.txt",
        Kind::Haproxy => "/pass/return",
    };
    let mut clients = Vec::with_capacity(count);
    while clients.len() < count {
        let begin = clients.len();
        for _ in begin..count.min(begin + AT_ONCE) {
            let mut client = Client::connect(server.plain.address()).map_err(|error| error.to_string())?;
            client
                .try_send(drover_tests::http::request("GET", target, ""))
                .map_err(|error| error.to_string())?;
            clients.push(client);
        }
        for client in &mut clients[begin..] {
            client.receive(true).map_err(|failure| failure.to_string())?;
        }
    }
    Ok(clients)
}
