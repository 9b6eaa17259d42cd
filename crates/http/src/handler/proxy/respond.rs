//! The head of a response as it is passed on to the client.
//!
//! A pure function of the parsed head: the fields as they came, without those that were meant for this
//! connection with the server, and with the framing that the body will have on the client's.

use crate::exchange::Request;
use crate::h1::framing::Framing;
use crate::h1::lines::{Dropped, HOP_BY_HOP, push_lines};
use crate::h1::name::Name;
use crate::h1::response_head::ResponseHead;
use crate::handler::proxy::reframe::Outgoing;
use crate::response::{self, Fate};

/// How a body goes out to the client, and what becomes of the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Terms {
    pub(crate) outgoing: Outgoing,
    pub(crate) fate: Fate,
    /// Only the close tells the client that the body is whole.
    pub(crate) until_close: bool,
}

impl Terms {
    /// For a body that comes in this framing to a client of this version.
    pub(crate) fn new(framing: Framing, is_http11: bool, fate: Fate) -> Terms {
        match framing {
            Framing::None | Framing::Length(_) => {
                Terms { outgoing: Outgoing::Plain, fate, until_close: false }
            }
            Framing::Chunked | Framing::UntilClose if is_http11 => {
                Terms { outgoing: Outgoing::Chunked, fate, until_close: false }
            }
            // HTTP/1.0 knows no chunks.
            Framing::Chunked | Framing::UntilClose => {
                Terms { outgoing: Outgoing::Plain, fate: Fate::Close, until_close: true }
            }
        }
    }
}

/// Appends the head, which stands in `bytes`.
#[inline]
pub(crate) fn push_head(
    request: &Request<'_>,
    head: &ResponseHead,
    bytes: &[u8],
    terms: Terms,
    out: &mut Vec<u8>,
) {
    push_most(request, head, bytes, out);
    if terms.outgoing == Outgoing::Chunked {
        out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    }
    out.extend_from_slice(terms.fate.last_lines());
}

/// Appends the head of a response that changes the protocol.
pub(crate) fn push_upgrade(request: &Request<'_>, head: &ResponseHead, bytes: &[u8], out: &mut Vec<u8>) {
    push_most(request, head, bytes, out);
    if let Some(protocol) = head.field(bytes, Name::Upgrade) {
        response::field(out, "Upgrade", protocol);
    }
    out.extend_from_slice(b"Connection: upgrade\r\n\r\n");
}

/// Appends an interim response.
pub(crate) fn push_interim(head: &ResponseHead, bytes: &[u8], out: &mut Vec<u8>) {
    push_status_line(head, bytes, out);
    push_fields(head, bytes, out);
    out.extend_from_slice(b"\r\n");
}

/// All but what the connection with the client makes necessary.
#[inline]
fn push_most(request: &Request<'_>, head: &ResponseHead, bytes: &[u8], out: &mut Vec<u8>) {
    push_status_line(head, bytes, out);
    push_fields(head, bytes, out);
    // RFC 9110, 6.6.1: who has a clock adds it.
    if !head.fields.iter().any(|field| field.id == Name::Date) {
        response::field(out, "Date", request.date);
    }
}

#[inline]
fn push_fields(head: &ResponseHead, bytes: &[u8], out: &mut Vec<u8>) {
    let names = match head.status {
        // RFC 9110, 8.6: a length must not be there, and a client might wait for so many bytes.
        100..=199 | 204 => HOP_BY_HOP.with(Name::ContentLength),
        _ => HOP_BY_HOP,
    };
    let dropped = Dropped { names, others: &[] };
    push_lines(&head.fields, bytes, dropped, head.connection.names_fields, out);
}

/// With our version, whatever the server's is.
#[inline]
fn push_status_line(head: &ResponseHead, bytes: &[u8], out: &mut Vec<u8>) {
    const STATUS: std::ops::Range<usize> = 9..12;
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(&bytes[STATUS]);
    out.push(b' ');
    out.extend_from_slice(head.reason.of(bytes));
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h1::head::{Head, Limits};
    use crate::h1::method::Method;
    use drover_event::Millis;

    const DATE: &response::Date = b"Sun, 06 Nov 1994 08:49:37 GMT";

    fn responded(text: &str, is_http11: bool, fate: Fate) -> String {
        let limits = Limits { size: 1000, max_headers: 20, keep_odd_names: true };
        let mut head = ResponseHead::default();
        head.parse(text.as_bytes(), &limits).expect("a head");
        let asked = Head { is_http11, ..Head::default() };
        let (render, now) = (|_: &_, _: &mut _| {}, Millis::default());
        let request = Request {
            head: &asked,
            bytes: b"",
            fate,
            date: DATE,
            now,
            server: "drover",
            error_pages: None,
            render: &render,
        };
        let terms = Terms::new(head.framing(Method::Get), is_http11, fate);
        let mut out = Vec::new();
        push_head(&request, &head, text.as_bytes(), terms, &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn what_was_meant_for_the_server_s_connection_stays_there() {
        let text = "HTTP/1.0 200 Fine\r\nServer: x\r\nDate: y\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\n\
            Set-Cookie: a\r\nSet-Cookie: b\r\nContent-Length: 3\r\nKeep-Alive: 5\r\n\r\n";
        let want = "HTTP/1.1 200 Fine\r\nServer: x\r\nDate: y\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nContent-Length: 3\r\n";
        assert_eq!(responded(text, true, Fate::Keep), format!("{want}\r\n"));
        let told = responded(text, false, Fate::KeepTold);
        assert_eq!(told, format!("{want}Connection: keep-alive\r\n\r\n"));
    }

    #[test]
    fn the_framing_is_what_the_client_understands() {
        let date = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
        for framing in ["Transfer-Encoding: chunked\r\n", ""] {
            let text = format!("HTTP/1.1 200\r\n{framing}\r\n");
            let chunked = format!("HTTP/1.1 200 \r\n{date}Transfer-Encoding: chunked\r\n\r\n");
            assert_eq!(responded(&text, true, Fate::Keep), chunked);
            let closed = format!("HTTP/1.1 200 \r\n{date}Connection: close\r\n\r\n");
            assert_eq!(responded(&text, false, Fate::KeepTold), closed);
        }
        let none = responded("HTTP/1.1 204 No\r\nContent-Length: 0\r\n\r\n", true, Fate::Keep);
        assert_eq!(none, format!("HTTP/1.1 204 No\r\n{date}\r\n"));
    }
}
