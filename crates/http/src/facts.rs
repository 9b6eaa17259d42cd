//! Facts: what variables are worked out from.

use std::net::SocketAddr;

use drover_event::CloseReason;

use crate::h1::head::Head;
use crate::h1::name::Name;
use crate::handler::proxy::Trail;
use crate::pattern::Groups;
use crate::request_id::RequestIds;
use crate::values::Values;
use crate::variables::push_ip;

/// What is known about a request and its answer. Bytes and times only: no socket, no clock.
#[derive(Clone, Copy)]
pub(crate) struct Facts<'a> {
    /// The parsed head; none when it was refused.
    pub(crate) head: Option<&'a Head>,
    /// The bytes the head was parsed from; of a refused one, what came of it.
    pub(crate) bytes: &'a [u8],
    pub(crate) values: &'a Values,
    /// What the groups of the last expression matched.
    pub(crate) groups: &'a Groups,
    pub(crate) ids: &'a RequestIds,
    /// The client.
    pub(crate) remote: Option<SocketAddr>,
    /// Who is at the other end of the connection: the client, or a proxy before it.
    pub(crate) peer: Option<SocketAddr>,
    /// What a header of the PROXY protocol said: the client, and where it connected to.
    pub(crate) proxied: Option<(SocketAddr, SocketAddr)>,
    /// Only where a template [needs](crate::variables::Variable::is_local) it.
    pub(crate) local: Option<SocketAddr>,
    pub(crate) pid: u32,
    pub(crate) worker: u32,
    /// Number of the connection.
    pub(crate) connection: u64,
    /// Why it closes after this request; none while it stays.
    pub(crate) close_reason: Option<CloseReason>,
    /// Number of the request on its connection, from 1.
    pub(crate) connection_requests: u64,
    /// First name of the server that answered.
    pub(crate) server_name: &'a [u8],
    /// Directory of the location's files; empty without one.
    pub(crate) root: &'a [u8],
    pub(crate) status: u16,
    /// Bytes of the answer with its head.
    pub(crate) bytes_sent: u64,
    pub(crate) body_bytes_sent: u64,
    /// Bytes of the request with its body.
    pub(crate) request_length: u64,
    /// The answer's head; only where a template [needs](crate::variables::Variable::is_sent_field) it.
    pub(crate) sent_head: &'a [u8],
    /// The servers that the request was passed on to.
    pub(crate) trail: Option<&'a Trail>,
    /// Milliseconds from the request's first byte.
    pub(crate) request_time: u64,
    /// Milliseconds since the epoch.
    pub(crate) unix_millis: u64,
    /// `02/Jan/2006:15:04:05 +0000`.
    pub(crate) time_local: &'a str,
    /// `2006-01-02T15:04:05+00:00`.
    pub(crate) time_iso8601: &'a str,
}

/// The value in `name=value`, if the name is this in any case.
fn value_of<'a>(pair: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (before, value) = pair.split_at_checked(name.len())?;
    value.strip_prefix(b"=").filter(|_| before.eq_ignore_ascii_case(name))
}

impl<'a> Facts<'a> {
    pub(crate) fn of_head<'b>(&self, value: impl FnOnce(&'a Head) -> &'b [u8]) -> &'b [u8] {
        self.head.map(value).unwrap_or_default()
    }

    pub(crate) fn args(&self) -> Option<&'a [u8]> {
        self.head?.query(self.bytes)
    }

    pub(crate) fn argument(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.args()?.split(|byte| *byte == b'&').find_map(|argument| value_of(argument, name))
    }

    pub(crate) fn cookie(&self, name: &[u8]) -> Option<&'a [u8]> {
        let fields = self.head?.fields.iter().filter(|field| field.id == Name::Cookie);
        let pairs = fields.flat_map(|field| field.value.of(self.bytes).split(|byte| *byte == b';'));
        pairs.map(<[u8]>::trim_ascii).find_map(|pair| value_of(pair, name))
    }

    /// The request line, also of a head that was refused.
    pub(crate) fn request_line(&self) -> &'a [u8] {
        match self.head {
            Some(head) => {
                let start = head.method_span.start as usize;
                &self.bytes[start..head.target.whole.end as usize + " HTTP/1.1".len()]
            }
            None => {
                let line = self.bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
                line.strip_suffix(b"\r").unwrap_or(line)
            }
        }
    }

    /// The host asked for, lower case and without its port; else the server's name.
    pub(crate) fn push_host(&self, out: &mut Vec<u8>, text: fn(&mut Vec<u8>, &[u8])) {
        let host = self.head.and_then(|head| head.host).map(|host| host.of(self.bytes));
        match host.map(|host| crate::h1::target::split_port(host).0).filter(|host| !host.is_empty()) {
            Some(host) => {
                let start = out.len();
                text(out, host);
                out[start..].make_ascii_lowercase();
            }
            None => text(out, self.server_name),
        }
    }

    pub(crate) fn request_field(&self, name: &[u8]) -> Option<&'a [u8]> {
        let head = self.head?;
        let field = head.fields.iter().find(|field| field.name.of(self.bytes).eq_ignore_ascii_case(name))?;
        Some(field.value.of(self.bytes))
    }

    pub(crate) fn push_filename(&self, out: &mut Vec<u8>, text: fn(&mut Vec<u8>, &[u8])) {
        text(out, self.root);
        text(out, self.of_head(|head| head.path(self.bytes)));
    }

    /// What the client said in X-Forwarded-For, and its own address behind that.
    pub(crate) fn push_forwarded_for(&self, out: &mut Vec<u8>, text: fn(&mut Vec<u8>, &[u8])) {
        let fields = self.head.map_or(&[][..], |head| &head.fields);
        for field in fields.iter().filter(|field| field.id == Name::XForwardedFor) {
            text(out, field.value.of(self.bytes));
            out.extend_from_slice(b", ");
        }
        push_ip(out, self.remote.map(|remote| remote.ip()));
    }

    pub(crate) fn sent_field(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.sent_head.split(|byte| *byte == b'\n').find_map(|line| {
            let (before, value) = line.split_at_checked(name.len())?;
            let value = value.strip_prefix(b":").filter(|_| before.eq_ignore_ascii_case(name))?;
            Some(value.trim_ascii())
        })
    }
}
