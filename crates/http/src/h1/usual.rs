//! The usual head, read the short way.
//!
//! `httparse` judges every head that is in any way unusual. Most are not: a common method, a path, a version
//! that is served, plain field lines. Those are read here in one pass that also classifies the path, at half
//! the instructions. This way takes a part of what the general way takes, always with the same result (the
//! tests of heads compare the two on everything they try). The rest it leaves alone: it refuses nothing and asks
//! for no more bytes. What the fields mean is decided by code that both ways share.

use super::block::{self, equal, within};
use super::framing::Notes;
use super::head::{Head, Limits, Span};
use super::method::Method;
use super::target::{Form, Target};
use crate::path::class;

const DELETE: u8 = 0x7f;

impl Head {
    /// Reads the head that `bytes` begin with, if it is complete, usual and right. Gives its length.
    #[inline]
    pub(super) fn parse_usual(&mut self, bytes: &[u8], limits: &Limits) -> Option<usize> {
        let mut rest = self.usual_line(bytes)?;
        self.begin_fields();
        let mut notes = Notes::default();
        let mut room = limits.max_headers;
        // What is left begins with the end of a line.
        let behind = loop {
            if let Some(behind) = rest.strip_prefix(b"\r\n\r\n") {
                break behind;
            }
            room = room.checked_sub(1)?;
            let (name, value, end) = usual_field(rest.strip_prefix(b"\r\n")?)?;
            self.take_field(bytes, name, value, limits, &mut notes).ok()?;
            rest = end;
        };
        let length = bytes.len() - behind.len();
        self.conclude(&bytes[..length], &notes).ok()?;
        Some(length)
    }

    /// The request line; gives what follows, from the line's end on.
    #[inline]
    fn usual_line<'b>(&mut self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let (method, target) = if let Some(target) = bytes.strip_prefix(b"GET ") {
            (Method::Get, target)
        } else if let Some(target) = bytes.strip_prefix(b"POST ") {
            (Method::Post, target)
        } else if let Some(target) = bytes.strip_prefix(b"HEAD ") {
            (Method::Head, target)
        } else {
            return None;
        };
        let (path, mut rest, plain) = usual_path(target)?;
        let mut query = None;
        if let [b'?', behind @ ..] = rest {
            let part;
            (part, rest) = block::split(behind, |block| {
                within(block, 0, b' ') | equal(block, b'#') | within(block, DELETE, 0xff)
            });
            query = Some(Span::within(bytes, part));
        }
        let whole = Span::between(bytes, target, rest);
        let (version, rest) = rest.split_first_chunk::<9>()?;
        if version[..8] != *b" HTTP/1." || !matches!(version[8], b'0' | b'1') {
            return None;
        }
        self.is_http11 = version[8] == b'1';
        self.method = method;
        self.method_span = Span { start: 0, end: whole.start - 1 };
        let (authority, path) = (Span::default(), Span::within(bytes, path));
        self.target = Target { form: Form::Origin, whole, authority, path, query, plain, replaced: false };
        Some(rest)
    }
}

/// The path that `bytes` begin with, what follows, and whether it is plain.
#[inline]
fn usual_path(bytes: &[u8]) -> Option<(&[u8], &[u8], bool)> {
    // Of most bytes nothing needs to be known. The others are looked at one by one: what ends the path, what
    // must not be in it or has to be decoded, what makes segments, and a few that are harmless.
    let notable = |block| {
        within(block, 0, b'/') | equal(block, b'?') | equal(block, b'\\') | within(block, DELETE, 0xff)
    };
    if bytes.first() != Some(&b'/') {
        return None;
    }
    let mut plain = true;
    let mut segment = 1;
    let mut at = segment;
    loop {
        at = block::find(bytes, at, notable);
        let class = class::OF[usize::from(*bytes.get(at)?)];
        if class & (class::BAD | class::QUESTION | class::BACKSLASH) != 0 {
            let (path, rest) = bytes.split_at(at);
            return (class != class::BACKSLASH).then_some((path, rest, plain));
        }
        // "//" is an empty segment, and one that begins with "." may be "." or "..".
        if class & (class::SLASH | class::DOT) != 0 && at == segment || class == class::PERCENT {
            plain = false;
        }
        at += 1;
        if class == class::SLASH {
            segment = at;
        }
    }
}

/// A field line: its name, its value without the space around it, and what follows from the line's end on.
#[inline]
pub(super) fn usual_field(line: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (name, rest) =
        block::split(line, |block| within(block, 0, b' ') | equal(block, b':') | within(block, DELETE, 0xff));
    let ([b':', b' ', behind @ ..] | [b':', behind @ ..]) = rest else { return None };
    let (mut value, rest) = split_value(behind);
    if let [b' ' | b'\t', ..] | [.., b' ' | b'\t'] = value {
        value = without_space(value);
    }
    (!name.is_empty()).then_some((name, value, rest))
}

#[cold]
fn without_space(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', inner @ ..] | [inner @ .., b' ' | b'\t'] = value {
        value = inner;
    }
    value
}

/// A value's bytes, which end before the first control byte but tab, and what follows.
#[inline]
pub(super) fn split_value(bytes: &[u8]) -> (&[u8], &[u8]) {
    let mut at = 0;
    loop {
        at = block::find(bytes, at, |block| within(block, 0, b' ' - 1) | equal(block, DELETE));
        if bytes.get(at) != Some(&b'\t') {
            return bytes.split_at(at);
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_value_ends_at_its_first_control_byte(
            bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'\t')], 0..40),
        ) {
            let control = |byte: &u8| *byte != b'\t' && (*byte < b' ' || *byte == DELETE);
            let want = bytes.iter().position(control).unwrap_or(bytes.len());
            prop_assert_eq!(split_value(&bytes), bytes.split_at(want));
        }
    }
}
