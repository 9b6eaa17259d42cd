//! A body in another framing: what comes in chunks, or until the close, goes out as data alone or in chunks.
//!
//! What is passed on is what was understood, never the sender's own framing: no chunk extensions, and of trailers
//! only fields that cannot change what the message means.

use std::io;

use super::encode::OF_THE_BYTES;
use crate::encoding::PIECE;
use crate::encoding::encoders::Lent;
use crate::h1::body::{Body, Piece};
use crate::h1::name::{Look, Name};
use crate::h1::rule::Refusal;

/// The framing in which a body goes out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outgoing {
    /// Data alone: its length was told, or the close ends it.
    Plain,
    Chunked,
}

/// A body on its way.
pub(crate) struct Reframe {
    pub(crate) body: Body,
    outgoing: Outgoing,
    trailer: Vec<u8>,
    ended: bool,
    coder: Option<Box<Coder>>,
}

/// The data's way through a coding.
struct Coder {
    encoder: Lent,
    /// What comes out of the encoder at a time.
    encoded: Vec<u8>,
    /// Something may be in the encoder that did not come out.
    holds_back: bool,
    fault: Option<io::Error>,
}

impl Reframe {
    pub(crate) fn new(body: Body, outgoing: Outgoing) -> Reframe {
        Reframe { body, outgoing, trailer: Vec::new(), ended: false, coder: None }
    }

    /// Has the data go through this encoder.
    pub(crate) fn encoding(mut self, encoder: Option<Lent>) -> Reframe {
        self.coder = encoder
            .map(|encoder| Box::new(Coder { encoder, encoded: Vec::new(), holds_back: false, fault: None }));
        self
    }

    /// Whether data goes out as it comes, so that nobody has to look at it.
    pub(crate) fn unframed(&self) -> Option<u64> {
        self.body.unframed().filter(|_| self.outgoing == Outgoing::Plain && self.coder.is_none())
    }

    /// Takes `bytes` as far as they belong to the body, and appends what goes out. Gives how many were taken.
    pub(crate) fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<usize, Refusal> {
        let mut taken = 0;
        while let Some(piece) = self.body.next(bytes, &mut taken)? {
            match piece {
                Piece::Data(range) => self.push_data(&bytes[range], out),
                Piece::Trailer(range) => self.trailer.extend_from_slice(&bytes[range]),
            }
        }
        if self.body.is_done() {
            self.end(out);
        }
        Ok(taken)
    }

    /// The body is whole: appends what ends it. For one that ends with the close, when that came.
    pub(crate) fn end(&mut self, out: &mut Vec<u8>) {
        if self.ended {
            return;
        }
        self.ended = true;
        let is_encoded = self.coder.is_some();
        if is_encoded && !self.code(out, |encoder, encoded| encoder.finish(encoded)) {
            return;
        }
        if self.outgoing == Outgoing::Chunked {
            out.extend_from_slice(b"0\r\n");
            push_trailer(&self.trailer, if is_encoded { OF_THE_BYTES } else { &[] }, out);
            out.extend_from_slice(b"\r\n");
        }
    }

    /// Whether there is data that went in and has not come out.
    pub(crate) fn holds_back(&self) -> bool {
        !self.ended && self.coder.as_ref().is_some_and(|coder| coder.holds_back)
    }

    /// Appends what is held back.
    pub(crate) fn flush(&mut self, out: &mut Vec<u8>) {
        self.code(out, |encoder, encoded| encoder.flush(encoded));
        if let Some(coder) = &mut self.coder {
            coder.holds_back = false;
        }
    }

    /// What went wrong with the coding; nothing that ends the body goes out then.
    pub(crate) fn coding(&mut self) -> io::Result<()> {
        self.coder.as_mut().and_then(|coder| coder.fault.take()).map_or(Ok(()), Err)
    }

    fn push_data(&mut self, data: &[u8], out: &mut Vec<u8>) {
        if self.coder.is_none() {
            return push_framed(self.outgoing, data, out);
        }
        for piece in data.chunks(PIECE) {
            self.code(out, |encoder, encoded| encoder.push(piece, encoded));
        }
        if let Some(coder) = &mut self.coder {
            coder.holds_back = true;
        }
    }

    /// Appends what comes out of the encoder; false if it failed.
    fn code(
        &mut self,
        out: &mut Vec<u8>,
        call: impl FnOnce(&mut Lent, &mut Vec<u8>) -> io::Result<()>,
    ) -> bool {
        let Some(coder) = self.coder.as_mut().filter(|coder| coder.fault.is_none()) else { return false };
        coder.encoded.clear();
        coder.fault = call(&mut coder.encoder, &mut coder.encoded).err();
        if !coder.encoded.is_empty() {
            push_framed(self.outgoing, &coder.encoded, out);
        }
        coder.fault.is_none()
    }
}

/// Appends data, which is not empty, in this framing.
fn push_framed(outgoing: Outgoing, data: &[u8], out: &mut Vec<u8>) {
    if outgoing == Outgoing::Plain {
        return out.extend_from_slice(data);
    }
    push_size(out, data.len());
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

/// Appends the line before a chunk of so many bytes.
fn push_size(out: &mut Vec<u8>, size: usize) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let digits = (usize::BITS - size.leading_zeros()).div_ceil(4).max(1);
    for at in (0..digits).rev() {
        out.push(HEX[size >> (4 * at) & 15]);
    }
    out.extend_from_slice(b"\r\n");
}

/// Fields that must not come in a trailer, beside those that have a number
/// ([RFC 9110, 6.5.1](https://www.rfc-editor.org/rfc/rfc9110#section-6.5.1)).
const NEVER_IN_TRAILERS: &[&[u8]] = &[
    b"age",
    b"cache-control",
    b"content-encoding",
    b"content-range",
    b"content-type",
    b"expires",
    b"location",
    b"pragma",
    b"proxy-authenticate",
    b"proxy-authorization",
    b"retry-after",
    b"set-cookie",
    b"vary",
    b"warning",
    b"www-authenticate",
];

/// Appends the lines of a trailer section that may be passed on, but for those with the names `dropped`.
fn push_trailer(lines: &[u8], dropped: &[&[u8]], out: &mut Vec<u8>) {
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        let usual = Look::of_name(name) == Look::Usual && Name::of(name) == Name::Other;
        let mut others = NEVER_IN_TRAILERS.iter().chain(dropped);
        if usual && !others.any(|other| name.eq_ignore_ascii_case(other)) {
            out.extend_from_slice(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h1::framing::Framing;

    fn through(framing: Framing, outgoing: Outgoing, bytes: &[u8], size: usize) -> (String, bool) {
        let mut reframe = Reframe::new(Body::new(framing, u64::MAX).expect("no limit"), outgoing);
        let mut out = Vec::new();
        for part in bytes.chunks(size) {
            reframe.feed(part, &mut out).expect("well formed");
        }
        (String::from_utf8(out).expect("text"), reframe.body.is_done())
    }

    #[test]
    fn chunks_go_out_without_what_nobody_asked_for() {
        let bytes = b"3;x=\"y\"\r\nabc\r\n011\r\n0123456789abcdefg\r\n000\r\nX-Sum: 7\r\nHost: evil\r\n\
            Content-Length: 1\r\nSet-Cookie: a\r\nx_y: 1\r\nGrpc-Status: 0\r\n\r\nrest";
        let (text, done) = through(Framing::Chunked, Outgoing::Chunked, bytes, bytes.len());
        assert!(done);
        assert_eq!(text, "3\r\nabc\r\n11\r\n0123456789abcdefg\r\n0\r\nX-Sum: 7\r\nGrpc-Status: 0\r\n\r\n");
        for size in 1..bytes.len() {
            let (text, done) = through(Framing::Chunked, Outgoing::Plain, bytes, size);
            assert_eq!((text.as_str(), done), ("abc0123456789abcdefg", true), "by {size}");
            let (text, _) = through(Framing::Chunked, Outgoing::Chunked, bytes, size);
            assert!(text.ends_with("\r\n0\r\nX-Sum: 7\r\nGrpc-Status: 0\r\n\r\n"), "by {size}: {text}");
        }
    }

    #[test]
    fn what_ends_with_the_close_is_ended_by_whoever_saw_it() {
        let mut reframe =
            Reframe::new(Body::new(Framing::UntilClose, 0).expect("no limit applies"), Outgoing::Chunked);
        let mut out = Vec::new();
        assert_eq!(reframe.feed(b"hello", &mut out), Ok(5));
        assert_eq!(out, b"5\r\nhello\r\n");
        assert_eq!(reframe.unframed(), None);
        reframe.end(&mut out);
        reframe.end(&mut out);
        assert_eq!(out, b"5\r\nhello\r\n0\r\n\r\n");
    }

    #[test]
    fn sizes_are_plain_hexadecimal() {
        for size in [1, 9, 15, 16, 255, 256, 65_535, 1 << 20] {
            let mut out = Vec::new();
            push_size(&mut out, size);
            assert_eq!(out, format!("{size:x}\r\n").as_bytes());
        }
    }
}
