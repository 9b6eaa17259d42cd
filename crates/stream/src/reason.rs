//! Why a connection or session ended, as the status that nginx has for it.

pub use drover_event::CloseReason;

/// The reason as a number of three digits, as nginx has it: `$status`.
pub(crate) const fn status(reason: CloseReason) -> u16 {
    match reason {
        CloseReason::Finished
        | CloseReason::ClientClosed
        | CloseReason::ClientFailed
        | CloseReason::ClientAsked
        | CloseReason::LastAnswer
        | CloseReason::KeepaliveRequests
        | CloseReason::KeepaliveTimeout
        | CloseReason::IdleTimeout
        | CloseReason::SendTimeout
        | CloseReason::ServerFailed
        | CloseReason::Drained => 200,
        CloseReason::ClientGone
        | CloseReason::PrereadTimeout
        | CloseReason::HeaderTimeout
        | CloseReason::BodyTimeout
        | CloseReason::BadClientHello
        | CloseReason::BadProxyProtocol
        | CloseReason::InvalidRequest => 400,
        CloseReason::UnknownName | CloseReason::Refused => 403,
        CloseReason::NoSlot | CloseReason::Reclaimed | CloseReason::Shutdown | CloseReason::InternalError => {
            500
        }
        CloseReason::ConnectRefused | CloseReason::ConnectTimeout | CloseReason::NoServer => 502,
        CloseReason::ServersFull => 503,
    }
}
