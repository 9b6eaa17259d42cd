//! Bodies of messages: where they end, and which of their bytes are data.
//!
//! A [`Body`] is shown the bytes as they arrive and says how many of them belong to it, or piece by piece what
//! they are. It keeps no data. As with heads, the answer depends on the bytes alone, never on how they were
//! split.

use std::ops::Range;

use super::framing::Framing;
use super::rule::{Refusal, Rule};

/// Digits of the largest chunk size that is taken; 2^60 bytes are enough.
const CHUNK_DIGITS: u32 = 15;
/// Bytes of one chunk's extensions, which drover ignores.
const EXTENSION_LIMIT: usize = 1024;
/// Bytes of the trailer section.
pub(crate) const TRAILER_LIMIT: usize = 8192;

/// A plain decimal number below 2^63; none for anything else: empty, signed, a list, hexadecimal.
pub(super) fn content_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() || value.len() > 19 {
        return None;
    }
    value.iter().try_fold(0_u64, |length, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        length.checked_mul(10)?.checked_add(digit).filter(|length| *length <= i64::MAX as u64)
    })
}

/// Where a body stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// So many bytes of data are left of a body of known length.
    Length(u64),
    /// All bytes are data until the connection ends.
    UntilClose,
    /// In a chunk's size, after so many digits.
    Size {
        digits: u32,
        size: u64,
    },
    /// In the extensions after a size, so many bytes far.
    Extension {
        size: u64,
        length: usize,
    },
    /// After the CR that ends a chunk's size.
    SizeLf(u64),
    Data(u64),
    DataCr,
    DataLf,
    /// At the beginning of a trailer line.
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    /// After the CR of the empty line that ends the body.
    LastLf,
    End,
}

/// The body of one message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Body {
    state: State,
    /// Bytes of data that may still come: `client_body_size` less what came.
    allowed: u64,
    /// Bytes of trailer that may still come.
    trailer: usize,
    /// Bytes seen, for the offset of a fault.
    seen: usize,
}

/// How far some bytes brought a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Progress {
    /// Bytes that belong to the body; what follows is the next request's.
    pub(crate) taken: usize,
    /// The body has ended.
    pub(crate) done: bool,
}

/// What some bytes of a body are, as a range of those shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Piece {
    Data(Range<usize>),
    /// Of the field lines of a trailer section, without the empty line that ends it.
    Trailer(Range<usize>),
}

impl Body {
    /// A body that is not there, or at its end.
    pub(crate) const NONE: Body = Body { state: State::End, allowed: 0, trailer: 0, seen: 0 };

    /// A body with this framing and at most `limit` bytes of data.
    pub(crate) fn new(framing: Framing, limit: u64) -> Result<Body, Refusal> {
        let state = match framing {
            Framing::None | Framing::Length(0) => State::End,
            Framing::Length(length) if length > limit => return Err(Refusal::new(Rule::BodyTooLarge, 0)),
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::Size { digits: 0, size: 0 },
            Framing::UntilClose => State::UntilClose,
        };
        Ok(Body { state, allowed: limit, trailer: TRAILER_LIMIT, seen: 0 })
    }

    /// Goes on with `bytes`, whatever they hold.
    pub(crate) fn advance(&mut self, bytes: &[u8]) -> Result<Progress, Refusal> {
        let mut taken = 0;
        while self.next(bytes, &mut taken)?.is_some() {}
        Ok(Progress { taken, done: self.is_done() })
    }

    /// The next piece of `bytes`, from `at` on, which moves behind it. None once all bytes are read or the body
    /// has ended.
    pub(crate) fn next(&mut self, bytes: &[u8], at: &mut usize) -> Result<Option<Piece>, Refusal> {
        while self.state != State::End && *at < bytes.len() {
            let (start, available) = (*at, bytes.len() - *at);
            let taken = match self.state {
                State::Length(left) => self.take(left, available, State::Length, State::End),
                State::Data(left) => self.take(left, available, State::Data, State::DataCr),
                State::UntilClose => available,
                State::TrailerStart | State::TrailerName | State::TrailerValue | State::TrailerLf => {
                    let taken = self.trailer_lines(&bytes[start..])?;
                    (*at, self.seen) = (start + taken, self.seen + taken);
                    if taken > 0 {
                        return Ok(Some(Piece::Trailer(start..start + taken)));
                    }
                    self.step_over(bytes[start])?;
                    *at += 1;
                    continue;
                }
                _ => {
                    self.step_over(bytes[start])?;
                    *at += 1;
                    continue;
                }
            };
            self.seen += taken;
            *at = start + taken;
            return Ok(Some(Piece::Data(start..start + taken)));
        }
        Ok(None)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.state == State::End
    }

    /// Bytes of data that are left and that nothing else stands between.
    pub(crate) fn unframed(&self) -> Option<u64> {
        match self.state {
            State::Length(left) => Some(left),
            State::UntilClose => Some(u64::MAX),
            _ => None,
        }
    }

    /// Whether the connection's end is the body's.
    pub(crate) fn ends_with_the_close(&self) -> bool {
        self.state == State::UntilClose
    }

    /// So many bytes of data passed without being shown.
    pub(crate) fn passed(&mut self, count: u64) {
        if let State::Length(left) = self.state {
            self.state = if count >= left { State::End } else { State::Length(left - count) };
        }
    }

    fn step_over(&mut self, byte: u8) -> Result<(), Refusal> {
        self.state = self.step(byte).map_err(|rule| Refusal::new(rule, self.seen))?;
        self.seen += 1;
        Ok(())
    }

    /// How many of `bytes` belong to field lines of the trailer section.
    fn trailer_lines(&mut self, bytes: &[u8]) -> Result<usize, Refusal> {
        for (at, byte) in bytes.iter().enumerate() {
            if self.state == State::TrailerStart && *byte == b'\r' {
                return Ok(at);
            }
            self.state = self.step(*byte).map_err(|rule| Refusal::new(rule, self.seen + at))?;
        }
        Ok(bytes.len())
    }

    fn take(&mut self, left: u64, available: usize, more: fn(u64) -> State, then: State) -> usize {
        let taken = left.min(available as u64);
        self.state = if taken == left { then } else { more(left - taken) };
        taken as usize
    }

    /// The state after one byte of a chunked body's framing.
    fn step(&mut self, byte: u8) -> Result<State, Rule> {
        match self.state {
            State::Size { digits, size } => self.size(byte, digits, size),
            State::Extension { size, .. } if byte == b'\r' => Ok(State::SizeLf(size)),
            State::Extension { size, length } if length < EXTENSION_LIMIT && !is_control(byte) => {
                Ok(State::Extension { size, length: length + 1 })
            }
            State::Extension { .. } => Err(Rule::ChunkExtension),
            State::SizeLf(size) => {
                line_feed(byte, if size == 0 { State::TrailerStart } else { State::Data(size) })
            }
            State::DataCr if byte == b'\r' => Ok(State::DataLf),
            State::DataLf if byte == b'\n' => Ok(State::Size { digits: 0, size: 0 }),
            State::DataCr | State::DataLf => Err(Rule::ChunkEnd),
            State::LastLf => line_feed(byte, State::End),
            State::TrailerStart | State::TrailerName | State::TrailerValue | State::TrailerLf => {
                self.trailer(byte)
            }
            State::Length(_) | State::UntilClose | State::Data(_) | State::End => Ok(self.state),
        }
    }

    fn size(&mut self, byte: u8, digits: u32, size: u64) -> Result<State, Rule> {
        let ended = match byte {
            b'\r' => State::SizeLf(size),
            b';' => State::Extension { size, length: 0 },
            _ => {
                let digit = char::from(byte).to_digit(16).filter(|_| digits < CHUNK_DIGITS);
                let digit = digit.ok_or(Rule::ChunkSize)?;
                return Ok(State::Size { digits: digits + 1, size: size * 16 + u64::from(digit) });
            }
        };
        if digits == 0 {
            return Err(Rule::ChunkSize);
        }
        self.allowed = self.allowed.checked_sub(size).ok_or(Rule::BodyTooLarge)?;
        Ok(ended)
    }

    /// Trailers are read for their syntax only: nothing here may be changed by them
    /// ([RFC 9112, 7.1.2](https://www.rfc-editor.org/rfc/rfc9112#section-7.1.2)).
    fn trailer(&mut self, byte: u8) -> Result<State, Rule> {
        self.trailer = self.trailer.checked_sub(1).ok_or(Rule::TrailerTooLarge)?;
        match (self.state, byte) {
            (State::TrailerStart, b'\r') => Ok(State::LastLf),
            (State::TrailerName, b':') => Ok(State::TrailerValue),
            (State::TrailerStart | State::TrailerName, _) if super::scan::is_token(byte) => {
                Ok(State::TrailerName)
            }
            (State::TrailerValue, b'\r') => Ok(State::TrailerLf),
            (State::TrailerValue, _) if !is_control(byte) => Ok(State::TrailerValue),
            (State::TrailerLf, _) => line_feed(byte, State::TrailerStart),
            _ => Err(Rule::Trailer),
        }
    }
}

fn is_control(byte: u8) -> bool {
    byte != b'\t' && (byte < b' ' || byte == 0x7f)
}

fn line_feed(byte: u8, then: State) -> Result<State, Rule> {
    if byte == b'\n' { Ok(then) } else { Err(Rule::BareCr) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn whole(framing: Framing, limit: u64, bytes: &[u8]) -> Result<Progress, Refusal> {
        Body::new(framing, limit)?.advance(bytes)
    }

    fn in_pieces(limit: u64, pieces: &[&[u8]]) -> Result<Progress, Refusal> {
        let mut body = Body::new(Framing::Chunked, limit)?;
        let mut sum = Progress { taken: 0, done: false };
        for piece in pieces {
            let progress = body.advance(piece)?;
            sum = Progress { taken: sum.taken + progress.taken, done: progress.done };
            if progress.done {
                break;
            }
        }
        Ok(sum)
    }

    type Want = Result<Progress, (Rule, usize)>;

    const CHUNKED: &[(&[u8], Want)] = &[
        (b"0\r\n\r\nGET", Ok(Progress { taken: 5, done: true })),
        (b"5\r\nhello\r\n0\r\n\r\n", Ok(Progress { taken: 15, done: true })),
        (b"A;x=y\r\n0123456789\r\n00\r\n\r\n", Ok(Progress { taken: 25, done: true })),
        (b"0\r\nA: b\r\nC:\r\n\r\n", Ok(Progress { taken: 15, done: true })),
        (b"5\r\nhel", Ok(Progress { taken: 6, done: false })),
        (b"", Ok(Progress { taken: 0, done: false })),
        (b"\r\n", Err((Rule::ChunkSize, 0))),
        (b";a\r\n", Err((Rule::ChunkSize, 0))),
        (b"0x5\r\n", Err((Rule::ChunkSize, 1))),
        (b"+5\r\n", Err((Rule::ChunkSize, 0))),
        (b"-1\r\n", Err((Rule::ChunkSize, 0))),
        (b" 5\r\n", Err((Rule::ChunkSize, 0))),
        (b"5 \r\n", Err((Rule::ChunkSize, 1))),
        (b"5\n", Err((Rule::ChunkSize, 1))),
        (b"5\rX", Err((Rule::BareCr, 2))),
        (b"5;a\nb\r\n", Err((Rule::ChunkExtension, 3))),
        (b"1000000000000000\r\n", Err((Rule::ChunkSize, 15))),
        (b"3\r\nabcd\r\n", Err((Rule::ChunkEnd, 6))),
        (b"3\r\nabc\n", Err((Rule::ChunkEnd, 6))),
        (b"3\r\nabc\rX", Err((Rule::ChunkEnd, 7))),
        (b"0\r\nno colon\r\n", Err((Rule::Trailer, 5))),
        (b"0\r\n: x\r\n", Err((Rule::Trailer, 3))),
        (b"0\r\n folded\r\n", Err((Rule::Trailer, 3))),
        (b"0\r\nA: \x00\r\n", Err((Rule::Trailer, 6))),
        (b"0\r\n\n", Err((Rule::Trailer, 3))),
        (b"0\r\n\rX", Err((Rule::BareCr, 4))),
        (b"65\r\n", Err((Rule::BodyTooLarge, 2))),
    ];

    #[test]
    fn chunked_bodies_end_where_they_should_however_split() {
        for (bytes, want) in CHUNKED {
            let want = want.map_err(|(rule, offset)| Refusal::new(rule, offset));
            assert_eq!(whole(Framing::Chunked, 100, bytes), want, "{}", bytes.escape_ascii());
            let singles: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(in_pieces(100, &singles), want, "by bytes: {}", bytes.escape_ascii());
            for at in 0..bytes.len() {
                let (first, second) = bytes.split_at(at);
                assert_eq!(in_pieces(100, &[first, second]), want, "at {at}: {}", bytes.escape_ascii());
            }
        }
    }

    #[test]
    fn long_extensions_and_trailers_are_refused() {
        let extension = [b"1;".as_slice(), &[b'x'; 2000]].concat();
        assert_eq!(whole(Framing::Chunked, 9, &extension).map_err(|e| e.rule), Err(Rule::ChunkExtension));
        let trailer = [b"0\r\n".as_slice(), &b"a: b\r\n".repeat(2000)].concat();
        assert_eq!(whole(Framing::Chunked, 9, &trailer).map_err(|e| e.rule), Err(Rule::TrailerTooLarge));
    }

    #[test]
    fn pieces_are_the_data_and_the_trailer_lines() {
        let bytes = b"5;x\r\nhello\r\n2\r\n, \r\n0\r\nA: b\r\nC: d\r\n\r\nrest";
        for size in 1..=bytes.len() {
            let mut body = Body::new(Framing::Chunked, 99).expect("within the limit");
            let (mut data, mut trailer, mut taken) = (Vec::new(), Vec::new(), 0);
            for part in bytes.chunks(size) {
                let mut at = 0;
                while let Some(piece) = body.next(part, &mut at).expect("well formed") {
                    match piece {
                        Piece::Data(range) => data.extend_from_slice(&part[range]),
                        Piece::Trailer(range) => trailer.extend_from_slice(&part[range]),
                    }
                }
                taken += at;
            }
            assert_eq!((data.as_slice(), taken), (b"hello, ".as_slice(), bytes.len() - 4), "by {size}");
            assert_eq!(trailer, b"A: b\r\nC: d\r\n", "by {size}");
            assert!(body.is_done());
        }
    }

    #[test]
    fn a_body_until_the_close_has_no_end_of_its_own() {
        let mut body = Body::new(Framing::UntilClose, 0).expect("no limit applies");
        assert_eq!(body.next(b"0\r\n\r\n", &mut 0), Ok(Some(Piece::Data(0..5))));
        assert!(!body.is_done());
        assert_eq!(body.unframed(), Some(u64::MAX));
    }

    #[test]
    fn what_passes_unseen_counts() {
        let mut body = Body::new(Framing::Length(10), 10).expect("within the limit");
        assert_eq!(body.next(b"abc", &mut 0), Ok(Some(Piece::Data(0..3))));
        assert_eq!(body.unframed(), Some(7));
        body.passed(6);
        assert_eq!(body.advance(b"xy"), Ok(Progress { taken: 1, done: true }));
    }

    #[test]
    fn a_length_is_counted() {
        assert_eq!(whole(Framing::Length(3), 9, b"abcd"), Ok(Progress { taken: 3, done: true }));
        assert_eq!(whole(Framing::Length(5), 9, b"abcd"), Ok(Progress { taken: 4, done: false }));
        assert_eq!(whole(Framing::Length(10), 9, b""), Err(Refusal::new(Rule::BodyTooLarge, 0)));
        assert_eq!(whole(Framing::None, 9, b"abc"), Ok(Progress { taken: 0, done: true }));
    }

    #[test]
    fn only_plain_numbers_are_lengths() {
        assert_eq!(content_length(b"0"), Some(0));
        assert_eq!(content_length(b"0042"), Some(42));
        assert_eq!(content_length(b"9223372036854775807"), Some(i64::MAX as u64));
        for value in
            ["", "+1", "-1", "1,1", "1 1", "0x1", "9223372036854775808", "99999999999999999999", "1.0"]
        {
            assert_eq!(content_length(value.as_bytes()), None, "{value}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_give_one_answer(
            bytes in proptest::collection::vec(
                prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'1'), Just(b'0'), Just(b';'), Just(b':'), Just(b'a')],
                0..40,
            ),
            at in 0_usize..40,
        ) {
            let (first, second) = bytes.split_at(at.min(bytes.len()));
            prop_assert_eq!(whole(Framing::Chunked, 30, &bytes), in_pieces(30, &[first, second]));
        }

        #[test]
        fn encoded_data_comes_back_whole(chunks in proptest::collection::vec(1_usize..50, 0..6)) {
            let mut bytes = Vec::new();
            for size in &chunks {
                bytes.extend_from_slice(format!("{size:x}\r\n").as_bytes());
                bytes.extend(std::iter::repeat_n(b'z', *size));
                bytes.extend_from_slice(b"\r\n");
            }
            bytes.extend_from_slice(b"0\r\n\r\n");
            let mut body = Body::new(Framing::Chunked, 1000).expect("within the limit");
            let progress = body.advance(&bytes).expect("well formed");
            prop_assert!(progress.done);
            prop_assert_eq!(progress.taken, bytes.len());
        }
    }
}
