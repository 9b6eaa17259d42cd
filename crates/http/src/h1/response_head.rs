//! The head of a response, as an upstream sends it: status line and fields.
//!
//! Read in one pass and strictly: what a client behind us could read in another way is refused, with the rule and
//! the offset that [`scan`] finds. Like a request's [`Head`](super::head::Head) it is ranges into the bytes received, kept
//! and filled anew, and the answer depends on the bytes alone, never on how they were split.

use super::framing::{Framing, Notes, Options};
use super::head::{Field, Limits, Span, Status};
use super::method::Method;
use super::name::{Look, Name};
use super::rule::{Refusal, Rule};
use super::scan;
use super::usual::{split_value, usual_field};

/// A parsed head.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct ResponseHead {
    pub(crate) status: u16,
    /// HTTP/1.1, not 1.0.
    pub(crate) is_http11: bool,
    /// The reason phrase; empty where there is none.
    pub(crate) reason: Span,
    /// What the fields say about the body; [`ResponseHead::framing`] says what that means.
    said: Framing,
    /// What the upstream says about the connection.
    pub(crate) connection: Options,
    pub(crate) fields: Vec<Field>,
}

impl ResponseHead {
    /// Reads the head that `input` begins with.
    pub(crate) fn parse(&mut self, input: &[u8], limits: &Limits) -> Result<Status, Refusal> {
        let window = &input[..input.len().min(limits.size)];
        if let Some(length) = self.parse_lines(window, limits)? {
            return Ok(Status::Complete(length));
        }
        match scan::first_response_fault(window, limits) {
            Some(refusal) => Err(refusal),
            None if window.len() < limits.size => Ok(Status::Partial),
            None => Err(Refusal::new(Rule::ResponseHeadTooLarge, limits.size)),
        }
    }

    /// Gives the length of a head that is complete. None where it is not, or where a line has a fault.
    fn parse_lines(&mut self, bytes: &[u8], limits: &Limits) -> Result<Option<usize>, Refusal> {
        let Some(mut rest) = self.status_line(bytes) else { return Ok(None) };
        self.said = Framing::None;
        self.connection = Options::default();
        self.fields.clear();
        let mut notes = Notes::default();
        let mut room = limits.max_headers;
        // What is left begins with the end of a line. What a field says counts only once the head is known to
        // be whole: else another fault before it could be found later.
        let behind = loop {
            if let Some(behind) = rest.strip_prefix(b"\r\n\r\n") {
                break behind;
            }
            let Some((name, value, end)) = rest.strip_prefix(b"\r\n").and_then(usual_field) else {
                return Ok(None);
            };
            let field = Field {
                id: Name::of(name),
                name: Span::within(bytes, name),
                value: Span::within(bytes, value),
            };
            if room == 0 || field.id == Name::Other && Look::of(bytes, field.name) == Look::Invalid {
                return Ok(None);
            }
            room -= 1;
            self.fields.push(field);
            rest = end;
        };
        for at in 0..self.fields.len() {
            self.note(bytes, self.fields[at], &mut notes)?;
        }
        if notes.any() {
            self.said = notes.framing(self.is_http11)?;
        }
        Ok(Some(bytes.len() - behind.len()))
    }

    /// The status line; gives what follows, from the line's end on.
    fn status_line<'b>(&mut self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let (version, rest) = bytes.split_first_chunk::<9>()?;
        self.is_http11 = match version {
            b"HTTP/1.1 " => true,
            b"HTTP/1.0 " => false,
            _ => return None,
        };
        let ([a, b, c], rest) = rest.split_first_chunk::<3>()?;
        if !(b'1'..=b'9').contains(a) || !b.is_ascii_digit() || !c.is_ascii_digit() {
            return None;
        }
        let digit = |byte: &u8| u16::from(byte - b'0');
        self.status = 100 * digit(a) + 10 * digit(b) + digit(c);
        let (reason, rest) = match rest {
            [b' ', behind @ ..] => split_value(behind),
            _ => rest.split_at(0),
        };
        self.reason = Span::within(bytes, reason);
        Some(rest)
    }

    #[inline]
    fn note(&mut self, bytes: &[u8], field: Field, notes: &mut Notes) -> Result<(), Refusal> {
        let (value, at) = (field.value.of(bytes), field.value.start as usize);
        match field.id {
            Name::ContentLength => notes.take_length(value, at),
            Name::TransferEncoding => notes.take_encoding(value, at),
            Name::Connection => {
                self.connection.take(value);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// How the body is delimited that follows this head in answer to a request of this method
    /// ([RFC 9112, 6.3](https://www.rfc-editor.org/rfc/rfc9112#section-6.3)).
    pub(crate) fn framing(&self, method: Method) -> Framing {
        if method == Method::Head || crate::response::has_no_content(self.status) {
            return Framing::None;
        }
        match self.said {
            Framing::None => Framing::UntilClose,
            said => said,
        }
    }

    /// The length of the body, or of what the answer to another method would have, where it is told.
    pub(crate) fn length(&self) -> Option<u64> {
        match self.said {
            Framing::Length(length) => Some(length),
            Framing::None | Framing::Chunked | Framing::UntilClose => None,
        }
    }

    /// Whether the upstream lets the connection be used again once the body has ended.
    pub(crate) fn keeps(&self) -> bool {
        let says = if self.is_http11 { !self.connection.close } else { self.connection.keep_alive };
        // RFC 9112, 6.3: a body here would be a fault, and who announces one may send one.
        let announces = matches!(self.said, Framing::Chunked | Framing::Length(1..));
        says && !(announces && matches!(self.status, 100..=199 | 204))
    }

    /// The value of the first field with this number.
    pub(crate) fn field<'a>(&self, bytes: &'a [u8], id: Name) -> Option<&'a [u8]> {
        self.fields.iter().find(|field| field.id == id).map(|field| field.value.of(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: Limits = Limits { size: 256, max_headers: 6, keep_odd_names: true };

    type Answer = Result<(Status, ResponseHead), Refusal>;

    fn feed(bytes: &[u8], ends: impl Iterator<Item = usize>) -> Answer {
        let mut head = ResponseHead::default();
        for end in ends {
            match head.parse(&bytes[..end], &LIMITS)? {
                Status::Partial => {}
                complete => return Ok((complete, head)),
            }
        }
        Ok((Status::Partial, ResponseHead::default()))
    }

    fn same_however_split(bytes: &[u8]) -> Answer {
        let answer = feed(bytes, std::iter::once(bytes.len()));
        let text = bytes.escape_ascii();
        assert_eq!(feed(bytes, 0..=bytes.len()), answer, "byte by byte: {text}");
        for at in 0..bytes.len() {
            assert_eq!(feed(bytes, [at, bytes.len()].into_iter()), answer, "split at {at}: {text}");
        }
        answer
    }

    #[track_caller]
    fn taken(text: &str) -> ResponseHead {
        match same_however_split(text.as_bytes()) {
            Ok((Status::Complete(length), head)) => {
                assert_eq!(length, text.len());
                head
            }
            other => panic!("{text:?}: {other:?}"),
        }
    }

    fn field(line: &str) -> String {
        format!("HTTP/1.1 200 OK\r\n{line}\r\n\r\n")
    }

    #[test]
    fn a_head_is_taken_apart() {
        let text = "HTTP/1.1 404 Not here\r\nContent-Length:5\r\nX-A:  b\t c \r\nEmpty:\r\nConnection: x, Close\r\n\r\n";
        let head = taken(text);
        assert_eq!((head.status, head.reason.of(text.as_bytes())), (404, b"Not here".as_slice()));
        assert_eq!(head.framing(Method::Get), Framing::Length(5));
        assert_eq!(head.fields.len(), 4);
        assert_eq!(head.fields[1].value.of(text.as_bytes()), b"b\t c");
        assert!(head.connection.names_fields && !head.keeps());
        for text in ["HTTP/1.0 999\r\n\r\n", "HTTP/1.0 999 \r\n\r\n"] {
            let head = taken(text);
            assert_eq!(
                (head.status, head.is_http11, head.reason.of(text.as_bytes())),
                (999, false, b"".as_slice())
            );
        }
        assert_eq!(taken("HTTP/1.1 200 gr\u{fc}n\r\n\r\n").status, 200);
    }

    #[test]
    fn the_body_is_where_the_method_and_the_status_allow_it() {
        let chunked = taken(&field("Transfer-Encoding: chunked"));
        assert_eq!(chunked.framing(Method::Post), Framing::Chunked);
        assert_eq!(chunked.framing(Method::Head), Framing::None);
        assert_eq!(taken(&field("A: b")).framing(Method::Get), Framing::UntilClose);
        for status in [101, 204, 304] {
            let head = taken(&format!("HTTP/1.1 {status} x\r\nContent-Length: 5\r\n\r\n"));
            assert_eq!(head.framing(Method::Get), Framing::None);
            assert_eq!(head.keeps(), status == 304, "{status}");
        }
        assert!(taken("HTTP/1.1 204 x\r\nContent-Length: 0\r\n\r\n").keeps());
        assert!(!taken("HTTP/1.0 200 x\r\nContent-Length: 0\r\n\r\n").keeps());
        assert!(taken("HTTP/1.0 200 x\r\nConnection: keep-alive\r\n\r\n").keeps());
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        const LINE: usize = "HTTP/1.1 200 OK\r\n".len();
        let too_many = "A: b\r\n".repeat(7);
        for (text, rule, offset) in [
            ("SSH-2.0-OpenSSH\r\n".to_owned(), Rule::VersionSyntax, 0),
            ("HTTP/2.0 200 OK\r\n\r\n".to_owned(), Rule::VersionUnsupported, 0),
            ("HTTP/1.1 20 OK\r\n\r\n".to_owned(), Rule::StatusCode, 11),
            ("HTTP/1.1 2000 OK\r\n\r\n".to_owned(), Rule::StatusCode, 12),
            ("HTTP/1.1  200 OK\r\n\r\n".to_owned(), Rule::StatusCode, 9),
            ("HTTP/1.1 099 OK\r\n\r\n".to_owned(), Rule::StatusCode, 9),
            ("HTTP/1.1 200 O\0K\r\n\r\n".to_owned(), Rule::ReasonByte, 14),
            ("HTTP/1.1 200 OK\n\r\n".to_owned(), Rule::BareLf, 15),
            ("HTTP/1.1 200 OK\rX".to_owned(), Rule::BareCr, 15),
            (field("A : b"), Rule::SpaceBeforeColon, LINE + 1),
            (field(" A: b"), Rule::FoldedLine, LINE),
            (field("A: b\r\n c"), Rule::FoldedLine, LINE + 6),
            (field("A"), Rule::NoColon, LINE + 1),
            (field(": b"), Rule::EmptyName, LINE),
            (field("A(: b"), Rule::NameByte, LINE + 1),
            (field("A: \0"), Rule::ValueByte, LINE + 3),
            (field("A: b\nC: d"), Rule::BareLf, LINE + 4),
            (field("Content-Length: 1\r\nContent-Length: 1"), Rule::LengthRepeated, LINE + 35),
            (field("Content-Length: +1"), Rule::LengthInvalid, LINE + 16),
            (field("Content-Length: 1\r\nTransfer-Encoding: chunked"), Rule::LengthWithEncoding, LINE + 16),
            (field("Transfer-Encoding: gzip, chunked"), Rule::EncodingUnsupported, LINE + 19),
            (
                "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".into(),
                Rule::EncodingUnsupported,
                LINE + 19,
            ),
            (field(&too_many), Rule::TooManyFields, LINE + 36),
            (field(&format!("A: {}", "b".repeat(300))), Rule::ResponseHeadTooLarge, 256),
        ] {
            assert_eq!(same_however_split(text.as_bytes()), Err(Refusal { rule, offset }), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_give_one_answer(
            bytes in proptest::collection::vec(
                prop_oneof![Just(b'\r'), Just(b'\n'), Just(b':'), Just(b' '), Just(b'a'), Just(b'\t'), any::<u8>()],
                0..30,
            ),
            at in 0_usize..60,
        ) {
            let text = [b"HTTP/1.1 200 OK\r\nA".as_slice(), &bytes, b"\r\n\r\n"].concat();
            let at = at.min(text.len());
            prop_assert_eq!(feed(&text, [at, text.len()].into_iter()), feed(&text, std::iter::once(text.len())));
        }
    }
}
