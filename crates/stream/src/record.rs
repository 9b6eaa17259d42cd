//! What is known of one connection or session, from its beginning to the line in the log.

use std::net::SocketAddr;
use std::rc::Rc;

use drover_event::{Core, Millis, PeerAddress};
use drover_upstream::{Peer, hash_key};

use crate::plan::Server;
use crate::preread::Proxied;
use crate::reason::CloseReason;
use crate::server::WorkerState;
use crate::variables::{Facts, Template};

/// What is known of one connection or session.
pub(crate) struct Record {
    pub(crate) worker: Rc<WorkerState>,
    /// Number of the server, see [`Record::server`].
    pub(crate) server: usize,
    pub(crate) protocol: &'static str,
    /// Whom it is for; see [`Record::told`].
    pub(crate) client: PeerAddress,
    /// Who made it.
    pub(crate) peer_address: PeerAddress,
    /// Where the client connected to, as far as that is known.
    pub(crate) destination: Option<SocketAddr>,
    pub(crate) number: u64,
    pub(crate) began: Millis,
    /// Number of the upstream, once one is chosen.
    pub(crate) upstream: Option<usize>,
    /// The server that is, or was last, used.
    peer: Option<Rc<Peer>>,
    /// Names of those that were tried before, with `, ` after each.
    tried: Vec<u8>,
    pub(crate) connect_time: Option<u64>,
    /// The name that a TLS client asked for.
    pub(crate) server_name: Box<[u8]>,
    /// Why it ended; nothing yet where the worker ends it.
    pub(crate) reason: Option<CloseReason>,
}

/// Bytes that passed.
#[derive(Clone, Copy, Default)]
pub(crate) struct Passed {
    pub(crate) from_client: u64,
    pub(crate) to_client: u64,
    pub(crate) from_server: u64,
    pub(crate) to_server: u64,
}

impl Record {
    pub(crate) fn new(
        worker: Rc<WorkerState>,
        server: usize,
        protocol: &'static str,
        client: PeerAddress,
        number: u64,
        began: Millis,
    ) -> Record {
        Record {
            worker,
            server,
            protocol,
            client,
            peer_address: client,
            destination: None,
            number,
            began,
            upstream: None,
            peer: None,
            tried: Vec::new(),
            connect_time: None,
            server_name: Box::default(),
            reason: None,
        }
    }

    /// The proxy it came to.
    pub(crate) fn server(&self) -> &Server {
        &self.worker.plan.servers[self.server]
    }

    /// A server is tried.
    pub(crate) fn tries(&mut self, peer: &Rc<Peer>) {
        if let Some(before) = self.peer.replace(Rc::clone(peer)) {
            self.tried.extend_from_slice(before.name().as_bytes());
            self.tried.extend_from_slice(b", ");
        }
    }

    /// A proxy tells for whom it connects.
    pub(crate) fn told(&mut self, proxied: &Proxied) {
        self.client = PeerAddress::Internet(proxied.client);
        self.destination = Some(proxied.destination);
    }

    /// The key by which an upstream chooses a server; zero where it needs none.
    pub(crate) fn key(&self, core: &Core, upstream: usize) -> u64 {
        let text = self.worker.plan.upstreams[upstream].hash.as_ref();
        text.map_or(0, |text| hash_key(&self.render(core, text)))
    }

    /// A text with its values, as far as they are known.
    pub(crate) fn render(&self, core: &Core, text: &Template) -> Vec<u8> {
        let mut out = Vec::new();
        self.with_facts(core, Passed::default(), self.destination, true, |facts| {
            text.push_plain(facts, &mut out);
        });
        out
    }

    /// Writes the line in the log, if there is to be one.
    pub(crate) fn write(&self, core: &Core, passed: Passed, local: impl FnOnce() -> Option<SocketAddr>) {
        let Some(log) = &self.server().log else { return };
        let local = if log.needs_local { self.destination.or_else(local) } else { None };
        self.with_facts(core, passed, local, log.needs_time, |facts| {
            self.worker.logs.line(core, log.log, |line| log.format.push(facts, line));
        });
    }

    fn with_facts(
        &self,
        core: &Core,
        passed: Passed,
        local: Option<SocketAddr>,
        needs_time: bool,
        then: impl FnOnce(&Facts<'_>),
    ) {
        let unix_millis = u64::try_from(core.wall_clock().unix_millis()).unwrap_or(0);
        let mut time = self.worker.time.borrow_mut();
        let time = if needs_time { time.at((unix_millis / 1000) as i64) } else { &*time };
        let servers = match &self.peer {
            Some(peer) => [&self.tried, peer.name().as_bytes()].concat(),
            None => Vec::new(),
        };
        then(&Facts {
            protocol: self.protocol,
            client: self.client,
            peer: self.peer_address,
            local,
            pid: self.worker.pid,
            worker: self.worker.worker,
            connection: self.number,
            bytes_received: passed.from_client,
            bytes_sent: passed.to_client,
            session_time: core.now().since(self.began),
            upstream: self.upstream.map_or("", |upstream| self.worker.upstreams[upstream].name()),
            servers: &servers,
            upstream_bytes_received: passed.from_server,
            upstream_bytes_sent: passed.to_server,
            connect_time: self.connect_time,
            server_name: &self.server_name,
            reason: self.reason.unwrap_or_else(ended_from_outside),
            unix_millis,
            time_local: &time.common,
            time_iso8601: &time.iso8601,
        });
    }
}

/// What it means that something ended without a reason of its own.
fn ended_from_outside() -> CloseReason {
    if std::thread::panicking() { CloseReason::InternalError } else { CloseReason::Shutdown }
}
