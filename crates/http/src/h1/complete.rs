//! Answers: the handler's or another, and what is done to the heads of all: an error's own status and fields, a
//! location's changes. And texts with variables, rendered for the request at hand.

use std::time::Duration;

use super::asked::Asked;
use super::connection::Conversation;
use super::method::Method;
use super::report::About;
use super::route::{Course, Shown};
use super::target::Form;
use super::work::Work;
use crate::exchange::{self, Answer, Request};
use crate::handler::fixed::push_location;
use crate::header_changes::HeaderChanges;
use crate::plan::Location;
use crate::response::{self, Date};
use crate::variables::Template;

impl Work {
    /// The answer of the location's handler, or of what the request's course is instead.
    #[inline]
    pub(super) fn handle(&mut self, on: &Conversation, location: &Location, date: &Date) -> Answer {
        let handler = &location.handler;
        if self.head.target.form == Form::Origin
            && self.route.course == Course::Handler
            && !self.head.conditional
            && let Some(prepared) = handler.prepared()
        {
            let body = prepared.push(self.fate, self.head.method != Method::Head, &mut self.output, date);
            return Answer::complete(prepared.status(), body);
        }
        let mut output = std::mem::take(&mut self.output);
        let out = &mut output;
        let answer =
            self.asked(on, location).with_request(self.fate, |request| match self.head.target.form {
                Form::Authority => exchange::page(request, 405, b"Allow: GET, HEAD\r\n", out),
                // RFC 9110, 7.4: it did not come here by TLS, unless a gateway says so.
                Form::Absolute if self.head.target.is_https() && !on.is_from_gateway() => {
                    exchange::page(request, 421, b"", out)
                }
                Form::Asterisk => exchange::with_body(request, 204, b"Allow: GET, HEAD\r\n", "", b"", out),
                _ if self.route.course != Course::Handler => self.answer_otherwise(on, request, out),
                Form::Origin | Form::Absolute => handler.answer(request, &on.worker.store, out),
            });
        self.output = output;
        answer
    }

    /// The request at hand, for the handler of this location.
    #[inline]
    pub(super) fn asked<'a>(&'a self, on: &'a Conversation, location: &'a Location) -> Asked<'a> {
        let error_pages = if self.route.shown.is_none() { location.error_pages.as_deref() } else { None };
        Asked { on, head: &self.head, about: self.about(true), error_pages }
    }

    /// How long the answer is held back.
    #[inline]
    pub(super) fn delay(&self, on: &Conversation, location: &Location) -> Option<Duration> {
        match self.route.course {
            Course::Handler => location.delay,
            Course::Rule(answer) => on.worker.plan.answers[answer as usize].1,
            Course::Redirect(_) | Course::Error(_) | Course::Unauthorized => None,
        }
    }

    /// Answers where the course is not the location's handler.
    #[cold]
    pub(super) fn answer_otherwise(
        &self,
        on: &Conversation,
        request: &Request<'_>,
        out: &mut Vec<u8>,
    ) -> Answer {
        match self.route.course {
            Course::Handler => exchange::page(request, 404, b"", out),
            Course::Rule(answer) => {
                let fixed = &on.worker.plan.answers[answer as usize].0;
                fixed.answer(request, on.worker.store.encoders(), out)
            }
            Course::Redirect(status) => {
                let mut fields = Vec::new();
                push_location(&mut fields, &self.route.redirect);
                exchange::page(request, status, &fields, out)
            }
            Course::Error(status) => exchange::page(request, status, b"", out),
            Course::Unauthorized => {
                let auth = on.worker.plan.locations[self.location].basic_auth();
                exchange::page(request, 401, auth.map_or(b"", |auth| &auth.challenge), out)
            }
        }
    }

    /// Completes the head of an answer, which the output holds from `before` on: the status and fields of an error
    /// whose page this is, and the location's changes.
    #[cold]
    pub(super) fn complete(
        &mut self,
        on: &Conversation,
        location: &Location,
        before: usize,
        answer: Answer,
    ) -> Answer {
        let mut output = std::mem::take(&mut self.output);
        let end = output.len() - answer.body;
        let changes = Changes { shown: self.route.shown.as_deref(), headers: location.headers.as_deref() };
        let asked = self.asked(on, location);
        let (status, _) = changes.apply(&asked, &mut output, (before, end), answer.status);
        self.output = output;
        Answer { status, ..answer }
    }

    /// The bytes of the request's head.
    #[inline]
    pub(super) fn head_bytes(&self) -> &[u8] {
        &self.input[self.start..self.start + self.head_length]
    }

    /// What the request is known by.
    pub(super) fn about(&self, head_is_known: bool) -> About<'_> {
        About {
            head: head_is_known.then_some(&self.head),
            bytes: self.head_bytes(),
            values: &self.route.values,
            server: self.server,
            location: self.location,
            started: self.started,
            length: self.request_length,
        }
    }

    /// Appends a text with the values of its variables.
    pub(super) fn render(&self, on: &Conversation, template: &Template, out: &mut Vec<u8>) {
        let asked = Asked { on, head: &self.head, about: self.about(true), error_pages: None };
        asked.render(template, out);
    }
}

/// What is done to the head of an answer.
#[derive(Clone, Copy)]
pub(crate) struct Changes<'a> {
    /// The error whose page the answer is.
    pub(crate) shown: Option<&'a Shown>,
    /// The location's changes.
    pub(crate) headers: Option<&'a HeaderChanges>,
}

impl Changes<'_> {
    /// Whether nothing is done.
    #[inline]
    pub(crate) fn are_none(&self) -> bool {
        self.shown.is_none() && self.headers.is_none()
    }

    /// Changes the head that `output` holds from `start` to `end`, of an answer with `status`. Gives the status
    /// that it has then, and its new end.
    #[cold]
    pub(crate) fn apply(
        &self,
        asked: &Asked<'_>,
        output: &mut Vec<u8>,
        (start, mut end): (usize, usize),
        answered: u16,
    ) -> (u16, usize) {
        let mut status = answered;
        if let Some(shown) = self.shown {
            status = shown.status(answered);
            if status == shown.error {
                // Before the empty line that ends the head.
                output.splice(end - 2..end - 2, shown.fields.iter().copied());
                end += shown.fields.len();
            }
            if status != answered {
                end = response::replace_status(output, (start, end), status);
            }
        }
        if let Some(headers) = self.headers {
            let head = if headers.reads_fields() { output[start..end].to_vec() } else { Vec::new() };
            end = headers.apply(output, (start, end), status, |template, out| {
                asked.render_with(template, out, (status, &head));
            });
        }
        (status, end)
    }
}
