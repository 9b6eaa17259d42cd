//! Field names that drover itself looks at, as small numbers.

use super::block::{self, equal, within};
use super::head::Span;

/// A field name, or [`Name::Other`] for any that only the access log or an upstream cares about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub(crate) enum Name {
    Other,
    Accept,
    AcceptEncoding,
    Authorization,
    Connection,
    ContentLength,
    Cookie,
    Date,
    Expect,
    Forwarded,
    Host,
    IfMatch,
    IfModifiedSince,
    IfNoneMatch,
    IfRange,
    IfUnmodifiedSince,
    KeepAlive,
    MaxForwards,
    ProxyConnection,
    Range,
    Referer,
    Te,
    Trailer,
    TransferEncoding,
    Upgrade,
    UserAgent,
    XForwardedFor,
    XForwardedHost,
    XForwardedProto,
}

impl Name {
    /// The number of a name as it was received, whatever its case. The length decides which names are
    /// compared at all. `name` holds no control bytes; one that is known is a token.
    #[inline]
    pub(crate) fn of(name: &[u8]) -> Name {
        let is = |text: &[u8]| is_same(name, text);
        match name.len() {
            2 if is(b"te") => Name::Te,
            4 if is(b"host") => Name::Host,
            4 if is(b"date") => Name::Date,
            5 if is(b"range") => Name::Range,
            6 if is(b"accept") => Name::Accept,
            6 if is(b"cookie") => Name::Cookie,
            6 if is(b"expect") => Name::Expect,
            7 if is(b"referer") => Name::Referer,
            7 if is(b"upgrade") => Name::Upgrade,
            7 if is(b"trailer") => Name::Trailer,
            8 if is(b"if-match") => Name::IfMatch,
            8 if is(b"if-range") => Name::IfRange,
            9 if is(b"forwarded") => Name::Forwarded,
            10 if is(b"connection") => Name::Connection,
            10 if is(b"user-agent") => Name::UserAgent,
            10 if is(b"keep-alive") => Name::KeepAlive,
            12 if is(b"max-forwards") => Name::MaxForwards,
            13 if is(b"if-none-match") => Name::IfNoneMatch,
            13 if is(b"authorization") => Name::Authorization,
            14 if is(b"content-length") => Name::ContentLength,
            15 if is(b"accept-encoding") => Name::AcceptEncoding,
            15 if is(b"x-forwarded-for") => Name::XForwardedFor,
            16 if is(b"proxy-connection") => Name::ProxyConnection,
            16 if is(b"x-forwarded-host") => Name::XForwardedHost,
            17 if is(b"if-modified-since") => Name::IfModifiedSince,
            17 if is(b"transfer-encoding") => Name::TransferEncoding,
            17 if is(b"x-forwarded-proto") => Name::XForwardedProto,
            19 if is(b"if-unmodified-since") => Name::IfUnmodifiedSince,
            _ => Name::Other,
        }
    }
}

/// Some of the names that have a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Names(u64);

impl Names {
    pub(crate) const fn of(names: &[Name]) -> Names {
        let mut set = Names(0);
        let mut at = 0;
        while at < names.len() {
            set = set.with(names[at]);
            at += 1;
        }
        set
    }

    pub(crate) const fn with(self, name: Name) -> Names {
        Names(self.0 | 1 << name as u64)
    }

    #[inline]
    pub(crate) const fn has(self, name: Name) -> bool {
        self.0 >> name as u64 & 1 == 1
    }
}

/// How a name looks whose number is [`Name::Other`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Look {
    Usual,
    /// It has `_` or `.`, which some backends take for `-`.
    Odd,
    /// It is no token.
    Invalid,
}

impl Look {
    /// How the name that `span` takes of `head` looks.
    #[inline]
    pub(super) fn of(head: &[u8], span: Span) -> Look {
        let end = block::find(head, span.start as usize, |block| {
            let letter = within(block::lower(block), b'a', b'z');
            block::not(letter | within(block, b'0', b'9') | equal(block, b'-'))
        });
        if end >= span.end as usize { Look::Usual } else { Look::of_name(span.of(head)) }
    }

    /// How `name` looks.
    pub(crate) fn of_name(name: &[u8]) -> Look {
        match name.iter().fold(0, |seen, byte| seen | CLASS[usize::from(*byte)]) {
            0 => Look::Usual,
            ODD => Look::Odd,
            _ => Look::Invalid,
        }
    }
}

const ODD: u8 = 1;
const NO_TOKEN: u8 = 2;

/// What the bytes of a name are (RFC 9110, 5.6.2).
static CLASS: [u8; 256] = {
    let mut table = [NO_TOKEN; 256];
    let mut byte = 0;
    while byte < 256 {
        if (byte as u8).is_ascii_alphanumeric() {
            table[byte] = 0;
        }
        byte += 1;
    }
    let others = b"!#$%&'*+-^`|~";
    let mut at = 0;
    while at < others.len() {
        table[others[at] as usize] = 0;
        at += 1;
    }
    table[b'_' as usize] = ODD;
    table[b'.' as usize] = ODD;
    table
};

/// Whether `bytes`, which hold no control bytes, are `text` in any case; `text` is lower case letters and `-`.
///
/// Setting bit 5 makes letters lower case and leaves `-` alone. It takes nothing else to a letter, and only CR,
/// a control byte, to `-`. So whole words can be compared.
#[inline]
pub(crate) fn is_same(bytes: &[u8], text: &[u8]) -> bool {
    const LOWER: u32 = 0x2020_2020;
    if bytes.len() != text.len() {
        return false;
    }
    let (words, rest) = bytes.as_chunks::<4>();
    let (text_words, text_rest) = text.as_chunks::<4>();
    let word = |bytes: &[u8; 4]| u32::from_ne_bytes(*bytes);
    words.iter().zip(text_words).all(|(a, b)| word(a) | LOWER == word(b))
        && rest.iter().zip(text_rest).all(|(a, b)| a | 0x20 == *b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_in_any_case() {
        assert_eq!(Name::of(b"Host"), Name::Host);
        assert_eq!(Name::of(b"tRANSFER-eNCODING"), Name::TransferEncoding);
        assert_eq!(Name::of(b"If-Modified-Since"), Name::IfModifiedSince);
        assert_eq!(Name::of(b"hose"), Name::Other);
        assert_eq!(Name::of(b"AUTHORIZATION"), Name::Authorization);
        assert_eq!(Name::of(b"if_range"), Name::Other);
        assert_eq!(Name::of(b""), Name::Other);
    }

    #[test]
    fn tokens_are_the_bytes_of_names() {
        for byte in 0..=255 {
            let odd = matches!(byte, b'_' | b'.');
            let want = match crate::h1::scan::is_token(byte) {
                true if odd => Look::Odd,
                true => Look::Usual,
                false => Look::Invalid,
            };
            let name = [b'x', byte];
            assert_eq!(Look::of(&name, Span { start: 0, end: 2 }), want, "{byte:#x}");
        }
    }
}
