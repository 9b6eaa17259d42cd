//! Telling systemd what the master does (`sd_notify(3)`): a datagram to the socket in `NOTIFY_SOCKET`.
//!
//! Nothing happens, and nothing fails, where that variable is not set. The variable is read once and
//! children never use it.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use nix::time::{ClockId, clock_gettime};
use tracing::warn;

/// Where notifications go, if anywhere.
#[derive(Debug)]
pub(crate) struct Notifier(Option<SocketAddr>);

impl Notifier {
    /// Looks into the environment.
    pub(crate) fn from_environment() -> Self {
        let Some(place) = std::env::var_os("NOTIFY_SOCKET") else { return Self(None) };
        let bytes = place.as_bytes();
        let address = match bytes.strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name),
            None => SocketAddr::from_pathname(&place),
        };
        Self(address.ok())
    }

    /// Everything serves; `status` is one line for `systemctl status`.
    pub(crate) fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}\nMAINPID={}\n", std::process::id()));
    }

    /// A reload begins; [`Notifier::ready`] ends it, however it went.
    pub(crate) fn reloading(&self) {
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC)
            .map_or(0, |now| now.tv_sec() * 1_000_000 + now.tv_nsec() / 1000);
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={now}\n"));
    }

    /// The master stops.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1\n");
    }

    fn send(&self, message: &str) {
        let Some(address) = &self.0 else { return };
        let sent =
            UnixDatagram::unbound().and_then(|socket| socket.send_to_addr(message.as_bytes(), address));
        if let Err(error) = sent {
            warn!("cannot notify systemd: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_arrives_as_one_datagram() {
        let name = format!("drover-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("address");
        let socket = UnixDatagram::bind_addr(&address).expect("bound");
        let notifier = Notifier(Some(address));
        notifier.ready("generation 1");
        notifier.reloading();
        let mut buffer = [0; 256];
        let length = socket.recv(&mut buffer).expect("first");
        assert!(buffer[..length].starts_with(b"READY=1\nSTATUS=generation 1\nMAINPID="));
        let length = socket.recv(&mut buffer).expect("second");
        assert!(buffer[..length].starts_with(b"RELOADING=1\nMONOTONIC_USEC="));
        Notifier(None).stopping();
    }
}
