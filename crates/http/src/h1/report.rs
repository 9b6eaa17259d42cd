//! What is said about a request: its line in the access log, and errors to the client.

use std::rc::Rc;

use drover_event::{CloseReason, Counter, Millis};
use tracing::info;

use super::connection::Conversation;
use super::head::Head;
use super::rule::Refusal;
use super::work::{Stage, Work};
use crate::exchange::{self, Request};
use crate::plan::LogUse;
use crate::response::Fate;
use crate::values::Values;
use crate::variables::Facts;

impl Conversation {
    /// Whether a line about what the client did wrong may be logged now.
    #[cold]
    pub(super) fn may_complain(&self) -> bool {
        let line = self.worker.refusals.line(self.stream.core().now());
        if let Some(kept_back @ 1..) = line {
            info!("{kept_back} more invalid requests were answered before this one");
        }
        line.is_some()
    }
}

impl Conversation {
    /// The answer at hand is the connection's last, if for no other reason then by itself.
    #[cold]
    pub(super) fn end_with_answer(&self) {
        if self.stream.close_reason().is_none() {
            self.stream.close_because(CloseReason::LastAnswer);
        }
    }
}

impl Work {
    #[cold]
    pub(super) fn log(&self, on: &Conversation, log: &LogUse, rest: u64, head_is_known: bool) {
        let (status, head, body) = self.begun;
        self.log_sent(on, log, (status, head, body + rest), head_is_known);
    }

    fn log_sent(
        &self,
        on: &Conversation,
        log: &LogUse,
        (status, head, body): (u16, u64, u64),
        head_is_known: bool,
    ) {
        let about = self.about(head_is_known);
        on.with_facts(&about, log.needs_local, log.needs_time, |facts| {
            let facts = Facts {
                status,
                bytes_sent: head + body,
                body_bytes_sent: body,
                sent_head: if log.needs_sent_head { &self.sent_head } else { b"" },
                trail: Some(&self.route.trail),
                ..*facts
            };
            on.worker.log(on.stream.core(), log, &facts);
        });
    }

    /// Logs the request at hand if it was not answered to its end: the client went away, or the worker ends.
    #[cold]
    pub(super) fn log_cut_short(&self, on: &Conversation) {
        let (Stage::Verify | Stage::Body(_) | Stage::Answer) = self.stage else { return };
        let location = on.worker.plan.locations.get(self.location);
        let Some(log) = location.and_then(|location| location.log.as_ref()) else { return };
        let sent = on.stream.bytes_sent().saturating_sub(self.answered_from);
        let (status, head, _) = self.begun;
        let status = match (status, on.stream.close_reason()) {
            // Nothing was answered. The status is for the log.
            (0, Some(CloseReason::Shutdown)) => 503,
            (0, _) => 499,
            (status, _) => status,
        };
        let body = sent.saturating_sub(head);
        self.log_sent(on, log, (status, sent - body, body), true);
    }

    /// Refuses what the client sent. The answer is the connection's last.
    #[cold]
    pub(super) fn refuse(&mut self, on: &Conversation, refusal: Refusal) {
        let (number, peer) = (on.stream.number(), on.peer());
        let status = refusal.rule.status();
        if on.may_complain() {
            info!(connection = number, "client {peer} sent an invalid request, answered {status}: {refusal}");
        }
        on.stream.close_because(CloseReason::InvalidRequest);
        self.answer_error(on, status);
    }

    /// Answers with an error, as the connection's last.
    #[cold]
    pub(super) fn answer_error(&mut self, on: &Conversation, status: u16) {
        on.end_with_answer();
        // Of a refused head, no part is to be trusted.
        let head_is_known = self.location != usize::MAX && !matches!(self.stage, Stage::Head);
        if !head_is_known {
            self.head = Head::default();
            self.head_length = self.filled - self.start;
        }
        let plan = Rc::clone(&on.worker.plan);
        let before = self.output.len();
        let wall = on.stream.core().wall_clock();
        let request = Request {
            head: &self.head,
            bytes: b"",
            fate: Fate::Close,
            date: wall.http_date(),
            now: on.stream.core().now(),
            server: &plan.server,
            error_pages: None,
            render: &|_, _| {},
        };
        let answer = exchange::page(&request, status, b"", &mut self.output);
        drop(wall);
        self.begun = (status, (self.output.len() - before - answer.body) as u64, answer.body as u64);
        self.sent_head.clear();
        self.sent_head.extend_from_slice(&self.output[before..self.output.len() - answer.body]);
        on.stream.core().stats().add(Counter::Requests, 1);
        let log = match plan.locations.get(self.location) {
            Some(location) if head_is_known => &location.log,
            _ => &plan.default_log,
        };
        if let Some(log) = log {
            self.log(on, log, 0, head_is_known);
        }
        // Whoever was too slow gets no more time for being slow.
        self.stage = Stage::Closing { linger: status != 408 };
    }
}

/// What a request is known by, for its variables.
#[derive(Clone, Copy)]
pub(crate) struct About<'a> {
    pub(crate) head: Option<&'a Head>,
    pub(crate) bytes: &'a [u8],
    pub(crate) values: &'a Values,
    pub(crate) server: usize,
    /// `usize::MAX` where none was found.
    pub(crate) location: usize,
    pub(crate) started: Millis,
    pub(crate) length: u64,
}
