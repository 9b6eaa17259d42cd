//! Ranges of bytes ([RFC 9110, 14](https://www.rfc-editor.org/rfc/rfc9110#section-14)).

use std::ops::Range;

/// What the value of a field `Range` asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Ranges {
    /// Everything: what is no range, or too many at once, is passed over.
    Whole,
    One(Range<u64>),
    /// At least two.
    Several(Vec<Range<u64>>),
    /// Only parts that are not there.
    Unsatisfiable,
}

/// Reads a value of the field `Range` that is about `size` bytes.
///
/// It is passed over, as a server may (RFC 9110, 14.2), where its unit is unknown, where a part of it is no
/// range, and where it names more than `most` ranges or ranges that are longer together than the whole: those
/// cost more than they save, and only attacks have overlapping ones.
pub(crate) fn parse(value: &[u8], size: u64, most: u32) -> Ranges {
    // RFC 9110, 14.1: names of units are case-insensitive.
    let specs = match value.split_at_checked("bytes=".len()) {
        Some((unit, specs)) if unit.eq_ignore_ascii_case(b"bytes=") => specs,
        _ => return Ranges::Whole,
    };
    let mut found = Vec::new();
    let (mut asked, mut total) = (0, 0_u64);
    // RFC 9110, 5.6.1.2: empty elements of a list are passed over.
    for spec in specs.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|spec| !spec.is_empty()) {
        asked += 1;
        let Some(wanted) = Wanted::parse(spec).filter(|_| asked <= most) else { return Ranges::Whole };
        match wanted.of(size) {
            Some(range) => {
                total = total.saturating_add(range.end - range.start);
                found.push(range);
            }
            // An empty file has no last bytes, though to ask for them is right: there is no way to say that.
            None if matches!(wanted, Wanted::Last(1..)) => return Ranges::Whole,
            None => {}
        }
    }
    match &mut found[..] {
        [] if asked > 0 => Ranges::Unsatisfiable,
        [] => Ranges::Whole,
        // RFC 9110, 15.3.7.2: what is left as one is no multipart.
        [one] => Ranges::One(one.clone()),
        _ if total > size => Ranges::Whole,
        _ => Ranges::Several(found),
    }
}

/// One range as it is asked for.
#[derive(Clone, Copy)]
enum Wanted {
    /// The first byte and the last one.
    From(u64, u64),
    /// So many at the end.
    Last(u64),
}

impl Wanted {
    fn parse(spec: &[u8]) -> Option<Wanted> {
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

    /// What there is of it, if anything (RFC 9110, 14.1.2).
    fn of(self, size: u64) -> Option<Range<u64>> {
        let range = match self {
            Wanted::From(first, last) => first..last.saturating_add(1).min(size),
            Wanted::Last(length) => size.saturating_sub(length)..size,
        };
        (range.start < range.end).then_some(range)
    }
}

/// A decimal number; one that is too large counts as the largest.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let append = |number: u64, byte: &u8| number.saturating_mul(10).saturating_add(u64::from(byte - b'0'));
    Some(digits.iter().fold(0, append))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn several(ranges: &[(u64, u64)]) -> Ranges {
        Ranges::Several(ranges.iter().map(|(start, end)| *start..*end).collect())
    }

    #[test]
    fn ranges_are_read_as_the_rfc_has_them() {
        use Ranges::*;
        for (value, want) in [
            ("bytes=0-0", One(0..1)),
            ("Bytes=10-19", One(10..20)),
            ("bytes=990-", One(990..1000)),
            ("bytes=990-5000", One(990..1000)),
            ("bytes=-10", One(990..1000)),
            ("bytes=-5000", One(0..1000)),
            ("bytes=0-99999999999999999999999", One(0..1000)),
            ("bytes= 0-1 ", One(0..2)),
            ("bytes=1000-", Unsatisfiable),
            ("bytes=1000-1000", Unsatisfiable),
            ("bytes=-0", Unsatisfiable),
            ("bytes=5-4", Whole),
            ("bytes=a-b", Whole),
            ("bytes=-", Whole),
            ("bytes=--1", Whole),
            ("bytes=+1-2", Whole),
            ("bytes=1", Whole),
            ("bytes=", Whole),
            ("bytes=,", Whole),
            ("bytes", Whole),
            ("bytes 0-1", Whole),
            ("lines=1-2", Whole),
            ("bytes=0-1,5-6", several(&[(0, 2), (5, 7)])),
            ("bytes=0-1 ,\t, 5-6,", several(&[(0, 2), (5, 7)])),
            ("bytes=5-6,0-1", several(&[(5, 7), (0, 2)])),
            ("bytes=0-9,5-14", several(&[(0, 10), (5, 15)])),
            ("bytes=0-1,2000-3000", One(0..2)),
            ("bytes=0-1,-0,-2", several(&[(0, 2), (998, 1000)])),
            ("bytes=2000-,3000-", Unsatisfiable),
            ("bytes=0-1,5-4", Whole),
            ("bytes=0-1,x", Whole),
            ("bytes=0-,0-0", Whole),
            ("bytes=0-,-1", Whole),
            ("bytes=0-0,1-1,2-2,3-3", several(&[(0, 1), (1, 2), (2, 3), (3, 4)])),
            ("bytes=0-0,1-1,2-2,3-3,4-4", Whole),
            ("bytes=0-0,2000-,2000-,2000-,2000-", Whole),
        ] {
            assert_eq!(parse(value.as_bytes(), 1000, 4), want, "{value}");
        }
        assert_eq!(parse(b"bytes=0-0", 1000, 0), Whole);
    }

    #[test]
    fn an_empty_file_has_no_ranges() {
        assert_eq!(parse(b"bytes=0-", 0, 4), Ranges::Unsatisfiable);
        assert_eq!(parse(b"bytes=-0", 0, 4), Ranges::Unsatisfiable);
        assert_eq!(parse(b"bytes=-1", 0, 4), Ranges::Whole);
    }

    proptest! {
        #[test]
        fn what_is_found_lies_within(value in "bytes=[0-9,-]{0,30}", size in 0_u64..2000, most in 0_u32..5) {
            let ranges = match parse(value.as_bytes(), size, most) {
                Ranges::Whole | Ranges::Unsatisfiable => Vec::new(),
                Ranges::One(range) => vec![range],
                Ranges::Several(ranges) => {
                    prop_assert!(ranges.len() > 1);
                    ranges
                }
            };
            prop_assert!(ranges.len() <= most as usize);
            prop_assert!(ranges.iter().all(|range| range.start < range.end && range.end <= size));
            prop_assert!(ranges.iter().map(|range| range.end - range.start).sum::<u64>() <= size);
        }
    }
}
