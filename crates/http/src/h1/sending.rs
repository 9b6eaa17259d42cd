//! Sending to a client that may take its time: what is waited with, and for how long.

use std::io;

use drover_event::{Buffer, Phase, StreamError, Waited};

use super::connection::Conversation;
use super::work::Work;

/// An answer on its way. While the client is waited for, it takes no more memory than what is still to be sent and
/// the request's head.
pub(super) struct Sending<'a> {
    pub(super) on: &'a Conversation,
    input: &'a mut Buffer,
    /// Bytes of the input that are needed later.
    used: usize,
    pub(super) output: &'a mut Vec<u8>,
    /// Bytes of the output that are sent.
    sent: &'a mut usize,
    waited: Waited,
}

impl<'a> Sending<'a> {
    pub(super) fn new(on: &'a Conversation, work: &'a mut Work) -> Sending<'a> {
        let waited = Waited::new(on.worker.plan.timeouts.send);
        let Work { input, filled, output, sent, .. } = work;
        Sending { on, input, used: *filled, output, sent, waited }
    }

    /// Waits until the client takes more.
    pub(super) async fn writable(&mut self) -> Result<(), StreamError> {
        self.input.set_aside(self.used);
        self.on.stream.set_phase(Phase::Sending);
        self.waited.writable(&self.on.stream).await
    }

    /// Sends as much as the client takes at once, after waiting for it if it takes nothing.
    pub(super) async fn some(&mut self, bytes: &[u8], more: bool) -> Result<usize, StreamError> {
        loop {
            match self.on.stream.try_send(bytes, more) {
                Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => self.writable().await?,
                sent => return Ok(sent?),
            }
        }
    }

    /// Sends `bytes`.
    pub(super) async fn all(&mut self, mut bytes: &[u8], more: bool) -> Result<(), StreamError> {
        while !bytes.is_empty() {
            let sent = self.some(bytes, more).await?;
            bytes = &bytes[sent..];
        }
        Ok(())
    }

    /// Sends the output, which is then empty; `more` where the answer goes on behind it.
    pub(super) async fn flush(&mut self, more: bool) -> Result<(), StreamError> {
        let output = std::mem::take(self.output);
        let sent = self.all(&output[*self.sent..], more).await;
        *self.output = output;
        self.output.clear();
        *self.sent = 0;
        sent
    }
}
