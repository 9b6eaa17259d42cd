//! The protocol between two waits: requests out of the input, answers into the output.
//!
//! [`Work::advance`] does everything that needs no waiting and says what must be done for it to go on:
//!
//! ```text
//!            ┌────────────── next request ───────────────┐
//!            v                                           │
//!   Head ── complete ──> Body (if any) ── ended ──> Answer ──> finished ──> Close
//!    │  ^                 │   ^                       │  ^
//!  Receive              ReceiveBody             Delay, Send
//! ```
//!
//! Invariant: while a request is worked on, its head stays in the input, at `start`, because the log still
//! wants to see it; its spans count from there, so the input may be moved.

use std::time::Duration;

use drover_event::{Buffer, CloseReason, Counter, Millis, Waited};

use super::body::Body;
use super::connection::Conversation;
use super::framing::Framing;
use super::head::{Head, Status};
use super::route::Route;
use super::rule::Refusal;
use super::step::Step;
use crate::exchange::Rest;
use crate::handler::proxy::Memory;
use crate::plan::Location;
use crate::response::Fate;

/// Requests answered in one go before other connections get their turn.
const REQUESTS_IN_ONE_GO: u32 = 32;
/// Output that is sent before more is made.
pub(super) const OUTPUT_IN_ONE_GO: usize = 16 * 1024;
/// Output memory that is kept for the next connection.
const OUTPUT_KEPT: usize = 2 * OUTPUT_IN_ONE_GO;

#[derive(Clone, Copy)]
pub(super) enum Stage {
    /// A header of the PROXY protocol.
    Proxy,
    Head,
    /// A body follows, but the client's password is checked first.
    Verify,
    Body(Body),
    Answer,
    Closing {
        linger: bool,
    },
}

/// One request on its way, with the buffers it needs. Boxed, and kept by the worker for the next one.
pub(crate) struct Work {
    /// Received bytes: `start..filled`.
    pub(crate) input: Buffer,
    pub(crate) start: usize,
    pub(crate) filled: usize,
    /// Answers; the first `sent` bytes are gone.
    pub(crate) output: Vec<u8>,
    pub(crate) sent: usize,
    pub(super) stage: Stage,
    pub(super) head: Head,
    pub(super) head_length: usize,
    /// End of the request in the input, as far as it was read.
    pub(super) end: usize,
    pub(super) request_length: u64,
    pub(super) server: usize,
    pub(super) location: usize,
    pub(super) route: Route,
    /// When the request's first byte was received.
    pub(crate) started: Millis,
    pub(super) fate: Fate,
    /// The delay of a `return` is over.
    pub(super) delayed: bool,
    /// The client may send a body that is not waited for.
    pub(super) unread: bool,
    /// Requests answered since others had their turn.
    pub(super) in_a_row: u32,
    /// For the log, the answer whose rest is being sent: its status, the length of its head and what went before.
    pub(super) begun: (u16, u64, u64),
    /// Bytes of the connection that come before the answer.
    pub(super) answered_from: u64,
    pub(super) sent_head: Vec<u8>,
    /// The request's body, where its handler wants it.
    pub(super) body: Body,
    /// The body was read, and cannot be had again.
    pub(super) body_is_gone: bool,
    /// How long its body is waited for.
    pub(super) waited: Waited,
    /// For a request that is passed on.
    pub(crate) memory: Option<Box<Memory>>,
}

impl Work {
    pub(crate) fn new(input: Buffer) -> Work {
        Work {
            input,
            start: 0,
            filled: 0,
            output: Vec::with_capacity(OUTPUT_IN_ONE_GO / 4),
            sent: 0,
            stage: Stage::Head,
            head: Head::default(),
            head_length: 0,
            end: 0,
            request_length: 0,
            server: 0,
            location: 0,
            route: Route::default(),
            started: Millis::default(),
            fate: Fate::Close,
            delayed: false,
            unread: false,
            in_a_row: 0,
            begun: (0, 0, 0),
            answered_from: 0,
            sent_head: Vec::new(),
            body: Body::NONE,
            body_is_gone: false,
            waited: Waited::new(Duration::ZERO),
            memory: None,
        }
    }

    /// Makes it ready for another connection.
    #[inline]
    pub(crate) fn reset(&mut self) {
        (self.start, self.filled, self.sent, self.in_a_row) = (0, 0, 0, 0);
        self.stage = Stage::Head;
        self.delayed = false;
        self.unread = false;
        self.route.begin();
        self.input.take_up();
        self.output.clear();
        if self.output.capacity() > OUTPUT_KEPT {
            self.output = Vec::with_capacity(OUTPUT_IN_ONE_GO / 4);
        }
    }

    /// Nothing received is waiting to be read.
    #[inline]
    pub(crate) fn is_drained(&self) -> bool {
        self.start == self.filled
    }

    /// Others had their turn.
    pub(crate) fn begin_again(&mut self) {
        self.in_a_row = 0;
    }

    pub(super) fn move_to_front(&mut self) {
        if self.start > 0 {
            self.input.copy_within(self.start..self.filled, 0);
            self.end -= self.start.min(self.end);
            self.filled -= self.start;
            self.start = 0;
        }
    }

    /// Goes on until something is needed.
    pub(crate) fn advance(&mut self, on: &mut Conversation) -> Step {
        loop {
            // Without a body, nothing stands between a head and its answer.
            if let Stage::Head = self.stage
                && let Some(step) = self.head(on)
            {
                return step;
            }
            let needed = if let Stage::Answer = self.stage { self.answer(on) } else { self.other(on) };
            if let Some(step) = needed {
                return step;
            }
        }
    }

    #[cold]
    fn other(&mut self, on: &mut Conversation) -> Option<Step> {
        match self.stage {
            Stage::Head | Stage::Answer => None,
            Stage::Proxy => self.read_proxy(on),
            Stage::Verify => self.route.unverified.take().map(Step::Verify),
            Stage::Body(body) => self.read_over(on, body),
            Stage::Closing { linger } => Some(Step::Close { linger }),
        }
    }

    #[inline]
    fn head(&mut self, on: &mut Conversation) -> Option<Step> {
        if self.is_drained() {
            return Some(Step::Receive);
        }
        if self.in_a_row >= REQUESTS_IN_ONE_GO {
            return Some(Step::GiveWay);
        }
        if self.output.len() - self.sent >= OUTPUT_IN_ONE_GO {
            return Some(Step::Flush);
        }
        match self.head.parse(&self.input[self.start..self.filled], &on.worker.plan.limits) {
            Ok(Status::Complete(length)) => {
                self.begin(on, length);
                self.route.hold().map(Step::Delay)
            }
            Ok(Status::Partial) => Some(Step::Receive),
            Err(refusal) => {
                self.refuse_head(on, refusal);
                None
            }
        }
    }

    #[cold]
    fn refuse_head(&mut self, on: &mut Conversation, refusal: Refusal) {
        on.requests += 1;
        self.server = on.worker.plan.listeners[on.listener].default_server;
        self.location = usize::MAX;
        self.head_length = self.filled - self.start;
        self.request_length = self.head_length as u64;
        self.refuse(on, refusal);
    }

    /// A head is complete: finds who answers, and what becomes of the connection.
    #[inline]
    fn begin(&mut self, on: &mut Conversation, length: usize) {
        on.requests += 1;
        on.head_is_timed = false;
        self.head_length = length;
        self.end = self.start + length;
        self.request_length = length as u64;
        self.begun = (0, 0, 0);
        self.answered_from = on.stream.bytes_sent() + (self.output.len() - self.sent) as u64;
        self.route.begin();
        let plan = &*on.worker.plan;
        let bytes = &self.input[self.start..self.end];
        let (head, values) = (&self.head, &mut self.route.values);
        self.server = plan.hosts[on.listener].find(|| head.host.map(|host| host.of(bytes)), values);
        let server = &plan.servers[self.server];
        self.location = server.find(head.path(bytes), values);
        if !server.rules.is_empty() || plan.locations[self.location].gate.is_some() {
            self.find_route(on);
        }
        let head = &self.head;
        let stays = !head.connection.close && on.requests < plan.keepalive_requests;
        self.fate = match head.is_http11 {
            true if stays => Fate::Keep,
            false if stays && head.connection.keep_alive => Fate::KeepTold,
            _ => {
                on.stream.close_because(match on.requests < plan.keepalive_requests {
                    true => CloseReason::ClientAsked,
                    false => CloseReason::KeepaliveRequests,
                });
                Fate::Close
            }
        };
        self.unread = false;
        self.stage = Stage::Answer;
        if head.framing != Framing::None {
            self.begin_body(on);
        }
    }

    #[inline]
    fn answer(&mut self, on: &Conversation) -> Option<Step> {
        if let Some(unverified) = self.route.unverified.take() {
            return Some(Step::Verify(unverified));
        }
        let location = &on.worker.plan.locations[self.location];
        if let Some(delay) = self.delay(on, location)
            && !self.delayed
        {
            self.delayed = true;
            return Some(Step::Delay(delay));
        }
        // Only now: the worker may have begun to drain while a body or a delay was waited for.
        if on.is_last() {
            on.stream.close_because(CloseReason::Drained);
            self.fate = Fate::Close;
        }
        let before = self.output.len();
        let answer = {
            let wall = on.stream.core().wall_clock();
            self.handle(on, location, wall.http_date())
        };
        let answer = match answer.rest {
            // A proxy completes the head itself, once it is there.
            Rest::Elsewhere(_) | Rest::Proxy => answer,
            _ if self.output.len() == before => answer,
            _ if location.headers.is_some() || self.route.shown.is_some() => {
                self.complete(on, location, before, answer)
            }
            _ => answer,
        };
        if answer.closes {
            self.fate = Fate::Close;
        }
        if let Some(log) = &location.log {
            let head_length = self.output.len() - before - answer.body;
            self.begun = (answer.status, head_length as u64, answer.body as u64);
            if log.needs_sent_head {
                self.sent_head.clear();
                self.sent_head.extend_from_slice(&self.output[before..before + head_length]);
            }
        }
        match answer.rest {
            Rest::Nothing => {
                self.finish_at(on, location, 0);
                None
            }
            Rest::File(file, range) => Some(Step::Send(file, range)),
            Rest::Proxy => Some(Step::Proxy),
            Rest::Parts(parts) => Some(Step::SendParts(parts)),
            Rest::Encoded(encoded) => Some(Step::SendEncoded(encoded)),
            Rest::Elsewhere(to) => {
                self.go_elsewhere(on, *to);
                None
            }
        }
    }

    /// The answer is out, with `rest` bytes sent behind the output: logs it and goes on to the next request.
    pub(crate) fn finish(&mut self, on: &Conversation, rest: u64) {
        self.finish_at(on, &on.worker.plan.locations[self.location], rest);
    }

    #[inline]
    fn finish_at(&mut self, on: &Conversation, location: &Location, rest: u64) {
        on.stream.core().stats().add(Counter::Requests, 1);
        if matches!(self.fate, Fate::Close) {
            on.end_with_answer();
        }
        if let Some(log) = &location.log {
            self.log(on, log, rest, true);
        }
        self.route.end();
        self.start = self.end;
        if self.is_drained() {
            (self.start, self.filled, self.end) = (0, 0, 0);
        }
        self.in_a_row += 1;
        self.delayed = false;
        self.started = on.stream.core().now();
        self.stage = match self.fate {
            Fate::Keep | Fate::KeepTold => Stage::Head,
            Fate::Close => Stage::Closing { linger: self.unread || !self.is_drained() },
        };
    }
}
