//! Why connections end: one reason each, from one list, for counters and logs alike.
//!
//! A protocol says what it knows by [`Stream::close_because`](crate::Stream::close_because); the engine notes
//! what it sees itself (the peer's end of stream, a reset, a time-out, a request to close). What is noted first
//! is the reason, because what follows (a reset while lingering, say) follows from it. The reason is counted when
//! the slot is returned, and logged at debug level.

use crate::connection::{Asked, Phase};
use crate::event::Direction;

drover_sys::named_words! {
    /// Why a connection that was accepted has ended.
    CloseReason {
        /// Its service had done all there was to do.
        Finished = "finished",
        /// The client closed it while nothing was under way.
        ClientClosed = "client_closed",
        /// The client closed or reset it within a request or while it was being answered.
        ClientAborted = "client_aborted",
        /// The client asked for it: `Connection: close`, or HTTP/1.0 without keep-alive.
        ClientAsked = "client_asked",
        /// The request was invalid or too large: the log has the rule.
        InvalidRequest = "invalid_request",
        /// The answer was one after which a connection cannot go on.
        LastAnswer = "last_answer",
        /// It had as many requests as a connection may have.
        KeepaliveRequests = "keepalive_requests",
        /// No further request came in time.
        KeepaliveTimeout = "keepalive_timeout",
        /// The head of a request did not come in time.
        HeaderTimeout = "header_timeout",
        /// The body of a request did not come in time.
        BodyTimeout = "body_timeout",
        /// The client did not take the answer in time.
        SendTimeout = "send_timeout",
        /// Nothing went through a tunnel in either direction for too long.
        IdleTimeout = "idle_timeout",
        /// The upstream could not be reached, or failed.
        UpstreamFailed = "upstream_failed",
        /// The upstream closed it.
        UpstreamClosed = "upstream_closed",
        /// A limit or a rule on who may connect.
        Refused = "refused",
        /// Idle, and its slot or descriptor was needed.
        Reclaimed = "reclaimed",
        /// No slot was free for it.
        NoSlot = "no_slot",
        /// The worker finishes: a reload or a graceful stop.
        Drained = "drained",
        /// The worker ended before the connection did.
        Stopped = "stopped",
        /// A fault of drover's own, or of the system: the log has more.
        Failed = "failed",
    }
}

impl CloseReason {
    /// What it means that the peer's stream ended, or that it was reset.
    pub(crate) fn of_end(phase: Phase, reset: bool) -> Self {
        let under_way = matches!(
            phase,
            Phase::ReadingHead
                | Phase::ReadingBody
                | Phase::Working
                | Phase::WaitingUpstream
                | Phase::Sending
        );
        if reset || under_way { Self::ClientAborted } else { Self::ClientClosed }
    }

    /// What it means that a time-out passed; `None` where it says nothing about the client.
    pub(crate) fn of_timeout(phase: Phase, direction: Direction) -> Option<Self> {
        match (phase, direction) {
            (Phase::Tunnel, _) => Some(Self::IdleTimeout),
            (Phase::Closing, _) => None,
            (_, Direction::Write) => Some(Self::SendTimeout),
            (Phase::Accepted | Phase::ReadingHead, Direction::Read) => Some(Self::HeaderTimeout),
            (Phase::ReadingBody, Direction::Read) => Some(Self::BodyTimeout),
            (Phase::Idle, Direction::Read) => Some(Self::KeepaliveTimeout),
            (Phase::Working | Phase::WaitingUpstream | Phase::Sending, Direction::Read) => None,
        }
    }

    /// What it means that the engine asked for the connection to be closed.
    pub(crate) fn of_asked(asked: Asked) -> Self {
        match asked {
            Asked::Reclaim => Self::Reclaimed,
            Asked::Drain => Self::Drained,
        }
    }
}

/// What is known so far about why a connection will end; one byte in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Noted(u8);

impl Noted {
    /// Nothing yet.
    pub(crate) const NOTHING: Self = Self(u8::MAX);

    /// Takes note of a reason, unless there is one.
    pub(crate) fn note(&mut self, reason: CloseReason) {
        if *self == Self::NOTHING {
            *self = Self(reason as u8);
        }
    }

    /// The reason.
    pub(crate) fn reason(self) -> Option<CloseReason> {
        CloseReason::ALL.get(usize::from(self.0)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_first_counts() {
        let mut noted = Noted::NOTHING;
        assert_eq!(noted.reason(), None);
        noted.note(CloseReason::InvalidRequest);
        noted.note(CloseReason::ClientClosed);
        assert_eq!(noted.reason(), Some(CloseReason::InvalidRequest));
        for &reason in CloseReason::ALL {
            let mut noted = Noted::NOTHING;
            noted.note(reason);
            assert_eq!(noted.reason(), Some(reason));
        }
    }
}
