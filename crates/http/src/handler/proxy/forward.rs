//! The head of a request as it is passed on.
//!
//! A pure function of the request and the location's rules. What is passed on is what was matched: the path goes
//! out normal, with only what must be encoded encoded, so that a server cannot read another path out of it than
//! the one by which the location was chosen. Framing is that of the parsed head, and nothing the client says about
//! its connection goes further.

use std::net::{IpAddr, SocketAddr};

use drover_service::TemplateError;
use drover_service::text::push_address;

use super::Destination;
use super::max_forwards::{self, MaxForwards};
use crate::config::{Forwarded, Proxy};
use crate::exchange::Request;
use crate::h1::framing::{Framing, options};
use crate::h1::head::Head;
use crate::h1::lines::{Dropped, HOP_BY_HOP, add_names, push_lines};
use crate::h1::name::{Name, Names};
use crate::own::OwnVariables;
use crate::path;
use crate::response;
use crate::variables::Template;

/// How a location's requests are passed on.
#[derive(Debug)]
pub(crate) struct Forward {
    /// What stands in place of how many bytes of the path.
    replace: Option<(usize, Box<[u8]>)>,
    /// Fields that are set: line beginnings (`Name: `) with their values.
    set: Vec<(Box<[u8]>, Template)>,
    /// Fields that are not passed on: those that have a number, and others.
    dropped: Names,
    dropped_others: Vec<Box<[u8]>>,
    /// Host is one of those that are set or removed.
    sets_host: bool,
    /// What Host is where the client told none.
    server: Box<[u8]>,
    tells_x: bool,
    tells_standard: bool,
    trusts: bool,
    /// What stands in Via behind the version; empty for no Via.
    via: Box<[u8]>,
    /// Protocols, in lower case.
    upgrade: Vec<Box<[u8]>>,
}

/// Fields that tell of clients.
const FORWARDED: [Name; 4] =
    [Name::Forwarded, Name::XForwardedFor, Name::XForwardedHost, Name::XForwardedProto];

impl Forward {
    /// Compiles the rules of a location.
    pub(crate) fn new(
        proxy: &Proxy,
        to: &Destination<'_>,
        own: &OwnVariables,
    ) -> Result<Forward, TemplateError> {
        let mut set = Vec::new();
        let changes = &proxy.request_headers;
        for (name, text) in changes.set.iter().chain(&changes.add) {
            if !text.is_empty() {
                set.push((format!("{name}: ").into_bytes().into(), own.template(text)?));
            }
        }
        let forwarded = proxy.forwarded.unwrap_or(Forwarded::XForwarded);
        let mut names = HOP_BY_HOP.with(Name::Host).with(Name::Expect);
        if forwarded != Forwarded::Off {
            names = FORWARDED.into_iter().fold(names, Names::with);
        }
        let removed = changes.remove.iter().map(|name| name.as_str());
        let replaced = changes.set.keys().map(String::as_str);
        let mut others = Vec::new();
        add_names(removed.chain(replaced), &mut names, &mut others);
        let sets = |name: &str| changes.set.keys().any(|own| own.eq_ignore_ascii_case(name));
        Ok(Forward {
            replace: to.pass.path.map(|path| (to.matched, path.as_bytes().into())),
            set,
            sets_host: sets("host"),
            dropped: names,
            dropped_others: others,
            server: to.pass.server.as_bytes().into(),
            tells_x: matches!(forwarded, Forwarded::XForwarded | Forwarded::Both),
            tells_standard: matches!(forwarded, Forwarded::Forwarded | Forwarded::Both),
            trusts: proxy.trust_forwarded.unwrap_or(false),
            via: match proxy.via.as_ref().map(|via| via.as_str()) {
                Some("off") => Box::default(),
                _ if sets("via") => Box::default(),
                own => own.unwrap_or("drover").as_bytes().into(),
            },
            upgrade: match &proxy.upgrade {
                Some(own) => own.iter().map(|name| name.to_ascii_lowercase().into_bytes().into()).collect(),
                None => vec![b"websocket".as_slice().into()],
            },
        })
    }

    /// Whether the client asks for another protocol that it may change to.
    pub(crate) fn upgrades(&self, head: &Head, bytes: &[u8]) -> bool {
        // RFC 9110, 7.8: of HTTP/1.0, Upgrade means nothing. With a body it would be unclear where the other
        // protocol begins.
        head.connection.upgrade
            && head.is_http11
            && head.framing == Framing::None
            && self.upgrade_fields(head, bytes).next().is_some()
    }

    /// Whether the client asks for a change to these protocols, and may.
    pub(crate) fn upgrades_to(&self, protocols: &[u8], head: &Head, bytes: &[u8]) -> bool {
        let asked_for =
            |own: &[u8]| self.upgrade_fields(head, bytes).any(|protocol| protocol.eq_ignore_ascii_case(own));
        self.upgrades(head, bytes) && options(protocols).next().is_some() && options(protocols).all(asked_for)
    }

    /// The protocols asked for that are allowed.
    fn upgrade_fields<'a>(&'a self, head: &'a Head, bytes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let lists = head.fields.iter().filter(|field| field.id == Name::Upgrade);
        let protocols = lists.flat_map(move |list| options(list.value.of(bytes)));
        protocols.filter(|protocol| self.upgrade.iter().any(|own| own.eq_ignore_ascii_case(protocol)))
    }

    /// Appends the head. `client` is who asked; `continues` tells that the client waits for `100 Continue`.
    pub(crate) fn push_head(
        &self,
        request: &Request<'_>,
        client: Option<SocketAddr>,
        continues: bool,
        out: &mut Vec<u8>,
    ) {
        let (head, bytes) = (request.head, request.bytes);
        out.extend_from_slice(head.method_span.of(bytes));
        out.push(b' ');
        self.push_target(head, bytes, out);
        out.extend_from_slice(b" HTTP/1.1\r\n");
        if !self.sets_host {
            let host = head.host.map_or(&*self.server, |host| host.of(bytes));
            response::field(out, "Host", host);
        }
        let mut names = match head.framing {
            // A body that was there, and is not any more.
            Framing::None => self.dropped.with(Name::ContentLength),
            _ => self.dropped,
        };
        let hops = max_forwards::of(head, bytes);
        if hops != MaxForwards::Any {
            names = names.with(Name::MaxForwards);
        }
        let dropped = Dropped { names, others: &self.dropped_others };
        push_lines(&head.fields, bytes, dropped, head.connection.names_fields, out);
        if let MaxForwards::Hops(hops) = hops {
            response::field(out, "Max-Forwards", hops.saturating_sub(1).to_string().as_bytes());
        }
        // RFC 9110, 7.6.3: of every request, behind those that were there.
        if !self.via.is_empty() {
            out.extend_from_slice(if head.is_http11 { b"Via: 1.1 " } else { b"Via: 1.0 " });
            out.extend_from_slice(&self.via);
            out.extend_from_slice(b"\r\n");
        }
        for (name, value) in &self.set {
            self.push_set(request, name, value, out);
        }
        if self.tells_x {
            self.push_x_forwarded(head, bytes, client, out);
        }
        if self.tells_standard {
            self.push_forwarded(head, bytes, client, out);
        }
        if head.framing == Framing::Chunked {
            out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
        }
        if continues {
            out.extend_from_slice(b"Expect: 100-continue\r\n");
        }
        if head.connection.upgrade && self.upgrades(head, bytes) {
            for protocol in self.upgrade_fields(head, bytes) {
                response::field(out, "Upgrade", protocol);
            }
            out.extend_from_slice(b"Connection: upgrade\r\n");
        }
        out.extend_from_slice(b"\r\n");
    }

    /// A field that is set; one without a value is not sent.
    fn push_set(&self, request: &Request<'_>, name: &[u8], value: &Template, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(name);
        let value_at = out.len();
        (request.render)(value, out);
        if out.len() == value_at {
            out.truncate(start);
            return;
        }
        // A decoded path may hold what would end the line.
        for byte in &mut out[value_at..] {
            if *byte < b' ' && *byte != b'\t' || *byte == 0x7f {
                *byte = b' ';
            }
        }
        out.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn push_target(&self, head: &Head, bytes: &[u8], out: &mut Vec<u8>) {
        if let Some((strip, with)) = &self.replace {
            let path = head.path(bytes);
            let mut rest = &path[(*strip).min(path.len())..];
            // "/a" + "/x" with "/b/" in place of "/a" is "/b/x".
            if let ([.., b'/'], [b'/', behind @ ..]) = (&**with, rest) {
                rest = behind;
            }
            out.extend_from_slice(with);
            path::encode(rest, out);
        } else if head.target.plain {
            out.extend_from_slice(head.target.path.of(bytes));
        } else {
            path::encode(&head.decoded_path, out);
        }
        if let Some(query) = head.query(bytes) {
            out.push(b'?');
            out.extend_from_slice(query);
        }
    }

    fn push_x_forwarded(&self, head: &Head, bytes: &[u8], client: Option<SocketAddr>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"X-Forwarded-For: ");
        self.push_received(head, bytes, Name::XForwardedFor, out);
        match client {
            Some(client) => push_address(out, client.ip()),
            None => out.extend_from_slice(b"unix:"),
        }
        out.extend_from_slice(b"\r\n");
        self.push_first_told(head, bytes, Name::XForwardedProto, b"X-Forwarded-Proto: ", b"http", out);
        if let Some(host) = head.host {
            self.push_first_told(
                head,
                bytes,
                Name::XForwardedHost,
                b"X-Forwarded-Host: ",
                host.of(bytes),
                out,
            );
        }
    }

    /// What a trusted client has told in the fields of this name, to be added to.
    fn push_received(&self, head: &Head, bytes: &[u8], name: Name, out: &mut Vec<u8>) {
        if self.trusts {
            let told =
                head.fields.iter().filter(|field| field.id == name && !field.value.of(bytes).is_empty());
            for field in told {
                out.extend_from_slice(field.value.of(bytes));
                out.extend_from_slice(b", ");
            }
        }
    }

    /// A field that says what was so at the first proxy: what a trusted client told stays.
    fn push_first_told(
        &self,
        head: &Head,
        bytes: &[u8],
        name: Name,
        line: &[u8],
        own: &[u8],
        out: &mut Vec<u8>,
    ) {
        let told = head.fields.iter().find(|field| self.trusts && field.id == name);
        out.extend_from_slice(line);
        out.extend_from_slice(told.map_or(own, |field| field.value.of(bytes)));
        out.extend_from_slice(b"\r\n");
    }

    /// Forwarded ([RFC 7239](https://www.rfc-editor.org/rfc/rfc7239)).
    fn push_forwarded(&self, head: &Head, bytes: &[u8], client: Option<SocketAddr>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"Forwarded: ");
        self.push_received(head, bytes, Name::Forwarded, out);
        out.extend_from_slice(b"for=");
        match client.map(|client| client.ip().to_canonical()) {
            Some(IpAddr::V4(address)) => push_address(out, address.into()),
            Some(address) => {
                out.extend_from_slice(b"\"[");
                push_address(out, address);
                out.extend_from_slice(b"]\"");
            }
            None => out.extend_from_slice(b"unknown"),
        }
        if let Some(host) = head.host {
            // A host has neither quotes nor backslashes.
            out.extend_from_slice(b";host=\"");
            out.extend_from_slice(host.of(bytes));
            out.push(b'"');
        }
        out.extend_from_slice(b";proto=http\r\n");
    }
}
