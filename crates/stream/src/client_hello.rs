//! The first message of a TLS client, read as far as the name of the server it asks for.
//!
//! Nothing is decrypted: the name stands in the clear in the extension `server_name` of the ClientHello
//! (RFC 8446, 4.1.2; RFC 6066, 3). The message may be spread over several records, and records over
//! several receives; each byte is looked at once, whatever the pieces.
//!
//! The parser is strict. Lengths that do not add up, records that the RFC forbids, a second name, a name that
//! is no host name: each is a [`Fault`], as a TLS server would abort the handshake with `decode_error` or
//! `illegal_parameter`. What begins with something else than a handshake record is not TLS at all, which is
//! no fault: other protocols may share a port.

use std::ops::Range;

/// Where a ClientHello is gathered until it is whole.
#[derive(Debug, Default)]
pub(crate) struct ClientHello {
    header: [u8; RECORD_HEADER],
    /// Bytes of the present record's header that are there.
    header_filled: usize,
    /// Bytes of the present record that are not there yet.
    record_left: usize,
    /// The handshake message so far, without record headers.
    message: Vec<u8>,
}

/// What is known after some bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// The message is not whole yet.
    Partial,
    /// It is whole; this part of [`ClientHello::message`] is the name, if there is one.
    Whole(Option<Range<usize>>),
    /// The client does not speak TLS.
    NotTls,
}

/// Why a ClientHello is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("a record that is no handshake, or of a version that does not exist")]
    Record,
    #[error("a record without content, or with more than 16 KiB")]
    RecordLength,
    #[error("a handshake that does not begin with a ClientHello")]
    Type,
    #[error("a ClientHello of more than {MESSAGE_MOST} bytes")]
    TooLong,
    #[error("a ClientHello whose lengths do not add up")]
    Lengths,
    #[error("an extension server_name that is given twice, or has no or several names")]
    Names,
    #[error("a server name that is no host name")]
    Name,
}

const RECORD_HEADER: usize = 5;
/// RFC 8446, 5.1: the content type of handshake records.
const HANDSHAKE: u8 = 22;
/// RFC 8446, 5.1: the most that a record holds before encryption.
const RECORD_MOST: usize = 1 << 14;
/// RFC 8446, 4: type and length.
const MESSAGE_HEADER: usize = 4;
const CLIENT_HELLO: u8 = 1;
/// The longest message that is gathered. Browsers with post-quantum keys send about 2 KiB.
pub(crate) const MESSAGE_MOST: usize = 16 * 1024;
/// RFC 6066, 3.
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;
/// RFC 1035, 2.3.4: the longest name, as text without the dot at its end.
const NAME_MOST: usize = 253;

impl ClientHello {
    /// Takes the next bytes that the client sent. Once it said anything but [`Progress::Partial`], it has
    /// seen what it needs.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) -> Result<Progress, Fault> {
        while !bytes.is_empty() {
            if self.record_left == 0 {
                let taken = bytes.len().min(RECORD_HEADER - self.header_filled);
                let (header, rest) = bytes.split_at(taken);
                self.header[self.header_filled..][..taken].copy_from_slice(header);
                self.header_filled += taken;
                bytes = rest;
                if self.message.is_empty() && self.header[0] != HANDSHAKE {
                    return Ok(Progress::NotTls);
                }
                self.begin_record()?;
                continue;
            }
            let (content, rest) = bytes.split_at(bytes.len().min(self.record_left));
            self.record_left -= content.len();
            bytes = rest;
            self.message.extend_from_slice(content);
            if let Some(end) = self.end()?
                && self.message.len() >= end
            {
                return server_name(&self.message[MESSAGE_HEADER..end]).map(|name| {
                    Progress::Whole(name.map(|name| name.start + MESSAGE_HEADER..name.end + MESSAGE_HEADER))
                });
            }
        }
        Ok(Progress::Partial)
    }

    /// The message so far, without record headers.
    pub(crate) fn message(&self) -> &[u8] {
        &self.message
    }

    /// Checks what is there of a record's header, as early as possible.
    fn begin_record(&mut self) -> Result<(), Fault> {
        let header = &self.header[..self.header_filled];
        // The version of a record is historical: 3 and a minor number (RFC 8446, 5.1).
        if header[0] != HANDSHAKE || header.get(1).is_some_and(|major| *major != 3) {
            return Err(Fault::Record);
        }
        if self.header_filled == RECORD_HEADER {
            let length = usize::from(u16::from_be_bytes([self.header[3], self.header[4]]));
            if length == 0 || length > RECORD_MOST {
                return Err(Fault::RecordLength);
            }
            self.record_left = length;
            self.header_filled = 0;
        }
        Ok(())
    }

    /// Where the message ends, once its header is there.
    fn end(&self) -> Result<Option<usize>, Fault> {
        match self.message.as_slice() {
            [kind, ..] if *kind != CLIENT_HELLO => Err(Fault::Type),
            [_, high, middle, low, ..] => {
                let length = u32::from_be_bytes([0, *high, *middle, *low]) as usize;
                if length > MESSAGE_MOST { Err(Fault::TooLong) } else { Ok(Some(MESSAGE_HEADER + length)) }
            }
            _ => Ok(None),
        }
    }
}

/// Finds the name in the body of a whole ClientHello.
fn server_name(body: &[u8]) -> Result<Option<Range<usize>>, Fault> {
    let mut body = Reader { bytes: body, at: 0 };
    body.take(2 + 32)?; // legacy_version and random
    if body.vector8()?.len() > 32 {
        return Err(Fault::Lengths); // legacy_session_id
    }
    let cipher_suites = body.vector16()?;
    if cipher_suites.is_empty() || cipher_suites.len() % 2 != 0 || body.vector8()?.is_empty() {
        return Err(Fault::Lengths);
    }
    // Clients older than extensions end here (RFC 5246, 7.4.1.2).
    if body.is_empty() {
        return Ok(None);
    }
    let mut extensions = body.vector16()?;
    if !body.is_empty() {
        return Err(Fault::Lengths);
    }
    let mut name = None;
    while !extensions.is_empty() {
        let kind = extensions.number16()?;
        let content = extensions.vector16()?;
        if kind == SERVER_NAME {
            if name.is_some() {
                return Err(Fault::Names);
            }
            name = Some(host_name(content)?);
        }
    }
    Ok(name)
}

/// The one host name of a `ServerNameList`. There is no other type of name (RFC 6066, 3).
fn host_name(mut content: Reader<'_>) -> Result<Range<usize>, Fault> {
    let mut list = content.vector16()?;
    if list.is_empty() || !content.is_empty() {
        return Err(Fault::Names);
    }
    let kind = list.take(1)?[0];
    let name = list.vector16()?;
    if kind != HOST_NAME || !list.is_empty() {
        return Err(Fault::Names);
    }
    if is_host_name(name.bytes_left()) { Ok(name.at..name.bytes.len()) } else { Err(Fault::Name) }
}

/// Letters, digits, hyphens and underscores between single dots; no dot at the end (RFC 6066, 3).
fn is_host_name(name: &[u8]) -> bool {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_label = |label: &[u8]| (1..=63).contains(&label.len()) && label.iter().all(allowed);
    name.len() <= NAME_MOST && name.split(|byte| *byte == b'.').all(is_label)
}

/// Reads forward; what it gives out knows its place in the whole.
#[derive(Clone, Copy)]
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    fn len(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn bytes_left(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let taken = self.bytes_left().get(..count).ok_or(Fault::Lengths)?;
        self.at += count;
        Ok(taken)
    }

    fn number16(&mut self) -> Result<u16, Fault> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// A part whose length stands before it in one byte.
    fn vector8(&mut self) -> Result<Reader<'a>, Fault> {
        let length = self.take(1)?[0];
        self.part(usize::from(length))
    }

    /// A part whose length stands before it in two bytes.
    fn vector16(&mut self) -> Result<Reader<'a>, Fault> {
        let length = self.number16()?;
        self.part(usize::from(length))
    }

    fn part(&mut self, length: usize) -> Result<Reader<'a>, Fault> {
        let at = self.at;
        self.take(length)?;
        Ok(Reader { bytes: &self.bytes[..at + length], at })
    }
}

#[cfg(test)]
#[path = "client_hello_tests.rs"]
mod tests;
