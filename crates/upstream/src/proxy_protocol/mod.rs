//! The PROXY protocol, versions 1 and 2: the addresses of a connection's first client, sent ahead of
//! everything else by a proxy on the way.
//!
//! As HAProxy's `doc/proxy-protocol.txt` says, and strictly: what it forbids is [`Malformed`], and so is
//! what is longer than [`LONGEST`]. Nothing here panics or allocates without bound, whatever the bytes.
//!
//! [`decode`] is given all bytes that were received so far and says how many of them are the header. A
//! sender sends it in one go, and a receiver must not take a connection without one for anything else:
//! whether a listener has the protocol is configured, never guessed.
//!
//! ```
//! use drover_upstream::proxy_protocol::{Addresses, Decoded, decode};
//!
//! let bytes = b"PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\nGET / HTTP/1.1\r\n";
//! let Ok(Decoded::Complete { header, length }) = decode(bytes) else { panic!() };
//! assert_eq!(&bytes[length..][..3], b"GET");
//! assert!(matches!(header.addresses, Addresses::Internet { source, .. } if source.port() == 56324));
//! assert_eq!(decode(b"PROXY TC"), Ok(Decoded::Partial));
//! ```

mod encoded;
#[cfg(test)]
mod tests;
mod v1;
mod v2;

use std::net::SocketAddr;

pub use encoded::Encoded;

/// The longest header that is accepted, in bytes. Addresses take 232; the rest are extensions.
pub const LONGEST: usize = 8192;

drover_config::choice! {
    /// Which version is sent.
    pub enum Version {
        /// A line of text.
        V1 = "v1",
        /// Binary, and more than addresses of TCP.
        V2 = "v2",
    }
}

/// What the addresses are of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Transport {
    /// A stream: TCP, or a unix socket of its kind.
    Stream,
    /// Datagrams: UDP, or a unix socket of its kind.
    Datagram,
}

/// The two ends of the connection that is forwarded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Addresses {
    /// They are not told; those of the connection itself count. So it is too for connections that the
    /// proxy makes on its own behalf (the command LOCAL), such as checks.
    Unknown,
    /// Internet addresses.
    Internet {
        /// The client's.
        source: SocketAddr,
        /// The one that the client connected to.
        destination: SocketAddr,
    },
    /// Names of unix sockets.
    Unix(Box<UnixAddresses>),
}

/// Names of unix sockets, filled up with zero bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnixAddresses {
    /// The client's.
    pub source: [u8; UNIX_NAME],
    /// The one that the client connected to.
    pub destination: [u8; UNIX_NAME],
}

/// Bytes of a unix socket's name, as in `sockaddr_un`.
pub const UNIX_NAME: usize = 108;

/// What a header says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// What the addresses are of.
    pub transport: Transport,
    /// The addresses.
    pub addresses: Addresses,
}

/// What was found in the bytes received so far.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decoded {
    /// The beginning of a header.
    Partial,
    /// A header.
    Complete {
        /// What it says.
        header: Header,
        /// How many bytes it takes; what follows is the client's.
        length: usize,
    },
}

/// Why bytes are no header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum Malformed {
    /// They begin as neither version does.
    #[error("no PROXY protocol header")]
    Signature,
    /// A line of version 1 that breaks its form.
    #[error("a PROXY protocol line with a wrong {0}")]
    Line(&'static str),
    /// A header of version 2 that breaks its form.
    #[error("a binary PROXY protocol header with a wrong {0}")]
    Binary(&'static str),
    /// A line of more than 107 bytes, or a binary header of more than [`LONGEST`].
    #[error("a PROXY protocol header that is too long")]
    TooLong,
}

/// Reads a header at the beginning of `bytes`, which are all that was received so far.
///
/// The answer does not depend on how the bytes were split: more bytes after a complete header change
/// nothing, and what is malformed is never complete however few bytes are there.
///
/// # Errors
/// What is wrong. The connection is to be closed: nobody knows whose it is.
pub fn decode(bytes: &[u8]) -> Result<Decoded, Malformed> {
    match bytes.first() {
        None => Ok(Decoded::Partial),
        Some(b'P') => v1::decode(bytes),
        Some(b'\r') => v2::decode(bytes),
        Some(_) => Err(Malformed::Signature),
    }
}

/// The header for a connection. Version 1 tells the addresses of TCP connections only; others are unknown
/// there.
pub fn encode(version: Version, header: &Header) -> Encoded {
    match version {
        Version::V1 => v1::encode(header),
        Version::V2 => v2::encode(header),
    }
}

impl Header {
    /// The header for a stream from `source` to `destination`; unknown where one of them is, or the two
    /// are of different families.
    pub fn for_stream(source: Option<SocketAddr>, destination: Option<SocketAddr>) -> Header {
        Header { transport: Transport::Stream, addresses: Addresses::between(source, destination) }
    }

    /// The same for datagrams.
    pub fn for_datagrams(source: Option<SocketAddr>, destination: Option<SocketAddr>) -> Header {
        Header { transport: Transport::Datagram, addresses: Addresses::between(source, destination) }
    }
}

impl Addresses {
    fn between(source: Option<SocketAddr>, destination: Option<SocketAddr>) -> Addresses {
        match (source, destination) {
            (Some(source), Some(destination)) if source.is_ipv4() == destination.is_ipv4() => {
                Addresses::Internet { source, destination }
            }
            _ => Addresses::Unknown,
        }
    }
}

/// How much of `expected` the bytes have; `None` if they differ.
fn prefix(bytes: &[u8], expected: &[u8]) -> Option<bool> {
    let common = bytes.len().min(expected.len());
    (bytes[..common] == expected[..common]).then_some(common == expected.len())
}
