//! Answers as bytes: prepared once, with only the date and the connection's fate filled in.

use drover_service::text::push_number;

use crate::exchange::{Answer, Request};

/// Length of a date as HTTP writes it (`Sun, 06 Nov 1994 08:49:37 GMT`).
pub(crate) const DATE_LENGTH: usize = 29;

/// Such a date.
pub(crate) type Date = [u8; DATE_LENGTH];

/// What becomes of the connection after an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// It stays, which HTTP/1.1 need not say.
    Keep,
    /// It stays, which HTTP/1.0 must be told.
    KeepTold,
    /// It closes.
    Close,
}

impl Fate {
    /// The field that says so, with the empty line that ends the head.
    pub(crate) const fn last_lines(self) -> &'static [u8] {
        match self {
            Fate::Keep => b"\r\n",
            Fate::KeepTold => b"Connection: keep-alive\r\n\r\n",
            Fate::Close => b"Connection: close\r\n\r\n",
        }
    }
}

/// The reason phrase of a status; empty for one that has none, as a status line may end so.
pub(crate) fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        418 => "I'm a teapot",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        507 => "Insufficient Storage",
        508 => "Loop Detected",
        511 => "Network Authentication Required",
        _ => "",
    }
}

/// Whether an answer with this status has no body, not even an empty one with a length
/// ([RFC 9110, 8.6](https://www.rfc-editor.org/rfc/rfc9110#section-8.6)).
pub(crate) fn has_no_content(status: u16) -> bool {
    status < 200 || status == 204 || status == 304
}

/// Begins a head: status line, `Server` and `Date`. Gives the offset of the date's 29 bytes in `out`.
pub(crate) fn begin(out: &mut Vec<u8>, status: u16, server: &str, date: &Date) -> usize {
    out.extend_from_slice(b"HTTP/1.1 ");
    push_number(out, u64::from(status));
    out.push(b' ');
    out.extend_from_slice(reason(status).as_bytes());
    out.extend_from_slice(b"\r\nServer: ");
    out.extend_from_slice(server.as_bytes());
    out.extend_from_slice(b"\r\nDate: ");
    let at = out.len();
    out.extend_from_slice(date);
    out.extend_from_slice(b"\r\n");
    at
}

/// Replaces the status line of the head that `out` holds from `start` to `end`; gives its new end.
pub(crate) fn replace_status(out: &mut Vec<u8>, (start, end): (usize, usize), status: u16) -> usize {
    let old = memchr::memchr(b'\r', &out[start..end]).unwrap_or(0);
    let mut line = b"HTTP/1.1 ".to_vec();
    push_number(&mut line, u64::from(status));
    line.push(b' ');
    line.extend_from_slice(reason(status).as_bytes());
    let new = line.len();
    out.splice(start..start + old, line);
    end + new - old
}

/// Appends one field line.
pub(crate) fn field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends `Content-Length`.
pub(crate) fn content_length(out: &mut Vec<u8>, length: u64) {
    out.extend_from_slice(b"Content-Length: ");
    push_number(out, length);
    out.extend_from_slice(b"\r\n");
}

/// Bytes with a place for the date.
#[derive(Clone, Debug)]
pub(crate) struct Dated {
    bytes: Box<[u8]>,
    date_at: usize,
}

impl Dated {
    /// `bytes` that have a date at `date_at`.
    pub(crate) fn new(bytes: Vec<u8>, date_at: usize) -> Dated {
        assert!(date_at + DATE_LENGTH <= bytes.len(), "the date lies within the bytes");
        Dated { bytes: bytes.into(), date_at }
    }

    /// Appends the bytes, dated.
    #[inline]
    pub(crate) fn push(&self, out: &mut Vec<u8>, date: &Date) {
        self.push_first(self.bytes.len(), out, date);
    }

    /// Appends the first `length` bytes, which hold the date, dated.
    #[inline]
    pub(crate) fn push_first(&self, length: usize, out: &mut Vec<u8>, date: &Date) {
        let at = out.len() + self.date_at;
        out.extend_from_slice(&self.bytes[..length]);
        out[at..at + DATE_LENGTH].copy_from_slice(date);
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }
}

/// A whole small answer, prepared for every fate of the connection: sending it is one copy and a date.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    status: u16,
    body_length: usize,
    /// By [`Fate`].
    whole: [Dated; 3],
}

impl Prepared {
    /// The answer with `status`, these `fields` (whole lines) and `body`.
    pub(crate) fn new(status: u16, server: &str, fields: &[u8], body: &[u8]) -> Prepared {
        let body = if has_no_content(status) { b"" } else { body };
        let whole = [Fate::Keep, Fate::KeepTold, Fate::Close].map(|fate| {
            let mut bytes = Vec::new();
            let date_at = begin(&mut bytes, status, server, &[b' '; DATE_LENGTH]);
            bytes.extend_from_slice(fields);
            if !has_no_content(status) {
                content_length(&mut bytes, body.len() as u64);
            }
            bytes.extend_from_slice(fate.last_lines());
            bytes.extend_from_slice(body);
            Dated::new(bytes, date_at)
        });
        Prepared { status, body_length: body.len(), whole }
    }

    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    /// Appends the answer to `request`.
    pub(crate) fn answer(&self, request: &Request<'_>, out: &mut Vec<u8>) -> Answer {
        let body = self.push(request.fate, request.wants_body(), out, request.date);
        Answer::complete(self.status, body)
    }

    /// Appends the answer, to a HEAD request without its body; gives the length of the body appended.
    #[inline(always)]
    pub(crate) fn push(&self, fate: Fate, with_body: bool, out: &mut Vec<u8>, date: &Date) -> usize {
        let whole = &self.whole[fate as usize];
        if with_body {
            whole.push(out, date);
            self.body_length
        } else {
            whole.push_first(whole.len() - self.body_length, out, date);
            0
        }
    }
}

/// The small page that goes with an error or a redirect.
pub(crate) fn page(status: u16, server: &str) -> Vec<u8> {
    let reason = reason(status);
    format!(
        "<!DOCTYPE html>\n<html>\n<head><title>{status} {reason}</title></head>\n<body>\n\
         <h1>{status} {reason}</h1>\n<hr><p>{server}</p>\n</body>\n</html>\n"
    )
    .into_bytes()
}

/// The type of [`page`].
pub(crate) const PAGE_TYPE: &str = "text/html";

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: &Date = b"Sun, 06 Nov 1994 08:49:37 GMT";

    fn pushed(prepared: &Prepared, fate: Fate, with_body: bool) -> (String, usize) {
        let mut out = b"before".to_vec();
        let body = prepared.push(fate, with_body, &mut out, DATE);
        (String::from_utf8(out).expect("text"), body)
    }

    #[test]
    fn a_prepared_answer_is_dated_and_says_the_connections_fate() {
        let prepared = Prepared::new(200, "drover", b"Content-Type: text/plain\r\n", b"ok\n");
        let head = "beforeHTTP/1.1 200 OK\r\nServer: drover\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
                    Content-Type: text/plain\r\nContent-Length: 3\r\n";
        assert_eq!(pushed(&prepared, Fate::Keep, true), (format!("{head}\r\nok\n"), 3));
        assert_eq!(pushed(&prepared, Fate::Close, false), (format!("{head}Connection: close\r\n\r\n"), 0));
        let told = format!("{head}Connection: keep-alive\r\n\r\nok\n");
        assert_eq!(pushed(&prepared, Fate::KeepTold, true), (told, 3));
    }

    #[test]
    fn an_answer_without_content_has_no_length() {
        let (text, body) = pushed(&Prepared::new(204, "drover", b"", b"dropped"), Fate::Keep, true);
        assert!(!text.contains("Content-Length") && text.ends_with("GMT\r\n\r\n") && body == 0, "{text}");
    }
}
