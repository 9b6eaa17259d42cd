//! A socket to which datagrams are sent and nobody waits: those of log lines, each one line.
//!
//! What the other side does not take at once is lost. One that is gone is tried again after a second.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use drover_config::ListenAddress;
use nix::errno::Errno;

/// How long somebody who is gone is left alone.
const RETRY_AFTER: Duration = Duration::from_secs(1);

#[derive(Debug)]
enum Socket {
    Unix(UnixDatagram),
    Udp(UdpSocket),
}

/// The way to whoever takes log lines.
#[derive(Debug)]
pub struct Outlet {
    to: ListenAddress,
    socket: Option<Socket>,
    /// When it may be tried again.
    pub(crate) retry: Option<Instant>,
}

impl Outlet {
    /// Connected with the first datagram.
    pub fn new(to: ListenAddress) -> Outlet {
        Outlet { to, socket: None, retry: None }
    }

    /// Where it leads to.
    pub fn to(&self) -> &ListenAddress {
        &self.to
    }

    /// The connected socket, while somebody is there.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        Some(match self.socket.as_ref()? {
            Socket::Unix(socket) => socket.as_fd(),
            Socket::Udp(socket) => socket.as_fd(),
        })
    }

    /// Sends one datagram.
    ///
    /// # Errors
    /// `WouldBlock` where it is not taken at once, `NotConnected` while nobody was there a moment ago, `EMSGSIZE` where
    /// it is too long, or what else the system reports; the datagram is lost then.
    pub fn send(&mut self, datagram: &[u8]) -> io::Result<()> {
        if self.socket.is_none() {
            self.socket = Some(self.connect()?);
        }
        let sent = match &self.socket {
            Some(Socket::Unix(socket)) => socket.send(datagram),
            Some(Socket::Udp(socket)) => socket.send(datagram),
            None => return Err(io::ErrorKind::NotConnected.into()),
        };
        match sent {
            Ok(_) => Ok(()),
            Err(fault) => {
                // The way itself is open where only this datagram did not go through.
                let of_this = fault.kind() == io::ErrorKind::WouldBlock || is_too_long(&fault);
                if !of_this {
                    (self.socket, self.retry) = (None, Some(Instant::now() + RETRY_AFTER));
                }
                Err(fault)
            }
        }
    }

    fn connect(&mut self) -> io::Result<Socket> {
        if self.retry.is_some_and(|retry| Instant::now() < retry) {
            return Err(io::ErrorKind::NotConnected.into());
        }
        self.retry = Some(Instant::now() + RETRY_AFTER);
        match &self.to {
            ListenAddress::Unix(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.set_nonblocking(true)?;
                socket.connect(path)?;
                Ok(Socket::Unix(socket))
            }
            ListenAddress::Tcp(address) => {
                let own: SocketAddr = match address {
                    SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                    SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
                };
                let socket = UdpSocket::bind(own)?;
                socket.set_nonblocking(true)?;
                socket.connect(address)?;
                Ok(Socket::Udp(socket))
            }
            // A socket that systemd passes is one to listen on, never one to send to.
            ListenAddress::Systemd(_) => Err(io::ErrorKind::AddrNotAvailable.into()),
        }
    }
}

/// Whether the datagram was longer than the socket takes.
pub fn is_too_long(fault: &io::Error) -> bool {
    fault.raw_os_error() == Some(Errno::EMSGSIZE as i32)
}
