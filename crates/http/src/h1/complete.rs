//! Answers: the handler's or another, and what is done to the heads of all: an error's own status and fields, a
//! location's changes. And texts with variables, rendered for the request at hand.

use std::time::Duration;

use super::connection::Conversation;
use super::method::Method;
use super::report::About;
use super::route::Course;
use super::target::Form;
use super::work::Work;
use crate::exchange::{self, Answer, Request};
use crate::handler::fixed::push_location;
use crate::plan::Location;
use crate::response::{self, Date};
use crate::variables::{Facts, Template, Variable};

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
        let request = Request {
            head: &self.head,
            bytes: self.head_bytes(),
            fate: self.fate,
            date,
            now: on.stream.core().now(),
            server: &on.worker.plan.server,
            error_pages: if self.route.shown.is_none() { location.error_pages.as_deref() } else { None },
            render: &|template, out| self.render(on, template, out),
        };
        let answer = match self.head.target.form {
            Form::Authority => exchange::page(&request, 405, b"Allow: GET, HEAD\r\n", &mut output),
            Form::Asterisk => {
                exchange::with_body(&request, 204, b"Allow: GET, HEAD\r\n", "", b"", &mut output)
            }
            _ if self.route.course != Course::Handler => self.answer_otherwise(on, &request, &mut output),
            Form::Origin | Form::Absolute => handler.answer(&request, &on.worker.store, &mut output),
        };
        self.output = output;
        answer
    }

    /// How long the answer is held back.
    #[inline]
    pub(super) fn delay(&self, on: &Conversation, location: &Location) -> Option<Duration> {
        match self.route.course {
            Course::Handler => location.delay,
            Course::Rule(answer) => on.worker.plan.answers[answer as usize].1,
            Course::Redirect(_) | Course::Error(_) => None,
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
            Course::Rule(answer) => on.worker.plan.answers[answer as usize].0.answer(request, out),
            Course::Redirect(status) => {
                let mut fields = Vec::new();
                push_location(&mut fields, &self.route.redirect);
                exchange::page(request, status, &fields, out)
            }
            Course::Error(status) => exchange::page(request, status, b"", out),
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
        let mut end = output.len() - answer.body;
        let mut status = answer.status;
        if let Some(shown) = &self.route.shown {
            status = shown.status(answer.status);
            if status == shown.error {
                // Before the empty line that ends the head.
                output.splice(end - 2..end - 2, shown.fields.iter().copied());
                end += shown.fields.len();
            }
            if status != answer.status {
                end = response::replace_status(&mut output, (before, end), status);
            }
        }
        if let Some(headers) = &location.headers {
            let head = if headers.reads_fields() { output[before..end].to_vec() } else { Vec::new() };
            headers.apply(&mut output, (before, end), status, |template, out| {
                self.render_with(on, template, out, (status, &head));
            });
        }
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
        self.render_with(on, template, out, (0, b""));
    }

    /// The same where an answer with this status and head is known.
    fn render_with(
        &self,
        on: &Conversation,
        template: &Template,
        out: &mut Vec<u8>,
        (status, sent_head): (u16, &[u8]),
    ) {
        let (local, time) = (template.uses(Variable::is_local), template.uses(Variable::is_local_time));
        on.with_facts(&self.about(true), local, time, |facts| {
            template.push_plain(&Facts { status, sent_head, ..*facts }, out);
        });
    }
}
