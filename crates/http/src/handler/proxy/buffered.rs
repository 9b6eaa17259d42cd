//! A response that the client takes more slowly than the server sends: what the client does not take now waits on a
//! disk, so that the server is done with it soon.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use drover_event::{Phase, Readiness, StreamError};

use super::download::{Download, End};
use super::encode::feed;
use super::fault::Fault;
use super::reframe::Reframe;
use super::spool::Spool;

impl Download<'_> {
    /// Receives what is left of the body as fast as it comes. What of it is not sent then is in the spool.
    pub(super) async fn pass_buffered(&mut self, mut body: Reframe) -> Result<End, Fault> {
        self.asked.on.stream.set_phase(Phase::Sending);
        self.server.set_read_timeout(self.proxy.read_timeout);
        let output = std::mem::take(self.output);
        self.keep_back(&output[*self.sent..]);
        *self.output = output;
        self.output.clear();
        *self.sent = 0;
        let (mut excess, mut ended) = (false, false);
        let mut goes_on = true;
        while goes_on {
            goes_on = poll_fn(|context| {
                loop {
                    let sent = self.poll_send(context)?;
                    if ended || body.body.is_done() {
                        return Poll::Ready(Ok::<bool, Fault>(false));
                    }
                    let received = self.poll_receive(&mut body, &mut excess, context)?;
                    ended = received == Some(true);
                    if received.is_some() && body.holds_back() {
                        return Poll::Ready(Ok(true));
                    }
                    if !sent && received.is_none() {
                        return Poll::Pending;
                    }
                }
            })
            .await?;
            if goes_on {
                // Encoding takes its time.
                self.server.core().yield_now().await;
            }
        }
        Ok(self.whole_end(excess))
    }

    /// Sends what waits, if the client takes it. Whether something went.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Result<bool, Fault> {
        let Some(spool) = self.spool.as_mut().filter(|spool| spool.left() > 0) else { return Ok(false) };
        let client = &self.asked.on.stream;
        let ready = poll(client.writable(), context);
        self.client_waited.note(client, ready.is_pending());
        match ready {
            Poll::Pending => return Ok(false),
            Poll::Ready(ready) => ready.map_err(Fault::ClientSend)?,
        }
        match spool.send(client) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => result.map_err(|error| Fault::ClientSend(error.into()))?,
        }
        if spool.left() > 0 {
            client.set_write_timeout(self.client_waited.left_for(client));
        } else {
            spool.renew();
            client.clear_write_timeout();
        }
        Ok(true)
    }

    /// Receives a part of the body, if there is room for it. None where nothing can be received now; true at the
    /// end of the server's stream.
    fn poll_receive(
        &mut self,
        body: &mut Reframe,
        excess: &mut bool,
        context: &mut Context<'_>,
    ) -> Result<Option<bool>, Fault> {
        if self.spool.as_ref().is_some_and(|spool| spool.left() > 0 && !spool.takes_more()) {
            // It is not the server's fault that nothing comes.
            self.server.clear_read_timeout();
            return Ok(None);
        }
        match poll(self.server.readable(), context) {
            // The client need not wait for what is there until the server goes on.
            Poll::Pending if body.holds_back() => {
                self.put_together(|framed| {
                    body.flush(framed);
                    body.coding().map_err(Fault::Encoding)
                })?;
                return Ok(Some(false));
            }
            Poll::Pending => return Ok(None),
            Poll::Ready(ready) => ready.map_err(Fault::Receive)?,
        }
        self.server.set_read_timeout(self.proxy.read_timeout);
        let core = self.server.core().clone();
        core.with_scratch(|scratch| self.receive(scratch, body, excess)).map(Some)
    }

    fn receive(&mut self, scratch: &mut [u8], body: &mut Reframe, excess: &mut bool) -> Result<bool, Fault> {
        let count = match self.server.try_receive(scratch) {
            Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(fault) => return Err(Fault::Receive(fault.into())),
            Ok(count) => count,
        };
        self.one.received += count as u64;
        if count == 0 && !body.body.ends_with_the_close() {
            return Err(Fault::CutBody);
        }
        if let Some(left) = body.unframed() {
            let taken = count.min(usize::try_from(left).unwrap_or(usize::MAX));
            body.body.passed(taken as u64);
            *excess |= taken < count;
            self.deliver(&scratch[..taken])?;
        } else {
            self.put_together(|framed| {
                if count == 0 {
                    body.end(framed);
                    return body.coding().map_err(Fault::Encoding);
                }
                let taken = feed(body, &scratch[..count], framed)?;
                *excess |= taken < count;
                Ok(())
            })?;
        }
        Ok(count == 0)
    }

    /// Delivers what `put` appends.
    fn put_together(&mut self, put: impl FnOnce(&mut Vec<u8>) -> Result<(), Fault>) -> Result<(), Fault> {
        let mut framed = std::mem::take(self.output);
        let delivered = put(&mut framed).and_then(|()| self.deliver(&framed));
        framed.clear();
        *self.output = framed;
        delivered
    }

    /// Sends bytes, or has them wait behind those that do.
    fn deliver(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.passed.body += bytes.len() as u64;
        let mut sent = 0;
        if self.spool.as_ref().is_none_or(|spool| spool.left() == 0) && !bytes.is_empty() {
            sent = match self.asked.on.stream.try_send(bytes, false) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                Err(error) => return Err(Fault::ClientSend(error.into())),
            };
        }
        self.keep_back(&bytes[sent..]);
        Ok(())
    }

    /// Has bytes wait.
    fn keep_back(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let (on, buffering) = (self.asked.on, &self.proxy.buffering);
        let new = || Spool::new(on, &buffering.directory, buffering.responses);
        self.spool.get_or_insert_with(new).add(bytes, on, &buffering.directory);
        on.stream.set_write_timeout(self.client_waited.left_for(&on.stream));
    }
}

pub(super) fn poll(mut readiness: Readiness<'_>, context: &mut Context<'_>) -> Poll<Result<(), StreamError>> {
    Pin::new(&mut readiness).poll(context)
}
