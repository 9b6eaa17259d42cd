//! Telling systemd what the master does (`sd_notify(3)`): a datagram to the socket in `NOTIFY_SOCKET`.
//!
//! Nothing happens, and nothing fails, where that variable is not set. The variable is read once and
//! workers never use it. Of two masters the one that systemd takes for the main process speaks: by default it
//! hears nobody else, and what the other has to say would be misleading.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use tracing::warn;

/// Where notifications go, if anywhere.
#[derive(Debug)]
pub(crate) struct Notifier {
    address: Option<SocketAddr>,
    /// Whether this is the main process of the service.
    main: bool,
}

impl Notifier {
    /// Looks into the environment; `main` is false for a master that takes over from another.
    pub(crate) fn from_environment(main: bool) -> Self {
        let address = std::env::var_os("NOTIFY_SOCKET").and_then(|place| {
            let address = match place.as_bytes().strip_prefix(b"@") {
                Some(name) => SocketAddr::from_abstract_name(name),
                None => SocketAddr::from_pathname(&place),
            };
            address.ok()
        });
        Self { address, main }
    }

    /// The main process of the service is another master from now on.
    pub(crate) fn hand_over_to(&mut self, master: Pid) {
        self.send(&format!("MAINPID={master}\n"));
        self.main = false;
    }

    /// This is the main process from now on, and serves.
    pub(crate) fn take_over(&mut self, status: &str) {
        if !std::mem::replace(&mut self.main, true) {
            self.ready(status);
        }
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
        let Some(address) = self.address.as_ref().filter(|_| self.main) else { return };
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
        let mut notifier = Notifier { address: Some(address), main: false };
        notifier.ready("not heard");
        notifier.take_over("generation 1");
        notifier.reloading();
        notifier.hand_over_to(Pid::from_raw(77));
        notifier.stopping();
        let mut buffer = [0; 256];
        let length = socket.recv(&mut buffer).expect("first");
        assert!(buffer[..length].starts_with(b"READY=1\nSTATUS=generation 1\nMAINPID="));
        let length = socket.recv(&mut buffer).expect("second");
        assert!(buffer[..length].starts_with(b"RELOADING=1\nMONOTONIC_USEC="));
        let length = socket.recv(&mut buffer).expect("third");
        assert_eq!(&buffer[..length], b"MAINPID=77\n");
        socket.set_nonblocking(true).expect("option");
        assert!(socket.recv(&mut buffer).is_err(), "then it says no more");
        Notifier { address: None, main: true }.stopping();
    }
}
