//! The body of a request, received before a server is asked, where the config wants that: the server is then busy only
//! for as long as it takes to read it, and another one can be asked if it fails.

use super::Proxy;
use super::fault::Fault;
use super::reframe::Reframe;
use super::spool::Spool;
use super::upload::{client_fault, send_all};
use crate::h1::connection::Conversation;
use crate::h1::incoming::Incoming;

/// Bytes of a request that are kept in memory.
const IN_MEMORY: usize = 64 * 1024;

/// Whether this body is to be received first. Longer ones, where the length is known, go on as they come.
pub(super) fn is_wanted(proxy: &Proxy, body: &Reframe) -> bool {
    let most = proxy.buffering.requests;
    most > 0 && !body.body.is_done() && body.body.unframed().is_none_or(|left| left <= most)
}

/// The client's side before there is a server.
pub(super) struct Collect<'a, 'b> {
    pub(super) on: &'a Conversation,
    pub(super) proxy: &'a Proxy,
    pub(super) incoming: &'a mut Incoming<'b>,
    pub(super) body: &'a mut Reframe,
    /// The request as far as it is known.
    pub(super) request: &'a mut Vec<u8>,
}

impl Collect<'_, '_> {
    /// Tells a client that waits to be told to go on.
    pub(super) async fn invite(&self) -> Result<(), Fault> {
        let timeout = self.on.worker.plan.timeouts.send;
        let sent = send_all(&self.on.stream, b"HTTP/1.1 100 Continue\r\n\r\n", timeout).await;
        sent.map_err(Fault::ClientSend)
    }

    /// Receives the body, into memory if it is short. What there is no room for is left to be received.
    pub(super) async fn run(self) -> Result<Option<Spool>, Fault> {
        let buffering = &self.proxy.buffering;
        let mut spool: Option<Spool> = None;
        while !self.body.body.is_done() && spool.as_ref().is_none_or(Spool::takes_more) {
            match self.incoming.receive().await {
                Ok(0) => return Err(Fault::ClientCut),
                Ok(_) => {}
                Err(error) => return Err(client_fault(&error)),
            }
            let before = self.request.len();
            let fed = self.body.feed(self.incoming.unread(), self.request);
            self.incoming.read(fed.map_err(Fault::ClientInvalid)?);
            if spool.is_some() || self.request.len() > IN_MEMORY {
                let new = || Spool::new(self.on, &buffering.directory, buffering.requests);
                let spool = spool.get_or_insert_with(new);
                spool.add(&self.request[before..], self.on, &buffering.directory);
                self.request.truncate(before);
            }
        }
        Ok(spool)
    }
}
