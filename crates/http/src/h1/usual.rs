//! The usual head, read the short way.
//!
//! `httparse` judges every head that is in any way unusual. Most are not: a common method, a path, a version
//! that is served, plain field lines. Those are read here in one pass that also classifies the path, at half
//! the instructions. This way takes a part of what the general way takes, always with the same result (the
//! tests of heads compare the two on everything they try). The rest it leaves alone: it refuses nothing and asks
//! for no more bytes. What the fields mean is decided by code that both ways share.

use super::head::{Head, Limits, Notes, Span};
use super::method::Method;
use super::target::{Form, Target};
use crate::path::class;

/// The bytes of a token (RFC 9110, 5.6.2).
static TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let others = b"!#$%&'*+-.^_`|~";
    let mut at = 0;
    while at < others.len() {
        table[others[at] as usize] = true;
        at += 1;
    }
    table
};

impl Head {
    /// Reads the head that `bytes` begin with, if it is complete, usual and right. Gives its length.
    #[inline]
    pub(super) fn parse_usual(&mut self, bytes: &[u8], limits: &Limits) -> Option<usize> {
        let mut at = self.usual_line(bytes)?;
        self.begin_fields();
        let mut notes = Notes::default();
        let mut count = 0;
        loop {
            match bytes.get(at..at + 2)? {
                b"\r\n" => break,
                // Anything but a name ends up in the general way, below.
                _ if count == limits.max_headers => return None,
                _ => count += 1,
            }
            let (name, value, next) = usual_field(bytes, at)?;
            self.take_field(bytes, name, value, limits, &mut notes).ok()?;
            at = next;
        }
        self.conclude(&bytes[..at + 2], &notes).ok()?;
        Some(at + 2)
    }

    /// The request line; gives its length with its end.
    #[inline]
    fn usual_line(&mut self, bytes: &[u8]) -> Option<usize> {
        let (method, length) = match bytes {
            [b'G', b'E', b'T', b' ', b'/', ..] => (Method::Get, 3),
            [b'H', b'E', b'A', b'D', b' ', b'/', ..] => (Method::Head, 4),
            [b'P', b'O', b'S', b'T', b' ', b'/', ..] => (Method::Post, 4),
            _ => return None,
        };
        let start = length + 1;
        let (mut at, mut seen, mut tangled, mut previous) = (start, 0, false, 0);
        let end_of_path = loop {
            let class = class::OF[usize::from(*bytes.get(at)?)];
            if class & (class::BAD | class::QUESTION) != 0 {
                break at;
            }
            seen |= class;
            // "//" or "/." somewhere: an empty segment, or one that may be "." or "..".
            tangled |= previous == class::SLASH && class & (class::SLASH | class::DOT) != 0;
            previous = class;
            at += 1;
        };
        if bytes[at] == b'?' {
            while class::OF[usize::from(*bytes.get(at)?)] != class::BAD {
                at += 1;
            }
        }
        // The space and the version in words: "H" is where both overlap.
        let rest = bytes.get(at..at + 11)?;
        if seen & class::BACKSLASH != 0 || &rest[..8] != b" HTTP/1." || &rest[9..] != b"\r\n" {
            return None;
        }
        self.is_http11 = match rest[8] {
            b'1' => true,
            b'0' => false,
            _ => return None,
        };
        let span = |start: usize, end: usize| Span { start: start as u32, end: end as u32 };
        self.method = method;
        self.method_span = span(0, length);
        self.target = Target {
            form: Form::Origin,
            whole: span(start, at),
            authority: Span::default(),
            path: span(start, end_of_path),
            query: (end_of_path < at).then(|| span(end_of_path + 1, at)),
            plain: seen & class::PERCENT == 0 && !tangled,
        };
        Some(at + 11)
    }
}

/// A field line: its name, its value without the space around it, and where the next line begins.
#[inline]
fn usual_field(bytes: &[u8], start: usize) -> Option<(Span, Span, usize)> {
    let mut at = start;
    while TOKEN[usize::from(*bytes.get(at)?)] {
        at += 1;
    }
    if at == start || bytes[at] != b':' {
        return None;
    }
    let name = Span { start: start as u32, end: at as u32 };
    at += 1;
    while let b' ' | b'\t' = *bytes.get(at)? {
        at += 1;
    }
    let value = at;
    at = end_of_value(bytes, at);
    if bytes.get(at..at + 2)? != b"\r\n" {
        return None;
    }
    let next = at + 2;
    while at > value && matches!(bytes[at - 1], b' ' | b'\t') {
        at -= 1;
    }
    Some((name, Span { start: value as u32, end: at as u32 }, next))
}

/// Where a value's bytes end: at the first control byte but tab. Eight bytes at a time.
#[inline]
fn end_of_value(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    while let Some(eight) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*eight);
        // The high bit of each byte below space, and of each DEL. Exact up to the first.
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        let delete = (word ^ (ONES * 0x7f)).wrapping_sub(ONES) & !(word ^ (ONES * 0x7f));
        let found = (control | delete) & HIGH;
        if found == 0 {
            at += 8;
            continue;
        }
        at += found.trailing_zeros() as usize / 8;
        if bytes[at] != b'\t' {
            return at;
        }
        at += 1;
    }
    while let Some(byte) = bytes.get(at)
        && (*byte == b'\t' || (*byte >= b' ' && *byte != 0x7f))
    {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_value_ends_at_its_first_control_byte(bytes in proptest::collection::vec(any::<u8>(), 0..40), at in 0_usize..40) {
            let control = |byte: &u8| *byte != b'\t' && (*byte < b' ' || *byte == 0x7f);
            let at = at.min(bytes.len());
            let want = bytes[at..].iter().position(control).map_or(bytes.len(), |more| at + more);
            prop_assert_eq!(end_of_value(&bytes, at), want);
        }
    }
}
