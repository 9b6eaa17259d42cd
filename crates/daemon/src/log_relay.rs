//! Where lines of the log go that no file takes: a syslog daemon, or systemd's journal.
//!
//! The journal is spoken to by its own protocol, one datagram a line: `FIELD=value` in each row
//! ([systemd's documentation](https://systemd.io/JOURNAL_NATIVE_PROTOCOL/)). No value has a line feed in it, as control
//! characters are escaped.

use std::io;
use std::path::Path;

use drover_config::ListenAddress;
use drover_service::Outlet;
use drover_service::syslog::{Sender, Severity, Syslog};
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
            Self::Journal(outlet) => outlet.send(line),
        }
    }
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
