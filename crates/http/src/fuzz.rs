//! Entries for fuzz targets: any bytes may be given, and none may panic or break an invariant.

use crate::h1::body::Body;
use crate::h1::framing::Framing;
use crate::h1::head::{Head, Limits, Status};
use crate::handler::proxy::examined;
pub use crate::handler::proxy::examined::PassedOn;

/// What is passed on to a server of `bytes`, if they begin with a whole request.
pub fn pass_on(bytes: &[u8]) -> Option<PassedOn> {
    examined::pass_on(bytes)
}

/// Parses `bytes` as a head, whole and in two pieces; both must give the same answer.
pub fn head(bytes: &[u8], split: usize) {
    let limits = Limits { size: 4096, max_headers: 32, keep_odd_names: false };
    let (mut whole, mut pieces) = (Head::default(), Head::default());
    let answer = whole.parse(bytes, &limits);
    let first = pieces.parse(&bytes[..split.min(bytes.len())], &limits);
    let again = if first == Ok(Status::Partial) { pieces.parse(bytes, &limits) } else { first };
    assert_eq!(answer, again, "the answer depends on how the bytes are split");
    if let Ok(Status::Complete(length)) = answer {
        let head = &bytes[..length];
        let path = whole.path(head);
        assert!(path.starts_with(b"/") || path == b"*" || path.is_empty());
        assert!(!path.contains(&0));
    }
}

/// Reads `bytes` as a chunked body, whole and in two pieces; both must give the same answer.
pub fn body(bytes: &[u8], split: usize) {
    let Ok(mut whole) = Body::new(Framing::Chunked, 1 << 20) else { return };
    let mut pieces = whole;
    let answer = whole.advance(bytes).map(|progress| (progress.taken, progress.done));
    let (first, second) = bytes.split_at(split.min(bytes.len()));
    let again = pieces.advance(first).and_then(|before| {
        if before.done {
            return Ok((before.taken, true));
        }
        pieces.advance(second).map(|after| (before.taken + after.taken, after.done))
    });
    assert_eq!(answer, again, "the answer depends on how the bytes are split");
}
