//! What follows from a fault: whom it is counted against, what is logged, and whether the request is sent again.

use std::time::Duration;

use drover_event::{Counter, Millis};
use drover_upstream::{Attempts, Connection, Failure, Lease, Next, Repeatable, Sent};
use tracing::{debug, info, warn};

use super::exchange::Exchange;
use super::fault::{Blame, Fault, counter};

impl Exchange<'_> {
    /// Whether the request could be sent once more, to another server: from its first byte, and twice is as good
    /// as once.
    pub(super) fn may_repeat(&self) -> bool {
        !self.streamed.get() && self.proxy.retry.repeats(self.asked.head.method)
    }

    /// Which connection will do. Where the server turns out to have closed it, the request cannot be sent again
    /// if it must not arrive twice, or if some of it is no longer in memory.
    pub(super) fn connection(&self) -> Connection {
        match self.all_read && self.may_repeat() {
            _ if self.proxy.proxy_protocol.is_some() => Connection::Fresh,
            true => Connection::Any,
            false => Connection::Recent,
        }
    }

    /// Has a failure counted against the server where it was the server's, and asks what may follow.
    pub(super) fn blame(&mut self, attempts: &mut Attempts, lease: Lease, fault: &Fault) -> Next {
        let one = self.trail.last();
        one.ended(lease.stream().core().now());
        let Some(cause) = fault.cause() else { return Next::Stop };
        // A server acts on nothing before it has the whole head.
        let sent = match (one.sent as usize) < self.head_length {
            true => Sent::Nothing,
            false => Sent::Something,
        };
        let began = self.passed.status > 0;
        let repeatable = match !began && self.may_repeat() {
            true => Repeatable::Yes,
            false => Repeatable::No,
        };
        attempts.failed(lease, cause, sent, repeatable)
    }

    /// Whether another server is asked, or the same one again.
    pub(super) fn goes_on(&self, next: Next, fault: &Fault, begun: Millis) -> bool {
        let retry = &self.proxy.retry;
        let now = self.asked.on.stream.core().now();
        let in_time = retry.within.is_none_or(|within| Duration::from_millis(now.since(begun)) < within);
        match next {
            Next::Stop => false,
            // Nothing is wrong with a server that closes what is idle.
            Next::SameAgain => true,
            Next::Another => in_time && fault.cause().is_some_and(|cause| retry.allows(cause)),
        }
    }

    /// Takes note of what went wrong, and says so.
    #[cold]
    pub(super) fn note(&mut self, upstream: &str, fault: &Fault, goes_on: bool) {
        let on = self.asked.on;
        let stats = on.stream.core().stats();
        if let Some(cause) = fault.cause() {
            stats.add(counter(cause), 1);
        }
        if goes_on {
            stats.add(Counter::UpstreamRetries, 1);
        }
        let one = self.trail.last();
        one.fault = Some(fault.name());
        if let Fault::Connect(Failure::Connect { error, .. }) = fault {
            one.not_connected(&error.target);
        }
        let (number, server) = (on.stream.number(), one.server_name());
        let then = match (goes_on, self.passed.status) {
            (true, _) => "tried again".to_owned(),
            (false, 0) => format!("answered {}", fault.status()),
            (false, status) => format!("the response {status} is cut"),
        };
        match fault.blame() {
            Blame::Client => debug!(connection = number, "upstream {upstream}, {server}: {fault}, {then}"),
            _ if goes_on => info!(connection = number, "upstream {upstream}, {server}: {fault}, {then}"),
            _ => warn!(connection = number, "upstream {upstream}, {server}: {fault}, {then}"),
        }
    }
}
