//! A request that is handed over to a handler which receives the body and sends the answer itself.

use std::io;

use drover_event::{CloseReason, StreamError};

use super::body::Body;
use super::connection::Conversation;
use super::framing::Framing;
use super::head::Head;
use super::method::Method;
use super::report::About;
use super::route::{Course, Shown};
use super::rule::Refusal;
use super::work::Work;
use crate::handler::proxy::Trail;
use crate::response::Fate;

/// The work's parts, all to be used at once.
pub(crate) struct Parts<'a> {
    pub(crate) head: &'a Head,
    pub(crate) about: About<'a>,
    /// The error whose page the answer is.
    pub(crate) shown: Option<&'a Shown>,
    /// The input behind the head, of which `filled` bytes are received.
    pub(crate) room: &'a mut [u8],
    pub(crate) filled: usize,
    /// The output, of which `sent` bytes are gone.
    pub(crate) output: &'a mut Vec<u8>,
    pub(crate) sent: &'a mut usize,
    /// Where the head of the answer goes, for the log.
    pub(crate) sent_head: &'a mut Vec<u8>,
    pub(crate) trail: &'a mut Trail,
    /// The status of an answer that has begun, and the length of its head, should it be cut short.
    pub(crate) begun: &'a mut (u16, u64, u64),
    /// What becomes of the connection after the answer, as far as the request goes.
    pub(crate) fate: Fate,
}

/// What the handler did with the body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    /// Where the body's bytes end in the input behind the head, and where those that were received do.
    pub(crate) read: usize,
    pub(crate) filled: usize,
    /// Bytes of the body that were read.
    pub(crate) length: u64,
    /// All of it was read.
    pub(crate) whole: bool,
    /// Some of it is not in the input any more.
    pub(crate) gone: bool,
}

/// What was sent of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentAnswer {
    pub(crate) status: u16,
    /// Bytes of its head and of its body.
    pub(crate) head: u64,
    pub(crate) body: u64,
    pub(crate) fate: Fate,
}

/// How the handler was done.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Conclusion {
    /// The answer is sent.
    Sent(SentAnswer),
    /// The answer will never be whole; the client must not take it for that.
    Cut(SentAnswer),
    /// Nothing is sent, and an error with this status is to be answered.
    Error(u16),
    /// Nothing is sent, and the body was invalid.
    Refused(Refusal),
    /// Nothing is sent, and the body took too long.
    TimedOut,
    /// Nothing is sent, and the client is not there any more. The status is for the log.
    Gone(u16),
}

impl Work {
    /// Number of the location that the request at hand is for.
    pub(crate) fn location(&self) -> usize {
        self.location
    }

    /// The body of the request at hand. None where there was one and it was read already, as when an error page
    /// leads from one handler to another; a page that is fetched instead has none.
    pub(crate) fn take_body(&mut self) -> Option<Body> {
        match self.head.framing {
            Framing::None => Some(Body::NONE),
            _ if !self.body_is_gone => Some(self.body),
            _ if matches!(self.head.method, Method::Get | Method::Head) => {
                self.head.framing = Framing::None;
                Some(Body::NONE)
            }
            _ => None,
        }
    }

    /// The request cannot be handled for want of its body.
    pub(crate) fn fail_without_body(&mut self) {
        let status = self.route.shown.as_ref().map_or(500, |shown| shown.error);
        self.route.fail(status);
    }

    /// Hands the request at hand over. [`Work::conclude`] must follow.
    pub(crate) fn parts(&mut self) -> Parts<'_> {
        self.move_to_front();
        self.input.take_up();
        let (bytes, room) = self.input.split_at_mut(self.head_length);
        Parts {
            head: &self.head,
            about: About {
                head: Some(&self.head),
                bytes,
                values: &self.route.values,
                server: self.server,
                location: self.location,
                started: self.started,
                length: self.request_length,
            },
            shown: self.route.shown.as_deref(),
            room,
            filled: self.filled - self.head_length,
            output: &mut self.output,
            sent: &mut self.sent,
            sent_head: &mut self.sent_head,
            trail: &mut self.route.trail,
            begun: &mut self.begun,
            fate: self.fate,
        }
    }

    /// The handler is done: what follows is logged and sent, or is left to be answered.
    pub(crate) fn conclude(
        &mut self,
        on: &Conversation,
        taken: Taken,
        conclusion: Conclusion,
    ) -> Result<(), StreamError> {
        self.end = self.head_length + taken.read;
        self.filled = self.head_length + taken.filled;
        self.request_length = self.head_length as u64 + taken.length;
        self.body_is_gone |= taken.gone;
        if !taken.whole {
            // What the client still sends is not the next request.
            (self.fate, self.unread) = (Fate::Close, true);
        }
        if let Conclusion::Error(status) = conclusion {
            // The trail stays for the log; with values in use, the next request does not see it.
            self.route.values.use_them();
            self.route.course = Course::Error(status);
            return Ok(());
        }
        let concluded = self.close_or_go_on(on, conclusion);
        self.route.trail.clear();
        concluded
    }

    fn close_or_go_on(&mut self, on: &Conversation, conclusion: Conclusion) -> Result<(), StreamError> {
        let aborted = |why: &str| Err(io::Error::new(io::ErrorKind::ConnectionAborted, why).into());
        match conclusion {
            Conclusion::Sent(sent) => self.finish_sent(on, sent),
            Conclusion::Cut(sent) => {
                self.finish_sent(on, SentAnswer { fate: Fate::Close, ..sent });
                return aborted("an answer is not whole");
            }
            Conclusion::Refused(refusal) => self.refuse(on, refusal),
            Conclusion::TimedOut => {
                on.stream.close_because(CloseReason::BodyTimeout);
                self.answer_error(on, 408);
            }
            Conclusion::Gone(status) => {
                self.finish_sent(on, SentAnswer { status, head: 0, body: 0, fate: Fate::Close });
                return aborted("the client closed");
            }
            Conclusion::Error(_) => {}
        }
        Ok(())
    }

    /// Logs what was sent.
    fn finish_sent(&mut self, on: &Conversation, sent: SentAnswer) {
        self.fate = sent.fate;
        self.begun = (sent.status, sent.head, sent.body);
        self.finish(on, 0);
    }
}
