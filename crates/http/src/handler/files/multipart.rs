//! Several parts of one file in one answer (`multipart/byteranges`,
//! [RFC 9110, 14.6](https://www.rfc-editor.org/rfc/rfc9110#section-14.6)).

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::rc::Rc;

use super::open_file::OpenFile;

/// Parts of a file with what stands before and behind each.
pub(crate) struct Parts {
    pub(crate) file: Rc<OpenFile>,
    /// The bytes before each part, and the part.
    pub(crate) parts: Vec<(Vec<u8>, Range<u64>)>,
    /// The bytes behind the last one.
    pub(crate) end: Vec<u8>,
    boundary: String,
}

impl Parts {
    /// These `ranges` of a file of `size` bytes.
    pub(super) fn new(file: Rc<OpenFile>, ranges: Vec<Range<u64>>, content_type: &str, size: u64) -> Parts {
        // Unknown to whoever made the file, so that nothing in it can end a part (RFC 2046, 5.1.1).
        let boundary = format!("{:016x}", RandomState::new().hash_one(size));
        let mut parts = Vec::with_capacity(ranges.len());
        for range in ranges {
            let line_end = if parts.is_empty() { "" } else { "\r\n" };
            // RFC 9110, 15.3.7.2: Content-Range stands with each part, and not in the head of the answer.
            let before = format!(
                "{line_end}--{boundary}\r\nContent-Type: {content_type}\r\n\
                 Content-Range: bytes {}-{}/{size}\r\n\r\n",
                range.start,
                range.end - 1
            );
            parts.push((before.into_bytes(), range));
        }
        Parts { file, parts, end: format!("\r\n--{boundary}--\r\n").into_bytes(), boundary }
    }

    /// The value of the field `Content-Type`.
    pub(super) fn content_type(&self) -> String {
        format!("multipart/byteranges; boundary={}", self.boundary)
    }

    /// Bytes of the whole body.
    pub(super) fn length(&self) -> u64 {
        let part = |(before, range): &(Vec<u8>, Range<u64>)| before.len() as u64 + range.end - range.start;
        self.parts.iter().map(part).sum::<u64>() + self.end.len() as u64
    }
}
