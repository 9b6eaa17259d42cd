//! The server's side of an exchange: its response received, judged, and passed on as it comes.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::ops::Range;

use drover_event::{CarryEnd, Load, Phase, Stream, Waited, carry};

use super::Proxy;
use super::encode::{Course, feed};
use super::fault::{Fault, INTERIM_MOST};
use super::memory::Try;
use super::reframe::Reframe;
use super::respond::{self, Terms};
use super::spool::Spool;
use super::upload::flush;
use crate::encoding::PIECE;
use crate::error_pages::ErrorPages;
use crate::h1::asked::Asked;
use crate::h1::body::Body;
use crate::h1::complete::Changes;
use crate::h1::framing::Framing;
use crate::h1::head::Status;
use crate::h1::name::Name;
use crate::h1::response_head::ResponseHead;
use crate::response::Fate;

/// A part of a body up to this is sent from one buffer with the head: two cost the kernel more than the copy.
const COPIED: usize = 4 * 1024;
/// What is received at once of a body whose framing changes.
const RELAYED: usize = 24 * 1024;

/// What was passed on so far.
#[derive(Debug, Default)]
pub(super) struct Passed {
    /// The final response's status; 0 while nothing of it was passed on.
    pub(super) status: u16,
    /// Bytes of its head.
    pub(super) head: usize,
    /// Bytes of its body.
    pub(super) body: u64,
    pub(super) fate: Option<Fate>,
    /// Only the close tells the client that the body is whole.
    pub(super) until_close: bool,
    pub(super) interim: u32,
}

/// How a response ended that was passed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// It is whole.
    Whole {
        /// The connection with the server can be used again, as far as the response goes.
        reusable: bool,
    },
    /// Its head is, and what follows is another protocol.
    Upgraded,
    /// It is an error with this status, for which an error page stands. Nothing of it was passed on.
    Intercepted(u16),
}

/// The server's side.
pub(super) struct Download<'a> {
    pub(super) asked: Asked<'a>,
    pub(super) proxy: &'a Proxy,
    /// The pages that stand for errors of servers.
    pub(super) pages: Option<&'a ErrorPages>,
    /// What is done to the head that is passed on.
    pub(super) changes: Changes<'a>,
    pub(super) server: &'a Stream,
    /// What becomes of the client's connection, as far as the request goes.
    pub(super) fate: Fate,
    /// Whether the server has the whole request.
    pub(super) whole: &'a Cell<bool>,
    /// Whether a response may be left for another server's.
    pub(super) may_leave: bool,
    pub(super) wants_head: bool,
    pub(super) output: &'a mut Vec<u8>,
    /// Bytes of the output that are sent.
    pub(super) sent: &'a mut usize,
    /// The head as it was passed on, for the log.
    pub(super) sent_head: &'a mut Vec<u8>,
    /// Its status and length, should the answer be cut short.
    pub(super) begun: &'a mut (u16, u64, u64),
    pub(super) head: &'a mut ResponseHead,
    /// The beginning of a head, until the rest comes.
    pub(super) partial: &'a mut Vec<u8>,
    pub(super) one: &'a mut Try,
    pub(super) passed: &'a mut Passed,
    /// How long the client was waited for.
    pub(super) client_waited: Waited,
    /// What the client does not take at once of a body that is buffered.
    pub(super) spool: &'a mut Option<Spool>,
}

enum Next {
    /// More of a head.
    Head,
    /// More of the body.
    Body(Reframe),
    End(End),
}

impl Download<'_> {
    /// Receives the response and passes it on.
    pub(super) async fn run(mut self) -> Result<End, Fault> {
        loop {
            self.server.readable().await.map_err(Fault::Wait)?;
            let core = self.server.core();
            match core.with_scratch(|scratch| self.receive_head(scratch))? {
                Next::Head => {
                    self.flush().await?;
                    self.server.set_read_timeout(self.proxy.read_timeout);
                }
                Next::Body(body) if self.proxy.buffering.responses > 0 => {
                    return self.pass_buffered(body).await;
                }
                Next::Body(body) => {
                    self.flush().await?;
                    return self.pass_body(body).await;
                }
                // The server is done: what is left in the output is none of its concern.
                Next::End(end) => return Ok(end),
            }
        }
    }

    fn receive_head(&mut self, scratch: &mut [u8]) -> Result<Next, Fault> {
        // What is encoded is received in pieces, and the task gives way between them.
        let room = if self.proxy.compression.codings.is_empty() { scratch.len() } else { PIECE };
        let scratch = &mut scratch[..room];
        let count = match self.server.try_receive(scratch) {
            Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => return Ok(Next::Head),
            Err(fault) => return Err(Fault::Wait(fault.into())),
            Ok(0) if self.partial.is_empty() => return Err(Fault::NoResponse),
            Ok(0) => return Err(Fault::CutHead),
            Ok(count) => count,
        };
        self.one.received += count as u64;
        if self.partial.is_empty() {
            return self.look(&scratch[..count]);
        }
        let mut bytes = std::mem::take(self.partial);
        bytes.extend_from_slice(&scratch[..count]);
        self.look(&bytes)
    }

    /// Reads heads out of `bytes`, interim ones first.
    fn look(&mut self, mut bytes: &[u8]) -> Result<Next, Fault> {
        loop {
            let length = match self.head.parse(bytes, &self.proxy.limits) {
                Ok(Status::Complete(length)) => length,
                Ok(Status::Partial) => {
                    self.partial.extend_from_slice(bytes);
                    return Ok(Next::Head);
                }
                Err(refusal) => return Err(Fault::InvalidHead(refusal)),
            };
            let (head, rest) = bytes.split_at(length);
            match self.head.status {
                101 => return self.upgrade(head, rest),
                100..=199 => self.pass_interim(head)?,
                _ => return self.pass_head(head, rest),
            }
            bytes = rest;
            if bytes.is_empty() {
                return Ok(Next::Head);
            }
        }
    }

    /// RFC 9110, 15.2: a client of HTTP/1.0 knows no interim responses, to others they are passed on.
    fn pass_interim(&mut self, head: &[u8]) -> Result<(), Fault> {
        self.passed.interim += 1;
        if self.passed.interim > INTERIM_MOST {
            return Err(Fault::Interim);
        }
        if self.asked.head.is_http11 {
            respond::push_interim(self.head, head, self.output);
        }
        Ok(())
    }

    fn upgrade(&mut self, head: &[u8], rest: &[u8]) -> Result<Next, Fault> {
        // RFC 9110, 7.8 and 15.2.2: to what it changes is said, and was asked for.
        let protocol = self.head.field(head, Name::Upgrade).unwrap_or_default();
        if !self.proxy.forward.upgrades_to(protocol, self.asked.head, self.asked.about.bytes) {
            return Err(Fault::Upgrade);
        }
        let before = self.output.len();
        let (parsed, output) = (&*self.head, &mut *self.output);
        self.asked.with_request(Fate::Close, |request| respond::push_upgrade(request, parsed, head, output));
        self.one.status = self.head.status;
        self.one.header = Some(self.one.since_begun(self.server.core().now()));
        self.begin(101, before..self.output.len(), Fate::Close);
        self.output.extend_from_slice(rest);
        self.passed.body += rest.len() as u64;
        Ok(Next::End(End::Upgraded))
    }

    /// The final head is there: passes it on, with what came behind it.
    #[inline]
    fn pass_head(&mut self, head: &[u8], rest: &[u8]) -> Result<Next, Fault> {
        let status = self.head.status;
        self.one.status = status;
        self.one.header = Some(self.one.since_begun(self.server.core().now()));
        if self.may_leave && self.proxy.retry.statuses.contains(&status) {
            return Err(Fault::Answer(status));
        }
        if self.pages.is_some_and(|pages| pages.find(status).is_some()) {
            return Ok(Next::End(End::Intercepted(status)));
        }
        let framing = self.head.framing(self.asked.head.method);
        // A client that is still sending would take what we do not read for the next request's.
        let fate = if self.whole.get() { self.fate } else { Fate::Close };
        let course = Course::of(self.proxy, &self.asked, self.head, head);
        let terms = Terms::new(course.framing(framing), self.asked.head.is_http11, fate);
        let before = self.output.len();
        let (parsed, output) = (&*self.head, &mut *self.output);
        self.asked
            .with_request(terms.fate, |request| respond::push_head(request, parsed, head, terms, output));
        self.proxy.redirects.apply(self.output, before);
        course.tell(self.output, before);
        let body = Body::new(framing, u64::MAX).map_err(Fault::InvalidHead)?;
        let mut body = Reframe::new(body, terms.outgoing).encoding(course.encoder());
        let (mut status, mut head_end) = (status, self.output.len());
        if !self.changes.are_none() {
            (status, head_end) = self.changes.apply(&self.asked, self.output, (before, head_end), status);
        }
        let taken = match body.unframed() {
            Some(left) => rest.len().min(usize::try_from(left).unwrap_or(usize::MAX)),
            None => match feed(&mut body, rest, self.output) {
                Ok(taken) => taken,
                Err(fault) => {
                    // Nothing of it is out yet.
                    self.output.truncate(before);
                    return Err(fault);
                }
            },
        };
        self.begin(status, before..head_end, terms.fate);
        self.passed.until_close = terms.until_close;
        if body.unframed().is_some() {
            body.body.passed(taken as u64);
            self.passed.body += taken as u64;
            self.send_with(&rest[..taken])?;
        } else {
            self.passed.body += (self.output.len() - head_end) as u64;
            self.send_with(b"")?;
        }
        if !body.body.is_done() {
            return Ok(Next::Body(body));
        }
        Ok(Next::End(self.whole_end(taken < rest.len())))
    }

    /// The head stands in the output.
    fn begin(&mut self, status: u16, head: Range<usize>, fate: Fate) {
        self.passed.status = status;
        *self.begun = (status, head.len() as u64, 0);
        self.passed.head = head.len();
        self.passed.fate = Some(fate);
        if self.wants_head {
            self.sent_head.clear();
            self.sent_head.extend_from_slice(&self.output[head]);
        }
    }

    pub(super) fn whole_end(&self, excess: bool) -> End {
        let closes = self.head.framing(self.asked.head.method) == Framing::UntilClose;
        End::Whole { reusable: !excess && !closes && self.head.keeps() }
    }

    /// Sends the output and `part` with one call; what does not go now is left in the output.
    #[inline]
    fn send_with(&mut self, mut part: &[u8]) -> Result<(), Fault> {
        if part.len() <= COPIED {
            self.output.extend_from_slice(part);
            part = b"";
        }
        let output = &self.output[*self.sent..];
        let client = &self.asked.on.stream;
        let result = if part.is_empty() {
            client.try_send(output, false)
        } else {
            client.try_send_vectored(&[IoSlice::new(output), IoSlice::new(part)], false)
        };
        let count = match result {
            Ok(count) => count,
            Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => 0,
            Err(fault) => return Err(Fault::ClientSend(fault.into())),
        };
        let of_output = count.min(output.len());
        *self.sent += of_output;
        self.output.extend_from_slice(&part[count - of_output..]);
        if *self.sent == self.output.len() {
            self.output.clear();
            *self.sent = 0;
        }
        Ok(())
    }

    pub(super) async fn flush(&mut self) -> Result<(), Fault> {
        flush(self.asked.on, self.output, self.sent).await
    }

    /// Passes on what is left of the body.
    async fn pass_body(&mut self, mut body: Reframe) -> Result<End, Fault> {
        self.asked.on.stream.set_phase(Phase::Sending);
        if let Some(left) = body.unframed() {
            return self.carry(left).await;
        }
        let mut excess = false;
        while !body.body.is_done() {
            self.server.set_read_timeout(self.proxy.read_timeout);
            if body.holds_back() {
                self.bring_out(&mut body).await?;
            }
            self.server.readable().await.map_err(Fault::Receive)?;
            let core = self.server.core();
            let ended =
                core.with_scratch(|scratch| self.relay(&mut scratch[..RELAYED], &mut body, &mut excess))?;
            if ended || body.body.is_done() {
                break;
            }
            self.flush().await?;
        }
        Ok(self.whole_end(excess))
    }

    /// Receives a part of the body into the output. True at the end of the server's stream, where that is the
    /// body's.
    fn relay(&mut self, scratch: &mut [u8], body: &mut Reframe, excess: &mut bool) -> Result<bool, Fault> {
        let count = match self.server.try_receive(scratch) {
            Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(fault) => return Err(Fault::Receive(fault.into())),
            Ok(count) => count,
        };
        self.one.received += count as u64;
        let before = self.output.len();
        if count == 0 {
            if !body.body.ends_with_the_close() {
                return Err(Fault::CutBody);
            }
            body.end(self.output);
            body.coding().map_err(Fault::Encoding)?;
        } else {
            let taken = feed(body, &scratch[..count], self.output)?;
            *excess |= taken < count;
        }
        self.passed.body += (self.output.len() - before) as u64;
        self.send_with(b"")?;
        Ok(count == 0)
    }

    /// Passes on bytes that nobody has to look at.
    async fn carry(&mut self, left: u64) -> Result<End, Fault> {
        let load = Load {
            most: left,
            leaves_rest: false,
            receiving: self.proxy.read_timeout.into(),
            sending: self.asked.on.worker.plan.timeouts.send,
        };
        let carried = carry(self.server, &self.asked.on.stream, load).await;
        self.passed.body += carried.moved;
        self.one.received += carried.moved;
        match carried.end {
            CarryEnd::Whole { excess } => Ok(self.whole_end(excess)),
            CarryEnd::Ended if left == u64::MAX => Ok(self.whole_end(false)),
            CarryEnd::Ended => Err(Fault::CutBody),
            CarryEnd::Receiving(error) => Err(Fault::Receive(error)),
            CarryEnd::Sending(error) => Err(Fault::ClientSend(error)),
        }
    }
}
