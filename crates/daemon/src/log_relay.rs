//! Where lines of the log go that no file takes: a syslog daemon, or systemd's journal.
//!
//! The journal is spoken to by its own protocol, one datagram a line: `FIELD=value` in each row
//! ([systemd's documentation](https://systemd.io/JOURNAL_NATIVE_PROTOCOL/)). No value has a line feed in it, as control
//! characters are escaped. What is too long for a datagram goes as the descriptor of a file in memory.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use drover_config::ListenAddress;
use drover_service::Outlet;
use drover_service::outlet::is_too_long;
use drover_service::syslog::{Sender, Severity, Syslog};
use drover_sys::{descriptors, memory};
use tracing::Level;

/// Somebody who takes lines.
#[derive(Debug)]
pub(crate) enum Relay {
    /// A syslog daemon.
    Syslog(Box<Sender>),
    /// The journal.
    Journal(Outlet),
}

impl Relay {
    /// To a syslog daemon.
    pub(crate) fn syslog(config: &Syslog) -> Self {
        Self::Syslog(Box::new(Sender::new(config)))
    }

    /// To the journal that has this socket.
    pub(crate) fn journal(socket: &Path) -> Self {
        Self::Journal(Outlet::new(ListenAddress::Unix(socket.to_owned())))
    }

    /// Sends a line.
    ///
    /// # Errors
    /// When it is not taken at once; it is lost then.
    pub(crate) fn send(&mut self, level: Level, line: &[u8]) -> io::Result<()> {
        match self {
            Self::Syslog(sender) => sender.send(severity(level), line.strip_suffix(b"\n").unwrap_or(line)),
            Self::Journal(outlet) => match outlet.send(line) {
                Err(fault) if is_too_long(&fault) => send_as_file(outlet, line),
                result => result,
            },
        }
    }
}

/// The journal takes an entry only from files that nobody can change any more, alone in an empty datagram.
fn send_as_file(outlet: &Outlet, entry: &[u8]) -> io::Result<()> {
    let socket = outlet.socket().ok_or(io::ErrorKind::NotConnected)?;
    let file = memory::sealed_file(c"journal-entry", entry)?;
    descriptors::send(socket, &[], &[file.as_fd()])
}

/// What syslog calls a level.
fn severity(level: Level) -> Severity {
    match level {
        Level::ERROR => Severity::Error,
        Level::WARN => Severity::Warning,
        Level::INFO => Severity::Info,
        _ => Severity::Debug,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::fcntl::{FcntlArg, SealFlag, fcntl};
    use std::io::{Read, Seek};
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn an_entry_longer_than_a_datagram_comes_as_a_sealed_file() {
        let path = std::env::temp_dir().join(format!("drover-journal-{}", std::process::id()));
        let journal = UnixDatagram::bind(&path).expect("a socket");
        let mut relay = Relay::journal(&path);
        let long = format!("MESSAGE={}\n", "x".repeat(1 << 20));
        for entry in ["MESSAGE=before\n", &long, "MESSAGE=after\n"] {
            relay.send(Level::INFO, entry.as_bytes()).expect("the journal takes it");
        }
        let mut buffer = [0; 64];
        let mut receive = || {
            let (length, files) = descriptors::receive(journal.as_fd(), &mut buffer).expect("a datagram");
            (buffer[..length].to_vec(), files)
        };
        assert_eq!(receive().0, b"MESSAGE=before\n");
        let (bytes, mut files) = receive();
        assert_eq!((bytes.len(), files.len()), (0, 1));
        let file = files.remove(0);
        let seals = SealFlag::from_bits_truncate(fcntl(&file, FcntlArg::F_GET_SEALS).expect("seals"));
        // What journald asks for.
        assert_eq!(
            seals,
            SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_SEAL
        );
        let (mut file, mut text) = (std::fs::File::from(file), String::new());
        file.rewind().expect("a file");
        file.read_to_string(&mut text).expect("text");
        assert_eq!(text, long);
        assert_eq!(receive().0, b"MESSAGE=after\n");
        std::fs::remove_file(path).expect("the socket is there");
    }
}
