//! The client's side of an exchange: its body passed on, and then a look-out for its end.

use std::cell::Cell;
use std::future::pending;

use drover_event::{CarryEnd, Load, Patience, Phase, Stream, StreamError, Waited, carry};

use super::Proxy;
use super::fault::Fault;
use super::reframe::Reframe;
use super::spool::Spool;
use crate::h1::connection::Conversation;
use crate::h1::incoming::Incoming;

/// The client's side.
pub(super) struct Upload<'a, 'b> {
    pub(super) on: &'a Conversation,
    pub(super) proxy: &'a Proxy,
    pub(super) server: &'a Stream,
    pub(super) incoming: &'a mut Incoming<'b>,
    /// The body as far as it was not sent with the head.
    pub(super) body: &'a mut Reframe,
    /// Where what goes out is put together.
    pub(super) frames: &'a mut Vec<u8>,
    /// Set once the server has the whole request.
    pub(super) whole: &'a Cell<bool>,
    /// Set once something is sent that is not in memory any more.
    pub(super) streamed: &'a Cell<bool>,
    /// Bytes that were sent here.
    pub(super) sent: &'a Cell<u64>,
    /// What was received of the body before, and goes first.
    pub(super) collected: Option<&'a mut Spool>,
}

impl Upload<'_, '_> {
    /// Passes on what is left of the body, and then waits for the client's end. Ends only with a fault:
    /// the client's, or the server's that it takes nothing in time. What else is wrong with the server shows where its
    /// response is waited for.
    pub(super) async fn run(mut self) -> Fault {
        if !self.whole.get() {
            match self.pass_on().await {
                Ok(()) => self.whole.set(true),
                Err(Side::Client(fault)) => return fault,
                // Nothing was taken for too long: it will not have an answer either.
                Err(Side::Server(StreamError::TimedOut)) => return Fault::Send(StreamError::TimedOut),
                Err(Side::Server(_)) => {
                    self.server.set_read_timeout(self.proxy.read_timeout);
                    return pending().await;
                }
            }
            self.on.stream.set_phase(Phase::WaitingUpstream);
            self.server.set_read_timeout(self.proxy.read_timeout);
        }
        if self.proxy.ignores_abort {
            return pending().await;
        }
        self.incoming.closed().await;
        Fault::ClientClosed
    }

    async fn pass_on(&mut self) -> Result<(), Side> {
        // The server has nothing to say before it has the request, however long that takes.
        self.server.clear_read_timeout();
        if let Some(spool) = self.collected.take() {
            spool.rewind();
            spool.send_all(self.server, self.proxy.send_timeout.into()).await.map_err(Side::Server)?;
            self.count(spool.length());
        }
        if self.body.body.is_done() {
            return Ok(());
        }
        self.streamed.set(true);
        self.frames.clear();
        while !self.body.body.is_done() {
            if let Some(left) = self.body.unframed() {
                return self.carry(left).await;
            }
            match self.incoming.receive().await {
                Ok(0) => return Err(Side::Client(Fault::ClientCut)),
                Ok(_) => {}
                Err(error) => return Err(Side::Client(client_fault(&error))),
            }
            let fed = self.body.feed(self.incoming.unread(), self.frames);
            let taken = fed.map_err(|refusal| Side::Client(Fault::ClientInvalid(refusal)))?;
            self.incoming.read(taken);
            self.send().await?;
        }
        Ok(())
    }

    /// Passes on bytes that nobody has to look at.
    async fn carry(&mut self, left: u64) -> Result<(), Side> {
        self.on.stream.set_phase(Phase::ReadingBody);
        let load = Load {
            most: left,
            leaves_rest: true,
            receiving: self.on.worker.plan.timeouts.body,
            sending: self.proxy.send_timeout.into(),
        };
        let carried = carry(&self.on.stream, self.server, load).await;
        self.incoming.passed(carried.moved);
        self.body.body.passed(carried.moved);
        self.count(carried.moved);
        match carried.end {
            CarryEnd::Whole { .. } => Ok(()),
            CarryEnd::Ended => Err(Side::Client(Fault::ClientCut)),
            CarryEnd::Receiving(error) => Err(Side::Client(client_fault(&error))),
            CarryEnd::Sending(error) => Err(Side::Server(error)),
        }
    }

    async fn send(&mut self) -> Result<(), Side> {
        let sent = send_all(self.server, self.frames, self.proxy.send_timeout.into()).await;
        self.count(self.frames.len() as u64);
        self.frames.clear();
        sent.map_err(Side::Server)
    }

    fn count(&self, sent: u64) {
        self.sent.set(self.sent.get() + sent);
    }
}

/// On which side passing on failed.
enum Side {
    Client(Fault),
    Server(StreamError),
}

pub(super) fn client_fault(error: &StreamError) -> Fault {
    match error {
        StreamError::TimedOut => Fault::ClientTimedOut,
        _ => Fault::ClientCut,
    }
}

/// Sends the output to the client; it is empty then.
pub(super) async fn flush(on: &Conversation, output: &mut Vec<u8>, sent: &mut usize) -> Result<(), Fault> {
    if output.is_empty() {
        return Ok(());
    }
    on.stream.set_phase(Phase::Sending);
    let patience = on.worker.plan.timeouts.send;
    send_all(&on.stream, &output[*sent..], patience).await.map_err(Fault::ClientSend)?;
    output.clear();
    *sent = 0;
    Ok(())
}

/// Sends `bytes`.
pub(super) async fn send_all(stream: &Stream, bytes: &[u8], patience: Patience) -> Result<(), StreamError> {
    let mut waited = Waited::new(patience);
    let mut sent = 0;
    while sent < bytes.len() {
        match stream.try_send(&bytes[sent..], false) {
            Ok(count) => sent += count,
            Err(fault) if fault.kind() == std::io::ErrorKind::WouldBlock => {
                waited.writable(stream).await?;
            }
            Err(fault) => return Err(fault.into()),
        }
    }
    Ok(())
}
