//! A session of datagrams: one `async fn` from its first datagram to its end.
//!
//! A server is chosen as for a connection, but nobody answers a call: that a server is not there is known
//! only once something was sent and the network says so (ICMP). Then the next server is tried, with what is
//! still unanswered.

use std::rc::Rc;
use std::task::Poll;

use drover_event::{Asked, Core, DatagramSocket, Idle, Phase, Session, StreamError, Target};
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
}

/// What ends the use of one server.
enum Over {
    Session(CloseReason),
    /// The server failed: the network said that it is not there.
    Server,
}

impl Exchange {
    pub(crate) fn new(session: Session, worker: Rc<WorkerState>, server: usize) -> Exchange {
        let (client, number, began) = (session.peer(), session.number(), session.began_at());
        let record = Record::new(worker, server, "UDP", client, number, began);
        let (requests, responses, unanswered, before) = (0, 0, Vec::new(), (0, 0));
        Exchange { session, server: None, record, requests, responses, unanswered, before }
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
    exchange.record.upstream = Some(upstream);
    let key = exchange.record.key(&core, upstream, || exchange.session.local_address());
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
