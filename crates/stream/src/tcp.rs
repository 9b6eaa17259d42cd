//! A connection: one `async fn` from accept to close.
//!
//! ```text
//! accept -> (preread: for whom a proxy connects, the name that a TLS client asks for)
//!        -> limits -> connect, to one server after another -> pass
//! ```
//!
//! Whatever ends it, a [`Tunnel`] writes its line in the access log when it is dropped.

use std::rc::Rc;

use drover_event::{Carrying, PeerAddress, Phase, PipeEnd, PipeTerms, Side, Stream, pipe};
use drover_service::Probes;
use drover_service::limits::Held;
use drover_upstream::proxy_protocol::{Header, Version, encode};
use drover_upstream::{Cause, Claim, Failure, Next, NoPeer};

use crate::plan::Server;
use crate::preread::Preread;
use crate::reason::CloseReason;
use crate::record::{Passed, Record};
use crate::server::WorkerState;

/// A client's connection, and the one to a server once there is one.
pub(crate) struct Tunnel {
    client: Stream,
    /// With the place that it takes among the server's connections.
    server: Option<(Stream, Claim)>,
    record: Record,
    /// Number of the listener.
    listener: usize,
    /// Its places among the connections that limits allow.
    held: Vec<Held>,
}

impl Tunnel {
    pub(crate) fn new(client: Stream, worker: Rc<WorkerState>, listener: usize) -> Tunnel {
        let server = worker.plan.listeners[listener].server;
        let record = Record::new(worker, server, "TCP", client.peer(), client.number(), client.accepted_at());
        Tunnel { client, server: None, record, listener, held: Vec::new() }
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

/// Finds out for whom and where to, and connects. What is to be sent first is left in `first`.
async fn begin(tunnel: &mut Tunnel, first: &mut Vec<u8>) -> Result<(), CloseReason> {
    let Tunnel { client, record, held, listener, .. } = tunnel;
    let worker = Rc::clone(&record.worker);
    let listener = &worker.plan.listeners[*listener];
    let server = &worker.plan.servers[listener.server];
    if worker.plan.needs_local {
        record.destination = client.local().ok().flatten();
    }
    let mut upstream = server.default;
    if listener.proxy_protocol || !server.names.is_empty() {
        let mut preread = Preread::new(client, server);
        if listener.proxy_protocol
            && let Some(proxied) = preread.proxied().await?
        {
            record.told(&proxied);
        }
        *held = admit(client, record, server)?;
        if !server.names.is_empty()
            && let Some(name) = preread.server_name().await?
        {
            upstream = server.names.find(&name).or(upstream);
            record.server_name = name;
        }
        *first = preread.into_bytes();
    } else {
        *held = admit(client, record, server)?;
    }
    if let Some(version) = server.proxy_protocol {
        introduce(client, record, version, first);
    }
    connect(tunnel, upstream.ok_or(CloseReason::UnknownName)?).await
}

/// Lets the client in or not, and counts the connection towards the limits that apply.
fn admit(client: &Stream, record: &Record, server: &Server) -> Result<Vec<Held>, CloseReason> {
    if !server.lets_in(record.client) {
        return Err(CloseReason::Refused);
    }
    if server.limits.is_empty() {
        return Ok(Vec::new());
    }
    let limits = &record.worker.plan.limits;
    limits.admit(client.core(), &server.limits, record).ok_or(CloseReason::Refused)
}

/// Puts the header that tells a server who the client is before what the client sent.
fn introduce(client: &Stream, record: &Record, version: Version, first: &mut Vec<u8>) {
    let source = match record.client {
        PeerAddress::Internet(address) => Some(address),
        PeerAddress::Unix => None,
    };
    let destination = record.destination.or_else(|| client.local().ok().flatten());
    let header = encode(version, &Header::for_stream(source, destination));
    first.splice(..0, header.iter().copied());
}

/// Connects to one server of the upstream after another, until one takes the connection.
async fn connect(tunnel: &mut Tunnel, upstream: usize) -> Result<(), CloseReason> {
    let Tunnel { client, server, record, .. } = tunnel;
    let core = client.core();
    client.set_phase(Phase::WaitingUpstream);
    record.upstream = Some(upstream);
    let key = record.key(core, upstream);
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
                if let Some(Probes { idle, interval, count }) = record.server().server_probes {
                    // A connection that cannot be probed is one all the same.
                    let _ = stream.probe_silent_peer(idle, interval, count);
                }
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
