//! One request passed on, from its head to the end of its response.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use drover_event::{Stream, StreamError, Waited};
use drover_upstream::proxy_protocol::{Header, encode};
use drover_upstream::{Failure, Lease, Next, NoPeer};

use super::collect::{self, Collect};
use super::download::{Download, End, Passed};
use super::fault::{Blame, Fault};
use super::memory::{Memory, Trail};
use super::reframe::{Outgoing, Reframe};
use super::spool::Spool;
use super::tunnel::tunnel;
use super::upload::{Upload, flush};
use super::{Proxy, choice};
use crate::error_pages::ErrorPages;
use crate::h1::asked::Asked;
use crate::h1::body::Body;
use crate::h1::complete::Changes;
use crate::h1::connection::Conversation;
use crate::h1::framing::Framing;
use crate::h1::hand_over::{Conclusion, SentAnswer, Taken};
use crate::h1::incoming::Incoming;
use crate::h1::work::Work;
use crate::handler::Handler;
use crate::response::Fate;

/// Passes the request at hand on, and its response back; the work then goes on behind both.
pub(crate) async fn pass_on(on: &Conversation, work: &mut Work) -> Result<(), StreamError> {
    let plan = Rc::clone(&on.worker.plan);
    let location = &plan.locations[work.location()];
    let Handler::Proxy(proxy) = &location.handler else { return Ok(()) };
    let Some(body) = work.take_body() else {
        work.fail_without_body();
        return Ok(());
    };
    let mut memory = work.memory.take().unwrap_or_default();
    let parts = work.parts();
    let mut incoming = Incoming::new(on, parts.room, parts.filled);
    let mut exchange = Exchange {
        asked: Asked { on, head: parts.head, about: parts.about, error_pages: None },
        proxy,
        // What an error page itself answers is passed on.
        pages: location.error_pages.as_deref().filter(|_| proxy.intercepts && parts.shown.is_none()),
        changes: Changes { shown: parts.shown, headers: location.headers.as_deref() },
        fate: parts.fate,
        wants_head: location.log.as_ref().is_some_and(|log| log.needs_sent_head),
        output: parts.output,
        sent: parts.sent,
        sent_head: parts.sent_head,
        trail: parts.trail,
        begun: parts.begun,
        memory: &mut memory,
        passed: Passed::default(),
        whole: Cell::new(false),
        streamed: Cell::new(false),
        uploaded: Cell::new(0),
        head_length: 0,
        all_read: false,
        collected: None,
        waiting: None,
    };
    let outcome = exchange.run(&mut incoming, body).await;
    let conclusion = exchange.conclusion(outcome);
    let (read, filled) = incoming.span();
    let taken = Taken {
        read,
        filled,
        length: incoming.length(),
        whole: exchange.whole.get() || exchange.all_read,
        gone: exchange.streamed.get() || incoming.has_received(),
    };
    memory.shrink();
    work.memory = Some(memory);
    work.conclude(on, taken, conclusion)
}

pub(super) struct Exchange<'a> {
    pub(super) asked: Asked<'a>,
    pub(super) proxy: &'a Proxy,
    /// The pages that stand for errors of servers.
    pages: Option<&'a ErrorPages>,
    changes: Changes<'a>,
    fate: Fate,
    /// The log wants to see the head that is passed on.
    wants_head: bool,
    output: &'a mut Vec<u8>,
    sent: &'a mut usize,
    sent_head: &'a mut Vec<u8>,
    pub(super) trail: &'a mut Trail,
    begun: &'a mut (u16, u64, u64),
    memory: &'a mut Memory,
    pub(super) passed: Passed,
    /// The server has the whole request.
    whole: Cell<bool>,
    /// Some of the request was sent that is not in memory any more.
    pub(super) streamed: Cell<bool>,
    /// Bytes of the body that were sent beside the response.
    uploaded: Cell<u64>,
    /// Bytes of the request's head as servers get it.
    pub(super) head_length: usize,
    /// All of the request was received before a server was asked.
    pub(super) all_read: bool,
    /// What of it is on a disk.
    collected: Option<Spool>,
    /// What of the response is on a disk.
    waiting: Option<Spool>,
}

impl Exchange<'_> {
    /// Tries servers until one has answered, or none is left to try.
    async fn run(&mut self, incoming: &mut Incoming<'_>, body: Body) -> Result<(), Fault> {
        let core = self.asked.on.stream.core().clone();
        let proxy = self.proxy;
        let Some((number, key)) = proxy.upstream.of(&self.asked, self.fate) else {
            return Err(Fault::NoUpstream);
        };
        let upstream = &self.asked.on.worker.upstreams[*number];
        let begun = core.now();
        let mut body = self.prepare(incoming, body)?;
        self.collect(incoming, &mut body).await?;
        let mut attempts = upstream.begin(choice::key(key.as_deref(), &self.asked, self.fate));
        let mut before = None;
        loop {
            self.trail.begin(core.now());
            self.whole.set(self.all_read && self.collected.is_none());
            let (fault, next) = match attempts.next(&core, self.connection(), self.proxy.read_timeout).await {
                Ok(lease) => {
                    let may_leave = attempts.may_try_another() && self.may_repeat();
                    let outcome = self.converse(&lease, incoming, &mut body, may_leave).await;
                    self.trail.last().sent += self.uploaded.take();
                    match outcome {
                        Ok(end) => {
                            let ended = self.end(lease, end, incoming).await;
                            return ended.inspect_err(|fault| self.note(upstream.name(), fault, false));
                        }
                        Err(fault) => {
                            let next = self.blame(&mut attempts, lease, &fault);
                            (fault, next)
                        }
                    }
                }
                // What was the matter with a server says more than that there is no further one.
                Err(Failure::NoPeer(NoPeer::Exhausted)) if before.is_some() => {
                    self.trail.forget_last();
                    return before.map_or(Ok(()), Err);
                }
                Err(failure) => {
                    let next = if attempts.may_try_another() { failure.next() } else { Next::Stop };
                    (Fault::Connect(failure), next)
                }
            };
            let goes_on = self.goes_on(next, &fault, begun);
            self.note(upstream.name(), &fault, goes_on);
            if !goes_on {
                return Err(fault);
            }
            before = Some(fault);
        }
    }

    /// The request as servers get it, with what is there of its body. Gives what else of the body there is.
    fn prepare(&mut self, incoming: &mut Incoming<'_>, body: Body) -> Result<Reframe, Fault> {
        let head = self.asked.head;
        let outgoing = match head.framing {
            Framing::Chunked => Outgoing::Chunked,
            Framing::None | Framing::Length(_) | Framing::UntilClose => Outgoing::Plain,
        };
        let mut body = Reframe::new(body, outgoing);
        let continues = self.is_waiting(incoming) && !collect::is_wanted(self.proxy, &body);
        let on = self.asked.on;
        let client = on.peer_address();
        let request = &mut self.memory.request;
        request.clear();
        if let Some(version) = self.proxy.proxy_protocol {
            let source = on.client_address(Some(head), self.asked.about.bytes);
            request.extend_from_slice(&encode(version, &Header::for_stream(source, on.local_address())));
        }
        self.asked.with_request(self.fate, |asked| {
            self.proxy.forward.push_head(asked, client, continues, request);
        });
        self.head_length = request.len();
        if !body.body.is_done() {
            let taken = body.feed(incoming.unread(), request).map_err(Fault::ClientInvalid)?;
            incoming.read(taken);
        }
        self.all_read = body.body.is_done();
        Ok(body)
    }

    /// A client that has begun to send does not wait to be told to.
    fn is_waiting(&self, incoming: &Incoming<'_>) -> bool {
        self.asked.head.expects_continue && incoming.unread().is_empty()
    }

    /// Receives the body first where that is wanted.
    async fn collect(&mut self, incoming: &mut Incoming<'_>, body: &mut Reframe) -> Result<(), Fault> {
        if !collect::is_wanted(self.proxy, body) {
            return Ok(());
        }
        let invites = incoming.length() == 0 && self.is_waiting(incoming);
        let (on, request) = (self.asked.on, &mut self.memory.request);
        let collect = Collect { on, proxy: self.proxy, incoming, body, request };
        if invites {
            collect.invite().await?;
        }
        self.collected = collect.run().await?;
        self.all_read = body.body.is_done();
        Ok(())
    }

    /// Sends the request, and then carries on with both sides at once until the response is passed on.
    async fn converse(
        &mut self,
        lease: &Lease,
        incoming: &mut Incoming<'_>,
        body: &mut Reframe,
        may_leave: bool,
    ) -> Result<End, Fault> {
        let server = lease.stream();
        self.trail.last().connected(lease.peer(), server.core().now());
        self.memory.partial.clear();
        self.send_request(server).await?;
        let Memory { request, head, partial } = &mut *self.memory;
        let upload = Upload {
            on: self.asked.on,
            proxy: self.proxy,
            server,
            incoming,
            body,
            frames: request,
            whole: &self.whole,
            streamed: &self.streamed,
            sent: &self.uploaded,
            collected: self.collected.as_mut(),
        };
        let download = Download {
            asked: self.asked,
            proxy: self.proxy,
            pages: self.pages,
            changes: self.changes,
            server,
            fate: self.fate,
            whole: &self.whole,
            may_leave,
            wants_head: self.wants_head,
            output: self.output,
            sent: self.sent,
            sent_head: self.sent_head,
            begun: self.begun,
            head,
            partial,
            one: self.trail.last(),
            passed: &mut self.passed,
            spool: &mut self.waiting,
            client_waited: Waited::new(self.asked.on.worker.plan.timeouts.send),
        };
        let (mut client_side, mut server_side) = (pin!(upload.run()), pin!(download.run()));
        poll_fn(|context| match server_side.as_mut().poll(context) {
            Poll::Pending => client_side.as_mut().poll(context).map(Err),
            done => done,
        })
        .await
    }

    /// Sends the head, and the beginning of the body.
    async fn send_request(&mut self, server: &Stream) -> Result<(), Fault> {
        let (request, one) = (&self.memory.request, self.trail.last());
        while (one.sent as usize) < request.len() {
            match server.try_send(&request[one.sent as usize..], false) {
                Ok(count) => one.sent += count as u64,
                Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => {
                    server.set_write_timeout(self.proxy.send_timeout);
                    let ready = server.writable().await;
                    server.clear_write_timeout();
                    ready.map_err(Fault::Send)?;
                }
                Err(fault) => return Err(Fault::Send(fault.into())),
            }
        }
        Ok(())
    }

    /// The response is passed on: the connection is kept where it can be, or becomes a tunnel.
    async fn end(&mut self, lease: Lease, end: End, incoming: &mut Incoming<'_>) -> Result<(), Fault> {
        let core = lease.stream().core().clone();
        match end {
            End::Whole { reusable } => {
                self.trail.last().ended(core.now());
                // A connection that was made for one client is no other's.
                if reusable && self.whole.get() && self.proxy.proxy_protocol.is_none() {
                    lease.keep()
                } else {
                    lease.done()
                }
                self.send_rest().await
            }
            End::Intercepted(status) => {
                self.trail.last().ended(core.now());
                lease.done();
                Err(Fault::Intercepted(status))
            }
            End::Upgraded => {
                lease.confirm();
                self.send_rest().await?;
                let early = incoming.unread().len();
                let through = tunnel(self.asked.on, lease.stream(), incoming.unread(), self.proxy).await;
                incoming.read(early);
                let one = self.trail.last();
                one.ended(core.now());
                one.sent += through.to_server;
                one.received += through.to_client;
                self.passed.body += through.to_client;
                through.fault.map_or(Ok(()), Err)
            }
        }
    }

    /// Sends what the client did not take meanwhile.
    async fn send_rest(&mut self) -> Result<(), Fault> {
        let on = self.asked.on;
        flush(on, self.output, self.sent).await?;
        let Some(spool) = self.waiting.as_mut().filter(|spool| spool.left() > 0) else { return Ok(()) };
        spool.send_all(&on.stream, on.worker.plan.timeouts.send).await.map_err(Fault::ClientSend)
    }

    /// What becomes of the client's request.
    fn conclusion(&self, outcome: Result<(), Fault>) -> Conclusion {
        let passed = &self.passed;
        let fate = passed.fate.unwrap_or(self.fate);
        let mut sent =
            SentAnswer { status: passed.status, head: passed.head as u64, body: passed.body, fate };
        let Err(fault) = outcome else { return Conclusion::Sent(sent) };
        if passed.status > 0 {
            if let Some(reason) = fault.close_reason() {
                self.asked.on.stream.close_because(reason);
            }
            // Of a response that is not whole the client sees no proper end.
            if passed.until_close {
                let _ = self.asked.on.stream.close_by_reset();
            }
            let waiting = self.waiting.as_ref().map_or(0, Spool::left);
            sent.body = sent.body.saturating_sub((self.output.len() - *self.sent) as u64 + waiting);
            return Conclusion::Cut(sent);
        }
        match fault {
            Fault::ClientInvalid(refusal) => Conclusion::Refused(refusal),
            Fault::ClientTimedOut => Conclusion::TimedOut,
            fault if fault.blame() == Blame::Client => Conclusion::Gone(fault.status()),
            fault => Conclusion::Error(fault.status()),
        }
    }
}
