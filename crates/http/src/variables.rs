//! Variables: their names and their values.
//!
//! A variable's value is worked out only where a [template](crate::template) uses it, from the [`Facts`] about a
//! request.

use std::net::{IpAddr, SocketAddr};

use crate::h1::head::Head;
use crate::text::{push_address, push_number, push_seconds};

/// What is known about a request and its answer. Bytes and times only: no socket, no clock.
#[derive(Clone, Copy)]
pub(crate) struct Facts<'a> {
    /// The parsed head; none when it was refused.
    pub(crate) head: Option<&'a Head>,
    /// The bytes the head was parsed from; of a refused one, what came of it.
    pub(crate) bytes: &'a [u8],
    pub(crate) remote: Option<SocketAddr>,
    /// Only where a template [needs](crate::template::Template::needs_local) it.
    pub(crate) local: Option<SocketAddr>,
    pub(crate) pid: u32,
    pub(crate) worker: u32,
    /// Number of the connection.
    pub(crate) connection: u64,
    /// Number of the request on its connection, from 1.
    pub(crate) connection_requests: u64,
    /// First name of the server that answered.
    pub(crate) server_name: &'a [u8],
    pub(crate) status: u16,
    /// Bytes of the answer with its head.
    pub(crate) bytes_sent: u64,
    pub(crate) body_bytes_sent: u64,
    /// Bytes of the request with its body.
    pub(crate) request_length: u64,
    /// The answer's head; only where a template [needs](crate::template::Template::needs_sent_head) it.
    pub(crate) sent_head: &'a [u8],
    /// Milliseconds from the request's first byte.
    pub(crate) request_time: u64,
    /// Milliseconds since the epoch.
    pub(crate) unix_millis: u64,
    /// `02/Jan/2006:15:04:05 +0000`.
    pub(crate) time_local: &'a str,
    /// `2006-01-02T15:04:05+00:00`.
    pub(crate) time_iso8601: &'a str,
}

/// A variable, by what it stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Variable {
    Args,
    BodyBytesSent,
    BytesSent,
    Connection,
    ConnectionRequests,
    Host,
    IsArgs,
    Msec,
    Pid,
    RemoteAddr,
    RemotePort,
    RemoteUser,
    Request,
    RequestLength,
    RequestMethod,
    RequestTime,
    RequestUri,
    Scheme,
    ServerAddr,
    ServerName,
    ServerPort,
    ServerProtocol,
    Status,
    TimeIso8601,
    TimeLocal,
    Uri,
    Worker,
    /// `$http_NAME`: a field of the request, its name with `-`.
    Http(Box<[u8]>),
    /// `$sent_http_NAME`: a field of the answer.
    SentHttp(Box<[u8]>),
}

/// The variables with a fixed name, in the order of the alphabet.
const NAMES: &[(&str, Variable)] = &[
    ("args", Variable::Args),
    ("body_bytes_sent", Variable::BodyBytesSent),
    ("bytes_sent", Variable::BytesSent),
    ("connection", Variable::Connection),
    ("connection_requests", Variable::ConnectionRequests),
    ("host", Variable::Host),
    ("is_args", Variable::IsArgs),
    ("msec", Variable::Msec),
    ("pid", Variable::Pid),
    ("query_string", Variable::Args),
    ("remote_addr", Variable::RemoteAddr),
    ("remote_port", Variable::RemotePort),
    ("remote_user", Variable::RemoteUser),
    ("request", Variable::Request),
    ("request_length", Variable::RequestLength),
    ("request_method", Variable::RequestMethod),
    ("request_time", Variable::RequestTime),
    ("request_uri", Variable::RequestUri),
    ("scheme", Variable::Scheme),
    ("server_addr", Variable::ServerAddr),
    ("server_name", Variable::ServerName),
    ("server_port", Variable::ServerPort),
    ("server_protocol", Variable::ServerProtocol),
    ("status", Variable::Status),
    ("time_iso8601", Variable::TimeIso8601),
    ("time_local", Variable::TimeLocal),
    ("uri", Variable::Uri),
    ("worker", Variable::Worker),
];

/// The names of all variables, for help texts; `http_` and `sent_http_` take any field's name.
pub fn variable_names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().map(|(name, _)| *name).chain(["http_NAME", "sent_http_NAME"])
}

impl Variable {
    pub(crate) fn named(name: &str) -> Option<Variable> {
        if let Some(field) = name.strip_prefix("sent_http_").filter(|field| !field.is_empty()) {
            return Some(Variable::SentHttp(field_name(field)));
        }
        if let Some(field) = name.strip_prefix("http_").filter(|field| !field.is_empty()) {
            return Some(Variable::Http(field_name(field)));
        }
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, variable)| variable.clone())
    }

    /// Appends the value through `text`, which may escape, or as it is where it needs no escaping.
    pub(crate) fn push(&self, facts: &Facts<'_>, out: &mut Vec<u8>, text: fn(&mut Vec<u8>, &[u8])) {
        match self {
            Variable::Args => text(out, facts.args().unwrap_or_default()),
            Variable::BodyBytesSent => push_number(out, facts.body_bytes_sent),
            Variable::BytesSent => push_number(out, facts.bytes_sent),
            Variable::Connection => push_number(out, facts.connection),
            Variable::ConnectionRequests => push_number(out, facts.connection_requests),
            Variable::Host => facts.push_host(out, text),
            Variable::IsArgs => text(out, facts.args().map_or(b"", |_| b"?")),
            Variable::Msec => push_seconds(out, facts.unix_millis),
            Variable::Pid => push_number(out, u64::from(facts.pid)),
            Variable::RemoteAddr => push_ip(out, facts.remote.map(|remote| remote.ip())),
            Variable::RemotePort => push_port(out, facts.remote),
            // Nobody is authenticated yet.
            Variable::RemoteUser => {}
            Variable::Request => text(out, facts.request_line()),
            Variable::RequestLength => push_number(out, facts.request_length),
            Variable::RequestMethod => text(out, facts.of_head(|head| head.method_span.of(facts.bytes))),
            Variable::RequestTime => push_seconds(out, facts.request_time),
            Variable::RequestUri => text(out, facts.of_head(|head| head.target.whole.of(facts.bytes))),
            Variable::Scheme => out.extend_from_slice(b"http"),
            Variable::ServerAddr => push_ip(out, facts.local.map(|local| local.ip())),
            Variable::ServerName => text(out, facts.server_name),
            Variable::ServerPort => push_port(out, facts.local),
            Variable::ServerProtocol => out.extend_from_slice(
                facts.of_head(|head| if head.is_http11 { b"HTTP/1.1" } else { b"HTTP/1.0" }),
            ),
            Variable::Status => push_number(out, u64::from(facts.status)),
            Variable::TimeIso8601 => out.extend_from_slice(facts.time_iso8601.as_bytes()),
            Variable::TimeLocal => out.extend_from_slice(facts.time_local.as_bytes()),
            Variable::Uri => text(out, facts.of_head(|head| head.path(facts.bytes))),
            Variable::Worker => push_number(out, u64::from(facts.worker)),
            Variable::Http(name) => text(out, facts.request_field(name).unwrap_or_default()),
            Variable::SentHttp(name) => text(out, facts.sent_field(name).unwrap_or_default()),
        }
    }
}

fn push_ip(out: &mut Vec<u8>, ip: Option<IpAddr>) {
    match ip {
        Some(ip) => push_address(out, ip),
        // A unix socket has no address worth a name.
        None => out.extend_from_slice(b"unix:"),
    }
}

fn push_port(out: &mut Vec<u8>, address: Option<SocketAddr>) {
    if let Some(address) = address {
        push_number(out, u64::from(address.port()));
    }
}

fn field_name(name: &str) -> Box<[u8]> {
    name.bytes().map(|byte| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() }).collect()
}

impl<'a> Facts<'a> {
    fn of_head<'b>(&self, value: impl FnOnce(&'a Head) -> &'b [u8]) -> &'b [u8] {
        self.head.map(value).unwrap_or_default()
    }

    fn args(&self) -> Option<&'a [u8]> {
        Some(self.head?.target.query?.of(self.bytes))
    }

    /// The request line, also of a head that was refused.
    fn request_line(&self) -> &'a [u8] {
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
    fn push_host(&self, out: &mut Vec<u8>, text: fn(&mut Vec<u8>, &[u8])) {
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

    fn request_field(&self, name: &[u8]) -> Option<&'a [u8]> {
        let head = self.head?;
        let field = head.fields.iter().find(|field| field.name.of(self.bytes).eq_ignore_ascii_case(name))?;
        Some(field.value.of(self.bytes))
    }

    fn sent_field(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.sent_head.split(|byte| *byte == b'\n').find_map(|line| {
            let (before, value) = line.split_at_checked(name.len())?;
            let value = value.strip_prefix(b":").filter(|_| before.eq_ignore_ascii_case(name))?;
            Some(value.trim_ascii())
        })
    }
}
