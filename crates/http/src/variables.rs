//! Variables: their names and their values.
//!
//! A variable's value is worked out only where a [template](drover_service::template) uses it, from the [`Facts`] about a
//! request.

use std::net::{IpAddr, SocketAddr};

use drover_event::CloseReason;
use drover_service::WrongVariable;
use drover_service::text::{push_address, push_number, push_seconds};

use crate::h1::head::Head;

/// A text with variables of HTTP.
pub(crate) type Template = drover_service::Template<Variable>;

/// Checks the variables of a text: what the check of a config asks for.
///
/// # Errors
/// The first fault, with its place in the text.
pub fn check_variables(text: &str) -> Result<(), WrongVariable> {
    drover_service::check_variables::<Variable>(text)
}

/// What is known about a request and its answer. Bytes and times only: no socket, no clock.
#[derive(Clone, Copy)]
pub(crate) struct Facts<'a> {
    /// The parsed head; none when it was refused.
    pub(crate) head: Option<&'a Head>,
    /// The bytes the head was parsed from; of a refused one, what came of it.
    pub(crate) bytes: &'a [u8],
    pub(crate) remote: Option<SocketAddr>,
    /// Only where a template [needs](Variable::is_local) it.
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
    pub(crate) status: u16,
    /// Bytes of the answer with its head.
    pub(crate) bytes_sent: u64,
    pub(crate) body_bytes_sent: u64,
    /// Bytes of the request with its body.
    pub(crate) request_length: u64,
    /// The answer's head; only where a template [needs](Variable::is_sent_field) it.
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
    CloseReason,
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
    ("close_reason", Variable::CloseReason),
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

impl Variable {
    /// Whether the connection's local address must be asked for.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self, Variable::ServerAddr | Variable::ServerPort)
    }

    /// Whether the answer's head must be kept.
    pub(crate) fn is_sent_field(&self) -> bool {
        matches!(self, Variable::SentHttp(_))
    }

    /// Whether local time must be worked out.
    pub(crate) fn is_local_time(&self) -> bool {
        matches!(self, Variable::TimeLocal | Variable::TimeIso8601)
    }
}

impl drover_service::Variable for Variable {
    type Facts<'a> = Facts<'a>;

    fn named(name: &str) -> Option<Variable> {
        if let Some(field) = name.strip_prefix("sent_http_").filter(|field| !field.is_empty()) {
            return Some(Variable::SentHttp(field_name(field)));
        }
        if let Some(field) = name.strip_prefix("http_").filter(|field| !field.is_empty()) {
            return Some(Variable::Http(field_name(field)));
        }
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, variable)| variable.clone())
    }

    /// `http_` and `sent_http_` take any field's name.
    fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name).chain(["http_NAME", "sent_http_NAME"])
    }

    fn push(&self, facts: &Facts<'_>, out: &mut Vec<u8>, text: fn(&mut Vec<u8>, &[u8])) {
        match self {
            Variable::Args => text(out, facts.args().unwrap_or_default()),
            Variable::BodyBytesSent => push_number(out, facts.body_bytes_sent),
            Variable::BytesSent => push_number(out, facts.bytes_sent),
            Variable::CloseReason => {
                out.extend_from_slice(facts.close_reason.map_or("", CloseReason::name).as_bytes());
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use drover_service::Variable as _;

    use crate::h1::head::{Limits, Status};

    const REQUEST: &[u8] =
        b"GET /a%20b?c=d HTTP/1.1\r\nHost: EXAMPLE.org:8080\r\nUser-Agent: x\"y\r\nX-Id: 7\r\n\r\n";

    fn with_facts(test: impl Fn(&Facts<'_>)) {
        let mut head = Head::default();
        let limits = Limits { size: 1000, max_headers: 10, keep_odd_names: false };
        assert_eq!(head.parse(REQUEST, &limits), Ok(Status::Complete(REQUEST.len())));
        test(&Facts {
            head: Some(&head),
            bytes: REQUEST,
            remote: Some(SocketAddr::from(([10, 0, 0, 1], 1234))),
            local: Some(SocketAddr::from(([10, 0, 0, 2], 80))),
            pid: 42,
            worker: 3,
            connection: 17,
            close_reason: None,
            connection_requests: 2,
            server_name: b"srv",
            status: 200,
            bytes_sent: 150,
            body_bytes_sent: 3,
            request_length: 99,
            sent_head: b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n",
            request_time: 12,
            unix_millis: 1_136_214_245_007,
            time_local: "02/Jan/2006:15:04:05 +0000",
            time_iso8601: "2006-01-02T15:04:05+00:00",
        });
    }

    fn log(format: &str) -> String {
        let template = Template::parse(format).expect("a template");
        let line = std::cell::RefCell::new(Vec::new());
        with_facts(|facts| template.push_for_log(facts, &mut line.borrow_mut()));
        String::from_utf8(line.into_inner()).expect("escaped text is ASCII")
    }

    #[test]
    fn every_variable_has_its_value() {
        for (format, want) in [
            ("$remote_addr:$remote_port", "10.0.0.1:1234"),
            ("$server_addr:$server_port $server_name", "10.0.0.2:80 srv"),
            ("$pid $worker $connection $connection_requests", "42 3 17 2"),
            ("\"$request\"", "\"GET /a%20b?c=d HTTP/1.1\""),
            ("$request_method $request_uri $uri $args $is_args$query_string", "GET /a%20b?c=d /a b c=d ?c=d"),
            ("$status $body_bytes_sent $bytes_sent $request_length", "200 3 150 99"),
            ("$request_time $msec", "0.012 1136214245.007"),
            ("$time_local $time_iso8601", "02/Jan/2006:15:04:05 +0000 2006-01-02T15:04:05+00:00"),
            ("$host $scheme $server_protocol", "example.org http HTTP/1.1"),
            ("$http_user_agent $http_x_id $http_none", "x\\x22y 7 -"),
            ("$sent_http_content_type $sent_http_none", "text/plain -"),
            ("$remote_user", "-"),
            ("${pid}0 $$5 %", "420 $5 %"),
        ] {
            assert_eq!(log(format), want, "{format}");
        }
    }

    #[test]
    fn a_refused_head_still_has_a_request_line() {
        let template = Template::parse("$request|$uri|$host|$http_a").expect("a template");
        with_facts(|facts| {
            let refused = Facts { head: None, bytes: b"GET /\x01 HTTP/1.1\r\nHost", ..*facts };
            let mut out = Vec::new();
            template.push_for_log(&refused, &mut out);
            assert_eq!(out, br"GET /\x01 HTTP/1.1|-|srv|-");
        });
    }

    #[test]
    fn all_names_are_variables() {
        assert!(Variable::named("http_").is_none());
        for name in Variable::names() {
            assert!(Variable::named(&name.replace("NAME", "x")).is_some(), "{name}");
        }
    }
}
