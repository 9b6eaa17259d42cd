//! The gate of a location: limits, and who is let in by address. By password: see `identify`.

use drover_service::access::{self, Access};
use drover_service::limits::Verdict;

use super::connection::Conversation;
use super::route::Course;
use super::work::Work;
use crate::plan::Gate;
use crate::variables::Template;

impl Work {
    /// Lets a request through the gate of the location that was found, or makes a refusal its course. Limits count a
    /// request once, wherever it goes on; who is let in is asked at every location.
    pub(super) fn pass_gate(&mut self, on: &Conversation) {
        let Some(gate) = &on.worker.plan.locations[self.location].gate else { return };
        if self.route.course != Course::Handler {
            return;
        }
        let refused = self.limit(on, gate).or_else(|| self.refuse_by_address(on, gate));
        if let Some(status) = refused {
            self.route.course = Course::Error(status);
        } else if let Some(auth) = &gate.basic_auth {
            self.identify(on, auth);
        }
    }

    /// The status of a refusal, if a limit is reached. Else how long the request has to wait is noted.
    fn limit(&mut self, on: &Conversation, gate: &Gate) -> Option<u16> {
        if gate.request_limits.is_empty() && gate.connection_limits.is_empty()
            || std::mem::replace(&mut self.route.limited, true)
        {
            return None;
        }
        let limits = &on.worker.plan.client_limits;
        for own in &gate.connection_limits {
            let limit = &limits.connections[own.limit];
            let Some(key) = self.key(on, &limit.key) else { continue };
            match limit.table.begin(key, on.worker.worker, own.most) {
                Some(held) => self.route.held.push(held),
                None => return Some(own.status),
            }
        }
        let now = on.stream.core().now().as_u64() * 1000;
        for own in &gate.request_limits {
            let limit = &limits.requests[own.limit];
            let Some(key) = self.key(on, &limit.key) else { continue };
            match limit.table.take(key, now, own.burst, own.at_once) {
                Verdict::Pass(wait) => self.route.hold_us = self.route.hold_us.max(wait),
                Verdict::Refuse => return Some(own.status),
            }
        }
        None
    }

    /// What a limit counts the request by; none where it does not.
    fn key(&self, on: &Conversation, template: &Template) -> Option<u64> {
        let mut text = Vec::new();
        self.render(on, template, &mut text);
        (!text.is_empty()).then(|| on.worker.plan.client_limits.number(&text))
    }

    fn refuse_by_address(&self, on: &Conversation, gate: &Gate) -> Option<u16> {
        if gate.access.is_empty() {
            return None;
        }
        let client = on.client_address(Some(&self.head), self.head_bytes());
        let access = access::decide(&gate.access, client.map(|client| client.ip()));
        (access == Access::Denied).then_some(403)
    }
}
