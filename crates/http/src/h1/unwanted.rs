//! Bodies that no handler wants: they are read over, within their limit, so that the next request is found.

use drover_event::{CloseReason, Waited};

use super::body::Body;
use super::connection::Conversation;
use super::method::Method;
use super::route::Course;
use super::step::Step;
use super::work::{Stage, Work};
use crate::handler::Handler;
use crate::response::Fate;

impl Work {
    /// A body follows that is to be read over, unless the handler wants it, or the client's password is checked
    /// first.
    #[cold]
    pub(super) fn begin_body(&mut self, on: &Conversation) {
        if self.route.unverified.is_some() {
            self.stage = Stage::Verify;
            return;
        }
        let location = &on.worker.plan.locations[self.location];
        let body = match Body::new(self.head.framing, location.body_limit) {
            Ok(body) => body,
            Err(refusal) => return self.refuse(on, refusal),
        };
        if let (Handler::Proxy(_), Course::Handler) = (&location.handler, self.route.course) {
            (self.body, self.body_is_gone) = (body, false);
            return;
        }
        self.body_is_gone = true;
        let waits = self.head.expects_continue && self.end == self.filled;
        let serves_files =
            matches!(location.handler, Handler::Files(_) | Handler::Status(_) | Handler::Nothing);
        let refuses = self.route.course != Course::Handler
            || (serves_files && !matches!(self.head.method, Method::Get | Method::Head));
        if waits && refuses {
            // The final answer at once: whether the body follows is then the client's choice, so the
            // connection cannot go on (RFC 9110, 10.1.1).
            on.stream.close_because(CloseReason::LastAnswer);
            self.fate = Fate::Close;
            self.unread = true;
            return;
        }
        if waits {
            self.output.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        self.waited = Waited::new(on.worker.plan.timeouts.body);
        self.stage = Stage::Body(body);
    }

    /// Reads over a body, which nobody wants.
    pub(super) fn read_over(&mut self, on: &Conversation, mut body: Body) -> Option<Step> {
        match body.advance(&self.input[self.end..self.filled]) {
            Ok(progress) => {
                self.end += progress.taken;
                self.request_length += progress.taken as u64;
                self.stage = if progress.done { Stage::Answer } else { Stage::Body(body) };
                (!progress.done).then_some(Step::ReceiveBody)
            }
            Err(refusal) => {
                self.refuse(on, refusal);
                None
            }
        }
    }

    /// Where more of a body goes: over what was read of it.
    pub(crate) fn room_for_body(&mut self) -> &mut [u8] {
        self.keep_head();
        self.input.take_up();
        &mut self.input[self.filled..]
    }

    /// Keeps no more than the head in memory, until there is more of a body.
    pub(super) fn set_body_aside(&mut self) {
        self.keep_head();
        self.input.set_aside(self.filled);
    }

    /// Bytes of the body so far.
    pub(super) fn body_length(&self) -> u64 {
        self.request_length - self.head_length as u64
    }

    /// Forgets what was read of a body.
    fn keep_head(&mut self) {
        self.move_to_front();
        self.end = self.start + self.head_length;
        self.filled = self.end;
    }
}
