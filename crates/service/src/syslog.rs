//! Lines sent to a syslog daemon, one datagram each, in the form that all of them read
//! ([RFC 3164, 4.1](https://www.rfc-editor.org/rfc/rfc3164#section-4.1)).
//!
//! Nobody waits for the daemon: what it does not take at once is lost, and counted by the log.

use std::io::{self, Write};

use drover_config::ListenAddress;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::outlet::Outlet;

drover_config::choice! {
    /// What kind of program a line is of.
    pub enum Facility {
        /// Daemons without a facility of their own.
        Daemon = "daemon",
        /// The user's programs.
        User = "user",
        /// Free for local use.
        Local0 = "local0",
        /// Free for local use.
        Local1 = "local1",
        /// Free for local use.
        Local2 = "local2",
        /// Free for local use.
        Local3 = "local3",
        /// Free for local use.
        Local4 = "local4",
        /// Free for local use.
        Local5 = "local5",
        /// Free for local use.
        Local6 = "local6",
        /// Free for local use.
        Local7 = "local7",
    }
}

drover_config::choice! {
    /// How severe a line is.
    pub enum Severity {
        /// For those who look for faults.
        Debug = "debug",
        /// What happens.
        Info = "info",
        /// What happens, and is worth a look.
        Notice = "notice",
        /// Something is not as it should be.
        Warning = "warning",
        /// Something failed.
        Error = "error",
    }
}

drover_config::table! {
    /// A syslog daemon.
    #[table(inline)]
    pub struct Syslog {
        /// Where it listens: "unix:/dev/log", or address and port of UDP.
        pub to: ListenAddress,
        /// What kind of program the lines are of.
        pub facility: Facility = Facility::Local7,
        /// How severe the lines are.
        pub severity: Severity = Severity::Info,
        /// The name that stands before each line.
        pub tag: String = "drover".to_owned(),
    }
}

impl Syslog {
    /// RFC 3164, 4.1.1: eight times the facility, and the severity.
    fn priority(&self, severity: Severity) -> u8 {
        let facility = match self.facility {
            Facility::User => 1,
            Facility::Daemon => 3,
            Facility::Local0 => 16,
            Facility::Local1 => 17,
            Facility::Local2 => 18,
            Facility::Local3 => 19,
            Facility::Local4 => 20,
            Facility::Local5 => 21,
            Facility::Local6 => 22,
            Facility::Local7 => 23,
        };
        let severity = match severity {
            Severity::Error => 3,
            Severity::Warning => 4,
            Severity::Notice => 5,
            Severity::Info => 6,
            Severity::Debug => 7,
        };
        facility * 8 + severity
    }
}

/// Sends lines to a syslog daemon.
#[derive(Debug)]
pub struct Sender {
    config: Syslog,
    outlet: Outlet,
    zone: TimeZone,
    /// What stands before lines in this second, after their priority.
    header: Vec<u8>,
    second: i64,
    datagram: Vec<u8>,
}

impl Sender {
    /// Connected with the first line.
    pub fn new(config: &Syslog) -> Sender {
        Sender {
            config: config.clone(),
            outlet: Outlet::new(config.to.clone()),
            zone: TimeZone::system(),
            header: Vec::new(),
            second: i64::MIN,
            datagram: Vec::new(),
        }
    }

    /// Sends whole lines; where that fails, tells how many are lost.
    pub(crate) fn send_lines(&mut self, text: &[u8]) -> Result<(), (io::Error, u64)> {
        let mut fault = None;
        let mut lost = 0;
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            if let Err(error) = self.send(self.config.severity, line) {
                (fault, lost) = (Some(error), lost + 1);
            }
        }
        fault.map_or(Ok(()), |fault| Err((fault, lost)))
    }

    /// Sends a line without its line feed, however severe lines are as a rule.
    ///
    /// # Errors
    /// As [`Outlet::send`].
    pub fn send(&mut self, severity: Severity, line: &[u8]) -> io::Result<()> {
        self.update_header();
        self.datagram.clear();
        // Writing to a `Vec` cannot fail.
        let _ = write!(self.datagram, "<{}>", self.config.priority(severity));
        self.datagram.extend_from_slice(&self.header);
        self.datagram.extend_from_slice(line);
        self.outlet.send(&self.datagram)
    }

    /// `Feb  3 04:05:06 host drover[42]: `. A daemon on this machine knows the host's name.
    fn update_header(&mut self) {
        let now = Timestamp::now();
        if now.as_second() == self.second {
            return;
        }
        self.second = now.as_second();
        self.header.clear();
        let time = now.to_zoned_datetime(self.zone.clone()).strftime("%b %e %H:%M:%S").to_string();
        let host = match &self.config.to {
            ListenAddress::Unix(_) | ListenAddress::Systemd(_) => String::new(),
            ListenAddress::Tcp(_) => {
                let name = nix::unistd::gethostname().unwrap_or_default();
                format!("{} ", name.to_string_lossy())
            }
        };
        let (tag, pid) = (&self.config.tag, std::process::id());
        let _ = write!(self.header, "{time} {host}{tag}[{pid}]: ");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::unix::net::UnixDatagram;
    use std::time::Duration;

    fn config(to: ListenAddress) -> Syslog {
        Syslog { to, facility: Facility::Local7, severity: Severity::Info, tag: "web".to_owned() }
    }

    fn received(mut receive: impl FnMut(&mut [u8]) -> io::Result<usize>) -> String {
        let mut buffer = [0; 1000];
        let length = receive(&mut buffer).expect("a datagram");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    #[test]
    fn each_line_is_a_datagram() {
        let daemon = UdpSocket::bind("127.0.0.1:0").expect("a port");
        daemon.set_read_timeout(Some(Duration::from_secs(10))).expect("a time-out");
        let address = daemon.local_addr().expect("an address");
        let mut sender = Sender::new(&config(ListenAddress::Tcp(address)));
        sender.send_lines(b"one\ntwo\n").expect("somebody listens");
        let first = received(|buffer| daemon.recv(buffer));
        assert!(
            first.starts_with("<190>") && first.ends_with(&format!(" web[{}]: one", std::process::id())),
            "{first}"
        );
        assert!(received(|buffer| daemon.recv(buffer)).ends_with(": two"));
    }

    #[test]
    fn a_daemon_that_is_not_there_is_tried_again_later() {
        let path = std::env::temp_dir().join(format!("drover-syslog-{}", std::process::id()));
        let mut sender = Sender::new(&config(ListenAddress::Unix(path.clone())));
        let (_, lost) = sender.send_lines(b"one\ntwo\n").expect_err("nobody listens");
        assert_eq!(lost, 2);
        let daemon = UnixDatagram::bind(&path).expect("a socket");
        daemon.set_read_timeout(Some(Duration::from_secs(10))).expect("a time-out");
        sender.outlet.retry = None;
        sender.send_lines(b"three\n").expect("somebody listens");
        let line = received(|buffer| daemon.recv(buffer));
        // "Mon dd hh:mm:ss " and no host.
        assert_eq!(line[5..].find(" web["), Some(15), "{line}");
        std::fs::remove_file(path).expect("the socket is there");
    }
}
