//! A connection: one `async fn` from accept to close.
//!
//! ```text
//! accept -> (preread: the name that a TLS client asks for) -> connect, to one server after another -> pass
//! ```
//!
//! Whatever ends it, a [`Tunnel`] writes its line in the access log when it is dropped.

use std::io;
use std::rc::Rc;

use drover_event::{Asked, Carrying, Idle, Phase, PipeEnd, PipeTerms, Side, Stream, StreamError, pipe};
use drover_upstream::{Cause, Claim, Failure, Next, NoPeer};
use tracing::debug;

use crate::client_hello::{ClientHello, MESSAGE_MOST, Progress};
use crate::reason::CloseReason;
use crate::record::{Passed, Record};
use crate::server::WorkerState;

/// The most bytes of a client that are held back while it is not known where to pass them on to: a
/// ClientHello of the greatest length, spread over many records.
const PREREAD_MOST: usize = 2 * MESSAGE_MOST;

/// A client's connection, and the one to a server once there is one.
pub(crate) struct Tunnel {
    client: Stream,
    /// With the place that it takes among the server's connections.
    server: Option<(Stream, Claim)>,
    record: Record,
}

impl Tunnel {
    pub(crate) fn new(client: Stream, worker: Rc<WorkerState>, server: usize) -> Tunnel {
        let record = Record::new(worker, server, "TCP", client.peer(), client.number(), client.accepted_at());
        Tunnel { client, server: None, record }
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        let server = self.server.as_ref().map(|(server, _)| (server.bytes_received(), server.bytes_sent()));
        let (from_server, to_server) = server.unwrap_or_default();
        let passed = Passed {
            from_client: self.client.bytes_received(),
            to_client: self.client.bytes_sent(),
            from_server,
            to_server,
        };
        self.record.write(self.client.core(), passed, || self.client.local().ok().flatten());
    }
}

/// Serves a connection until it closes.
pub(crate) async fn serve(mut tunnel: Tunnel) {
    let reason = run(&mut tunnel).await;
    tunnel.client.close_because(reason);
    tunnel.record.reason = Some(reason);
}

async fn run(tunnel: &mut Tunnel) -> CloseReason {
    let mut first = Vec::new();
    // Boxed, so that the connections that pass bytes do not carry room for what comes before.
    if let Err(reason) = Box::pin(begin(tunnel, &mut first)).await {
        return reason;
    }
    pass(tunnel, first).await
}

/// Finds out where to, and connects.
async fn begin(tunnel: &mut Tunnel, first: &mut Vec<u8>) -> Result<(), CloseReason> {
    let server = tunnel.record.server();
    let upstream = match server.names.is_empty() {
        true => server.default,
        false => preread(tunnel, first).await?,
    };
    let upstream = upstream.ok_or(CloseReason::UnknownName)?;
    connect(tunnel, upstream).await
}

/// Receives until the name that the client asks for is known, or that it asks for none; tells which upstream
/// that means. What was received is left in `first`.
async fn preread(tunnel: &mut Tunnel, first: &mut Vec<u8>) -> Result<Option<usize>, CloseReason> {
    let Tunnel { client, record, .. } = tunnel;
    let mut hello = ClientHello::default();
    client.set_phase(Phase::ReadingHead);
    client.set_read_timeout(record.server().preread_timeout);
    loop {
        client.idle(Idle::First).await.map_err(|error| why_not_told(&error))?;
        let mut buffer = client.core().take_buffer();
        let count = match client.try_receive(&mut buffer) {
            Ok(0) => return Err(CloseReason::ClientGone),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(_) => return Err(CloseReason::ClientGone),
        };
        first.extend_from_slice(&buffer[..count]);
        let server = record.server();
        match hello.feed(&buffer[..count]) {
            Ok(Progress::Partial) if first.len() < PREREAD_MOST => {}
            Ok(Progress::Partial) => return Err(CloseReason::BadClientHello),
            Ok(Progress::NotTls | Progress::Whole(None)) => return Ok(server.default),
            Ok(Progress::Whole(Some(name))) => {
                let name = &hello.message()[name];
                let upstream = server.names.find(name).or(server.default);
                record.server_name = name.into();
                return Ok(upstream);
            }
            Err(fault) => {
                debug!(connection = record.number, "no name: {fault}");
                return Err(CloseReason::BadClientHello);
            }
        }
    }
}

fn why_not_told(error: &StreamError) -> CloseReason {
    match error {
        StreamError::TimedOut => CloseReason::PrereadTimeout,
        StreamError::Asked(Asked::Reclaim) => CloseReason::Reclaimed,
        StreamError::Asked(Asked::Drain) => CloseReason::Shutdown,
        StreamError::Io(_) => CloseReason::ClientGone,
    }
}

/// Connects to one server of the upstream after another, until one takes the connection.
async fn connect(tunnel: &mut Tunnel, upstream: usize) -> Result<(), CloseReason> {
    let Tunnel { client, server, record } = tunnel;
    let core = client.core();
    client.set_phase(Phase::WaitingUpstream);
    record.upstream = Some(upstream);
    let key = record.key(core, upstream, || client.local().ok().flatten());
    let group = Rc::clone(&record.worker.upstreams[upstream]);
    let mut attempts = group.begin(key);
    let mut last = None;
    loop {
        let claim = attempts
            .claim_resolved(core)
            .await
            .map_err(|none| last.unwrap_or_else(|| why_none(record, core, none)))?;
        record.tries(claim.peer());
        let began = core.now();
        match claim.connect(core, record.server().idle_timeout).await {
            Ok(lease) => {
                // That is all a server can be known by, whatever it speaks.
                lease.confirm();
                let (claim, stream) = lease.into_parts();
                record.connect_time = Some(core.now().since(began));
                *server = Some((stream, claim));
                return Ok(());
            }
            Err(failure) => {
                let address = &record.server().address;
                record.worker.complaints[record.server].complain(core, address, &failure);
                let reason = why_failed(&failure);
                if failure.next() != Next::Another {
                    return Err(reason);
                }
                last = Some(reason);
            }
        }
    }
}

/// Why no server can be tried at all.
fn why_none(record: &Record, core: &drover_event::Core, none: NoPeer) -> CloseReason {
    let address = &record.server().address;
    record.worker.complaints[record.server].complain(core, address, none);
    match none {
        NoPeer::Full => CloseReason::ServersFull,
        NoPeer::Exhausted | NoPeer::Down | NoPeer::Unresolved => CloseReason::NoServer,
    }
}

fn why_failed(failure: &Failure) -> CloseReason {
    match failure {
        Failure::NoPeer(_) => CloseReason::NoServer,
        Failure::Connect { cause: Cause::Local, .. } => CloseReason::NoSlot,
        Failure::Connect { cause, .. } if cause.is_timeout() => CloseReason::ConnectTimeout,
        Failure::Connect { .. } => CloseReason::ConnectRefused,
    }
}

/// Passes bytes both ways until the end.
async fn pass(tunnel: &Tunnel, first: Vec<u8>) -> CloseReason {
    let Some((server, _)) = &tunnel.server else { return CloseReason::InternalError };
    let config = tunnel.record.server();
    tunnel.client.set_phase(Phase::Tunnel);
    server.set_phase(Phase::Tunnel);
    let terms = PipeTerms {
        idle: config.idle_timeout,
        half_closed: config.half_closed_timeout,
        carrying: Carrying::Adaptive,
        first_to_right: first,
        rate_to_right: config.upload_rate,
        rate_to_left: config.download_rate,
    };
    match pipe(&tunnel.client, server, terms).await.end {
        PipeEnd::Finished => CloseReason::Finished,
        PipeEnd::TimedOut => CloseReason::IdleTimeout,
        PipeEnd::Failed(Side::Left, _) => CloseReason::ClientFailed,
        PipeEnd::Failed(Side::Right, _) => CloseReason::ServerFailed,
    }
}
