//! Field names that drover itself looks at, as small numbers.

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
    Expect,
    Host,
    IfMatch,
    IfModifiedSince,
    IfNoneMatch,
    IfRange,
    IfUnmodifiedSince,
    Range,
    Referer,
    TransferEncoding,
    Upgrade,
    UserAgent,
}

impl Name {
    /// The number of a name as it was received, whatever its case. The length decides which names are
    /// compared at all. `name` is a token.
    #[inline]
    pub(crate) fn of(name: &[u8]) -> Name {
        let is = |text: &[u8]| is_same(name, text);
        match name.len() {
            4 if is(b"host") => Name::Host,
            5 if is(b"range") => Name::Range,
            6 if is(b"accept") => Name::Accept,
            6 if is(b"cookie") => Name::Cookie,
            6 if is(b"expect") => Name::Expect,
            7 if is(b"referer") => Name::Referer,
            7 if is(b"upgrade") => Name::Upgrade,
            8 if is(b"if-match") => Name::IfMatch,
            8 if is(b"if-range") => Name::IfRange,
            10 if is(b"connection") => Name::Connection,
            10 if is(b"user-agent") => Name::UserAgent,
            13 if is(b"if-none-match") => Name::IfNoneMatch,
            13 if is(b"authorization") => Name::Authorization,
            14 if is(b"content-length") => Name::ContentLength,
            15 if is(b"accept-encoding") => Name::AcceptEncoding,
            17 if is(b"if-modified-since") => Name::IfModifiedSince,
            17 if is(b"transfer-encoding") => Name::TransferEncoding,
            19 if is(b"if-unmodified-since") => Name::IfUnmodifiedSince,
            _ => Name::Other,
        }
    }
}

/// Whether `bytes`, which hold no control bytes, are `text` in any case; `text` is lower case letters and `-`.
///
/// Setting bit 5 makes letters lower case and leaves `-` alone. It takes nothing else to a letter, and only CR,
/// a control byte, to `-`. So whole words can be compared.
#[inline]
pub(crate) fn is_same(bytes: &[u8], text: &[u8]) -> bool {
    const LOWER: u64 = 0x2020_2020_2020_2020;
    if bytes.len() != text.len() {
        return false;
    }
    let (words, rest) = bytes.as_chunks::<8>();
    let (text_words, text_rest) = text.as_chunks::<8>();
    let word = |bytes: &[u8; 8]| u64::from_ne_bytes(*bytes);
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
}
