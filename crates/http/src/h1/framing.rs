//! How a message's body is delimited, and what its fields say about that.

use super::body;
use super::name::is_same;
use super::rule::{Refusal, Rule};

/// How the body is delimited.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Framing {
    /// No body.
    #[default]
    None,
    /// A body of so many bytes.
    Length(u64),
    /// A body in chunks.
    Chunked,
    /// A response's body that ends with the connection.
    UntilClose,
}

/// What the fields said about the body, with the offsets of the values.
#[derive(Default)]
pub(super) struct Notes {
    length: Option<(u64, usize)>,
    encoding: Option<usize>,
}

impl Notes {
    /// Takes note of a Content-Length, whose value begins `at` there.
    pub(super) fn take_length(&mut self, value: &[u8], at: usize) -> Result<(), Refusal> {
        if self.length.is_some() {
            return Err(Refusal::new(Rule::LengthRepeated, at));
        }
        let length = body::content_length(value);
        self.length = Some((length.ok_or(Refusal::new(Rule::LengthInvalid, at))?, at));
        Ok(())
    }

    /// Takes note of a Transfer-Encoding.
    pub(super) fn take_encoding(&mut self, value: &[u8], at: usize) -> Result<(), Refusal> {
        if self.encoding.is_some() || !value.eq_ignore_ascii_case(b"chunked") {
            return Err(Refusal::new(Rule::EncodingUnsupported, at));
        }
        self.encoding = Some(at);
        Ok(())
    }

    /// Whether anything was said.
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.length.is_some() || self.encoding.is_some()
    }

    /// What the fields say together; [`Framing::None`] where they say nothing.
    pub(super) fn framing(&self, is_http11: bool) -> Result<Framing, Refusal> {
        match (self.length, self.encoding) {
            (None, None) => Ok(Framing::None),
            (Some((length, _)), None) => Ok(Framing::Length(length)),
            (Some((_, at)), Some(_)) => Err(Refusal::new(Rule::LengthWithEncoding, at)),
            // RFC 9112, 6.1: a peer of HTTP/1.0 that sends it has faulty framing.
            (None, Some(at)) if !is_http11 => Err(Refusal::new(Rule::EncodingUnsupported, at)),
            (None, Some(_)) => Ok(Framing::Chunked),
        }
    }
}

/// What the fields called Connection say.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Options {
    /// The sender will close.
    pub(crate) close: bool,
    /// The sender of HTTP/1.0 wants the connection kept.
    pub(crate) keep_alive: bool,
    /// The sender wants to change to another protocol, or does so.
    pub(crate) upgrade: bool,
    /// Fields are named that are meant for this connection alone.
    pub(crate) names_fields: bool,
}

impl Options {
    #[inline]
    pub(super) fn take(&mut self, value: &[u8]) {
        if is_same(value, b"keep-alive") {
            self.keep_alive = true;
        } else if is_same(value, b"close") {
            self.close = true;
        } else {
            self.take_list(value);
        }
    }

    #[cold]
    fn take_list(&mut self, value: &[u8]) {
        for option in options(value) {
            let is = |text: &[u8]| option.eq_ignore_ascii_case(text);
            if is(b"close") {
                self.close = true;
            } else if is(b"keep-alive") {
                self.keep_alive = true;
            } else if is(b"upgrade") {
                self.upgrade = true;
            } else {
                self.names_fields = true;
            }
        }
    }
}

/// The members of a list, without those that are empty.
pub(crate) fn options(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|option| !option.is_empty())
}
