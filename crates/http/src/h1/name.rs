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
    /// compared at all.
    #[inline]
    pub(crate) fn of(name: &[u8]) -> Name {
        let candidates: &[(Name, &[u8])] = match name.len() {
            4 => &[(Name::Host, b"host")],
            5 => &[(Name::Range, b"range")],
            6 => &[(Name::Accept, b"accept"), (Name::Cookie, b"cookie"), (Name::Expect, b"expect")],
            7 => &[(Name::Referer, b"referer"), (Name::Upgrade, b"upgrade")],
            8 => &[(Name::IfMatch, b"if-match"), (Name::IfRange, b"if-range")],
            10 => &[(Name::UserAgent, b"user-agent"), (Name::Connection, b"connection")],
            13 => &[(Name::IfNoneMatch, b"if-none-match"), (Name::Authorization, b"authorization")],
            14 => &[(Name::ContentLength, b"content-length")],
            15 => &[(Name::AcceptEncoding, b"accept-encoding")],
            17 => &[
                (Name::IfModifiedSince, b"if-modified-since"),
                (Name::TransferEncoding, b"transfer-encoding"),
            ],
            19 => &[(Name::IfUnmodifiedSince, b"if-unmodified-since")],
            _ => &[],
        };
        for (number, text) in candidates {
            if name.eq_ignore_ascii_case(text) {
                return *number;
            }
        }
        Name::Other
    }
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
        assert_eq!(Name::of(b""), Name::Other);
    }
}
