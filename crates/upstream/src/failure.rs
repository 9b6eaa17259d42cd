//! Failures: whose fault each was, and whether another server may be tried.

use std::io;

use drover_event::{ConnectError, ConnectFailure, StreamError};

/// Why an attempt failed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Cause {
    /// The server, or the way to it, refused the connection.
    Refused,
    /// No connection within `connect_timeout`.
    ConnectTimedOut,
    /// The server took nothing for too long.
    SendTimedOut,
    /// The server sent nothing for too long.
    ReceiveTimedOut,
    /// The server closed the connection too early.
    Closed,
    /// The server reset the connection, or it broke otherwise.
    Reset,
    /// What the server sent breaks the protocol.
    Invalid,
    /// The server answered, and its answer says that another should be asked.
    Answer,
    /// This worker had no slot, descriptor or address left.
    Local,
}

/// Whose fault a failure was.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fault {
    /// The server's: it counts against it.
    Server,
    /// This worker's: another server would not help.
    Worker,
}

/// How much of what was to be sent the server may have received.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Sent {
    /// Nothing was sent.
    Nothing,
    /// A part, or all of it: also what was handed to the kernel only.
    Something,
}

/// Whether what was to be sent may reach servers twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Repeatable {
    /// Twice is as good as once (RFC 9110 section 9.2.2), and it can be sent again from its first byte.
    Yes,
    /// It must not, or its first bytes are gone.
    No,
}

/// What may follow a failure.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Next {
    /// The same server on a new connection: the kept one had been closed, and nothing is wrong.
    SameAgain,
    /// Another server, if there is one.
    Another,
    /// Nothing: the failure is final.
    Stop,
}

impl Cause {
    /// All causes.
    pub const ALL: [Cause; 9] = [
        Cause::Refused,
        Cause::ConnectTimedOut,
        Cause::SendTimedOut,
        Cause::ReceiveTimedOut,
        Cause::Closed,
        Cause::Reset,
        Cause::Invalid,
        Cause::Answer,
        Cause::Local,
    ];

    /// The name used in logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Refused => "refused",
            Cause::ConnectTimedOut => "connect_timed_out",
            Cause::SendTimedOut => "send_timed_out",
            Cause::ReceiveTimedOut => "receive_timed_out",
            Cause::Closed => "closed",
            Cause::Reset => "reset",
            Cause::Invalid => "invalid",
            Cause::Answer => "answer",
            Cause::Local => "local",
        }
    }

    /// Whose fault it was.
    pub const fn fault(self) -> Fault {
        match self {
            Cause::Local => Fault::Worker,
            _ => Fault::Server,
        }
    }

    /// Whether time ran out, which HTTP tells apart (504 and not 502).
    pub const fn is_timeout(self) -> bool {
        matches!(self, Cause::ConnectTimedOut | Cause::SendTimedOut | Cause::ReceiveTimedOut)
    }

    /// The cause behind a failed receive or send.
    pub fn of_stream(error: &StreamError, sending: bool) -> Cause {
        match error {
            StreamError::TimedOut if sending => Cause::SendTimedOut,
            StreamError::TimedOut => Cause::ReceiveTimedOut,
            StreamError::Asked(_) => Cause::Local,
            StreamError::Io(error) => Cause::of_io(error),
        }
    }

    /// The cause behind a failed system call on a connection.
    pub fn of_io(error: &io::Error) -> Cause {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Cause::Closed,
            io::ErrorKind::ConnectionRefused => Cause::Refused,
            _ => Cause::Reset,
        }
    }

    /// The cause behind a connection that did not come about.
    pub fn of_connect(error: &ConnectError) -> Cause {
        match &error.failure {
            ConnectFailure::TimedOut(_) => Cause::ConnectTimedOut,
            // No port of this machine is left (connect(2)): that is not the server's fault.
            ConnectFailure::Refused(error) if error.kind() == io::ErrorKind::AddrNotAvailable => Cause::Local,
            ConnectFailure::Refused(_) => Cause::Refused,
            ConnectFailure::Local(_) | ConnectFailure::NoSlot => Cause::Local,
        }
    }

    /// What may follow, by one rule for all services.
    ///
    /// What cannot have been received may go elsewhere. What may have been received goes elsewhere only if
    /// it may arrive twice. A kept connection that breaks before anything came back was closed while it was
    /// idle: that is nobody's failure, and the same server is asked again on a new connection, by the same
    /// two conditions.
    pub const fn next(self, reused: bool, sent: Sent, repeatable: Repeatable) -> Next {
        let again = matches!(sent, Sent::Nothing) || matches!(repeatable, Repeatable::Yes);
        match self {
            Cause::Local => Next::Stop,
            _ if !again => Next::Stop,
            Cause::Closed | Cause::Reset if reused => Next::SameAgain,
            _ => Next::Another,
        }
    }
}

/// Why there is no server to try.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum NoPeer {
    /// All that could be tried were, or as many as `tries` says.
    #[error("no further server may be tried")]
    Exhausted,
    /// All are down, or given up for a while.
    #[error("no server is up")]
    Down,
    /// All that are up have as many connections as `max_connections` says.
    #[error("all servers have as many connections as they may")]
    Full,
    /// No address is known for any name.
    #[error("no server has an address")]
    Unresolved,
}

/// Why an attempt came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// There is no server to try.
    #[error(transparent)]
    NoPeer(#[from] NoPeer),
    /// A server could not be connected to. Nothing was sent.
    #[error("{error}")]
    Connect {
        /// What went wrong.
        error: ConnectError,
        /// The same in a word.
        cause: Cause,
    },
}

impl Failure {
    /// Whether another attempt makes sense.
    pub fn next(&self) -> Next {
        match self {
            Failure::NoPeer(_) => Next::Stop,
            Failure::Connect { cause, .. } => cause.next(false, Sent::Nothing, Repeatable::No),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_been_received_and_must_not_arrive_twice_is_never_sent_again() {
        for cause in Cause::ALL {
            for reused in [false, true] {
                let next = cause.next(reused, Sent::Something, Repeatable::No);
                assert_eq!(next, Next::Stop, "{}", cause.name());
            }
        }
    }

    #[test]
    fn what_was_not_sent_goes_elsewhere_whatever_it_is() {
        for cause in Cause::ALL.into_iter().filter(|cause| cause.fault() == Fault::Server) {
            assert_eq!(cause.next(false, Sent::Nothing, Repeatable::No), Next::Another, "{}", cause.name());
        }
        assert_eq!(Cause::Local.next(false, Sent::Nothing, Repeatable::Yes), Next::Stop);
    }

    #[test]
    fn a_kept_connection_that_was_closed_is_nobodys_failure() {
        for (sent, repeatable) in [(Sent::Nothing, Repeatable::No), (Sent::Something, Repeatable::Yes)] {
            assert_eq!(Cause::Closed.next(true, sent, repeatable), Next::SameAgain);
            assert_eq!(Cause::Reset.next(true, sent, repeatable), Next::SameAgain);
            assert_eq!(Cause::Reset.next(false, sent, repeatable), Next::Another);
            assert_eq!(Cause::ReceiveTimedOut.next(true, sent, repeatable), Next::Another);
        }
    }

    #[test]
    fn a_port_that_is_not_to_be_had_is_not_the_servers_fault() {
        let target = drover_event::Target::Unix("/x".into());
        let cause = |kind: io::ErrorKind| {
            let failure = ConnectFailure::Refused(kind.into());
            Cause::of_connect(&ConnectError { target: target.clone(), failure })
        };
        assert_eq!(cause(io::ErrorKind::AddrNotAvailable), Cause::Local);
        assert_eq!(cause(io::ErrorKind::ConnectionRefused), Cause::Refused);
        assert_eq!(cause(io::ErrorKind::HostUnreachable), Cause::Refused);
    }
}
