//! How a request finds who answers it: rules, the search for a location, internal redirects, error pages.
//!
//! ```text
//!   server's rules ──> search ──> location's rules ──> handler ──> answer
//!        ^               ^   └── rewritten ──┘            │
//!        └───────────────┴──── elsewhere: error page, ────┘
//!                              named location, other path
//! ```
//!
//! Invariant: the number of times that a request changes its way is bounded.

use std::time::Duration;

use drover_service::limits::Held;
use tracing::error;

use super::connection::Conversation;
use super::method::Method;
use super::target::Form;
use super::work::Work;
use crate::basic_auth::Unverified;
use crate::config::{PageStatus, Then};
use crate::error_pages::PageTarget;
use crate::exchange::Elsewhere;
use crate::handler::proxy::Trail;
use crate::path;
use crate::response;
use crate::rules::{Condition, Rewrite, Rule, Test, is_set};
use crate::values::Values;

/// How often a request may be sent elsewhere, as in nginx.
const MOST_TURNS: u32 = 10;

/// What answers a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Course {
    /// The location's handler.
    #[default]
    Handler,
    /// The answer of a rule, by number among the plan's.
    Rule(u32),
    /// A redirect with this status.
    Redirect(u16),
    /// An error.
    Error(u16),
    /// The client is asked who it is.
    Unauthorized,
}

/// The way of one request; kept for the next one.
#[derive(Default)]
pub(crate) struct Route {
    pub(crate) values: Values,
    pub(crate) course: Course,
    /// The error whose page is being answered.
    pub(crate) shown: Option<Box<Shown>>,
    /// Where a redirect leads.
    pub(super) redirect: Vec<u8>,
    /// How often the request was sent elsewhere.
    turns: u32,
    /// Drover itself led here.
    internal: bool,
    /// The limits counted the request.
    pub(super) limited: bool,
    /// What they count as under way.
    pub(super) held: Vec<Held>,
    /// Who the client says it is, until that is checked.
    pub(super) unverified: Option<Box<Unverified>>,
    /// How long the request has to wait, in microseconds.
    pub(super) hold_us: u64,
    /// The servers that the request was passed on to.
    pub(crate) trail: Trail,
}

/// An error of which a page is shown.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(super) error: u16,
    status: PageStatus,
    /// Whole lines that belong to the error.
    pub(super) fields: Vec<u8>,
}

impl Shown {
    /// The status that an answer of this one is given.
    pub(super) fn status(&self, answer: u16) -> u16 {
        match self.status {
            // An error of the page's own, and one without a body, stay what they are.
            _ if answer >= 400 || response::has_no_content(answer) => answer,
            PageStatus::Page => answer,
            PageStatus::Error => self.error,
            PageStatus::Number(status) => status,
        }
    }
}

impl Route {
    /// Forgets the request before.
    #[inline]
    pub(super) fn begin(&mut self) {
        if self.values.are_used() {
            self.forget();
        }
    }

    /// The request is over.
    #[inline]
    pub(super) fn end(&mut self) {
        if self.values.are_used() {
            self.held.clear();
        }
    }

    /// How long the request has to wait, told once.
    #[inline]
    pub(super) fn hold(&mut self) -> Option<Duration> {
        if !self.values.are_used() {
            return None;
        }
        let hold = std::mem::take(&mut self.hold_us);
        (hold > 0).then(|| Duration::from_micros(hold))
    }

    #[cold]
    fn forget(&mut self) {
        let (mut values, mut trail) = (std::mem::take(&mut self.values), std::mem::take(&mut self.trail));
        values.clear();
        trail.clear();
        *self = Route { values, trail, ..Route::default() };
    }

    /// From here on an error is an error, without a page.
    pub(super) fn fail(&mut self, status: u16) {
        self.course = Course::Error(status);
        self.shown = Some(Box::new(Shown { error: status, status: PageStatus::Page, fields: Vec::new() }));
    }
}

/// What follows some rules.
enum Outcome {
    /// The location at hand.
    Stay,
    /// Another search for a location.
    Search,
    /// What the rules made the request's course.
    Answer,
}

impl Work {
    /// Finds the location and the course of a request that has to go through rules.
    #[cold]
    pub(super) fn find_route(&mut self, on: &Conversation) {
        self.route.values.use_them();
        if !matches!(self.head.target.form, Form::Origin | Form::Absolute) {
            return;
        }
        let server = &on.worker.plan.servers[self.server];
        match self.run(on, &server.rules) {
            Outcome::Answer => {
                self.location = server.fallback;
                return;
            }
            // As in nginx: a path that a rule has changed is the config's, not the client's.
            Outcome::Search => self.route.internal = true,
            Outcome::Stay => {}
        }
        self.search(on);
        self.pass_gate(on);
    }

    fn search(&mut self, on: &Conversation) {
        let server = &on.worker.plan.servers[self.server];
        loop {
            let bytes = &self.input[self.start..self.start + self.head_length];
            let location = server.find(self.head.path(bytes), &mut self.route.values);
            if !self.enter(on, location) || !self.may_turn(on) {
                return;
            }
        }
    }

    /// Goes through what stands before the location's handler; true where another search is due.
    fn enter(&mut self, on: &Conversation, location: usize) -> bool {
        self.location = location;
        let Some(gate) = &on.worker.plan.locations[location].gate else { return false };
        if gate.internal && !self.route.internal {
            self.route.course = Course::Error(404);
            return false;
        }
        let searches = matches!(self.run(on, &gate.rules), Outcome::Search);
        self.route.internal |= searches;
        searches
    }

    fn run(&mut self, on: &Conversation, rules: &[Rule]) -> Outcome {
        let mut rewritten = false;
        for rule in rules {
            if rule.when.as_ref().is_some_and(|condition| !self.fulfils(on, condition)) {
                continue;
            }
            for (number, template) in &rule.set {
                let mut value = Vec::new();
                self.render(on, template, &mut value);
                self.route.values.set(*number, &value);
            }
            if let Some(rewrite) = &rule.rewrite
                && self.rewrite(on, rewrite)
            {
                match rewrite.then {
                    _ if self.route.course != Course::Handler => return Outcome::Answer,
                    Then::Last => return Outcome::Search,
                    Then::Break => return Outcome::Stay,
                    Then::Next | Then::Redirect | Then::Permanent => rewritten = true,
                }
            }
            if let Some(answer) = rule.answer {
                self.route.course = Course::Rule(answer);
                return Outcome::Answer;
            }
        }
        if rewritten { Outcome::Search } else { Outcome::Stay }
    }

    /// Whether a condition is true of the request.
    pub(super) fn fulfils(&mut self, on: &Conversation, condition: &Condition) -> bool {
        let mut text = Vec::new();
        self.render(on, &condition.text, &mut text);
        let holds = match &condition.test {
            Test::IsSet => is_set(&text),
            Test::Equals(template) => {
                let mut other = Vec::new();
                self.render(on, template, &mut other);
                text == other
            }
            Test::Matches(pattern) => pattern.find(&text, self.route.values.use_them()),
        };
        holds != condition.not
    }

    /// Replaces the path, if the rewrite matches it, or makes a redirect the course; false where it does not.
    fn rewrite(&mut self, on: &Conversation, rewrite: &Rewrite) -> bool {
        let bytes = self.head_bytes();
        let path = self.head.path(bytes).to_vec();
        let old = self.head.query(bytes).filter(|_| rewrite.keeps_query).map(<[u8]>::to_vec);
        if !rewrite.pattern.find(&path, &mut self.route.values) {
            return false;
        }
        let (mut to, mut query) = (Vec::new(), Vec::new());
        self.render(on, &rewrite.path, &mut to);
        if let Some(template) = &rewrite.query {
            let mut text = Vec::new();
            self.render(on, template, &mut text);
            path::encode_query(&text, &mut query);
        }
        if let Some(old) = old {
            if !query.is_empty() {
                query.push(b'&');
            }
            query.extend_from_slice(&old);
        }
        if let Some(status) = rewrite.redirect() {
            if !query.is_empty() {
                to.push(b'?');
                to.extend_from_slice(&query);
            }
            (self.route.redirect, self.route.course) = (to, Course::Redirect(status));
        } else if self.head.replace_path(&to, Some(&query)).is_err() {
            self.route.course = Course::Error(400);
        }
        true
    }

    /// Counts that a request changes its way; false where it did so too often.
    fn may_turn(&mut self, on: &Conversation) -> bool {
        self.route.turns += 1;
        if self.route.turns <= MOST_TURNS {
            return true;
        }
        let (number, bytes) = (on.stream.number(), self.head_bytes());
        let target = self.head.target.whole.of(bytes).escape_ascii();
        error!(
            connection = number,
            "{target} is sent elsewhere again and again: rules or error pages in a circle"
        );
        self.route.fail(500);
        false
    }

    /// The request goes on elsewhere within drover.
    #[cold]
    pub(super) fn go_elsewhere(&mut self, on: &Conversation, to: Elsewhere) {
        self.route.values.use_them();
        if !self.may_turn(on) {
            return;
        }
        (self.route.course, self.route.internal) = (Course::Handler, true);
        match to {
            Elsewhere::Page(page, status, fields) => self.show(on, page, status, fields),
            Elsewhere::Path(path, query) => self.go_to(on, &path, query.as_deref()),
            Elsewhere::Named(number) => self.go_to_named(on, number),
        }
    }

    fn go_to(&mut self, on: &Conversation, path: &[u8], query: Option<&[u8]>) {
        match self.head.replace_path(path, query) {
            Ok(()) => self.find_route(on),
            Err(_) => self.route.fail(500),
        }
    }

    fn go_to_named(&mut self, on: &Conversation, number: u32) {
        if self.enter(on, on.worker.plan.named[number as usize]) {
            self.search(on);
        }
        self.pass_gate(on);
    }

    /// Goes on to an error page of the location at hand.
    fn show(&mut self, on: &Conversation, page: usize, error: u16, fields: Vec<u8>) {
        let Some(pages) = &on.worker.plan.locations[self.location].error_pages else { return };
        let page = pages.get(page);
        self.route.shown = Some(Box::new(Shown { error, status: page.status, fields }));
        // Conditions and ranges were meant for what was asked for, not for the page.
        self.head.conditional = false;
        match &page.to {
            PageTarget::Path(path, query) => {
                let (mut text, mut arguments) = (Vec::new(), Vec::new());
                self.render(on, path, &mut text);
                if let Some(query) = query {
                    self.render(on, query, &mut arguments);
                }
                // As in nginx: a page is fetched, whatever the method of the request was.
                if self.head.method != Method::Head {
                    self.head.method = Method::Get;
                }
                self.go_to(on, &text, query.is_some().then_some(&arguments));
            }
            PageTarget::Named(number) => self.go_to_named(on, *number),
            PageTarget::Url(url) => {
                let mut text = Vec::new();
                self.render(on, url, &mut text);
                let status = match page.status {
                    PageStatus::Number(status) => status,
                    PageStatus::Error | PageStatus::Page => 302,
                };
                self.route.fail(status);
                (self.route.redirect, self.route.course) = (text, Course::Redirect(status));
            }
        }
    }
}
