//! Version 2: binary.
//!
//! ```text
//! signature   12 bytes, \r\n\r\n\0\r\nQUIT\n
//! command      1 byte: version 2 above, below LOCAL (0) or PROXY (1)
//! family       1 byte: above 0 none, 1 IPv4, 2 IPv6, 3 unix; below 0 none, 1 stream, 2 datagrams
//! length       2 bytes, big endian: of what follows
//! addresses    source, destination, source port, destination port
//! extensions   type, length, value; not looked at here
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{
    Addresses, Decoded, Encoded, Header, LONGEST, Malformed, Transport, UNIX_NAME, UnixAddresses, prefix,
};

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
const FIXED: usize = 16;
const VERSION: u8 = 2;
const LOCAL: u8 = 0;
const PROXY: u8 = 1;

/// The longest header that is sent: two names of unix sockets.
pub(super) const LONGEST_SENT: usize = FIXED + 2 * UNIX_NAME;

pub(super) fn decode(bytes: &[u8]) -> Result<Decoded, Malformed> {
    match prefix(bytes, SIGNATURE) {
        None => return Err(Malformed::Signature),
        Some(false) => return Ok(Decoded::Partial),
        Some(true) => {}
    }
    let rest = &bytes[SIGNATURE.len()..];
    let Some(&command) = rest.first() else { return Ok(Decoded::Partial) };
    if command >> 4 != VERSION {
        return Err(Malformed::Binary("version"));
    }
    let local = match command & 0xf {
        LOCAL => true,
        PROXY => false,
        _ => return Err(Malformed::Binary("command")),
    };
    let Some(&family) = rest.get(1) else { return Ok(Decoded::Partial) };
    // The family of a LOCAL header means nothing, and neither does what follows.
    let needed = if local { 0 } else { addresses_length(family)? };
    let Some(&[high, low]) = rest.get(2..).and_then(<[u8]>::first_chunk) else {
        return Ok(Decoded::Partial);
    };
    let length = FIXED + usize::from(u16::from_be_bytes([high, low]));
    if length > LONGEST {
        return Err(Malformed::TooLong);
    }
    if length < FIXED + needed {
        return Err(Malformed::Binary("length"));
    }
    let Some(block) = bytes.get(FIXED..length) else { return Ok(Decoded::Partial) };
    let transport = if family & 0xf == 2 { Transport::Datagram } else { Transport::Stream };
    let addresses = if local { Addresses::Unknown } else { addresses(family, block) };
    Ok(Decoded::Complete { header: Header { transport, addresses }, length })
}

/// Bytes that the addresses of a family take.
fn addresses_length(family: u8) -> Result<usize, Malformed> {
    match (family >> 4, family & 0xf) {
        // Of an unspecified family or transport no address is told.
        (0, 0..=2) | (1..=3, 0) => Ok(0),
        (1, 1 | 2) => Ok(2 * (4 + 2)),
        (2, 1 | 2) => Ok(2 * (16 + 2)),
        (3, 1 | 2) => Ok(2 * UNIX_NAME),
        _ => Err(Malformed::Binary("family")),
    }
}

fn addresses(family: u8, block: &[u8]) -> Addresses {
    let parsed = match (family >> 4, family & 0xf) {
        (1, 1 | 2) => internet::<4>(block, |octets| Ipv4Addr::from(octets).into()),
        (2, 1 | 2) => internet::<16>(block, |octets| Ipv6Addr::from(octets).into()),
        (3, 1 | 2) => unix(block),
        _ => None,
    };
    parsed.unwrap_or(Addresses::Unknown)
}

fn internet<const N: usize>(block: &[u8], ip: impl Fn([u8; N]) -> IpAddr) -> Option<Addresses> {
    let (source, block) = block.split_first_chunk::<N>()?;
    let (destination, block) = block.split_first_chunk::<N>()?;
    let (source_port, block) = block.split_first_chunk::<2>()?;
    let destination_port = block.first_chunk::<2>()?;
    let address = |octets: &[u8; N], port: &[u8; 2]| SocketAddr::new(ip(*octets), u16::from_be_bytes(*port));
    Some(Addresses::Internet {
        source: address(source, source_port),
        destination: address(destination, destination_port),
    })
}

fn unix(block: &[u8]) -> Option<Addresses> {
    let (source, block) = block.split_first_chunk()?;
    let destination = block.first_chunk()?;
    Some(Addresses::Unix(Box::new(UnixAddresses { source: *source, destination: *destination })))
}

pub(super) fn encode(header: &Header) -> Encoded {
    let mut encoded = Encoded::new();
    let transport = match header.transport {
        Transport::Stream => 1,
        Transport::Datagram => 2,
    };
    let mut begin = |command: u8, family: u8, length: usize| {
        encoded.push(SIGNATURE);
        encoded.push(&[VERSION << 4 | command, family]);
        encoded.push(&(length as u16).to_be_bytes());
    };
    match &header.addresses {
        Addresses::Internet { source: SocketAddr::V4(source), destination: SocketAddr::V4(destination) } => {
            begin(PROXY, 1 << 4 | transport, 12);
            encoded.push(&source.ip().octets());
            encoded.push(&destination.ip().octets());
            encoded.push(&source.port().to_be_bytes());
            encoded.push(&destination.port().to_be_bytes());
        }
        Addresses::Internet { source: SocketAddr::V6(source), destination: SocketAddr::V6(destination) } => {
            begin(PROXY, 2 << 4 | transport, 36);
            encoded.push(&source.ip().octets());
            encoded.push(&destination.ip().octets());
            encoded.push(&source.port().to_be_bytes());
            encoded.push(&destination.port().to_be_bytes());
        }
        Addresses::Unix(names) => {
            begin(PROXY, 3 << 4 | transport, 2 * UNIX_NAME);
            encoded.push(&names.source);
            encoded.push(&names.destination);
        }
        // A client whose address is not known is still one: not LOCAL, which stands for the proxy itself.
        Addresses::Unknown | Addresses::Internet { .. } => begin(PROXY, 0, 0),
    }
    encoded
}
