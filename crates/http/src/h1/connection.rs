//! A connection: one `async fn` from accept to close.
//!
//! What usually happens needs no waiting and allocates nothing: readable, one receive, the answer made, one
//! send, idle again. That is [`Conversation::pass`]. Whatever must wait meanwhile (more of a head, a body, a
//! client that reads slowly, a large file, a delay) goes on in a boxed future, [`at_length`](super::at_length), so that an idle
//! connection's own future stays small.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use drover_event::{Asked, CloseReason, Idle, PeerAddress, Phase, Stream, StreamError};

use super::head::Head;
use super::remnant::Remnant;
use super::report::About;
use super::step::Step;
use super::work::Work;
use crate::access::TrustedProxies;
use crate::handler::files::open_file::{Content, OpenFile};
use crate::server::WorkerState;
use crate::variables::Facts;

/// A client's connection.
pub(crate) struct Conversation {
    pub(crate) stream: Stream,
    pub(crate) worker: Rc<WorkerState>,
    /// Number of the listener that accepted it.
    pub(crate) listener: usize,
    /// Requests so far.
    pub(crate) requests: u64,
    /// The worker drains: what is there is served, and nothing after it.
    draining: bool,
    /// The time-out for the head that is being received is set.
    pub(super) head_is_timed: bool,
    /// A header of the PROXY protocol is to come first.
    pub(super) awaits_proxy: bool,
    /// What it said.
    pub(super) proxied: Option<Box<Proxied>>,
    /// What was received of a head whose rest is waited for.
    pub(super) remnant: Option<Box<Remnant>>,
}

/// For whom a proxy has connected.
pub(crate) struct Proxied {
    /// The client.
    pub(crate) source: SocketAddr,
    /// Where it connected to.
    pub(crate) destination: SocketAddr,
}

/// How long an idle connection of a draining worker waits for a request that is on its way.
const DRAIN_GRACE: Duration = Duration::from_secs(1);

/// How a pass ended.
enum Pass {
    /// Nothing is left to do until the client sends.
    Idle,
    /// Nor is there before the rest of a head comes.
    Partial,
    Closed,
    /// Something must wait.
    AtLength(Box<Work>, Step),
}

/// Serves a connection until it closes.
#[expect(clippy::manual_async_fn, reason = "the future of an `async fn` has room for its argument twice")]
pub(crate) fn serve(mut on: Conversation) -> impl Future<Output = ()> {
    async move {
        on.stream.set_read_timeout(on.worker.plan.timeouts.header);
        on.head_is_timed = true;
        loop {
            let terms = if on.requests == 0 { Idle::First } else { Idle::Further };
            let more = if on.remnant.is_some() { on.stream.readable() } else { on.stream.idle(terms) }.await;
            let is_late = matches!(more, Err(StreamError::TimedOut)) && on.remnant.is_some();
            match more {
                Ok(()) => {}
                // A proxy that says nothing is no client to be answered.
                Err(StreamError::TimedOut) if is_late && !on.awaits_proxy => {}
                Err(StreamError::Asked(Asked::Drain)) => {
                    // The next request may be on its way: closing now would answer it with a reset. Who sends
                    // one soon gets an answer that says the connection closes.
                    on.draining = true;
                    on.stream.set_read_timeout(DRAIN_GRACE);
                    if on.stream.readable().await.is_err() {
                        on.stream.close_because(CloseReason::Drained);
                        return;
                    }
                }
                Err(_) => return,
            }
            match if is_late { on.give_up() } else { on.pass() } {
                Pass::Idle | Pass::Partial => {}
                Pass::Closed => return,
                Pass::AtLength(work, step) => {
                    let rest = Rc::clone(&on.worker).at_length.start((on, work, step));
                    let stays;
                    (on, stays) = rest.await;
                    if !stays {
                        return;
                    }
                }
            }
            if on.draining && on.remnant.is_none() {
                return;
            }
        }
    }
}

impl Conversation {
    pub(crate) fn new(stream: Stream, worker: Rc<WorkerState>, listener: usize) -> Conversation {
        let awaits_proxy = worker.plan.listeners[listener].proxy_protocol;
        Conversation {
            stream,
            worker,
            listener,
            requests: 0,
            draining: false,
            head_is_timed: false,
            awaits_proxy,
            proxied: None,
            remnant: None,
        }
    }

    /// Whether the request at hand is the connection's last for the worker's sake.
    #[inline]
    pub(crate) fn is_last(&self) -> bool {
        self.draining || self.stream.core().is_draining()
    }

    /// Receives once, answers what came, and sends once.
    #[inline]
    fn pass(&mut self) -> Pass {
        let mut work = self.worker.take_work(self.stream.core());
        self.take_up(&mut work);
        let before = work.filled;
        let pass = match self.stream.try_receive(&mut work.input[before..]) {
            Ok(count) if count > 0 => {
                work.filled += count;
                if before == 0 {
                    work.started = self.stream.core().now();
                }
                if self.awaits_proxy {
                    work.begin_with_proxy();
                }
                match self.answer_at_once(&mut work) {
                    Ok(pass) => pass,
                    Err(step) => return Pass::AtLength(work, step),
                }
            }
            // The receive was tried in the hope that something is there already.
            Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => {
                if before > 0 {
                    self.set_aside(&work);
                }
                Pass::Idle
            }
            Ok(_) | Err(_) => Pass::Closed,
        };
        self.worker.give_back(work);
        pass
    }

    /// Answers a client whose head took too long.
    #[cold]
    fn give_up(&mut self) -> Pass {
        let mut work = self.worker.take_work(self.stream.core());
        self.take_up(&mut work);
        work.answer_error(self, 408);
        match self.answer_at_once(&mut work) {
            Ok(pass) => {
                self.worker.give_back(work);
                pass
            }
            Err(step) => Pass::AtLength(work, step),
        }
    }

    /// Answers without waiting; fails with the step that must wait.
    // The compiler would not, for the sake of the one cold caller.
    #[inline(always)]
    fn answer_at_once(&mut self, work: &mut Work) -> Result<Pass, Step> {
        loop {
            let step = work.advance(self);
            let pass = match &step {
                Step::Receive if work.is_drained() => Pass::Idle,
                Step::Receive => Pass::Partial,
                Step::Close { linger: false } => Pass::Closed,
                Step::Send(file, range) if self.send_at_once(work, file, range) => {
                    work.finish(self, range.end - range.start);
                    continue;
                }
                _ => return Err(step),
            };
            return match self.send_output(work) {
                Ok(true) => {
                    match pass {
                        Pass::Idle => self.wait_for_further(),
                        Pass::Partial => self.set_aside(work),
                        Pass::Closed | Pass::AtLength(..) => {}
                    }
                    Ok(pass)
                }
                Ok(false) => Err(step),
                Err(_) => Ok(Pass::Closed),
            };
        }
    }

    /// Sends the output with one call; false where that did not do it all.
    #[inline]
    fn send_output(&self, work: &mut Work) -> io::Result<bool> {
        let output = &work.output[work.sent..];
        if output.is_empty() {
            return Ok(true);
        }
        match self.stream.try_send(output, false) {
            Ok(count) => {
                work.sent += count;
                Ok(work.sent == work.output.len())
            }
            Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    /// Sends the output and a part of a file from memory with one call. False where that did not do it all;
    /// then nothing of the file counts as sent.
    fn send_at_once(&self, work: &mut Work, file: &OpenFile, range: &Range<u64>) -> bool {
        let Content::Memory(bytes) = &file.content else { return false };
        let part = &bytes[range.start as usize..range.end as usize];
        let output = &work.output[work.sent..];
        let whole = output.len() + part.len();
        match self.stream.try_send_vectored(&[IoSlice::new(output), IoSlice::new(part)], false) {
            Ok(count) if count == whole => {
                work.output.clear();
                work.sent = 0;
                true
            }
            Ok(count) => {
                // What of the part went out is made up for: the rest joins the output, as if it were all head.
                let of_output = count.min(output.len());
                work.sent += of_output;
                let left = &part[count - of_output..];
                work.output.extend_from_slice(left);
                true
            }
            Err(_) => false,
        }
    }

    /// The connection may stay, idle, for the keep-alive time.
    #[inline]
    pub(super) fn wait_for_further(&mut self) {
        if self.requests == 0 {
            // Only what stands before the first head has come: the time for that goes on.
            return;
        }
        self.stream.set_phase(Phase::Idle);
        self.stream.set_read_timeout(self.worker.plan.timeouts.keepalive);
        self.head_is_timed = false;
    }

    /// Whose connection this is: that of who is at the other end, or for whom that one has connected.
    pub(crate) fn peer(&self) -> PeerAddress {
        self.proxied.as_ref().map_or_else(|| self.stream.peer(), |own| PeerAddress::Internet(own.source))
    }

    /// The same; none on a unix socket.
    pub(crate) fn peer_address(&self) -> Option<SocketAddr> {
        internet(self.peer())
    }

    /// The address that the client connected to; none on a unix socket.
    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        match &self.proxied {
            Some(proxied) => Some(proxied.destination),
            None => self.stream.local().ok().flatten(),
        }
    }

    /// The client's address: whose the connection is, or what proxies that are trusted say of it.
    pub(crate) fn client_address(&self, head: Option<&Head>, bytes: &[u8]) -> Option<SocketAddr> {
        let peer = self.peer_address();
        match (&self.worker.plan.trusted, head) {
            (Some(trusted), Some(head)) => trusted.client(peer, head, bytes),
            _ => peer,
        }
    }

    /// Whether the peer is a proxy whose word is taken: it knows how the client came.
    pub(crate) fn is_from_gateway(&self) -> bool {
        let trusts = |trusted: &TrustedProxies| trusted.has(self.peer_address().map(|peer| peer.ip()));
        self.proxied.is_some() || self.worker.plan.trusted.as_ref().is_some_and(trusts)
    }

    /// Calls `then` with what is known about a request.
    pub(crate) fn with_facts(
        &self,
        about: &About<'_>,
        needs_local: bool,
        needs_time: bool,
        then: impl FnOnce(&Facts<'_>),
    ) {
        let core = self.stream.core();
        let unix_millis = u64::try_from(core.wall_clock().unix_millis()).unwrap_or(0);
        let mut time = self.worker.time.borrow_mut();
        let time = if needs_time { time.at((unix_millis / 1000) as i64) } else { &*time };
        let plan = &*self.worker.plan;
        then(&Facts {
            head: about.head,
            bytes: about.bytes,
            values: about.values,
            groups: &about.values.groups,
            ids: &self.worker.ids,
            remote: self.client_address(about.head, about.bytes),
            peer: internet(self.stream.peer()),
            proxied: self.proxied.as_ref().map(|proxied| (proxied.source, proxied.destination)),
            local: if needs_local { self.local_address() } else { None },
            pid: self.worker.pid,
            worker: self.worker.worker,
            connection: self.stream.number(),
            close_reason: self.stream.close_reason(),
            connection_requests: self.requests,
            server_name: &plan.servers[about.server].name,
            root: plan.locations.get(about.location).map_or(b"", |location| &location.root),
            status: 0,
            bytes_sent: 0,
            body_bytes_sent: 0,
            request_length: about.length,
            sent_head: b"",
            trail: None,
            request_time: core.now().since(about.started),
            unix_millis,
            time_local: &time.common,
            time_iso8601: &time.iso8601,
        });
    }
}

pub(super) fn internet(peer: PeerAddress) -> Option<SocketAddr> {
    match peer {
        PeerAddress::Internet(address) => Some(address),
        PeerAddress::Unix => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<F: Future>(_: fn(Conversation) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn an_idle_connection_is_small() {
        let size = size_of_future(serve);
        assert!(size <= 160, "an idle connection's future has {size} bytes");
    }
}
