//! A request that is handed over to a handler which receives the body and sends the answer itself.

use std::io;

use drover_event::{Millis, StreamError};

use super::asked::Asked;
use super::body::Body;
use super::connection::Conversation;
use super::framing::Framing;
use super::head::Head;
use super::rule::Refusal;
use super::work::Work;
use crate::exchange;
use crate::handler::proxy::Trail;
use crate::response::Fate;

/// The work's parts, all to be used at once.
pub(crate) struct Parts<'a> {
    pub(crate) head: &'a Head,
    /// The bytes the head was parsed from.
    pub(crate) bytes: &'a [u8],
    /// The input behind the head, of which `filled` bytes are received.
    pub(crate) room: &'a mut [u8],
    pub(crate) filled: usize,
    /// The output, of which `sent` bytes are gone.
    pub(crate) output: &'a mut Vec<u8>,
    pub(crate) sent: &'a mut usize,
    /// Where the head of the answer goes, for the log.
    pub(crate) sent_head: &'a mut Vec<u8>,
    pub(crate) trail: &'a mut Trail,
    /// What becomes of the connection after the answer, as far as the request goes.
    pub(crate) fate: Fate,
    pub(crate) server: usize,
    pub(crate) started: Millis,
    pub(crate) length: u64,
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
    /// Nothing is sent, and a page with this status is to be.
    Page(u16),
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

    /// The body of the request at hand, if it has one.
    pub(crate) fn body(&self) -> Body {
        if self.head.framing == Framing::None { Body::NONE } else { self.body }
    }

    /// Hands the request at hand over. [`Work::conclude`] must follow.
    pub(crate) fn parts(&mut self) -> Parts<'_> {
        self.move_to_front();
        let (bytes, room) = self.input.split_at_mut(self.head_length);
        Parts {
            head: &self.head,
            bytes,
            room,
            filled: self.filled - self.head_length,
            output: &mut self.output,
            sent: &mut self.sent,
            sent_head: &mut self.sent_head,
            trail: &mut self.trail,
            fate: self.fate,
            server: self.server,
            started: self.started,
            length: self.request_length,
        }
    }

    /// The handler is done: answers where nothing was sent, logs, and goes on behind the request.
    pub(crate) fn conclude(
        &mut self,
        on: &Conversation,
        taken: Taken,
        conclusion: Conclusion,
    ) -> Result<(), StreamError> {
        self.end = self.head_length + taken.read;
        self.filled = self.head_length + taken.filled;
        self.request_length += taken.length;
        if !taken.whole {
            // What the client still sends is not the next request.
            (self.fate, self.unread) = (Fate::Close, true);
        }
        match conclusion {
            Conclusion::Sent(sent) => self.finish_sent(on, sent),
            Conclusion::Cut(sent) => {
                self.finish_sent(on, SentAnswer { fate: Fate::Close, ..sent });
                return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "an answer is not whole").into());
            }
            Conclusion::Page(status) => self.answer_page(on, status),
            Conclusion::Refused(refusal) => self.refuse(on, refusal),
            Conclusion::TimedOut => self.answer_error(on, 408),
            Conclusion::Gone(status) => {
                self.finish_sent(on, SentAnswer { status, head: 0, body: 0, fate: Fate::Close });
                return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the client closed").into());
            }
        }
        Ok(())
    }

    fn finish_sent(&mut self, on: &Conversation, sent: SentAnswer) {
        self.fate = sent.fate;
        self.begun = (sent.status, sent.head, sent.body);
        self.finish(on, 0);
    }

    fn answer_page(&mut self, on: &Conversation, status: u16) {
        if on.is_last() {
            self.fate = Fate::Close;
        }
        let before = self.output.len();
        let asked = Asked {
            on,
            head: &self.head,
            bytes: &self.input[..self.head_length],
            server: self.server,
            started: self.started,
            length: self.request_length,
        };
        let out = &mut self.output;
        let answer = asked.with_request(self.fate, |request| exchange::page(request, status, b"", out));
        let head_end = self.output.len() - answer.body;
        self.begun = (status, (head_end - before) as u64, answer.body as u64);
        self.sent_head.clear();
        self.sent_head.extend_from_slice(&self.output[before..head_end]);
        self.finish(on, 0);
    }
}
