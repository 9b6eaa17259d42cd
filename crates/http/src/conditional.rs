//! Conditional requests on something with an entity tag and a date, or without
//! ([RFC 9110, 13](https://www.rfc-editor.org/rfc/rfc9110#section-13)).

use std::hash::BuildHasher;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::encoding::Coding;
use crate::h1::head::Head;
use crate::h1::method::Method;
use crate::h1::name::Name;
use crate::range::{self, Ranges};
use crate::response::Date;

/// What a representation is known by.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Validators {
    /// The entity tag in its quotes, behind `W/` if it is weak; empty for none.
    pub(crate) etag: Box<[u8]>,
    pub(crate) modified: Option<Modified>,
}

/// A time of change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Modified {
    /// Seconds since the epoch.
    seconds: u64,
    /// The same as HTTP writes it.
    pub(crate) date: Box<[u8]>,
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
            modified: Some(Modified { seconds: modified, date: date.into_bytes().into() }),
        }
    }

    /// The validators of bytes that were made and belong to no file: a tag that all workers make alike.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Validators {
        let hash = foldhash::quality::FixedState::default().hash_one(bytes);
        Validators { etag: format!("\"{hash:016x}\"").into_bytes().into(), modified: None }
    }

    /// Those of a file that stands for another one in this coding. RFC 9110, 8.8.3.3: no two codings of one
    /// target may have the same tag.
    pub(crate) fn of_coding(self, coding: Coding) -> Validators {
        let open = self.etag.strip_suffix(b"\"").unwrap_or(&self.etag);
        Validators { etag: [open, b"-", coding.name().as_bytes(), b"\""].concat().into(), ..self }
    }

    /// The same with its tag marked as weak.
    pub(crate) fn weakened(&self) -> Validators {
        Validators { etag: [b"W/", &*self.etag].concat().into(), modified: self.modified.clone() }
    }

    /// Whether `tag` is the same by strong comparison (RFC 9110, 8.8.3.2): neither of them is weak.
    fn is_strongly(&self, tag: &[u8]) -> bool {
        tag == &*self.etag && tag.starts_with(b"\"")
    }

    /// Whether `tag` is the same by weak comparison: the marks of weak ones do not matter.
    fn is_weakly(&self, tag: &[u8]) -> bool {
        opaque(tag) == opaque(&self.etag) && !self.etag.is_empty()
    }
}

fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// Which form of a tag a client knows that asks whether something has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Known {
    Strong,
    Weak,
    /// Both, or it does not say.
    Either,
}

/// In which form a request's `If-None-Match` has this tag, which is strong.
pub(crate) fn known_as(etag: &[u8], head: &Head, bytes: &[u8]) -> Known {
    let tags = || head.values(Name::IfNoneMatch, bytes).flat_map(tags);
    let strong = tags().any(|tag| tag == etag);
    let weak = tags().any(|tag| tag != etag && opaque(tag) == etag);
    match (strong, weak) {
        (true, false) => Known::Strong,
        (false, true) => Known::Weak,
        _ => Known::Either,
    }
}

/// What a conditional or range request gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Decision {
    /// The answer to the request without conditions, or to what it asks for of a range.
    Go(Ranges),
    /// 304.
    NotModified,
    /// 412.
    PreconditionFailed,
}

/// What the conditions of a request are held against.
pub(crate) struct Target<'a> {
    pub(crate) validators: &'a Validators,
    /// Bytes there are.
    pub(crate) size: u64,
    /// How many ranges a request may ask for.
    pub(crate) max_ranges: u32,
    /// The date of the answer.
    pub(crate) now: &'a Date,
}

impl Target<'_> {
    /// Decides on a GET or HEAD request, in the order of
    /// [RFC 9110, 13.2.2](https://www.rfc-editor.org/rfc/rfc9110#section-13.2.2). The answer without conditions
    /// has to be one with 200: all others come before conditions (13.2.1).
    #[inline]
    pub(crate) fn decide(&self, head: &Head, bytes: &[u8]) -> Decision {
        if head.conditional { self.decide_by_fields(head, bytes) } else { Decision::Go(Ranges::Whole) }
    }

    fn decide_by_fields(&self, head: &Head, bytes: &[u8]) -> Decision {
        let request = Request { head, bytes };
        let changed_after = |date: u64| self.validators.modified.as_ref().map(|own| own.seconds > date);
        if request.has(Name::IfMatch) {
            if !request.lists(Name::IfMatch, |tag| self.validators.is_strongly(tag)) {
                return Decision::PreconditionFailed;
            }
        // RFC 9110, 13.1.4: to be ignored where it is no date, or where there is none to compare it with.
        } else if request.date(Name::IfUnmodifiedSince).and_then(changed_after) == Some(true) {
            return Decision::PreconditionFailed;
        }
        if request.has(Name::IfNoneMatch) {
            if request.lists(Name::IfNoneMatch, |tag| self.validators.is_weakly(tag)) {
                return Decision::NotModified;
            }
        // RFC 9110, 13.1.3: as above.
        } else if request.date(Name::IfModifiedSince).and_then(changed_after) == Some(false) {
            return Decision::NotModified;
        }
        // RFC 9110, 14.2: a range is for GET, and its conditions come after all others.
        if head.method == Method::Get
            && let Some(value) = request.single(Name::Range)
            && self.range_applies(&request)
        {
            return Decision::Go(range::parse(value, self.size, self.max_ranges));
        }
        Decision::Go(Ranges::Whole)
    }

    /// If-Range: a range only of what the client has the rest of
    /// ([RFC 9110, 13.1.5](https://www.rfc-editor.org/rfc/rfc9110#section-13.1.5)).
    fn range_applies(&self, request: &Request<'_>) -> bool {
        if !request.has(Name::IfRange) {
            return true;
        }
        let Some(value) = request.single(Name::IfRange) else { return false };
        if value.starts_with(b"\"") || value.starts_with(b"W/") {
            return self.validators.is_strongly(value);
        }
        let (Some(own), Some(date)) = (&self.validators.modified, parse_date(value)) else { return false };
        // RFC 9110, 8.8.2.2: within the second of a change a further one would have the same date.
        own.seconds == date && parse_date(self.now).is_some_and(|now| date < now)
    }
}

struct Request<'a> {
    head: &'a Head,
    bytes: &'a [u8],
}

impl<'a> Request<'a> {
    fn values(&self, name: Name) -> impl Iterator<Item = &'a [u8]> {
        self.head.values(name, self.bytes)
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

/// A date in one of the three forms of RFC 9110, 5.6.7.
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
    /// A minute after [`validators`] were made.
    const NOW: &Date = b"Sat, 03 Mar 1973 09:47:40 GMT";

    fn validators() -> Validators {
        Validators::of_file(100_000_000, 7, SIZE)
    }

    #[track_caller]
    fn decided_on(validators: &Validators, now: &Date, method: &str, fields: &str) -> Decision {
        let bytes =
            format!("{method} / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").replace("TAG", TAG).into_bytes();
        let mut head = Head::default();
        let limits = Limits { size: 1000, max_headers: 10, keep_odd_names: false };
        assert_eq!(head.parse(&bytes, &limits), Ok(Status::Complete(bytes.len())));
        Target { validators, size: SIZE, max_ranges: 2, now }.decide(&head, &bytes)
    }

    #[track_caller]
    fn decided(method: &str, fields: &str) -> Decision {
        decided_on(&validators(), NOW, method, fields)
    }

    const WHOLE: Decision = Decision::Go(Ranges::Whole);

    #[test]
    fn validators_are_written_as_http_does() {
        assert_eq!(&*validators().etag, TAG.as_bytes());
        let date = |seconds| Validators::of_file(seconds, 0, 0).modified.expect("a date").date;
        assert_eq!(&*date(100_000_000), b"Sat, 03 Mar 1973 09:46:40 GMT");
        assert_eq!(&*date(-5), b"Thu, 01 Jan 1970 00:00:00 GMT");
        assert!(date(i64::MAX).ends_with(b"9999 23:59:59 GMT"));
    }

    #[test]
    fn conditions() {
        use Decision::{NotModified, PreconditionFailed};
        for (fields, want) in [
            ("", WHOLE),
            ("If-None-Match: TAG\r\n", NotModified),
            ("If-None-Match: W/TAG\r\n", NotModified),
            ("If-None-Match: \"x\", TAG\r\n", NotModified),
            ("If-None-Match: \"x\"\r\nIf-None-Match: TAG\r\n", NotModified),
            ("If-None-Match: ,, \"x\",,W/TAG,\r\n", NotModified),
            ("If-None-Match: *\r\n", NotModified),
            ("If-None-Match: \"x,\"\r\n", WHOLE),
            ("If-None-Match: nonsense\r\n", WHOLE),
            ("If-None-Match: nonsense\r\nIf-Modified-Since: Sun, 04 Mar 1973 09:46:40 GMT\r\n", WHOLE),
            ("If-Modified-Since: Sat, 03 Mar 1973 09:46:40 GMT\r\n", NotModified),
            ("If-Modified-Since: Sun, 04 Mar 1973 09:46:40 GMT\r\n", NotModified),
            ("If-Modified-Since: Sat, 03 Mar 1973 09:46:39 GMT\r\n", WHOLE),
            // The two older forms of dates.
            ("If-Modified-Since: Saturday, 03-Mar-73 09:46:40 GMT\r\n", NotModified),
            ("If-Modified-Since: Sat Mar  3 09:46:40 1973\r\n", NotModified),
            ("If-Modified-Since: Sat Mar  3 09:46:39 1973\r\n", WHOLE),
            ("If-Modified-Since: yesterday\r\n", WHOLE),
            ("If-None-Match: \"x\"\r\nIf-Modified-Since: Sun, 04 Mar 1973 09:46:40 GMT\r\n", WHOLE),
            ("If-Match: TAG\r\n", WHOLE),
            ("If-Match: \"x\", TAG\r\n", WHOLE),
            ("If-Match: *\r\n", WHOLE),
            ("If-Match: \"x\"\r\n", PreconditionFailed),
            ("If-Match: W/TAG\r\n", PreconditionFailed),
            ("If-Match: nonsense\r\n", PreconditionFailed),
            ("If-Unmodified-Since: Sat, 03 Mar 1973 09:46:39 GMT\r\n", PreconditionFailed),
            ("If-Unmodified-Since: Sat, 03 Mar 1973 09:46:40 GMT\r\n", WHOLE),
            ("If-Unmodified-Since: yesterday\r\n", WHOLE),
            ("If-Match: TAG\r\nIf-Unmodified-Since: Sat, 03 Mar 1973 09:46:39 GMT\r\n", WHOLE),
            ("If-Match: TAG\r\nIf-None-Match: TAG\r\n", NotModified),
            ("If-Match: \"x\"\r\nIf-None-Match: TAG\r\n", PreconditionFailed),
        ] {
            assert_eq!(decided("GET", fields), want, "{fields}");
            assert_eq!(decided("HEAD", fields), want, "HEAD {fields}");
        }
    }

    #[test]
    fn conditions_on_what_has_no_validators() {
        for (fields, want) in [
            ("If-None-Match: \"x\"\r\n", WHOLE),
            ("If-None-Match: \"\"\r\n", WHOLE),
            ("If-None-Match: *\r\n", Decision::NotModified),
            ("If-Match: \"x\"\r\n", Decision::PreconditionFailed),
            ("If-Match: *\r\n", WHOLE),
            ("If-Modified-Since: Sun, 04 Mar 2073 09:46:40 GMT\r\n", WHOLE),
            ("If-Unmodified-Since: Sun, 04 Mar 1973 09:46:40 GMT\r\n", WHOLE),
            ("Range: bytes=0-1\r\nIf-Range: Sat, 03 Mar 1973 09:46:40 GMT\r\n", WHOLE),
        ] {
            assert_eq!(decided_on(&Validators::default(), NOW, "GET", fields), want, "{fields}");
        }
    }

    #[test]
    fn a_weak_tag_matches_weakly_only() {
        let weak = Validators { etag: format!("W/{TAG}").into_bytes().into(), ..validators() };
        for (fields, want) in [
            ("If-None-Match: TAG\r\n", Decision::NotModified),
            ("If-None-Match: W/TAG\r\n", Decision::NotModified),
            ("If-Match: TAG\r\n", Decision::PreconditionFailed),
            ("If-Match: W/TAG\r\n", Decision::PreconditionFailed),
            ("Range: bytes=0-1\r\nIf-Range: W/TAG\r\n", WHOLE),
            ("Range: bytes=0-1\r\nIf-Range: TAG\r\n", WHOLE),
        ] {
            assert_eq!(decided_on(&weak, NOW, "GET", fields), want, "{fields}");
        }
    }

    #[test]
    fn ranges_under_conditions() {
        let part = || Decision::Go(Ranges::One(0..2));
        for (fields, want) in [
            ("Range: bytes=0-1\r\n", part()),
            ("Range: bytes=0-1,5-6\r\n", Decision::Go(Ranges::Several(vec![0..2, 5..7]))),
            ("Range: bytes=1000-\r\n", Decision::Go(Ranges::Unsatisfiable)),
            ("Range: bytes=0-1\r\nRange: bytes=0-1\r\n", WHOLE),
            ("Range: bytes=0-1\r\nIf-Range: TAG\r\n", part()),
            ("Range: bytes=0-1\r\nIf-Range: W/TAG\r\n", WHOLE),
            ("Range: bytes=0-1\r\nIf-Range: \"x\"\r\n", WHOLE),
            ("Range: bytes=1000-\r\nIf-Range: \"x\"\r\n", WHOLE),
            ("Range: bytes=0-1\r\nIf-Range: TAG\r\nIf-Range: TAG\r\n", WHOLE),
            ("Range: bytes=0-1\r\nIf-Range: *\r\n", WHOLE),
            ("Range: bytes=0-1\r\nIf-Range: Sat, 03 Mar 1973 09:46:40 GMT\r\n", part()),
            ("Range: bytes=0-1\r\nIf-Range: Sat Mar  3 09:46:40 1973\r\n", part()),
            ("Range: bytes=0-1\r\nIf-Range: Sat, 03 Mar 1973 09:46:39 GMT\r\n", WHOLE),
            ("Range: bytes=0-1\r\nIf-Range: Sat, 03 Mar 1973 09:46:41 GMT\r\n", WHOLE),
            ("Range: bytes=0-1\r\nIf-None-Match: TAG\r\n", Decision::NotModified),
            ("Range: bytes=0-1\r\nIf-Match: \"x\"\r\n", Decision::PreconditionFailed),
            ("If-Range: \"x\"\r\n", WHOLE),
        ] {
            assert_eq!(decided("GET", fields), want, "{fields}");
        }
        assert_eq!(decided("HEAD", "Range: bytes=0-0\r\n"), WHOLE);
    }

    #[test]
    fn the_date_of_a_change_within_this_second_is_no_strong_validator() {
        let fields = "Range: bytes=0-1\r\nIf-Range: Sat, 03 Mar 1973 09:46:40 GMT\r\n";
        let at = |now| decided_on(&validators(), now, "GET", fields);
        assert_eq!(at(b"Sat, 03 Mar 1973 09:46:40 GMT"), WHOLE);
        assert_eq!(at(b"Sat, 03 Mar 1973 09:46:41 GMT"), Decision::Go(Ranges::One(0..2)));
    }
}
