//! The PROXY protocol on its way in: a proxy says first for whom it connects.
//!
//! Whether it does is configured and never guessed. A connection without a right header is closed without an answer:
//! nobody knows whose it is.

use drover_event::CloseReason;
use drover_upstream::proxy_protocol::{Addresses, Decoded, decode};
use tracing::info;

use super::connection::{Conversation, Proxied, internet};
use super::step::Step;
use super::work::{Stage, Work};

impl Work {
    /// What was received begins with a header of the PROXY protocol.
    #[cold]
    pub(super) fn begin_with_proxy(&mut self) {
        self.stage = Stage::Proxy;
    }

    /// Reads the header, if all of it is there.
    pub(super) fn read_proxy(&mut self, on: &mut Conversation) -> Option<Step> {
        let proxy = internet(on.stream.peer()).map(|peer| peer.ip());
        if on.worker.plan.proxies.as_ref().is_some_and(|proxies| !proxies.has(proxy)) {
            return Some(turn_away(on, "is no proxy that may connect here"));
        }
        match decode(&self.input[self.start..self.filled]) {
            Ok(Decoded::Partial) => Some(Step::Receive),
            Ok(Decoded::Complete { header, length }) => {
                if let Addresses::Internet { source, destination } = header.addresses {
                    on.proxied = Some(Box::new(Proxied { source, destination }));
                }
                on.awaits_proxy = false;
                self.start += length;
                self.stage = Stage::Head;
                None
            }
            Err(fault) => Some(turn_away(on, &format!("sent {fault}"))),
        }
    }
}

#[cold]
fn turn_away(on: &Conversation, why: &str) -> Step {
    if on.may_complain() {
        let (number, peer) = (on.stream.number(), on.stream.peer());
        info!(connection = number, "closed: {peer} {why}");
    }
    on.stream.close_because(CloseReason::InvalidRequest);
    Step::Close { linger: false }
}
