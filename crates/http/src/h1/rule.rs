//! The rules a message must keep, and what breaking one costs.
//!
//! Whatever a peer behind or before us could read in two ways is refused. Each refusal names one rule
//! and the offset of the byte that broke it, counted from the first byte of the message, so that a log
//! line is enough to find the fault.

use std::fmt;

/// A rule of the message syntax or a limit on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Rule {
    /// A line ends with LF alone ([RFC 9112, 2.2](https://www.rfc-editor.org/rfc/rfc9112#section-2.2)).
    BareLf,
    /// CR stands where no LF follows.
    BareCr,
    /// A method holds a byte that no token may hold, or is empty.
    Method,
    /// A target holds a byte that no target may hold, or is empty.
    TargetByte,
    /// A target that is in none of the four forms, or in one that the method does not take.
    TargetForm,
    /// `%` without two hexadecimal digits after it, or an encoded NUL.
    TargetEscape,
    /// A path that leads above the root by `..`.
    PathAboveRoot,
    /// The request line does not end within the limit of the head.
    TargetTooLong,
    /// The version is not written as `HTTP/` digit `.` digit.
    VersionSyntax,
    /// A version other than 1.0 and 1.1.
    VersionUnsupported,
    /// A status line whose status is not three digits, the first of them not 0.
    StatusCode,
    /// A reason phrase holds a control byte.
    ReasonByte,
    /// Space or tab between a field's name and its colon.
    SpaceBeforeColon,
    /// A line that begins with space or tab.
    FoldedLine,
    /// A field line without a colon.
    NoColon,
    /// A field line that begins with its colon.
    EmptyName,
    /// A field's name holds a byte that no token may hold.
    NameByte,
    /// A field's value holds NUL or another control byte.
    ValueByte,
    /// More fields than `max_headers`.
    TooManyFields,
    /// The head does not end within `client_header_size`.
    HeadTooLarge,
    /// The head of an upstream's response does not end within `header_size`.
    ResponseHeadTooLarge,
    /// HTTP/1.1 without Host.
    HostMissing,
    /// Host more than once.
    HostRepeated,
    /// Host that is no host with an optional port.
    HostInvalid,
    /// Host that differs from the authority of an absolute target.
    HostContradictsTarget,
    /// Content-Length more than once, even with one value.
    LengthRepeated,
    /// Content-Length that is not one plain decimal number below 2^63.
    LengthInvalid,
    /// Content-Length together with Transfer-Encoding.
    LengthWithEncoding,
    /// Transfer-Encoding other than a single `chunked`, or in HTTP/1.0.
    EncodingUnsupported,
    /// Expect other than `100-continue`.
    ExpectUnknown,
    /// A chunk's size that is not plain hexadecimal, or above the limit of a number.
    ChunkSize,
    /// A chunk's extensions are longer than the limit, or hold a control byte.
    ChunkExtension,
    /// A chunk's data is not followed by CR LF.
    ChunkEnd,
    /// A trailer line that is no field line.
    Trailer,
    /// The trailer section is longer than the limit.
    TrailerTooLarge,
    /// The body is larger than `client_body_size`.
    BodyTooLarge,
}

impl Rule {
    /// The status the client is told.
    pub const fn status(self) -> u16 {
        match self {
            Rule::BodyTooLarge => 413,
            Rule::TargetTooLong => 414,
            Rule::ExpectUnknown => 417,
            Rule::TooManyFields | Rule::HeadTooLarge | Rule::TrailerTooLarge => 431,
            Rule::VersionUnsupported => 505,
            _ => 400,
        }
    }

    /// The rule in words, for the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Rule::BareLf => "a line must end with CR LF, not LF alone",
            Rule::BareCr => "CR must be followed by LF",
            Rule::Method => "a method must be a token",
            Rule::TargetByte => "a target must be made of visible ASCII without '#'",
            Rule::TargetForm => "a target must be in a form that its method takes",
            Rule::TargetEscape => "'%' must be followed by two hexadecimal digits, and not stand for NUL",
            Rule::PathAboveRoot => "a path must not lead above the root",
            Rule::TargetTooLong => "a request line must end within client_header_size",
            Rule::VersionSyntax => "a version must be written HTTP/digit.digit",
            Rule::VersionUnsupported => "a version must be 1.0 or 1.1",
            Rule::StatusCode => "a status must be three digits, from 100 on",
            Rule::ReasonByte => "a reason phrase must hold no control byte",
            Rule::SpaceBeforeColon => "a field's name must be followed by its colon at once",
            Rule::FoldedLine => "a field line must not begin with space or tab",
            Rule::NoColon => "a field line must have a colon",
            Rule::EmptyName => "a field's name must not be empty",
            Rule::NameByte => "a field's name must be a token",
            Rule::ValueByte => "a field's value must hold no control byte",
            Rule::TooManyFields => "a head must not have more fields than max_headers",
            Rule::HeadTooLarge => "a head must end within client_header_size",
            Rule::ResponseHeadTooLarge => "a response's head must end within header_size",
            Rule::HostMissing => "HTTP/1.1 needs Host",
            Rule::HostRepeated => "Host must stand once",
            Rule::HostInvalid => "Host must be a host with an optional port",
            Rule::HostContradictsTarget => "Host must agree with an absolute target",
            Rule::LengthRepeated => "Content-Length must stand once",
            Rule::LengthInvalid => "Content-Length must be one plain decimal number",
            Rule::LengthWithEncoding => "Content-Length must not stand beside Transfer-Encoding",
            Rule::EncodingUnsupported => "Transfer-Encoding must be a single \"chunked\", in HTTP/1.1",
            Rule::ExpectUnknown => "Expect must be 100-continue",
            Rule::ChunkSize => "a chunk's size must be plain hexadecimal",
            Rule::ChunkExtension => "a chunk's extensions must be short and hold no control byte",
            Rule::ChunkEnd => "a chunk's data must be followed by CR LF",
            Rule::Trailer => "a trailer must be made of field lines",
            Rule::TrailerTooLarge => "a trailer must end within its limit",
            Rule::BodyTooLarge => "a body must not be larger than client_body_size",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A message that was refused: its sender's fault. A client's connection closes after the answer, an upstream's
/// at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, thiserror::Error)]
#[error("{rule} (byte {offset})")]
pub struct Refusal {
    /// What was broken.
    pub rule: Rule,
    /// Which byte broke it, from the first byte of the message or, for a body, of the body.
    pub offset: usize,
}

impl Refusal {
    pub(crate) const fn new(rule: Rule, offset: usize) -> Refusal {
        Refusal { rule, offset }
    }
}
