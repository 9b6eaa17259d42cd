//! Claims and leases: what a service holds of a peer while it uses it.
//!
//! A [`Claim`] is a place among what the peer has under way; a [`Lease`] is a claim with a connection.
//! Both end in one of three ways: well, as a failure (through [`Attempts`](crate::Attempts), which says
//! what may follow), or dropped, which says nothing about the peer, as when the client went away.

use std::rc::Rc;

use drover_event::{Millis, Stream};
use tracing::{info, warn};

use crate::failure::{Cause, Fault};
use crate::passive;
use crate::peer::Peer;
use crate::upstream::Upstream;
use crate::words::Tally;

/// A place among the connections and requests of a peer. Services that make no connection, such as those
/// of datagrams, use it as it is.
#[derive(Debug)]
pub struct Claim {
    upstream: Rc<Upstream>,
    peer: Rc<Peer>,
    begun: Millis,
}

impl Claim {
    /// Takes a place, if there is one left.
    pub(crate) fn new(upstream: &Rc<Upstream>, peer: &Rc<Peer>, now: Millis) -> Option<Claim> {
        peer.acquire().then(|| {
            peer.count(Tally::Requests, 1);
            Claim { upstream: Rc::clone(upstream), peer: Rc::clone(peer), begun: now }
        })
    }

    /// Whose place it is.
    pub fn peer(&self) -> &Rc<Peer> {
        &self.peer
    }

    /// The upstream the peer belongs to.
    pub fn upstream(&self) -> &Rc<Upstream> {
        &self.upstream
    }

    /// The peer works: failures that were counted before are forgotten. To be said as early as it is
    /// known: when a response's head is there, or, where there are no responses, when the connection is.
    pub fn confirm(&self, now: Millis) {
        if passive::succeed(&self.peer.shared, &self.peer.rules, self.begun.as_u64(), now.as_u64()) {
            info!("upstream \"{}\": {} is used again", self.upstream.name(), self.peer.name());
        }
    }

    /// Counts a failure against the peer, if it was the server's.
    pub(crate) fn blame(&self, cause: Cause, now: Millis) {
        if cause.fault() != Fault::Server {
            return;
        }
        self.peer.count(Tally::Failures, 1);
        // The only one there is has to be asked whatever it did.
        if self.upstream.is_single() || self.peer.gone.get() {
            return;
        }
        if passive::fail(&self.peer.shared, &self.peer.rules, now.as_u64()) {
            warn!(
                "upstream \"{}\": {} is given up for {:?}: {}",
                self.upstream.name(),
                self.peer.name(),
                std::time::Duration::from_millis(self.peer.rules.fail_timeout_ms),
                cause.name()
            );
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.peer.release();
    }
}

/// A connection with a peer.
pub struct Lease {
    claim: Claim,
    stream: Stream,
    /// Requests that this connection has had, this one included.
    requests: u32,
    /// Bytes that had been received before this request.
    received_before: u64,
}

impl Lease {
    pub(crate) fn new(claim: Claim, stream: Stream, requests: u32) -> Lease {
        let received_before = stream.bytes_received();
        Lease { claim, stream, requests, received_before }
    }

    /// The connection.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Who is at its other end.
    pub fn peer(&self) -> &Rc<Peer> {
        &self.claim.peer
    }

    /// Whether anything came back for this request.
    pub fn has_received(&self) -> bool {
        self.stream.bytes_received() > self.received_before
    }

    /// Whether it had been used before: it may have been closed just now by a server that is well.
    pub fn reused(&self) -> bool {
        self.requests > 1
    }

    /// Which request of its connection this is, from 1.
    pub fn requests(&self) -> u32 {
        self.requests
    }

    /// The peer works; see [`Claim::confirm`].
    pub fn confirm(&self) {
        self.claim.confirm(self.stream.core().now());
    }

    /// All went well, and the connection can serve another request: everything was received and sent.
    /// It is kept if there is room, and closed otherwise.
    pub fn keep(self) {
        self.confirm();
        let Lease { claim, stream, requests, .. } = self;
        let Claim { upstream, peer, .. } = &claim;
        upstream.keep(peer, stream, requests);
    }

    /// All went well; the connection is closed.
    pub fn done(self) {
        self.confirm();
    }

    pub(crate) fn claim(&self) -> &Claim {
        &self.claim
    }

    /// The connection by itself, for what outlives the request: the place among the peer's connections
    /// stays taken until the claim is dropped.
    pub fn into_parts(self) -> (Claim, Stream) {
        (self.claim, self.stream)
    }
}
