//! The request's target: its form, its authority, its path and its query.

use super::block::{self, within};
use super::head::Span;
use super::method::Method;
use super::rule::{Refusal, Rule};
use crate::path::class;

/// Which of the four forms a target has ([RFC 9112, 3.2](https://www.rfc-editor.org/rfc/rfc9112#section-3.2)).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Form {
    /// `/path?query`.
    #[default]
    Origin,
    /// `http://host/path?query`.
    Absolute,
    /// `host:port`, for CONNECT.
    Authority,
    /// `*`, for OPTIONS.
    Asterisk,
}

/// A target taken apart. Spans count from the beginning of the head.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Target {
    pub(crate) form: Form,
    /// Everything, as received.
    pub(crate) whole: Span,
    pub(crate) authority: Span,
    /// The path as received; empty where an absolute target has none.
    pub(crate) path: Span,
    /// The query without its question mark.
    pub(crate) query: Option<Span>,
    /// The path is already what normalising would make of it.
    pub(crate) plain: bool,
    /// A rule or an internal redirect put another path and query in the place of these.
    pub(crate) replaced: bool,
}

impl Target {
    /// Whether it begins with `https://`.
    pub(super) fn is_https(&self) -> bool {
        self.form == Form::Absolute && (self.authority.start - self.whole.start) as usize == "https://".len()
    }
}

/// Takes the target at `span` of `head` apart.
#[inline]
pub(super) fn parse(head: &[u8], span: Span, method: Method) -> Result<Target, Refusal> {
    let bytes = span.of(head);
    if bytes.first() == Some(&b'/') {
        return origin(head, span, span.start);
    }
    other_form(head, span, method)
}

/// Path and query, which begin at `start` and end with `whole`.
#[inline]
fn origin(head: &[u8], whole: Span, start: u32) -> Result<Target, Refusal> {
    let mut target = Target { whole, ..Target::default() };
    let bytes = Span { start, end: whole.end }.of(head);
    let mut seen = 0;
    let mut tangled = false;
    let mut previous = 0;
    let mut end = bytes.len();
    for (at, byte) in bytes.iter().enumerate() {
        let class = class::OF[usize::from(*byte)];
        if class == class::QUESTION {
            end = at;
            break;
        }
        seen |= class;
        // "//" or "/." somewhere: an empty segment, or one that may be "." or "..".
        tangled |= previous == class::SLASH && class & (class::SLASH | class::DOT) != 0;
        previous = class;
    }
    if seen & (class::BAD | class::BACKSLASH) != 0 {
        return Err(bad_byte(bytes, start, class::BAD | class::BACKSLASH));
    }
    let path_end = start + end as u32;
    target.path = Span { start, end: path_end };
    target.plain = seen & class::PERCENT == 0 && !tangled && !bytes[..end].is_empty();
    if end < bytes.len() {
        let query = Span { start: path_end + 1, end: whole.end };
        let bytes = query.of(head);
        if bytes.iter().any(|byte| class::OF[usize::from(*byte)] == class::BAD) {
            return Err(bad_byte(bytes, query.start, class::BAD));
        }
        target.query = Some(query);
    }
    Ok(target)
}

#[cold]
fn bad_byte(bytes: &[u8], start: u32, bad: u8) -> Refusal {
    let at = bytes.iter().position(|byte| class::OF[usize::from(*byte)] & bad != 0);
    Refusal::new(Rule::TargetByte, start as usize + at.unwrap_or(0))
}

#[cold]
fn other_form(head: &[u8], whole: Span, method: Method) -> Result<Target, Refusal> {
    let bytes = whole.of(head);
    if let Some(at) = bytes.iter().position(|byte| class::OF[usize::from(*byte)] == class::BAD) {
        return Err(Refusal::new(Rule::TargetByte, whole.start as usize + at));
    }
    let wrong = Err(Refusal::new(Rule::TargetForm, whole.start as usize));
    if bytes == b"*" {
        let target = Target { form: Form::Asterisk, whole, path: whole, plain: true, ..Target::default() };
        return if method == Method::Options { Ok(target) } else { wrong };
    }
    if method == Method::Connect {
        let target = Target { form: Form::Authority, whole, authority: whole, ..Target::default() };
        return if is_host(head, whole) && has_port(bytes) { Ok(target) } else { wrong };
    }
    let scheme = if bytes.len() > 7 && bytes[..7].eq_ignore_ascii_case(b"http://") {
        7
    } else if bytes.len() > 8 && bytes[..8].eq_ignore_ascii_case(b"https://") {
        8
    } else {
        return wrong;
    };
    let rest = &bytes[scheme..];
    let length = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    let start = whole.start + scheme as u32;
    let authority = Span { start, end: start + length as u32 };
    if length == 0 || !is_host(head, authority) {
        return wrong;
    }
    let mut target = origin(head, whole, authority.end)?;
    target.form = Form::Absolute;
    target.authority = authority;
    Ok(target)
}

/// Whether what `span` takes of `head` is a host with an optional port, and nothing else: no user, no path
/// ([RFC 9110, 7.2](https://www.rfc-editor.org/rfc/rfc9110#section-7.2)).
#[inline]
pub(super) fn is_host(head: &[u8], span: Span) -> bool {
    // Letters, digits, "-" and ".": what names that are in use and IPv4 addresses are made of.
    let end = block::find(head, span.start as usize, |block| {
        let letter = within(block::lower(block), b'a', b'z');
        block::not(letter | within(block, b'0', b'9') | within(block, b'-', b'.'))
    });
    let name = Span { end: span.end.min(end as u32), ..span };
    match &span.of(head)[name.of(head).len()..] {
        [] => true,
        [b':', port @ ..] => is_port(port),
        _ => is_unusual_host(span.of(head)),
    }
}

#[inline]
fn is_port(port: &[u8]) -> bool {
    port.len() <= 5 && port.iter().all(|byte| byte.is_ascii_digit())
}

#[cold]
fn is_unusual_host(bytes: &[u8]) -> bool {
    match bytes.iter().position(|byte| !REG_NAME[usize::from(*byte)]) {
        None => true,
        Some(colon) if bytes[colon] == b':' => is_port(&bytes[colon + 1..]),
        Some(_) => is_bracketed(bytes),
    }
}

/// An IPv6 address in its brackets, with an optional port.
fn is_bracketed(bytes: &[u8]) -> bool {
    let Some(rest) = bytes.strip_prefix(b"[") else { return false };
    let length =
        rest.iter().take_while(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.')).count();
    match &rest[length..] {
        [b']'] => length > 0,
        [b']', b':', port @ ..] => length > 0 && is_port(port),
        _ => false,
    }
}

/// The bytes of a name that is registered somewhere, or of an IPv4 address (RFC 3986, 3.2.2).
static REG_NAME: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let others = b".-_~%!$&'()*+,;=";
    let mut at = 0;
    while at < others.len() {
        table[others[at] as usize] = true;
        at += 1;
    }
    table
};

fn has_port(bytes: &[u8]) -> bool {
    split_port(bytes).1.is_some_and(|port| !port.is_empty())
}

/// Host and port, at the colon that is not inside brackets.
pub(crate) fn split_port(bytes: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memrchr(b':', bytes) {
        Some(at) if bytes.first() != Some(&b'[') || at > 0 && bytes[at - 1] == b']' => {
            (&bytes[..at], Some(&bytes[at + 1..]))
        }
        _ => (bytes, None),
    }
}

/// Whether Host names the authority of an absolute target: the same but for case and the default port.
pub(super) fn same_authority(authority: &[u8], host: &[u8], https: bool) -> bool {
    let default: &[u8] = if https { b"443" } else { b"80" };
    let port = |port: Option<&[u8]>| match port {
        Some(port) if !port.is_empty() => port.to_vec(),
        _ => default.to_vec(),
    };
    let ((host_a, port_a), (host_b, port_b)) = (split_port(authority), split_port(host));
    host_a.eq_ignore_ascii_case(host_b) && port(port_a) == port(port_b)
}
