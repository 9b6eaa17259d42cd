//! What an exchange keeps its bytes and figures in; it stays with the work and serves the next one.

use std::fmt::Write;
use std::rc::Rc;

use drover_event::{Millis, Target};
use drover_service::text::{push_number, push_seconds};
use drover_upstream::Peer;

use crate::h1::response_head::ResponseHead;

/// Memory that is kept for the next exchange.
const KEPT: usize = 64 * 1024;

/// The buffers of an exchange.
#[derive(Default)]
pub(crate) struct Memory {
    /// The request as servers get it: its head and what was there of its body. Later what more comes of it.
    pub(super) request: Vec<u8>,
    /// The head of the response.
    pub(super) head: ResponseHead,
    /// The beginning of a head, until the rest comes.
    pub(super) partial: Vec<u8>,
}

impl Memory {
    /// Lets go of what was unusually large.
    pub(super) fn shrink(&mut self) {
        for buffer in [&mut self.request, &mut self.partial] {
            if buffer.capacity() > KEPT {
                *buffer = Vec::new();
            }
        }
    }
}

/// The servers that were tried for a request, for the log.
#[derive(Debug, Default)]
pub(crate) struct Trail {
    tries: Vec<Try>,
}

/// One server that was tried.
#[derive(Debug)]
pub(super) struct Try {
    server: Server,
    begun: Millis,
    /// Status of its response; 0 for none.
    pub(super) status: u16,
    /// Milliseconds until there was a connection, a head, and the end.
    connect: Option<u64>,
    pub(super) header: Option<u64>,
    whole: Option<u64>,
    pub(super) sent: u64,
    pub(super) received: u64,
    /// What went wrong, in a word.
    pub(super) fault: Option<&'static str>,
}

#[derive(Debug)]
enum Server {
    Unknown,
    Target(Target),
    Peer(Rc<Peer>),
}

impl Trail {
    pub(crate) fn clear(&mut self) {
        self.tries.clear();
    }

    pub(super) fn begin(&mut self, now: Millis) -> &mut Try {
        self.tries.push(Try {
            server: Server::Unknown,
            begun: now,
            status: 0,
            connect: None,
            header: None,
            whole: None,
            sent: 0,
            received: 0,
            fault: None,
        });
        self.last()
    }

    /// No further server was there to be tried.
    pub(super) fn forget_last(&mut self) {
        self.tries.pop();
    }

    /// The one that is tried.
    pub(super) fn last(&mut self) -> &mut Try {
        self.tries.last_mut().expect("a try was begun")
    }
}

impl Try {
    pub(super) fn connected(&mut self, peer: &Rc<Peer>, now: Millis) {
        self.server = Server::Peer(Rc::clone(peer));
        self.connect = Some(now.since(self.begun));
    }

    pub(super) fn not_connected(&mut self, target: &Target) {
        self.server = Server::Target(target.clone());
    }

    pub(super) fn ended(&mut self, now: Millis) {
        self.whole = Some(now.since(self.begun));
    }

    /// The server's address, for logs.
    pub(super) fn server_name(&self) -> String {
        let mut name = Vec::new();
        self.push_server(&mut name);
        String::from_utf8_lossy(&name).into_owned()
    }

    pub(super) fn since_begun(&self, now: Millis) -> u64 {
        now.since(self.begun)
    }
}

/// What a variable tells of servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Told {
    Addr,
    Status,
    ConnectTime,
    HeaderTime,
    ResponseTime,
    BytesSent,
    BytesReceived,
    Error,
}

impl Trail {
    /// Appends what is told of each server that was tried, separated by commas; `-` where nothing is known.
    pub(crate) fn push(&self, told: Told, out: &mut Vec<u8>) {
        for (at, one) in self.tries.iter().enumerate() {
            if at > 0 {
                out.extend_from_slice(b", ");
            }
            one.push(told, out);
        }
    }
}

impl Try {
    fn push(&self, told: Told, out: &mut Vec<u8>) {
        match told {
            Told::Addr => self.push_server(out),
            Told::Status => push_known(out, (self.status > 0).then_some(u64::from(self.status)), push_number),
            Told::ConnectTime => push_known(out, self.connect, push_seconds),
            Told::HeaderTime => push_known(out, self.header, push_seconds),
            Told::ResponseTime => push_known(out, self.whole, push_seconds),
            Told::BytesSent => push_number(out, self.sent),
            Told::BytesReceived => push_number(out, self.received),
            Told::Error => out.extend_from_slice(self.fault.unwrap_or("-").as_bytes()),
        }
    }

    fn push_server(&self, out: &mut Vec<u8>) {
        match &self.server {
            Server::Unknown => out.push(b'-'),
            Server::Peer(peer) => out.extend_from_slice(peer.name().as_bytes()),
            Server::Target(target) => {
                let mut text = String::new();
                // Writing to a string cannot fail.
                let _ = write!(text, "{target}");
                out.extend_from_slice(text.as_bytes());
            }
        }
    }
}

fn push_known(out: &mut Vec<u8>, value: Option<u64>, push: fn(&mut Vec<u8>, u64)) {
    match value {
        Some(value) => push(out, value),
        None => out.push(b'-'),
    }
}
