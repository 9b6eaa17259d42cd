//! Why connections end: one reason each, from one list, for counters and logs alike.
//!
//! A protocol says what it knows by [`Stream::close_because`](crate::Stream::close_because); the engine notes
//! what it sees itself (the peer's end of stream, a reset, a time-out, a request to close). What comes later is
//! nearer to the end and counts, with two exceptions: once the connection is closing, what the peer does about it
//! says nothing; and that the peer closes is no reason beside any other. The reason is counted when the slot is
//! returned, and logged at debug level.

use std::io;

use crate::connection::{Asked, Phase};
use crate::event::Direction;

drover_sys::named_words! {
    /// Why a connection that was accepted, or a session, has ended.
    CloseReason {
        /// All was done that there was to do.
        Finished = "finished",
        /// The client closed it while nothing was under way.
        ClientClosed = "client_closed",
        /// The client closed it within a request, or before it was passed on.
        ClientGone = "client_gone",
        /// The client reset it, or the network to the client failed.
        ClientFailed = "client_failed",
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
        /// The client did not tell within `preread_timeout` where it wants to be passed on to.
        PrereadTimeout = "preread_timeout",
        /// Nothing passed for `idle_timeout`, or for `half_closed_timeout` once one side had ended.
        IdleTimeout = "idle_timeout",
        /// The client's first TLS message breaks the standard.
        BadClientHello = "bad_client_hello",
        /// What a proxy has to say first is not there, or breaks the PROXY protocol.
        BadProxyProtocol = "bad_proxy_protocol",
        /// The client asked for a name that nothing stands for.
        UnknownName = "unknown_name",
        /// A limit or a rule on who may connect.
        Refused = "refused",
        /// The last server tried refused the connection, or the way to it was barred.
        ConnectRefused = "connect_refused",
        /// The last server tried did not answer within `connect_timeout`.
        ConnectTimeout = "connect_timeout",
        /// No server is up, or none has an address.
        NoServer = "no_server",
        /// All servers have as many connections as they may.
        ServersFull = "servers_full",
        /// The server reset the connection to it, left its answer unfinished, or the network to it failed.
        ServerFailed = "server_failed",
        /// The worker had no slot or descriptor for it, or for the connection to a server.
        NoSlot = "no_slot",
        /// Idle, and its slot or descriptor was needed.
        Reclaimed = "reclaimed",
        /// Idle, and the worker finishes: a reload or a graceful stop.
        Drained = "drained",
        /// The worker ended before it did: `shutdown_timeout` had passed, or it was told to stop at once.
        Shutdown = "shutdown",
        /// A fault of drover's own, or of the system, or its worker crashed: the log has more.
        InternalError = "internal_error",
    }
}

impl CloseReason {
    /// What it means that the peer's stream ended.
    pub(crate) fn of_end(phase: Phase) -> Self {
        match phase {
            Phase::ReadingHead
            | Phase::ReadingBody
            | Phase::Working
            | Phase::WaitingUpstream
            | Phase::Sending => Self::ClientGone,
            Phase::Accepted | Phase::Idle | Phase::Tunnel | Phase::Closing => Self::ClientClosed,
        }
    }

    /// What it means that something can be neither received nor sent any more: that of the peer, or of the way to it,
    /// is no fault of this machine's.
    pub(crate) fn of_fault(fault: &io::Error) -> Self {
        match fault.kind() {
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::NotConnected
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::TimedOut
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown => Self::ClientFailed,
            _ => Self::InternalError,
        }
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

    /// The protocol says so.
    pub(crate) fn say(&mut self, reason: CloseReason) {
        *self = Self(reason as u8);
    }

    /// The engine sees so, in this phase of the connection.
    pub(crate) fn see(&mut self, reason: CloseReason, phase: Phase) {
        let says_nothing = phase == Phase::Closing || reason == CloseReason::ClientClosed;
        if *self == Self::NOTHING || !says_nothing {
            self.say(reason);
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
    fn every_reason_fits_and_is_told() {
        assert_eq!(Noted::NOTHING.reason(), None);
        for &reason in CloseReason::ALL {
            let mut noted = Noted::NOTHING;
            noted.say(reason);
            assert_eq!(noted.reason(), Some(reason));
            assert!(reason.name().bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'));
        }
    }

    #[test]
    fn what_comes_later_counts_unless_it_only_follows() {
        let ended = |steps: &[(CloseReason, Option<Phase>)]| {
            let mut noted = Noted::NOTHING;
            for (reason, seen_in) in steps {
                match seen_in {
                    Some(phase) => noted.see(*reason, *phase),
                    None => noted.say(*reason),
                }
            }
            noted.reason().expect("a reason")
        };
        use CloseReason::{ClientAsked, ClientClosed, ClientFailed, Finished, InvalidRequest, SendTimeout};
        let refused = [(InvalidRequest, None), (ClientFailed, Some(Phase::Closing))];
        assert_eq!(ended(&refused), InvalidRequest);
        let cut_short = [(ClientAsked, None), (SendTimeout, Some(Phase::Sending))];
        assert_eq!(ended(&cut_short), SendTimeout);
        let both_ended = [(ClientClosed, Some(Phase::Tunnel)), (Finished, None)];
        assert_eq!(ended(&both_ended), Finished);
        assert_eq!(ended(&[(ClientAsked, None), (ClientClosed, Some(Phase::Idle))]), ClientAsked);
        assert_eq!(ended(&[(ClientClosed, Some(Phase::Closing))]), ClientClosed);
    }
}
