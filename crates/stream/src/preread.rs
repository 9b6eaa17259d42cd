//! What a client says before it is known where to pass it on to: for whom a proxy connects, and the name that
//! a TLS client asks for.

use std::io;
use std::net::SocketAddr;

use drover_event::{Asked, Idle, Phase, Stream, StreamError};
use drover_upstream::proxy_protocol::{self, Addresses, Decoded};
use tracing::debug;

use crate::client_hello::{ClientHello, MESSAGE_MOST, Progress};
use crate::plan::Server;
use crate::reason::CloseReason;

/// The most bytes of a client that are held back: a ClientHello of the greatest length, spread over many
/// records, behind a header of the PROXY protocol.
const PREREAD_MOST: usize = 2 * MESSAGE_MOST + proxy_protocol::LONGEST;

/// The beginning of a client's stream.
pub(crate) struct Preread<'a> {
    client: &'a Stream,
    bytes: Vec<u8>,
}

/// The ends of the connection that a proxy made this one for.
pub(crate) struct Proxied {
    pub(crate) client: SocketAddr,
    pub(crate) destination: SocketAddr,
}

impl<'a> Preread<'a> {
    pub(crate) fn new(client: &'a Stream, server: &Server) -> Preread<'a> {
        client.set_phase(Phase::ReadingHead);
        client.set_read_timeout(server.preread_timeout);
        Preread { client, bytes: Vec::new() }
    }

    /// What was received, and is to be passed on.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Takes the header of the PROXY protocol off the beginning; nothing where it tells no addresses.
    pub(crate) async fn proxied(&mut self) -> Result<Option<Proxied>, CloseReason> {
        loop {
            match proxy_protocol::decode(&self.bytes) {
                Ok(Decoded::Partial) => self.receive().await?,
                Ok(Decoded::Complete { header, length }) => {
                    self.bytes.drain(..length);
                    return Ok(match header.addresses {
                        Addresses::Internet { source, destination } => {
                            Some(Proxied { client: source, destination })
                        }
                        Addresses::Unknown | Addresses::Unix(_) => None,
                    });
                }
                Err(fault) => {
                    debug!(connection = self.client.number(), "{fault}");
                    return Err(CloseReason::BadProxyProtocol);
                }
            }
        }
    }

    /// Receives until the name that the client asks for is known, or that it asks for none.
    pub(crate) async fn server_name(&mut self) -> Result<Option<Box<[u8]>>, CloseReason> {
        let mut hello = ClientHello::default();
        let mut seen = 0;
        loop {
            match hello.feed(&self.bytes[seen..]) {
                Ok(Progress::Partial) => {}
                Ok(Progress::NotTls | Progress::Whole(None)) => return Ok(None),
                Ok(Progress::Whole(Some(name))) => return Ok(Some(hello.message()[name].into())),
                Err(fault) => {
                    debug!(connection = self.client.number(), "no name: {fault}");
                    return Err(CloseReason::BadClientHello);
                }
            }
            seen = self.bytes.len();
            if seen > PREREAD_MOST {
                return Err(CloseReason::BadClientHello);
            }
            self.receive().await?;
        }
    }

    /// Receives once.
    async fn receive(&mut self) -> Result<(), CloseReason> {
        loop {
            self.client.idle(Idle::First).await.map_err(|error| why_not_told(&error))?;
            let mut buffer = self.client.core().take_buffer();
            match self.client.try_receive(&mut buffer) {
                Ok(0) => return Err(CloseReason::ClientGone),
                Ok(count) => {
                    self.bytes.extend_from_slice(&buffer[..count]);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Err(CloseReason::ClientGone),
            }
        }
    }
}

fn why_not_told(error: &StreamError) -> CloseReason {
    match error {
        StreamError::TimedOut => CloseReason::PrereadTimeout,
        StreamError::Asked(Asked::Reclaim) => CloseReason::Reclaimed,
        StreamError::Asked(Asked::Drain) => CloseReason::Drained,
        StreamError::Io(_) => CloseReason::ClientGone,
    }
}
