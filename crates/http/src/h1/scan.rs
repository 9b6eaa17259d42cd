//! Says which rule a head broke, and where, once `httparse` has refused it.
//!
//! `httparse` is fast and says little: no offset, and one word for several faults. It also peeks ahead at
//! the version. This scanner is slow and exact, reads one byte after the other and never looks ahead, so
//! what it says about some bytes stays true however many follow. It alone decides what an invalid head is
//! called; while it sees no fault, more bytes are awaited.

use super::head::Limits;
use super::rule::{Refusal, Rule};

/// The first fault in `bytes`, which begin with the request line; none while they may still become a head.
#[cold]
pub(super) fn first_fault(bytes: &[u8], limits: &Limits) -> Option<Refusal> {
    let mut scanner = Scanner { bytes, at: 0 };
    fault_of(scanner.head(limits))
}

/// The same of bytes that begin with the status line of a response.
#[cold]
pub(super) fn first_response_fault(bytes: &[u8], limits: &Limits) -> Option<Refusal> {
    let mut scanner = Scanner { bytes, at: 0 };
    fault_of(scanner.response_head(limits))
}

fn fault_of(scanned: Result<(), Stop>) -> Option<Refusal> {
    match scanned {
        Err(Stop::Fault(refusal)) => Some(refusal),
        Ok(()) | Err(Stop::End) => None,
    }
}

enum Stop {
    Fault(Refusal),
    /// The bytes end here.
    End,
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    fn head(&mut self, limits: &Limits) -> Result<(), Stop> {
        self.method()?;
        self.target()?;
        self.version()?;
        self.line_end(Rule::VersionSyntax)?;
        self.fields(limits)
    }

    fn response_head(&mut self, limits: &Limits) -> Result<(), Stop> {
        self.version()?;
        self.status()?;
        self.line_end(Rule::ReasonByte)?;
        self.fields(limits)
    }

    fn fields(&mut self, limits: &Limits) -> Result<(), Stop> {
        let mut fields = 0;
        while self.field(fields == limits.max_headers)? {
            fields += 1;
        }
        Ok(())
    }

    fn peek(&self) -> Result<u8, Stop> {
        self.bytes.get(self.at).copied().ok_or(Stop::End)
    }

    fn fault<T>(&self, rule: Rule) -> Result<T, Stop> {
        Err(Stop::Fault(Refusal::new(rule, self.at)))
    }

    fn method(&mut self) -> Result<(), Stop> {
        let start = self.at;
        while is_token(self.peek()?) {
            self.at += 1;
        }
        match self.peek()? {
            b' ' if self.at > start => {
                self.at += 1;
                Ok(())
            }
            // Empty lines before the request have been skipped: what is left is half of one.
            b'\r' if self.at == start => self.line_end(Rule::Method),
            _ => self.fault(Rule::Method),
        }
    }

    fn target(&mut self) -> Result<(), Stop> {
        let start = self.at;
        while is_target_byte(self.peek()?) {
            self.at += 1;
        }
        match self.peek()? {
            b' ' if self.at > start => {
                self.at += 1;
                Ok(())
            }
            b'\r' | b'\n' if self.at > start => self.fault(Rule::VersionSyntax),
            _ => self.fault(Rule::TargetByte),
        }
    }

    fn version(&mut self) -> Result<(), Stop> {
        let start = self.at;
        for pattern in b"HTTP/0.0" {
            let byte = self.peek()?;
            let fits = if *pattern == b'0' { byte.is_ascii_digit() } else { byte == *pattern };
            if !fits {
                return self.fault(Rule::VersionSyntax);
            }
            self.at += 1;
        }
        match &self.bytes[start + 5..self.at] {
            b"1.0" | b"1.1" => Ok(()),
            _ => Err(Stop::Fault(Refusal::new(Rule::VersionUnsupported, start))),
        }
    }

    /// The status and the reason phrase, which may be missing with the space before it.
    fn status(&mut self) -> Result<(), Stop> {
        if self.peek()? != b' ' {
            return self.fault(Rule::StatusCode);
        }
        self.at += 1;
        for first in [b'1', b'0', b'0'] {
            if !(first..=b'9').contains(&self.peek()?) {
                return self.fault(Rule::StatusCode);
            }
            self.at += 1;
        }
        match self.peek()? {
            b'\r' | b'\n' => return Ok(()),
            b' ' => {}
            _ => return self.fault(Rule::StatusCode),
        }
        while is_value_byte(self.peek()?) {
            self.at += 1;
        }
        Ok(())
    }

    /// CR LF; `otherwise` when neither of them stands here.
    fn line_end(&mut self, otherwise: Rule) -> Result<(), Stop> {
        match self.peek()? {
            b'\r' => self.at += 1,
            b'\n' => return self.fault(Rule::BareLf),
            _ => return self.fault(otherwise),
        }
        if self.peek()? != b'\n' {
            self.at -= 1;
            return self.fault(Rule::BareCr);
        }
        self.at += 1;
        Ok(())
    }

    /// One field line; false after the empty line that ends the head.
    fn field(&mut self, full: bool) -> Result<bool, Stop> {
        match self.peek()? {
            b'\r' | b'\n' => {
                self.line_end(Rule::BareCr)?;
                return Ok(false);
            }
            b' ' | b'\t' => return self.fault(Rule::FoldedLine),
            b':' => return self.fault(Rule::EmptyName),
            _ if full => return self.fault(Rule::TooManyFields),
            _ => {}
        }
        while is_token(self.peek()?) {
            self.at += 1;
        }
        match self.peek()? {
            b':' => self.at += 1,
            b' ' | b'\t' => return self.fault(Rule::SpaceBeforeColon),
            b'\r' | b'\n' => return self.fault(Rule::NoColon),
            _ => return self.fault(Rule::NameByte),
        }
        while is_value_byte(self.peek()?) {
            self.at += 1;
        }
        self.line_end(Rule::ValueByte)?;
        Ok(true)
    }
}

/// A byte of a method or of a field's name (RFC 9110, 5.6.2).
pub(super) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// A byte of a target, in any form: visible ASCII, and no fragment, which is never sent.
pub(super) fn is_target_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && byte != b'#'
}

/// A byte of a field's value: visible ASCII, space, tab, and what RFC 9110 calls obs-text.
fn is_value_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}
