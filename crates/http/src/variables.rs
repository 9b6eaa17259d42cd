//! Variables: their names and their values.
//!
//! A variable's value is worked out only where a [template](drover_service::template) uses it, from the [`Facts`] about a
//! request.

use std::net::{IpAddr, SocketAddr};

use drover_event::CloseReason;
use drover_service::text::{push_address, push_number, push_seconds};

pub(crate) use crate::facts::Facts;
use crate::handler::proxy::Told;
use crate::map::MapVariable;
use crate::path;

/// A text with variables of HTTP.
pub(crate) type Template = drover_service::Template<Variable>;

/// A variable, by what it stands for.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Variable {
    Args,
    BodyBytesSent,
    BytesSent,
    CloseReason,
    Connection,
    ConnectionRequests,
    DocumentRoot,
    Host,
    Hostname,
    Https,
    IsArgs,
    Msec,
    PeerAddr,
    PeerPort,
    Pid,
    /// The chain of clients with this one at its end, as servers are told it in X-Forwarded-For.
    ForwardedFor,
    /// What a header of the PROXY protocol said: the client, and where it connected to.
    ProxiedAddr,
    ProxiedPort,
    ProxiedServerAddr,
    ProxiedServerPort,
    RemoteAddr,
    RemotePort,
    RemoteUser,
    Request,
    RequestFilename,
    RequestId,
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
    /// Something about the servers that the request was passed on to.
    Upstream(Told),
    Uri,
    Worker,
    /// `$arg_NAME`: an argument of the query, as it was sent.
    Arg(Box<[u8]>),
    /// `$cookie_NAME`.
    Cookie(Box<[u8]>),
    /// `$http_NAME`: a field of the request, its name with `-`.
    Http(Box<[u8]>),
    /// `$sent_http_NAME`: a field of the answer.
    SentHttp(Box<[u8]>),
    /// `$1`: what a group of the last expression matched.
    Group(usize),
    /// The same as it may stand in a URI.
    EncodedGroup(usize),
    /// One of the config's, by number.
    Set(u32),
    /// One of the config's that is looked up.
    Map(MapVariable),
}

/// The variables with a fixed name, in the order of the alphabet.
const NAMES: &[(&str, Variable)] = &[
    ("args", Variable::Args),
    ("body_bytes_sent", Variable::BodyBytesSent),
    ("bytes_sent", Variable::BytesSent),
    ("close_reason", Variable::CloseReason),
    ("connection", Variable::Connection),
    ("connection_requests", Variable::ConnectionRequests),
    ("document_root", Variable::DocumentRoot),
    ("document_uri", Variable::Uri),
    ("host", Variable::Host),
    ("hostname", Variable::Hostname),
    ("https", Variable::Https),
    ("is_args", Variable::IsArgs),
    ("msec", Variable::Msec),
    ("pid", Variable::Pid),
    ("proxy_add_x_forwarded_for", Variable::ForwardedFor),
    ("proxy_protocol_addr", Variable::ProxiedAddr),
    ("proxy_protocol_port", Variable::ProxiedPort),
    ("proxy_protocol_server_addr", Variable::ProxiedServerAddr),
    ("proxy_protocol_server_port", Variable::ProxiedServerPort),
    ("query_string", Variable::Args),
    ("realip_remote_addr", Variable::PeerAddr),
    ("realip_remote_port", Variable::PeerPort),
    ("remote_addr", Variable::RemoteAddr),
    ("remote_port", Variable::RemotePort),
    ("remote_user", Variable::RemoteUser),
    ("request", Variable::Request),
    ("request_filename", Variable::RequestFilename),
    ("request_id", Variable::RequestId),
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
    ("upstream_addr", Variable::Upstream(Told::Addr)),
    ("upstream_bytes_received", Variable::Upstream(Told::BytesReceived)),
    ("upstream_bytes_sent", Variable::Upstream(Told::BytesSent)),
    ("upstream_connect_time", Variable::Upstream(Told::ConnectTime)),
    ("upstream_error", Variable::Upstream(Told::Error)),
    ("upstream_header_time", Variable::Upstream(Told::HeaderTime)),
    ("upstream_response_time", Variable::Upstream(Told::ResponseTime)),
    ("upstream_status", Variable::Upstream(Told::Status)),
    ("uri", Variable::Uri),
    ("worker", Variable::Worker),
];

impl Variable {
    /// Whether the connection's local address must be asked for.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Variable::ServerAddr | Variable::ServerPort => true,
            Variable::Map(map) => map.uses(Variable::is_local),
            _ => false,
        }
    }

    /// Whether the answer's head must be kept.
    pub(crate) fn is_sent_field(&self) -> bool {
        match self {
            Variable::SentHttp(_) => true,
            Variable::Map(map) => map.uses(Variable::is_sent_field),
            _ => false,
        }
    }

    /// Whether local time must be worked out.
    pub(crate) fn is_local_time(&self) -> bool {
        match self {
            Variable::TimeLocal | Variable::TimeIso8601 => true,
            Variable::Map(map) => map.uses(Variable::is_local_time),
            _ => false,
        }
    }
}

impl drover_service::Variable for Variable {
    type Facts<'a> = Facts<'a>;

    fn named(name: &str) -> Option<Variable> {
        let after = |prefix| name.strip_prefix(prefix).filter(|rest: &&str| !rest.is_empty());
        if let Some(field) = after("sent_http_") {
            return Some(Variable::SentHttp(field_name(field)));
        }
        if let Some(field) = after("http_") {
            return Some(Variable::Http(field_name(field)));
        }
        if let Some(argument) = after("arg_") {
            return Some(Variable::Arg(argument.as_bytes().into()));
        }
        if let Some(cookie) = after("cookie_") {
            return Some(Variable::Cookie(cookie.as_bytes().into()));
        }
        if let [digit @ b'0'..=b'9'] = name.as_bytes() {
            return Some(Variable::Group(usize::from(digit - b'0')));
        }
        // RFC 9110, 8.3 and 8.6: fields with variables of their own, as CGI has them.
        if let "content_length" | "content_type" = name {
            return Some(Variable::Http(field_name(name)));
        }
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, variable)| variable.clone())
    }

    fn is_number(&self) -> bool {
        matches!(
            self,
            Variable::BodyBytesSent
                | Variable::BytesSent
                | Variable::Connection
                | Variable::ConnectionRequests
                | Variable::Msec
                | Variable::PeerPort
                | Variable::ProxiedPort
                | Variable::ProxiedServerPort
                | Variable::Pid
                | Variable::RemotePort
                | Variable::RequestLength
                | Variable::RequestTime
                | Variable::ServerPort
                | Variable::Status
                | Variable::Worker
        )
    }

    /// `http_` and `sent_http_` take any field's name, `arg_` and `cookie_` those of arguments and cookies.
    fn names() -> impl Iterator<Item = &'static str> {
        let further =
            ["arg_NAME", "content_length", "content_type", "cookie_NAME", "http_NAME", "sent_http_NAME"];
        NAMES.iter().map(|(name, _)| *name).chain(further)
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
            Variable::DocumentRoot => text(out, facts.root),
            Variable::EncodedGroup(number) => path::encode_strictly(facts.groups.get(*number), out),
            Variable::Group(number) => text(out, facts.groups.get(*number)),
            Variable::Host => facts.push_host(out, text),
            Variable::Hostname => text(out, crate::request_id::hostname()),
            // Connections are not encrypted yet where they arrive here.
            Variable::Https => {}
            Variable::IsArgs => text(out, facts.args().map_or(b"", |_| b"?")),
            Variable::Msec => push_seconds(out, facts.unix_millis),
            Variable::Pid => push_number(out, u64::from(facts.pid)),
            Variable::PeerAddr => push_ip(out, facts.peer.map(|peer| peer.ip())),
            Variable::PeerPort => push_port(out, facts.peer),
            Variable::ForwardedFor => facts.push_forwarded_for(out, text),
            Variable::ProxiedAddr => push_known_ip(out, facts.proxied.map(|(source, _)| source)),
            Variable::ProxiedPort => push_port(out, facts.proxied.map(|(source, _)| source)),
            Variable::ProxiedServerAddr => push_known_ip(out, facts.proxied.map(|(_, to)| to)),
            Variable::ProxiedServerPort => push_port(out, facts.proxied.map(|(_, to)| to)),
            Variable::RemoteAddr => push_ip(out, facts.remote.map(|remote| remote.ip())),
            Variable::RemotePort => push_port(out, facts.remote),
            Variable::RemoteUser => text(out, &facts.values.user),
            Variable::Request => text(out, facts.request_line()),
            Variable::RequestFilename => facts.push_filename(out, text),
            Variable::RequestId => facts.ids.push(facts.values.request_id(|| facts.ids.draw()), out),
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
            Variable::Upstream(told) => facts.trail.map_or((), |trail| trail.push(*told, out)),
            Variable::Uri => text(out, facts.of_head(|head| head.path(facts.bytes))),
            Variable::Worker => push_number(out, u64::from(facts.worker)),
            Variable::Arg(name) => text(out, facts.argument(name).unwrap_or_default()),
            Variable::Cookie(name) => text(out, facts.cookie(name).unwrap_or_default()),
            Variable::Map(map) => map.push(facts, out, text),
            Variable::Set(number) => text(out, facts.values.get(*number)),
            Variable::Http(name) => text(out, facts.request_field(name).unwrap_or_default()),
            Variable::SentHttp(name) => text(out, facts.sent_field(name).unwrap_or_default()),
        }
    }
}

pub(crate) fn push_ip(out: &mut Vec<u8>, ip: Option<IpAddr>) {
    match ip {
        Some(ip) => push_address(out, ip),
        // A unix socket has no address worth a name.
        None => out.extend_from_slice(b"unix:"),
    }
}

fn push_known_ip(out: &mut Vec<u8>, address: Option<SocketAddr>) {
    if let Some(address) = address {
        push_address(out, address.ip());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h1::head::Head;
    use crate::request_id::RequestIds;
    use crate::values::Values;
    use drover_service::Variable as _;

    use crate::h1::head::{Limits, Status};
    use crate::own::OwnVariables;

    const REQUEST: &[u8] =
        b"GET /a%20b?c=d HTTP/1.1\r\nHost: EXAMPLE.org:8080\r\nUser-Agent: x\"y\r\nX-Id: 7\r\n\
          Cookie: a=1; Bc=2\r\nCookie: d=\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-For: 192.0.2.2\r\nContent-Type: t/u\r\n\r\n";

    fn with_facts(test: impl Fn(&Facts<'_>)) {
        let mut head = Head::default();
        let limits = Limits { size: 1000, max_headers: 10, keep_odd_names: false };
        assert_eq!(head.parse(REQUEST, &limits), Ok(Status::Complete(REQUEST.len())));
        let (mut values, ids) = (Values::default(), RequestIds::seeded(1));
        values.user.extend_from_slice(b"me");
        values.set(0, b"x y");
        test(&Facts {
            head: Some(&head),
            bytes: REQUEST,
            values: &values,
            groups: &values.groups,
            ids: &ids,
            remote: Some(SocketAddr::from(([10, 0, 0, 1], 1234))),
            peer: Some(SocketAddr::from(([10, 0, 0, 3], 4321))),
            proxied: Some((SocketAddr::from(([10, 0, 0, 4], 1)), SocketAddr::from(([10, 0, 0, 5], 2)))),
            local: Some(SocketAddr::from(([10, 0, 0, 2], 80))),
            pid: 42,
            worker: 3,
            connection: 17,
            close_reason: None,
            connection_requests: 2,
            server_name: b"srv",
            root: b"/www",
            status: 200,
            bytes_sent: 150,
            body_bytes_sent: 3,
            request_length: 99,
            trail: None,
            sent_head: b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n",
            request_time: 12,
            unix_millis: 1_136_214_245_007,
            time_local: "02/Jan/2006:15:04:05 +0000",
            time_iso8601: "2006-01-02T15:04:05+00:00",
        });
    }

    fn log(format: &str) -> String {
        let template = OwnVariables::named(&["own"]).template(format).expect("a template");
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
            ("$realip_remote_addr:$realip_remote_port $remote_user", "10.0.0.3:4321 me"),
            ("$proxy_protocol_addr:$proxy_protocol_port", "10.0.0.4:1"),
            ("$proxy_protocol_server_addr:$proxy_protocol_server_port", "10.0.0.5:2"),
            ("$arg_c $arg_C $arg_none $cookie_a $cookie_bC $cookie_d", "d d - 1 2 -"),
            ("$content_type $content_length $https", "t/u - -"),
            ("$document_root $request_filename $document_uri", "/www /www/a b /a b"),
            ("$proxy_add_x_forwarded_for", "192.0.2.1, 192.0.2.2, 10.0.0.1"),
            ("$own $1", "x y -"),
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
