//! What goes wrong when a request is passed on: what it was, whose fault, and what follows from it.

use std::io;

use drover_event::{CloseReason, Counter, StreamError};
use drover_upstream::{Cause, Failure, NoPeer};

use crate::h1::rule::Refusal;

/// Why a request could not be passed on, or its response not be passed back.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// A text names an upstream that there is not.
    #[error("there is no such upstream")]
    NoUpstream,
    /// An error page stands for what the server answers.
    #[error("the server answered {0}")]
    Intercepted(u16),
    /// No server, or no connection with one.
    #[error("{0}")]
    Connect(#[from] Failure),
    /// The server took nothing of the request, or the connection broke meanwhile.
    #[error("sending the request: {0}")]
    Send(#[source] StreamError),
    /// The server sent no head of a response in time, or the connection broke before.
    #[error("waiting for the response: {0}")]
    Wait(#[source] StreamError),
    /// The server closed before its response began.
    #[error("the server closed without a response")]
    NoResponse,
    /// The server closed within the head of its response.
    #[error("the server closed within the head of its response")]
    CutHead,
    /// The head is none, or could be read in two ways.
    #[error("invalid head of a response: {0}")]
    InvalidHead(Refusal),
    /// The server changes to a protocol that was not asked for.
    #[error("the server changes to another protocol, which was not asked for")]
    Upgrade,
    /// The server says that it goes on, again and again.
    #[error("more than {INTERIM_MOST} interim responses")]
    Interim,
    /// The response says that another server should be asked.
    #[error("the server answered {0}")]
    Answer(u16),
    /// The body of the response stopped coming, or the connection broke within it.
    #[error("receiving the response: {0}")]
    Receive(#[source] StreamError),
    /// The server closed before its response was whole.
    #[error("the server closed within its response")]
    CutBody,
    /// The body's framing is broken.
    #[error("invalid body of a response: {0}")]
    InvalidBody(Refusal),
    /// There was no memory for encoding the body of the response.
    #[error("encoding the response: {0}")]
    Encoding(#[source] io::Error),
    /// A connection with another protocol was silent for too long, or broke.
    #[error("tunnel: {0}")]
    Tunnel(#[source] StreamError),
    /// The client closed, or its connection broke, before it had its response.
    #[error("the client closed")]
    ClientClosed,
    /// The client closed, or its connection broke, within its request.
    #[error("the client closed within its request")]
    ClientCut,
    /// The client sends its body too slowly.
    #[error("the client's body timed out")]
    ClientTimedOut,
    /// The client's body is invalid or too large.
    #[error("invalid body of a request: {0}")]
    ClientInvalid(Refusal),
    /// The client does not take its response.
    #[error("sending to the client: {0}")]
    ClientSend(#[source] StreamError),
}

/// The most interim responses before the final one.
pub(super) const INTERIM_MOST: u32 = 100;

/// Whose fault it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Blame {
    /// The server's, or that of the way to it.
    Server,
    Client,
    /// This worker's: it has no slot or descriptor left.
    Worker,
}

impl Fault {
    /// The cause as servers are judged by; none where it was not the server's fault.
    pub(crate) fn cause(&self) -> Option<Cause> {
        Some(match self {
            Fault::Connect(Failure::Connect { cause, .. }) => *cause,
            Fault::Connect(Failure::NoPeer(_)) => return None,
            Fault::Send(error) => Cause::of_stream(error, true),
            Fault::Wait(error) | Fault::Receive(error) => Cause::of_stream(error, false),
            Fault::NoResponse | Fault::CutHead | Fault::CutBody => Cause::Closed,
            Fault::InvalidHead(_) | Fault::InvalidBody(_) | Fault::Upgrade | Fault::Interim => Cause::Invalid,
            Fault::Answer(_) => Cause::Answer,
            Fault::Encoding(_) => Cause::Local,
            Fault::NoUpstream
            | Fault::Intercepted(_)
            // Who is to blame is theirs to know.
            | Fault::Tunnel(_)
            | Fault::ClientClosed
            | Fault::ClientCut
            | Fault::ClientTimedOut
            | Fault::ClientInvalid(_)
            | Fault::ClientSend(_) => return None,
        })
    }

    /// Whose fault it was.
    pub(crate) fn blame(&self) -> Blame {
        match (self, self.cause()) {
            (_, Some(Cause::Local)) => Blame::Worker,
            (_, Some(_)) | (Fault::Connect(_) | Fault::NoUpstream | Fault::Intercepted(_), None) => {
                Blame::Server
            }
            (_, None) => Blame::Client,
        }
    }

    /// The status that the client is told where nothing of a response was passed on; 499 for one that is not
    /// there to be told, as nginx logs it.
    pub(crate) fn status(&self) -> u16 {
        match self {
            Fault::Connect(Failure::NoPeer(NoPeer::Down | NoPeer::Full | NoPeer::Unresolved)) => 503,
            Fault::ClientTimedOut => 408,
            Fault::ClientInvalid(refusal) => refusal.rule.status(),
            Fault::Answer(status) | Fault::Intercepted(status) => *status,
            _ => match (self.blame(), self.cause()) {
                (Blame::Client, _) => 499,
                (Blame::Worker, _) => 503,
                (Blame::Server, Some(cause)) if cause.is_timeout() => 504,
                (Blame::Server, _) => 502,
            },
        }
    }

    /// Why a connection ends whose response is cut by this; none where the engine has seen what the client did.
    pub(crate) fn close_reason(&self) -> Option<CloseReason> {
        match (self, self.blame()) {
            (Fault::ClientInvalid(_), _) => Some(CloseReason::InvalidRequest),
            (Fault::ClientTimedOut, _) => Some(CloseReason::BodyTimeout),
            (_, Blame::Server) => Some(CloseReason::ServerFailed),
            (_, Blame::Worker) => Some(CloseReason::InternalError),
            (_, Blame::Client) => None,
        }
    }

    /// A few words for `$upstream_error`.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Fault::Connect(Failure::NoPeer(NoPeer::Exhausted)) => "exhausted",
            Fault::Connect(Failure::NoPeer(NoPeer::Down)) => "down",
            Fault::Connect(Failure::NoPeer(NoPeer::Full)) => "full",
            Fault::Connect(Failure::NoPeer(NoPeer::Unresolved)) => "unresolved",
            Fault::Connect(Failure::Connect { cause, .. }) => cause.name(),
            Fault::Send(StreamError::TimedOut) => "send_timed_out",
            Fault::Send(_) => "send_reset",
            Fault::Wait(StreamError::TimedOut) => "head_timed_out",
            Fault::Wait(_) => "head_reset",
            Fault::NoResponse => "no_response",
            Fault::CutHead => "head_cut",
            Fault::InvalidHead(_) => "head_invalid",
            Fault::Upgrade => "upgrade_unasked",
            Fault::Interim => "too_many_interim",
            Fault::Answer(_) => "answer",
            Fault::NoUpstream => "no_upstream",
            Fault::Intercepted(_) => "intercepted",
            Fault::Receive(StreamError::TimedOut) => "body_timed_out",
            Fault::Receive(_) => "body_reset",
            Fault::CutBody => "body_cut",
            Fault::InvalidBody(_) => "body_invalid",
            Fault::Encoding(_) => "encoding",
            Fault::Tunnel(StreamError::TimedOut) => "tunnel_timed_out",
            Fault::Tunnel(_) => "tunnel_reset",
            Fault::ClientClosed => "client_closed",
            Fault::ClientCut => "client_cut",
            Fault::ClientTimedOut => "client_timed_out",
            Fault::ClientInvalid(_) => "client_invalid",
            Fault::ClientSend(StreamError::TimedOut) => "client_send_timed_out",
            Fault::ClientSend(_) => "client_reset",
        }
    }
}

/// The counter of a cause.
pub(super) fn counter(cause: Cause) -> Counter {
    match cause {
        Cause::Refused => Counter::UpstreamRefused,
        Cause::ConnectTimedOut => Counter::UpstreamConnectTimeouts,
        Cause::SendTimedOut => Counter::UpstreamSendTimeouts,
        Cause::ReceiveTimedOut => Counter::UpstreamReceiveTimeouts,
        Cause::Closed => Counter::UpstreamClosed,
        Cause::Reset => Counter::UpstreamReset,
        Cause::Invalid => Counter::UpstreamInvalid,
        Cause::Answer => Counter::UpstreamAnswers,
        Cause::Local => Counter::UpstreamLocal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h1::rule::Rule;

    fn reset() -> StreamError {
        io::Error::from(io::ErrorKind::ConnectionReset).into()
    }

    #[test]
    fn clients_are_told_whose_fault_it_was() {
        let refusal = |rule| Refusal { rule, offset: 0 };
        for (fault, status, blame) in [
            (Fault::Connect(NoPeer::Down.into()), 503, Blame::Server),
            (Fault::Connect(NoPeer::Exhausted.into()), 502, Blame::Server),
            (Fault::Send(StreamError::TimedOut), 504, Blame::Server),
            (Fault::Wait(StreamError::TimedOut), 504, Blame::Server),
            (Fault::Wait(reset()), 502, Blame::Server),
            (Fault::NoResponse, 502, Blame::Server),
            (Fault::InvalidHead(refusal(Rule::BareLf)), 502, Blame::Server),
            (Fault::ClientClosed, 499, Blame::Client),
            (Fault::ClientTimedOut, 408, Blame::Client),
            (Fault::ClientInvalid(refusal(Rule::BodyTooLarge)), 413, Blame::Client),
            (Fault::ClientSend(reset()), 499, Blame::Client),
        ] {
            assert_eq!((fault.status(), fault.blame()), (status, blame), "{fault}");
        }
    }
}
