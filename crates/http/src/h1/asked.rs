//! The request at hand, as handlers and texts with variables see it.

use super::connection::Conversation;
use super::head::Head;
use super::report::About;
use crate::error_pages::ErrorPages;
use crate::exchange::Request;
use crate::response::Fate;
use crate::variables::{Facts, Template, Variable};

/// A request on the connection it came on.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) on: &'a Conversation,
    pub(crate) head: &'a Head,
    pub(crate) about: About<'a>,
    /// What is shown instead of bare errors.
    pub(crate) error_pages: Option<&'a ErrorPages>,
}

impl Asked<'_> {
    /// Calls `then` with the request, after whose answer the connection has this `fate`.
    #[inline]
    pub(crate) fn with_request<T>(&self, fate: Fate, then: impl FnOnce(&Request<'_>) -> T) -> T {
        let core = self.on.stream.core();
        let wall = core.wall_clock();
        then(&Request {
            head: self.head,
            bytes: self.about.bytes,
            fate,
            date: wall.http_date(),
            now: core.now(),
            server: &self.on.worker.plan.server,
            error_pages: self.error_pages,
            render: &|template, out| self.render(template, out),
        })
    }

    /// Appends a text with the values of its variables.
    pub(crate) fn render(&self, template: &Template, out: &mut Vec<u8>) {
        self.render_with(template, out, (0, b""));
    }

    /// The same where an answer with this status and head is known.
    pub(crate) fn render_with(
        &self,
        template: &Template,
        out: &mut Vec<u8>,
        (status, sent_head): (u16, &[u8]),
    ) {
        let (local, time) = (template.uses(Variable::is_local), template.uses(Variable::is_local_time));
        self.on.with_facts(&self.about, local, time, |facts| {
            template.push_plain(&Facts { status, sent_head, ..*facts }, out);
        });
    }
}
