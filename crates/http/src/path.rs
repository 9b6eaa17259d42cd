//! Paths: decoded once, normalised once, and only then matched.
//!
//! What comes out begins with `/`, holds no empty segment and none called `.` or `..`, and no NUL. It is
//! bytes, not text: nothing promises UTF-8.

use crate::h1::rule::Rule;

/// What the bytes of a path are, for one look at each.
pub(crate) mod class {
    /// No target may hold it.
    pub(crate) const BAD: u8 = 1;
    /// `%`.
    pub(crate) const PERCENT: u8 = 2;
    /// `/`.
    pub(crate) const SLASH: u8 = 4;
    /// `.`.
    pub(crate) const DOT: u8 = 8;
    /// `?`.
    pub(crate) const QUESTION: u8 = 16;
    /// `\`, which some take for `/`.
    pub(crate) const BACKSLASH: u8 = 32;

    /// The class of each byte.
    pub(crate) static OF: [u8; 256] = table();

    const fn table() -> [u8; 256] {
        let mut table = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            table[byte] = match byte as u8 {
                b'%' => PERCENT,
                b'/' => SLASH,
                b'.' => DOT,
                b'?' => QUESTION,
                b'\\' => BACKSLASH,
                b'#' => BAD,
                b'!'..=b'~' => 0,
                _ => BAD,
            };
            byte += 1;
        }
        table
    }
}

/// Decodes and normalises `raw`, a path that begins with `/`, into `out`, which is cleared first. Fails with
/// the rule broken and the offset in `raw`.
pub(crate) fn normalise(raw: &[u8], out: &mut Vec<u8>) -> Result<(), (Rule, usize)> {
    normalise_as(raw, true, out)
}

/// The same for a path that is decoded already, such as one that a rule made.
pub(crate) fn normalise_decoded(path: &[u8], out: &mut Vec<u8>) -> Result<(), (Rule, usize)> {
    normalise_as(path, false, out)
}

fn normalise_as(raw: &[u8], encoded: bool, out: &mut Vec<u8>) -> Result<(), (Rule, usize)> {
    out.clear();
    out.push(b'/');
    let mut segment = 1;
    let mut at = usize::from(raw.first() == Some(&b'/'));
    while at < raw.len() {
        let start = at;
        let byte = match raw[at] {
            b'%' if encoded => {
                let decoded = decode(&raw[at + 1..]).ok_or((Rule::TargetEscape, at))?;
                at += 2;
                decoded
            }
            byte => byte,
        };
        at += 1;
        if byte == b'/' {
            segment = close_segment(out, segment, true).ok_or((Rule::PathAboveRoot, start))?;
        } else {
            out.push(byte);
        }
    }
    close_segment(out, segment, false).ok_or((Rule::PathAboveRoot, raw.len()))?;
    Ok(())
}

/// Ends the segment that begins at `start`; gives the start of the next one, or none above the root.
fn close_segment(out: &mut Vec<u8>, start: usize, slash: bool) -> Option<usize> {
    match &out[start..] {
        b"" => {}
        b"." => out.truncate(start),
        b".." => {
            let parent = memchr::memrchr(b'/', &out[..start - 1])?;
            out.truncate(parent + 1);
        }
        _ if slash => out.push(b'/'),
        _ => {}
    }
    Some(out.len())
}

/// The byte that two hexadecimal digits stand for; none for anything else, and for NUL.
fn decode(digits: &[u8]) -> Option<u8> {
    let high = char::from(*digits.first()?).to_digit(16)?;
    let low = char::from(*digits.get(1)?).to_digit(16)?;
    u8::try_from(high * 16 + low).ok().filter(|byte| *byte != 0)
}

/// Appends `path` to `out` with every byte that a path in a header must not hold encoded.
pub(crate) fn encode(path: &[u8], out: &mut Vec<u8>) {
    encode_but(path, b"-._~!$&'()*+,;=:@/", out);
}

/// Appends a value to `out` so that it means itself anywhere in a URI: as a part of a path, or as an argument.
pub(crate) fn encode_strictly(value: &[u8], out: &mut Vec<u8>) {
    encode_but(value, b"-._~/:@,", out);
}

/// Appends a query to `out` with nothing encoded but the bytes that no target may hold.
pub(crate) fn encode_query(query: &[u8], out: &mut Vec<u8>) {
    encode_but(query, b"!\"$%&'()*+,-./:;<=>?@[\\]^_`{|}~", out);
}

fn encode_but(bytes: &[u8], kept: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || kept.contains(byte) {
            out.push(*byte);
        } else {
            out.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn normalised(raw: &str) -> Result<String, (Rule, usize)> {
        let mut out = Vec::new();
        normalise(raw.as_bytes(), &mut out)?;
        Ok(String::from_utf8_lossy(&out).into_owned())
    }

    #[test]
    fn dots_slashes_and_escapes_go() {
        for (raw, want) in [
            ("/", "/"),
            ("/a", "/a"),
            ("/a/", "/a/"),
            ("//a///b", "/a/b"),
            ("/a/./b/.", "/a/b/"),
            ("/a/../b", "/b"),
            ("/a/..", "/"),
            ("/a/b/../", "/a/"),
            ("/%61%2Fb", "/a/b"),
            ("/a/%2e%2E/b", "/b"),
            ("/%252e%252e/", "/%2e%2e/"),
            ("/...", "/..."),
            ("/a%20b", "/a b"),
        ] {
            assert_eq!(normalised(raw).as_deref(), Ok(want), "{raw}");
        }
    }

    #[test]
    fn what_no_path_can_mean_is_refused() {
        for (raw, rule, offset) in [
            ("/..", Rule::PathAboveRoot, 3),
            ("/../a", Rule::PathAboveRoot, 3),
            ("/a/../../b", Rule::PathAboveRoot, 8),
            ("/%2e%2e/a", Rule::PathAboveRoot, 7),
            ("/a%", Rule::TargetEscape, 2),
            ("/a%2", Rule::TargetEscape, 2),
            ("/a%zz", Rule::TargetEscape, 2),
            ("/a%00", Rule::TargetEscape, 2),
            ("/a%+1", Rule::TargetEscape, 2),
        ] {
            assert_eq!(normalised(raw), Err((rule, offset)), "{raw}");
        }
    }

    proptest! {
        #[test]
        fn a_normal_path_is_normal(raw in "/[a-c./%2eEfF]{0,40}") {
            if let Ok(path) = normalised(&raw) {
                prop_assert!(path.starts_with('/'));
                let inner = path.strip_suffix('/').unwrap_or(&path);
                for segment in inner.split('/').skip(1) {
                    prop_assert!(!segment.is_empty() && segment != "." && segment != "..", "{path}");
                }
            }
        }

        #[test]
        fn what_is_encoded_decodes_to_itself(path in "/[ -~]{0,40}") {
            let mut normal = Vec::new();
            if normalise(path.replace('%', "").as_bytes(), &mut normal).is_ok() {
                let (mut encoded, mut again) = (Vec::new(), Vec::new());
                encode(&normal, &mut encoded);
                normalise(&encoded, &mut again).expect("encoded paths are paths");
                prop_assert_eq!(normal, again);
            }
        }
    }
}
