//! Conditional and range requests on something with an entity tag and a date
//! ([RFC 9110, 13 and 14](https://www.rfc-editor.org/rfc/rfc9110#section-13)).

use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::h1::head::Head;
use crate::h1::method::Method;
use crate::h1::name::Name;

/// What a representation is known by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Validators {
    /// The strong entity tag, in its quotes.
    pub(crate) etag: Box<[u8]>,
    /// Time of the last change, in seconds since the epoch.
    pub(crate) modified: u64,
    /// The same as HTTP writes it.
    pub(crate) last_modified: Box<[u8]>,
}

impl Validators {
    /// The validators of a file with this time of change and size. The tag is strong: a change that keeps
    /// the size and falls into one tick of the file system's clock is not seen, as with every tag made so.
    pub(crate) fn of_file(seconds: i64, nanoseconds: u32, size: u64) -> Validators {
        // HTTP has no dates before 1970 and after 9999.
        let modified = u64::try_from(seconds).unwrap_or(0).min(253_402_300_799);
        let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(modified));
        Validators {
            etag: format!("\"{seconds:x}-{nanoseconds:x}-{size:x}\"").into_bytes().into(),
            modified,
            last_modified: date.into_bytes().into(),
        }
    }
}

/// What a conditional or range request gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Decision {
    /// 200 with everything.
    Whole,
    /// 206 with a part.
    Part(Range<u64>),
    /// 304.
    NotModified,
    /// 412.
    PreconditionFailed,
    /// 416.
    Unsatisfiable,
}

/// Decides on a GET or HEAD request, in the order of
/// [RFC 9110, 13.2.2](https://www.rfc-editor.org/rfc/rfc9110#section-13.2.2).
#[inline]
pub(crate) fn decide(head: &Head, bytes: &[u8], validators: &Validators, size: u64) -> Decision {
    if head.conditional { decide_by_fields(head, bytes, validators, size) } else { Decision::Whole }
}

fn decide_by_fields(head: &Head, bytes: &[u8], validators: &Validators, size: u64) -> Decision {
    let request = Request { head, bytes };
    if request.has(Name::IfMatch) {
        if !request.lists(Name::IfMatch, |tag| tag == &*validators.etag) {
            return Decision::PreconditionFailed;
        }
    } else if request.date(Name::IfUnmodifiedSince).is_some_and(|date| validators.modified > date) {
        return Decision::PreconditionFailed;
    }
    if request.has(Name::IfNoneMatch) {
        // Weak comparison: the mark of a weak tag does not matter (RFC 9110, 13.1.2).
        if request.lists(Name::IfNoneMatch, |tag| tag.strip_prefix(b"W/").unwrap_or(tag) == &*validators.etag)
        {
            return Decision::NotModified;
        }
    } else if request.date(Name::IfModifiedSince).is_some_and(|date| validators.modified <= date) {
        return Decision::NotModified;
    }
    if head.method == Method::Get && request.has(Name::Range) && request.range_applies(validators) {
        return request.range(size);
    }
    Decision::Whole
}

struct Request<'a> {
    head: &'a Head,
    bytes: &'a [u8],
}

impl<'a> Request<'a> {
    fn values(&self, name: Name) -> impl Iterator<Item = &'a [u8]> {
        let bytes = self.bytes;
        self.head.fields.iter().filter(move |field| field.id == name).map(move |field| field.value.of(bytes))
    }

    /// The value of a field that stands once; a repeated one counts as none.
    fn single(&self, name: Name) -> Option<&'a [u8]> {
        let mut values = self.values(name);
        values.next().filter(|_| values.next().is_none())
    }

    fn has(&self, name: Name) -> bool {
        self.values(name).next().is_some()
    }

    /// Whether a list of tags is `*` or holds one that passes.
    fn lists(&self, name: Name, passes: impl Fn(&[u8]) -> bool) -> bool {
        self.values(name).any(|value| value == b"*" || tags(value).any(&passes))
    }

    fn date(&self, name: Name) -> Option<u64> {
        parse_date(self.single(name)?)
    }

    /// If-Range: a range only of what the client has the rest of
    /// ([RFC 9110, 13.1.5](https://www.rfc-editor.org/rfc/rfc9110#section-13.1.5)).
    fn range_applies(&self, validators: &Validators) -> bool {
        if !self.has(Name::IfRange) {
            return true;
        }
        self.single(Name::IfRange)
            .is_some_and(|value| value == &*validators.etag || value == &*validators.last_modified)
    }

    /// One range of bytes. Several at once, other units and bad syntax are passed over, as a server may
    /// ([RFC 9110, 14.2](https://www.rfc-editor.org/rfc/rfc9110#section-14.2)).
    fn range(&self, size: u64) -> Decision {
        match self.single(Name::Range).and_then(parse_range) {
            None => Decision::Whole,
            Some(Wanted::Last(0)) => Decision::Unsatisfiable,
            Some(Wanted::Last(_)) if size == 0 => Decision::Unsatisfiable,
            Some(Wanted::Last(length)) => Decision::Part(size.saturating_sub(length)..size),
            Some(Wanted::From(first, _)) if first >= size => Decision::Unsatisfiable,
            Some(Wanted::From(first, last)) => Decision::Part(first..last.saturating_add(1).min(size)),
        }
    }
}

#[derive(Clone, Copy)]
enum Wanted {
    From(u64, u64),
    Last(u64),
}

fn parse_range(value: &[u8]) -> Option<Wanted> {
    let (unit, spec) = value.split_at_checked(6)?;
    if !unit.eq_ignore_ascii_case(b"bytes=") || spec.contains(&b',') {
        return None;
    }
    let spec = spec.trim_ascii();
    let dash = memchr::memchr(b'-', spec)?;
    match (&spec[..dash], &spec[dash + 1..]) {
        (b"", last) => Some(Wanted::Last(number(last)?)),
        (first, b"") => Some(Wanted::From(number(first)?, u64::MAX)),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(Wanted::From(first, last))
        }
    }
}

/// A decimal number; one that is too large counts as the largest.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(
        digits
            .iter()
            .fold(0_u64, |number, byte| number.saturating_mul(10).saturating_add(u64::from(byte - b'0'))),
    )
}

/// The tags of a list, each with its quotes and the mark of a weak one. A list that is none ends there.
fn tags(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = value;
    std::iter::from_fn(move || {
        let skip = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b',')).count();
        rest = &rest[skip..];
        let open = if rest.starts_with(b"W/") { 2 } else { 0 };
        if rest.get(open) != Some(&b'"') {
            return None;
        }
        let close = open + 1 + memchr::memchr(b'"', &rest[open + 1..])?;
        let (tag, after) = rest.split_at(close + 1);
        rest = after;
        Some(tag)
    })
}

fn parse_date(value: &[u8]) -> Option<u64> {
    let date = httpdate::parse_http_date(std::str::from_utf8(value).ok()?).ok()?;
    date.duration_since(SystemTime::UNIX_EPOCH).ok().map(|since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h1::head::{Limits, Status};

    const SIZE: u64 = 1000;
    /// The tag of [`validators`].
    const TAG: &str = "\"5f5e100-7-3e8\"";

    fn validators() -> Validators {
        Validators::of_file(100_000_000, 7, SIZE)
    }

    #[track_caller]
    fn decided(method: &str, fields: &str) -> Decision {
        let bytes =
            format!("{method} / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").replace("TAG", TAG).into_bytes();
        let mut head = Head::default();
        let limits = Limits { size: 1000, max_headers: 10, keep_odd_names: false };
        assert_eq!(head.parse(&bytes, &limits), Ok(Status::Complete(bytes.len())));
        decide(&head, &bytes, &validators(), SIZE)
    }

    #[test]
    fn validators_are_written_as_http_does() {
        assert_eq!(&*validators().etag, TAG.as_bytes());
        assert_eq!(&*validators().last_modified, b"Sat, 03 Mar 1973 09:46:40 GMT");
        assert_eq!(Validators::of_file(-5, 0, 0).modified, 0);
        assert!(Validators::of_file(i64::MAX, 0, 0).last_modified.ends_with(b"9999 23:59:59 GMT"));
    }

    #[test]
    fn conditions() {
        use Decision::*;
        for (fields, want) in [
            ("", Whole),
            ("If-None-Match: TAG\r\n", NotModified),
            ("If-None-Match: W/TAG\r\n", NotModified),
            ("If-None-Match: \"x\", TAG\r\n", NotModified),
            ("If-None-Match: \"x\"\r\nIf-None-Match: TAG\r\n", NotModified),
            ("If-None-Match: *\r\n", NotModified),
            ("If-None-Match: \"x,\"\r\n", Whole),
            ("If-None-Match: nonsense\r\n", Whole),
            ("If-Modified-Since: Sat, 03 Mar 1973 09:46:40 GMT\r\n", NotModified),
            ("If-Modified-Since: Sun, 04 Mar 1973 09:46:40 GMT\r\n", NotModified),
            ("If-Modified-Since: Sat, 03 Mar 1973 09:46:39 GMT\r\n", Whole),
            ("If-Modified-Since: yesterday\r\n", Whole),
            ("If-None-Match: \"x\"\r\nIf-Modified-Since: Sun, 04 Mar 1973 09:46:40 GMT\r\n", Whole),
            ("If-Match: TAG\r\n", Whole),
            ("If-Match: *\r\n", Whole),
            ("If-Match: \"x\"\r\n", PreconditionFailed),
            ("If-Match: W/TAG\r\n", PreconditionFailed),
            ("If-Unmodified-Since: Sat, 03 Mar 1973 09:46:39 GMT\r\n", PreconditionFailed),
            ("If-Unmodified-Since: Sat, 03 Mar 1973 09:46:40 GMT\r\n", Whole),
            ("If-Match: TAG\r\nIf-None-Match: TAG\r\n", NotModified),
        ] {
            assert_eq!(decided("GET", fields), want, "{fields}");
            assert_eq!(decided("HEAD", fields), want, "HEAD {fields}");
        }
    }

    #[test]
    fn ranges() {
        use Decision::*;
        for (fields, want) in [
            ("Range: bytes=0-0\r\n", Part(0..1)),
            ("Range: Bytes=10-19\r\n", Part(10..20)),
            ("Range: bytes=990-\r\n", Part(990..1000)),
            ("Range: bytes=990-5000\r\n", Part(990..1000)),
            ("Range: bytes=-10\r\n", Part(990..1000)),
            ("Range: bytes=-5000\r\n", Part(0..1000)),
            ("Range: bytes=0-99999999999999999999999\r\n", Part(0..1000)),
            ("Range: bytes=1000-\r\n", Unsatisfiable),
            ("Range: bytes=-0\r\n", Unsatisfiable),
            ("Range: bytes=5-4\r\n", Whole),
            ("Range: bytes=a-b\r\n", Whole),
            ("Range: bytes=-\r\n", Whole),
            ("Range: bytes=+1-2\r\n", Whole),
            ("Range: lines=1-2\r\n", Whole),
            ("Range: bytes=0-1,5-6\r\n", Whole),
            ("Range: bytes=0-1\r\nRange: bytes=0-1\r\n", Whole),
            ("Range: bytes=0-1\r\nIf-Range: TAG\r\n", Part(0..2)),
            ("Range: bytes=0-1\r\nIf-Range: W/TAG\r\n", Whole),
            ("Range: bytes=0-1\r\nIf-Range: \"x\"\r\n", Whole),
            ("Range: bytes=0-1\r\nIf-Range: Sat, 03 Mar 1973 09:46:40 GMT\r\n", Part(0..2)),
            ("Range: bytes=0-1\r\nIf-Range: Sat, 03 Mar 1973 09:46:41 GMT\r\n", Whole),
            ("Range: bytes=0-1\r\nIf-None-Match: TAG\r\n", NotModified),
        ] {
            assert_eq!(decided("GET", fields), want, "{fields}");
        }
        assert_eq!(decided("HEAD", "Range: bytes=0-0\r\n"), Decision::Whole);
    }
}
