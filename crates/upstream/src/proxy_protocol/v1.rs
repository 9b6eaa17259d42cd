//! Version 1: a line of text.
//!
//! ```text
//! PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n
//! PROXY TCP6 2001:db8::1 2001:db8::2 56324 443\r\n
//! PROXY UNKNOWN whatever\r\n
//! ```

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use super::{Addresses, Decoded, Encoded, Header, Malformed, Transport, prefix};

/// The longest line, its end included: "so a 108-byte buffer is always enough", for its end and a zero.
pub(super) const LONGEST_LINE: usize = 107;

const BEGINNING: &[u8] = b"PROXY ";

pub(super) fn decode(bytes: &[u8]) -> Result<Decoded, Malformed> {
    match prefix(bytes, BEGINNING) {
        None => return Err(Malformed::Signature),
        Some(false) => return Ok(Decoded::Partial),
        Some(true) => {}
    }
    let line = &bytes[..bytes.len().min(LONGEST_LINE)];
    let Some(end) = line.iter().position(|byte| matches!(byte, b'\r' | b'\n')) else {
        return if bytes.len() < LONGEST_LINE { Ok(Decoded::Partial) } else { Err(Malformed::TooLong) };
    };
    match (line[end], line.get(end + 1)) {
        (b'\r', Some(b'\n')) => {}
        (b'\r', None) if end + 1 < LONGEST_LINE => return Ok(Decoded::Partial),
        (b'\r', None) => return Err(Malformed::TooLong),
        _ => return Err(Malformed::Line("end")),
    }
    let addresses = addresses(&line[BEGINNING.len()..end])?;
    let header = Header { transport: Transport::Stream, addresses };
    Ok(Decoded::Complete { header, length: end + 2 })
}

/// Reads what is between `PROXY ` and the end of the line.
fn addresses(rest: &[u8]) -> Result<Addresses, Malformed> {
    if rest == b"UNKNOWN" || rest.starts_with(b"UNKNOWN ") {
        return Ok(Addresses::Unknown);
    }
    let text = std::str::from_utf8(rest).map_err(|_| Malformed::Line("byte"))?;
    let mut words = text.split(' ');
    let mut word = || words.next().ok_or(Malformed::Line("number of words"));
    let family = word()?;
    let (source, destination) = match family {
        "TCP4" => (ip::<Ipv4Addr>(word()?)?, ip::<Ipv4Addr>(word()?)?),
        "TCP6" => (ip::<Ipv6Addr>(word()?)?, ip::<Ipv6Addr>(word()?)?),
        _ => return Err(Malformed::Line("family")),
    };
    let (source_port, destination_port) = (port(word()?)?, port(word()?)?);
    if words.next().is_some() {
        return Err(Malformed::Line("number of words"));
    }
    Ok(Addresses::Internet {
        source: SocketAddr::new(source, source_port),
        destination: SocketAddr::new(destination, destination_port),
    })
}

fn ip<T: FromStr + Into<IpAddr>>(text: &str) -> Result<IpAddr, Malformed> {
    text.parse::<T>().map(Into::into).map_err(|_| Malformed::Line("address"))
}

/// A decimal number without sign or leading zeros, which some would read as octal.
fn port(text: &str) -> Result<u16, Malformed> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| plain).ok_or(Malformed::Line("port"))
}

pub(super) fn encode(header: &Header) -> Encoded {
    let mut encoded = Encoded::new();
    // Writing into a buffer of its own cannot fail.
    let _ = match (header.transport, &header.addresses) {
        (Transport::Stream, Addresses::Internet { source, destination })
            if source.is_ipv4() == destination.is_ipv4() =>
        {
            let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
            let (from, to) = (source.ip(), destination.ip());
            write!(encoded, "PROXY {family} {from} {to} {} {}\r\n", source.port(), destination.port())
        }
        _ => encoded.write_str("PROXY UNKNOWN\r\n"),
    };
    encoded
}
