//! A connection: one `async fn` from accept to close.
//!
//! What usually happens needs no waiting and allocates nothing: readable, one receive, the answer made, one
//! send, idle again. That is [`Conversation::pass`]. Whatever must wait meanwhile (more of a head, a body, a
//! client that reads slowly, a large file, a delay) goes on in a boxed future, [`at_length`], so that an idle
//! connection's own future stays small.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::time::Duration;

use drover_event::{Asked, Idle, PeerAddress, Phase, Stream, StreamError};
use tracing::{debug, warn};

use super::work::{About, Step, Work};
use crate::handler::files::{Content, OpenFile};
use crate::server::WorkerState;
use crate::variables::Facts;

/// A client's connection.
pub(crate) struct Conversation {
    pub(crate) stream: Stream,
    pub(crate) worker: Rc<WorkerState>,
    /// Number of the listener that accepted it.
    pub(crate) listener: usize,
    /// Requests so far.
    pub(crate) requests: u64,
    /// The worker drains: what is there is served, and nothing after it.
    draining: bool,
    /// The time-out for the head that is being received is set.
    pub(super) head_is_timed: bool,
}

/// How a pass ended.
enum Pass {
    /// Nothing is left to do until the client sends.
    Idle,
    Closed,
    /// Something must wait.
    AtLength(Box<(Box<Work>, Step)>),
}

/// Serves a connection until it closes.
pub(crate) async fn serve(mut on: Conversation) {
    on.stream.set_read_timeout(on.worker.plan.timeouts.header);
    on.head_is_timed = true;
    loop {
        let terms = if on.requests == 0 { Idle::First } else { Idle::Further };
        match on.stream.idle(terms).await {
            Ok(()) => {}
            // A request that came in time is still served.
            Err(StreamError::Asked(Asked::Drain)) => on.draining = true,
            Err(_) => return,
        }
        match on.pass() {
            Pass::Idle => {}
            Pass::Closed => return,
            Pass::AtLength(rest) => {
                if !Box::pin(at_length(&mut on, *rest)).await {
                    return;
                }
            }
        }
        if on.draining {
            return;
        }
    }
}

impl Conversation {
    pub(crate) fn new(stream: Stream, worker: Rc<WorkerState>, listener: usize) -> Conversation {
        Conversation { stream, worker, listener, requests: 0, draining: false, head_is_timed: false }
    }

    /// Whether the request at hand is the connection's last for the worker's sake.
    #[inline]
    pub(crate) fn is_last(&self) -> bool {
        self.draining || self.stream.core().is_draining()
    }

    /// Receives once, answers what came, and sends once.
    #[inline]
    fn pass(&mut self) -> Pass {
        let mut work = self.worker.take_work(self.stream.core());
        let pass = match self.stream.try_receive(&mut work.input) {
            Ok(count) if count > 0 => {
                work.filled = count;
                work.started = self.stream.core().now();
                self.answer_at_once(&mut work)
            }
            // The receive was tried in the hope that something is there already.
            Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => Ok(Pass::Idle),
            Ok(_) | Err(_) => Ok(Pass::Closed),
        };
        match pass {
            Ok(pass) => {
                self.worker.give_back(work);
                pass
            }
            Err(step) => Pass::AtLength(Box::new((work, step))),
        }
    }

    /// Answers without waiting; fails with the step that must wait.
    #[inline]
    fn answer_at_once(&mut self, work: &mut Work) -> Result<Pass, Step> {
        loop {
            let step = work.advance(self);
            let pass = match &step {
                Step::Receive if work.is_drained() => Pass::Idle,
                Step::Close { linger: false } => Pass::Closed,
                Step::Send(file, range) => {
                    if self.send_at_once(work, file, range) {
                        work.finish(self, range.end - range.start);
                        continue;
                    }
                    return Err(step);
                }
                _ => return Err(step),
            };
            match self.send_output(work) {
                Ok(true) => {}
                Ok(false) => return Err(step),
                Err(_) => return Ok(Pass::Closed),
            }
            if let Pass::Idle = pass {
                self.wait_for_further();
            }
            return Ok(pass);
        }
    }

    /// Sends the output with one call; false where that did not do it all.
    #[inline]
    fn send_output(&self, work: &mut Work) -> io::Result<bool> {
        let output = &work.output[work.sent..];
        if output.is_empty() {
            return Ok(true);
        }
        match self.stream.try_send(output, false) {
            Ok(count) => {
                work.sent += count;
                Ok(work.sent == work.output.len())
            }
            Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    /// Sends the output and a part of a file from memory with one call. False where that did not do it all;
    /// then nothing of the file counts as sent.
    fn send_at_once(&self, work: &mut Work, file: &OpenFile, range: &Range<u64>) -> bool {
        let Content::Memory(bytes) = &file.content else { return false };
        let part = &bytes[range.start as usize..range.end as usize];
        let output = &work.output[work.sent..];
        let whole = output.len() + part.len();
        match self.stream.try_send_vectored(&[IoSlice::new(output), IoSlice::new(part)], false) {
            Ok(count) if count == whole => {
                work.output.clear();
                work.sent = 0;
                true
            }
            Ok(count) => {
                // What of the part went out is made up for: the rest joins the output, as if it were all head.
                let of_output = count.min(output.len());
                work.sent += of_output;
                let left = &part[count - of_output..];
                work.output.extend_from_slice(left);
                true
            }
            Err(_) => false,
        }
    }

    /// The connection may stay, idle, for the keep-alive time.
    #[inline]
    fn wait_for_further(&mut self) {
        self.stream.set_phase(Phase::Idle);
        self.stream.set_read_timeout(self.worker.plan.timeouts.keepalive);
        self.head_is_timed = false;
    }

    /// Calls `then` with what is known about a request.
    pub(crate) fn with_facts(
        &self,
        about: &About<'_>,
        needs_local: bool,
        needs_time: bool,
        then: impl FnOnce(&Facts<'_>),
    ) {
        let core = self.stream.core();
        let unix_millis = u64::try_from(core.wall_clock().unix_millis()).unwrap_or(0);
        let mut time = self.worker.time.borrow_mut();
        let time = if needs_time { time.at((unix_millis / 1000) as i64) } else { &*time };
        then(&Facts {
            head: about.head,
            bytes: about.bytes,
            remote: match self.stream.peer() {
                PeerAddress::Internet(address) => Some(address),
                PeerAddress::Unix => None,
            },
            local: if needs_local { self.stream.local().ok().flatten() } else { None },
            pid: self.worker.pid,
            worker: self.worker.worker,
            connection: self.stream.number(),
            connection_requests: self.requests,
            server_name: &self.worker.plan.servers[about.server].name,
            status: 0,
            bytes_sent: 0,
            body_bytes_sent: 0,
            request_length: about.length,
            sent_head: b"",
            request_time: core.now().since(about.started),
            unix_millis,
            time_local: &time.common,
            time_iso8601: &time.iso8601,
        });
    }
}

/// Goes on where waiting is needed, until the connection is idle again (true) or closed (false).
async fn at_length(on: &mut Conversation, (mut work, step): (Box<Work>, Step)) -> bool {
    let stays = match go_on(on, &mut work, step).await {
        Ok(stays) => stays,
        Err(fault) => {
            debug!(connection = on.stream.number(), "closing: {fault}");
            false
        }
    };
    on.worker.give_back(work);
    stays
}

async fn go_on(on: &mut Conversation, work: &mut Work, mut step: Step) -> Result<bool, StreamError> {
    loop {
        match step {
            Step::Receive => {
                flush(on, work).await?;
                if work.is_drained() {
                    on.wait_for_further();
                    return Ok(true);
                }
                receive_head(on, work).await?;
            }
            Step::ReceiveBody => {
                flush(on, work).await?;
                receive_body(on, work).await?;
            }
            Step::Flush => flush(on, work).await?,
            Step::GiveWay => {
                flush(on, work).await?;
                on.stream.core().yield_now().await;
                work.begin_again();
            }
            Step::Delay(delay) => {
                flush(on, work).await?;
                on.stream.set_phase(Phase::Working);
                on.stream.core().sleep(delay).await;
            }
            Step::Send(file, range) => send(on, work, &file, range).await?,
            Step::Close { linger } => {
                flush(on, work).await?;
                if linger {
                    close_lingering(on, work).await?;
                }
                return Ok(false);
            }
        }
        step = work.advance(on);
    }
}

/// Receives more of a head. A client that takes too long is told so.
async fn receive_head(on: &mut Conversation, work: &mut Work) -> Result<(), StreamError> {
    on.stream.set_phase(Phase::ReadingHead);
    if !on.head_is_timed {
        on.stream.set_read_timeout(on.worker.plan.timeouts.header);
        on.head_is_timed = true;
    }
    match on.stream.receive(work.room_for_head()).await {
        Ok(0) => Err(closed_early()),
        Ok(count) => {
            work.filled += count;
            Ok(())
        }
        Err(StreamError::TimedOut) => {
            work.answer_error(on, 408);
            Ok(())
        }
        Err(fault) => Err(fault),
    }
}

async fn receive_body(on: &mut Conversation, work: &mut Work) -> Result<(), StreamError> {
    on.stream.set_phase(Phase::ReadingBody);
    on.stream.set_read_timeout(on.worker.plan.timeouts.body);
    match on.stream.receive(work.room_for_body()).await {
        Ok(0) => Err(closed_early()),
        Ok(count) => {
            work.filled += count;
            Ok(())
        }
        Err(StreamError::TimedOut) => {
            work.answer_error(on, 408);
            Ok(())
        }
        Err(fault) => Err(fault),
    }
}

fn closed_early() -> StreamError {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the client closed within a request").into()
}

/// Sends the output.
async fn flush(on: &Conversation, work: &mut Work) -> Result<(), StreamError> {
    send_all(on, &work.output[work.sent..], false).await?;
    work.output.clear();
    work.sent = 0;
    Ok(())
}

/// Sends `bytes`. The time-out is for the time between two sends.
async fn send_all(on: &Conversation, mut bytes: &[u8], more: bool) -> Result<(), StreamError> {
    while !bytes.is_empty() {
        match on.stream.try_send(bytes, more) {
            Ok(count) => bytes = &bytes[count..],
            Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => writable(on).await?,
            Err(fault) => return Err(fault.into()),
        }
    }
    Ok(())
}

async fn writable(on: &Conversation) -> Result<(), StreamError> {
    on.stream.set_phase(Phase::Sending);
    on.stream.set_write_timeout(on.worker.plan.timeouts.send);
    let ready = on.stream.writable().await;
    on.stream.clear_write_timeout();
    ready
}

/// Sends the output and a part of a file, and finishes the answer.
async fn send(
    on: &mut Conversation,
    work: &mut Work,
    file: &OpenFile,
    range: Range<u64>,
) -> Result<(), StreamError> {
    let mut at = range.start;
    let sent = match send_all(on, &work.output[work.sent..], true).await {
        Ok(()) => send_part(on, file, &mut at, range.end).await,
        fault => fault,
    };
    work.output.clear();
    work.sent = 0;
    work.finish(on, at - range.start);
    sent
}

async fn send_part(
    on: &mut Conversation,
    file: &OpenFile,
    at: &mut u64,
    end: u64,
) -> Result<(), StreamError> {
    let descriptor = match &file.content {
        Content::Memory(bytes) => {
            let part = &bytes[*at as usize..end as usize];
            send_all(on, part, false).await?;
            *at = end;
            return Ok(());
        }
        Content::Descriptor(descriptor) => descriptor,
    };
    while *at < end {
        let sent = if on.worker.plan.sendfile {
            match on.stream.try_send_file(descriptor.as_fd(), at, end - *at) {
                Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => {
                    writable(on).await?;
                    continue;
                }
                sent => sent?,
            }
        } else {
            let mut buffer = on.stream.core().take_buffer();
            let room = buffer.len().min(usize::try_from(end - *at).unwrap_or(usize::MAX));
            let count = descriptor.read_at(&mut buffer[..room], *at)?;
            send_all(on, &buffer[..count], *at + (count as u64) < end).await?;
            *at += count as u64;
            count
        };
        if sent == 0 {
            let number = on.stream.number();
            warn!(connection = number, "a file shrank while it was sent: {} bytes are missing", end - *at);
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        if *at < end {
            // Past its budget, the connection gives way here.
            writable(on).await?;
        }
    }
    Ok(())
}

/// Closes so that the answer arrives: if bytes that the client still sends met a closed socket, the reset
/// could overtake the answer.
async fn close_lingering(on: &Conversation, work: &mut Work) -> Result<(), StreamError> {
    on.stream.set_phase(Phase::Closing);
    on.stream.shutdown_send()?;
    let timeouts = &on.worker.plan.timeouts;
    let begun = on.stream.core().now();
    loop {
        let spent = Duration::from_millis(on.stream.core().now().since(begun));
        let Some(left) = timeouts.lingering_in_all.checked_sub(spent).filter(|left| !left.is_zero()) else {
            return Ok(());
        };
        on.stream.set_read_timeout(timeouts.lingering.min(left));
        if on.stream.receive(&mut work.input).await? == 0 {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<F: Future>(_: fn(Conversation) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn an_idle_connection_is_small() {
        let size = size_of_future(serve);
        assert!(size <= 160, "an idle connection's future has {size} bytes");
    }
}
