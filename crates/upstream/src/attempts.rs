//! Attempts: one request or connection of a service, and the servers tried for it.

use std::rc::Rc;
use std::time::Duration;

use drover_event::{Core, Millis};
use tracing::debug;

use crate::failure::{Cause, Failure, Next, NoPeer, Repeatable, Sent};
use crate::lease::{Claim, Lease};
use crate::peer::Peer;
use crate::peers::Peers;
use crate::upstream::Upstream;
use crate::words::Tally;

/// The most servers that one request tries.
pub const TRIES_MOST: usize = 16;

/// A connection that was used this long ago is not being closed by its server for having been idle: none
/// of the usual ones waits for less than 2 s.
const RECENT_MS: u64 = 1000;

/// Which connection an attempt may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Connection {
    /// A kept one, or a new one.
    Any,
    /// One that was used within the last second, or a new one: for what must not be sent twice. A server
    /// may be closing a connection that was idle for longer, and nobody could tell what it received.
    Recent,
    /// A new one.
    Fresh,
}

/// What was tried so far, and what may be tried next.
#[derive(Debug)]
pub struct Attempts {
    upstream: Rc<Upstream>,
    peers: Rc<Peers>,
    key: u64,
    /// The first `tried` are the numbers of peers that were tried.
    numbers: [u16; TRIES_MOST],
    tried: u8,
    /// The last peer is to be asked again, on a new connection.
    again: bool,
}

impl Attempts {
    pub(crate) fn new(upstream: &Rc<Upstream>, peers: Rc<Peers>, key: u64) -> Attempts {
        Attempts {
            upstream: Rc::clone(upstream),
            peers,
            key,
            numbers: [0; TRIES_MOST],
            tried: 0,
            again: false,
        }
    }

    /// How many peers were tried.
    pub fn tried(&self) -> usize {
        usize::from(self.tried)
    }

    /// Whether a further peer may be tried.
    pub fn may_try_another(&self) -> bool {
        self.tried() < self.upstream.tries().min(self.peers.count())
    }

    /// A connection with the next peer, whose read time-out is `read_timeout`. Neither waits nor allocates
    /// where a kept connection is there.
    ///
    /// # Errors
    /// There is no peer to try, or the one that was tried could not be connected to; that was counted
    /// against it, and [`Failure::next`] says whether to call this again.
    pub async fn next(
        &mut self,
        core: &Core,
        connection: Connection,
        read_timeout: Duration,
    ) -> Result<Lease, Failure> {
        let connection = if self.again { Connection::Fresh } else { connection };
        let claim = self.claim_resolved(core).await?;
        let claim = match claim.take_kept(core, connection, read_timeout) {
            Ok(lease) => return Ok(lease),
            Err(claim) => claim,
        };
        // Boxed, so that a request that finds a kept connection does not carry room for making one.
        Box::pin(claim.connect(core, read_timeout)).await
    }

    /// As [`Attempts::claim`], and waits for the first answer where no name has an address yet, at most for
    /// `connect_timeout`: so it is in a worker that has just started.
    ///
    /// # Errors
    /// There is no peer to try.
    pub async fn claim_resolved(&mut self, core: &Core) -> Result<Claim, NoPeer> {
        match self.claim(core.now()) {
            Err(NoPeer::Unresolved) => {}
            claim => return claim,
        }
        Box::pin(self.upstream.wait_for_names()).await;
        self.peers = self.upstream.peers();
        self.claim(core.now())
    }

    /// A place at the next peer, without a connection.
    ///
    /// # Errors
    /// There is no peer to try. [`NoPeer::Unresolved`] may be over in a moment.
    pub fn claim(&mut self, now: Millis) -> Result<Claim, NoPeer> {
        if std::mem::take(&mut self.again)
            && let Some(claim) = self.claim_again(now)
        {
            return Ok(claim);
        }
        if self.tried() >= self.upstream.tries() {
            return Err(NoPeer::Exhausted);
        }
        let tried = &self.numbers[..usize::from(self.tried)];
        let (number, claim) = self.upstream.choose(&self.peers, self.key, tried, now)?;
        self.numbers[usize::from(self.tried)] = number;
        self.tried += 1;
        Ok(claim)
    }

    fn claim_again(&self, now: Millis) -> Option<Claim> {
        let number = self.numbers[self.tried().checked_sub(1)?];
        Claim::new(&self.upstream, self.peers.get(number)?, now)
    }

    /// A connection failed while it was used: the failure is counted against the peer where it is the
    /// peer's, and the connection is closed. Says what may follow; [`Attempts::next`] acts on it.
    ///
    /// Something that came back is something that was received: `sent` is then [`Sent::Something`].
    pub fn failed(&mut self, lease: Lease, cause: Cause, sent: Sent, repeatable: Repeatable) -> Next {
        let now = lease.stream().core().now();
        let reused = lease.reused() && !lease.has_received();
        let next = cause.next(reused, sent, repeatable);
        self.again = next == Next::SameAgain;
        debug!("{}: {}, then {next:?}", lease.peer().name(), cause.name());
        if !(reused && matches!(cause, Cause::Closed | Cause::Reset)) {
            lease.claim().blame(cause, now);
        }
        self.allowed(next)
    }

    /// A claim without a connection failed; as [`Attempts::failed`].
    pub fn claim_failed(&mut self, claim: &Claim, cause: Cause, next: Next, now: Millis) -> Next {
        claim.blame(cause, now);
        self.allowed(next)
    }

    /// Another peer only where one may still be tried.
    fn allowed(&self, next: Next) -> Next {
        match next {
            Next::Another if !self.may_try_another() => Next::Stop,
            next => next,
        }
    }
}

impl Claim {
    /// A kept connection for this claim, if `connection` allows it; the claim back where there is none.
    ///
    /// # Errors
    /// The claim itself.
    pub fn take_kept(
        self,
        core: &Core,
        connection: Connection,
        read_timeout: Duration,
    ) -> Result<Lease, Claim> {
        let longest_idle = match connection {
            Connection::Any => u64::MAX,
            Connection::Recent => RECENT_MS,
            Connection::Fresh => return Err(self),
        };
        match self.upstream().take_kept(core, self.peer(), longest_idle, read_timeout) {
            Some((stream, requests)) => {
                self.peer().count(Tally::Reused, 1);
                Ok(Lease::new(self, stream, requests.saturating_add(1)))
            }
            None => Err(self),
        }
    }

    /// A new connection for this claim.
    ///
    /// # Errors
    /// [`Failure::Connect`]; it was counted against the peer where it is the peer's failure.
    pub async fn connect(self, core: &Core, read_timeout: Duration) -> Result<Lease, Failure> {
        let (source, timeout) = self.upstream().connecting();
        let peer: &Peer = self.peer();
        peer.count(Tally::Connects, 1);
        match core.connect(&peer.target, source, timeout).await {
            Ok(stream) => {
                stream.set_read_timeout(read_timeout);
                Ok(Lease::new(self, stream, 1))
            }
            Err(error) => {
                let cause = Cause::of_connect(&error);
                self.blame(cause, core.now());
                Err(Failure::Connect { error, cause })
            }
        }
    }
}
