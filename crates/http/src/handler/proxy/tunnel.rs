//! Another protocol, after 101: bytes pass both ways unseen until both sides have ended.

use drover_event::{CloseReason, Phase, PipeEnd, PipeTerms, Side, Stream, StreamError, pipe};

use super::Proxy;
use super::fault::Fault;
use crate::h1::connection::Conversation;

/// What passed through a tunnel.
#[derive(Debug, Default)]
pub(super) struct Tunnelled {
    pub(super) to_server: u64,
    pub(super) to_client: u64,
    /// What ended it, unless both sides did.
    pub(super) fault: Option<Fault>,
}

/// Passes bytes both ways, `early` ones of the client's first. A worker that drains lets tunnels go on until its
/// time is up, as it does with everything that is under way.
pub(super) async fn tunnel(on: &Conversation, server: &Stream, early: &[u8], proxy: &Proxy) -> Tunnelled {
    on.stream.set_phase(Phase::Tunnel);
    let terms = PipeTerms { first_to_right: early.to_vec(), ..PipeTerms::new(proxy.tunnel_timeout) };
    let piped = pipe(&on.stream, server, terms).await;
    let (reason, fault) = match piped.end {
        PipeEnd::Finished => (CloseReason::Finished, None),
        PipeEnd::TimedOut => (CloseReason::IdleTimeout, Some(Fault::Tunnel(StreamError::TimedOut))),
        PipeEnd::Failed(Side::Left, error) => (CloseReason::ClientFailed, Some(Fault::Tunnel(error.into()))),
        PipeEnd::Failed(Side::Right, error) => (CloseReason::ServerFailed, Some(Fault::Tunnel(error.into()))),
    };
    on.stream.close_because(reason);
    Tunnelled { to_server: piped.to_right, to_client: piped.to_left, fault }
}
