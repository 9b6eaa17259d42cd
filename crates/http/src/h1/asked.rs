//! The request at hand, as its handler is to see it.

use drover_event::Millis;

use super::connection::Conversation;
use super::head::Head;
use super::report::About;
use crate::exchange::Request;
use crate::response::Fate;
use crate::variables::Variable;

/// A request whose head is parsed, on the connection it came on.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) on: &'a Conversation,
    pub(crate) head: &'a Head,
    /// The bytes the head was parsed from.
    pub(crate) bytes: &'a [u8],
    /// Number of the server it is for.
    pub(crate) server: usize,
    /// When its first byte was received.
    pub(crate) started: Millis,
    /// Its bytes so far.
    pub(crate) length: u64,
}

impl Asked<'_> {
    /// Calls `then` with the request, at whose answer the connection has this `fate`.
    #[inline]
    pub(crate) fn with_request<T>(&self, fate: Fate, then: impl FnOnce(&Request<'_>) -> T) -> T {
        let Asked { on, head, bytes, server, started, length } = *self;
        let wall = on.stream.core().wall_clock();
        then(&Request {
            head,
            bytes,
            fate,
            date: wall.http_date(),
            now: on.stream.core().now(),
            server: &on.worker.plan.server,
            render: &|template, out| {
                let about = About { head: Some(head), bytes, server, started, length };
                let (local, time) =
                    (template.uses(Variable::is_local), template.uses(Variable::is_local_time));
                on.with_facts(&about, local, time, |facts| template.push_plain(facts, out));
            },
        })
    }
}
