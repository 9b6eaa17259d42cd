//! A header in the form in which it is sent, without allocation.

use std::fmt;
use std::ops::Deref;

use super::v2;

/// The bytes of a header.
#[derive(Clone)]
pub struct Encoded {
    bytes: [u8; v2::LONGEST_SENT],
    length: usize,
}

impl Encoded {
    pub(super) fn new() -> Encoded {
        Encoded { bytes: [0; v2::LONGEST_SENT], length: 0 }
    }

    /// Appends bytes; headers are shorter than the room there is, see the tests.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let room = &mut self.bytes[self.length..];
        let count = bytes.len().min(room.len());
        room[..count].copy_from_slice(&bytes[..count]);
        self.length += count;
    }
}

impl fmt::Write for Encoded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

impl Deref for Encoded {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl fmt::Debug for Encoded {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "b\"{}\"", self.escape_ascii())
    }
}
