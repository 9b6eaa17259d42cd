//! A session of datagrams: one `async fn` from its first datagram to its end.
//!
//! A server is chosen as for a connection, but nobody answers a call: that a server is not there is known
//! only once something was sent and the network says so (ICMP). Then the next server is tried, with what is
//! still unanswered.

use std::rc::Rc;
use std::task::Poll;

use drover_event::{Asked, Core, DatagramSocket, Idle, PeerAddress, Phase, Session, StreamError, Target};
use drover_service::limits::Held;
use drover_upstream::proxy_protocol::{Header, encode};
use drover_upstream::{Attempts, Cause, Claim, Next, NoPeer};

use crate::reason::CloseReason;
use crate::record::{Passed, Record};
use crate::server::WorkerState;

/// The most datagrams that are kept until something comes back, for the case that another server has to be
/// tried. Behind them the client's own repetition has to do.
const UNANSWERED_MOST: usize = 8;

/// A client's session, and the socket to a server once there is one.
pub(crate) struct Exchange {
    session: Session,
    /// With the place that the session takes among what the server has.
    server: Option<(DatagramSocket, Claim)>,
    record: Record,
    /// Datagrams of the client.
    requests: u64,
    /// Datagrams of servers.
    responses: u64,
    /// Sent since something last came back; kept where another server may be tried.
    unanswered: Vec<Vec<u8>>,
    /// Bytes from and to servers that were given up.
    before: (u64, u64),
    /// What stands before each datagram to a server: who the client is. Empty without it.
    header: Vec<u8>,
    /// Its places among the sessions that limits allow.
    held: Vec<Held>,
}

/// What ends the use of one server.
enum Over {
    Session(CloseReason),
    /// The server failed: the network said that it is not there.
    Server,
}

impl Exchange {
    pub(crate) fn new(session: Session, worker: Rc<WorkerState>, listener: usize) -> Exchange {
        let server = worker.plan.listeners[listener].server;
        let (client, number, began) = (session.peer(), session.number(), session.began_at());
        let mut record = Record::new(worker, server, "UDP", client, number, began);
        record.destination = session.local_address();
        Exchange {
            session,
            server: None,
            record,
            requests: 0,
            responses: 0,
            unanswered: Vec::new(),
            before: (0, 0),
            header: Vec::new(),
            held: Vec::new(),
        }
    }

    /// Counts what passed to and from the present server, and closes its socket.
    fn leave_server(&mut self) -> Option<Claim> {
        let (socket, claim) = self.server.take()?;
        self.before.0 += socket.bytes_received();
        self.before.1 += socket.bytes_sent();
        Some(claim)
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        drop(self.leave_server());
        let passed = Passed {
            from_client: self.session.bytes_received(),
            to_client: self.session.bytes_sent(),
            from_server: self.before.0,
            to_server: self.before.1,
        };
        self.record.write(self.session.core(), passed, || self.session.local_address());
    }
}

/// Serves a session until it ends.
pub(crate) async fn serve(mut exchange: Exchange) {
    exchange.session.set_phase(Phase::Tunnel);
    exchange.session.set_timeout(exchange.record.server().idle_timeout);
    let reason = run(&mut exchange).await;
    exchange.session.close_because(reason);
    exchange.record.reason = Some(reason);
}

async fn run(exchange: &mut Exchange) -> CloseReason {
    // The check of the config sees to it that there is one.
    let Some(upstream) = exchange.record.server().default else { return CloseReason::NoServer };
    let core = exchange.session.core().clone();
    if let Err(reason) = exchange.admit(&core) {
        return reason;
    }
    exchange.introduce();
    exchange.record.upstream = Some(upstream);
    let key = exchange.record.key(&core, upstream);
    let group = Rc::clone(&exchange.record.worker.upstreams[upstream]);
    let keeps = exchange.record.worker.plan.upstreams[upstream].has_several;
    let mut attempts = group.begin(key);
    let mut last = None;
    loop {
        if let Err(reason) = exchange.choose(&core, &mut attempts).await {
            return last.unwrap_or(reason);
        }
        match std::future::poll_fn(|_| exchange.poll(keeps)).await {
            Over::Session(reason) => return reason,
            Over::Server => {
                let Some(claim) = exchange.leave_server() else { return CloseReason::InternalError };
                exchange.complain(&core, &claim);
                last = Some(CloseReason::ConnectRefused);
                if attempts.claim_failed(&claim, Cause::Refused, Next::Another, core.now()) != Next::Another {
                    return CloseReason::ConnectRefused;
                }
            }
        }
    }
}

impl Exchange {
    /// Lets the client in or not, and counts the session towards the limits that apply.
    fn admit(&mut self, core: &Core) -> Result<(), CloseReason> {
        let server = self.record.server();
        if !server.lets_in(self.record.client) {
            return Err(CloseReason::Refused);
        }
        if !server.limits.is_empty() {
            let held = self.record.worker.plan.limits.admit(core, &server.limits, &self.record);
            self.held = held.ok_or(CloseReason::Refused)?;
        }
        Ok(())
    }

    /// Makes the header that tells servers who the client is, if they are to be told.
    fn introduce(&mut self) {
        let Some(version) = self.record.server().proxy_protocol else { return };
        let source = match self.record.client {
            PeerAddress::Internet(address) => Some(address),
            PeerAddress::Unix => None,
        };
        self.header = encode(version, &Header::for_datagrams(source, self.record.destination)).to_vec();
    }

    /// Makes a socket to the next server, and sends what is unanswered.
    async fn choose(&mut self, core: &Core, attempts: &mut Attempts) -> Result<(), CloseReason> {
        let claim = attempts.claim_resolved(core).await.map_err(|none| self.why_none(core, none))?;
        self.record.tries(claim.peer());
        let Target::Internet(address) = *claim.peer().target() else { return Err(CloseReason::NoServer) };
        let source = claim.upstream().plan().config().source.map(|source| source.socket_address());
        let socket = core.connect_datagrams(address, source).map_err(|error| {
            let proxy = &self.record.server().address;
            self.record.worker.complaints[self.record.server].complain(core, proxy, error);
            CloseReason::NoSlot
        })?;
        self.record.connect_time = Some(0);
        for datagram in &self.unanswered {
            // A failure is met again by what follows.
            let _ = socket.send(datagram);
        }
        self.server = Some((socket, claim));
        Ok(())
    }

    fn why_none(&self, core: &Core, none: NoPeer) -> CloseReason {
        let proxy = &self.record.server().address;
        self.record.worker.complaints[self.record.server].complain(core, proxy, none);
        match none {
            NoPeer::Full => CloseReason::ServersFull,
            NoPeer::Exhausted | NoPeer::Down | NoPeer::Unresolved => CloseReason::NoServer,
        }
    }

    fn complain(&self, core: &Core, claim: &Claim) {
        let proxy = &self.record.server().address;
        let why = format_args!("{}: nobody is there", claim.peer().name());
        self.record.worker.complaints[self.record.server].complain(core, proxy, why);
    }

    /// Passes on what there is.
    fn poll(&mut self, keeps: bool) -> Poll<Over> {
        if let Poll::Ready(over) = self.pass_requests(keeps) {
            return Poll::Ready(over);
        }
        if let Poll::Ready(over) = self.pass_responses() {
            return Poll::Ready(over);
        }
        if self.is_complete() { Poll::Ready(Over::Session(CloseReason::Finished)) } else { Poll::Pending }
    }

    fn pass_requests(&mut self, keeps: bool) -> Poll<Over> {
        let Some((server, _)) = &self.server else {
            return Poll::Ready(Over::Session(CloseReason::InternalError));
        };
        let (idle_timeout, most) = (self.record.server().idle_timeout, self.record.server().requests);
        let mut datagram = Vec::new();
        loop {
            match self.session.poll_receive(&mut datagram, Some(Idle::First)) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Over::Session(why_over(&error))),
            }
            self.session.set_timeout(idle_timeout);
            self.requests += 1;
            if self.requests == most {
                self.session.detach();
            }
            if !self.header.is_empty() {
                datagram.splice(..0, self.header.iter().copied());
            }
            let sent = server.send(&datagram);
            if keeps && self.unanswered.len() < UNANSWERED_MOST {
                self.unanswered.push(std::mem::take(&mut datagram));
            }
            if sent.is_err() {
                return Poll::Ready(Over::Server);
            }
        }
    }

    fn pass_responses(&mut self) -> Poll<Over> {
        let Some((server, claim)) = &self.server else {
            return Poll::Ready(Over::Session(CloseReason::InternalError));
        };
        loop {
            let count = match server.poll_receive(|bytes| self.session.send(bytes)) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(count)) => count,
                Poll::Ready(Err(_)) => return Poll::Ready(Over::Server),
            };
            if self.responses == 0 {
                claim.confirm(self.session.core().now());
            }
            self.responses += count as u64;
            self.unanswered.clear();
            self.session.set_timeout(self.record.server().idle_timeout);
        }
    }

    /// Whether all questions have the answers that there are to be.
    fn is_complete(&self) -> bool {
        let server = self.record.server();
        let more_may_come = server.requests > 0 && self.requests < server.requests;
        !more_may_come && server.responses.is_some_and(|each| self.responses >= each * self.requests)
    }
}

fn why_over(error: &StreamError) -> CloseReason {
    match error {
        StreamError::TimedOut => CloseReason::IdleTimeout,
        StreamError::Asked(Asked::Reclaim) => CloseReason::Reclaimed,
        StreamError::Asked(Asked::Drain) => CloseReason::Shutdown,
        StreamError::Io(_) => CloseReason::ClientFailed,
    }
}
