//! Variables of the stream service: their names and their values.

use std::net::SocketAddr;

use drover_event::PeerAddress;
use drover_service::WrongVariable;
use drover_service::text::{push_address, push_number, push_seconds};

use crate::reason::{CloseReason, status};

/// A text with variables of streams.
pub(crate) type Template = drover_service::Template<Variable>;

/// Checks the variables of a text: what the check of a config asks for.
///
/// # Errors
/// The first fault, with its place in the text.
pub(crate) fn check_variables(text: &str) -> Result<(), WrongVariable> {
    drover_service::check_variables::<Variable>(text)
}

/// What is known about a connection or session. Bytes and times only: no socket, no clock.
#[derive(Clone, Copy)]
pub(crate) struct Facts<'a> {
    /// `TCP` or `UDP`.
    pub(crate) protocol: &'static str,
    /// Whom the connection is for, as a proxy says where one does.
    pub(crate) client: PeerAddress,
    /// Who made it.
    pub(crate) peer: PeerAddress,
    /// The address at drover's end; only where a template [needs](Variable::is_local) it.
    pub(crate) local: Option<SocketAddr>,
    pub(crate) pid: u32,
    pub(crate) worker: u32,
    /// Number of the connection or session.
    pub(crate) connection: u64,
    /// From the client.
    pub(crate) bytes_received: u64,
    /// To the client.
    pub(crate) bytes_sent: u64,
    /// Milliseconds since the beginning.
    pub(crate) session_time: u64,
    /// Name of the upstream; empty before one is chosen.
    pub(crate) upstream: &'a str,
    /// The servers that were tried, with `, ` between them.
    pub(crate) servers: &'a [u8],
    pub(crate) upstream_bytes_received: u64,
    pub(crate) upstream_bytes_sent: u64,
    /// Milliseconds until the server was connected to; `None` if it never was.
    pub(crate) connect_time: Option<u64>,
    /// The name that a TLS client asked for; empty without one.
    pub(crate) server_name: &'a [u8],
    pub(crate) reason: CloseReason,
    /// Milliseconds since the epoch.
    pub(crate) unix_millis: u64,
    /// `02/Jan/2006:15:04:05 +0000`.
    pub(crate) time_local: &'a str,
    /// `2006-01-02T15:04:05+00:00`.
    pub(crate) time_iso8601: &'a str,
}

macro_rules! variables {
    ($($variant:ident = $name:literal,)+) => {
        /// A variable, by what it stands for.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Variable { $($variant,)+ }

        /// In the order of the alphabet.
        const NAMES: &[(&str, Variable)] = &[$(($name, Variable::$variant),)+];
    };
}

variables! {
    BytesReceived = "bytes_received",
    BytesSent = "bytes_sent",
    CloseReason = "close_reason",
    Connection = "connection",
    Msec = "msec",
    PeerAddr = "peer_addr",
    PeerPort = "peer_port",
    Pid = "pid",
    Protocol = "protocol",
    RemoteAddr = "remote_addr",
    RemotePort = "remote_port",
    ServerAddr = "server_addr",
    ServerPort = "server_port",
    SessionTime = "session_time",
    Status = "status",
    TimeIso8601 = "time_iso8601",
    TimeLocal = "time_local",
    TlsServerName = "tls_server_name",
    Upstream = "upstream",
    UpstreamAddr = "upstream_addr",
    UpstreamBytesReceived = "upstream_bytes_received",
    UpstreamBytesSent = "upstream_bytes_sent",
    UpstreamConnectTime = "upstream_connect_time",
    Worker = "worker",
}

impl Variable {
    /// Whether the connection's local address must be asked for.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self, Variable::ServerAddr | Variable::ServerPort)
    }

    /// Whether local time must be worked out.
    pub(crate) fn is_local_time(&self) -> bool {
        matches!(self, Variable::TimeLocal | Variable::TimeIso8601)
    }

    /// Whether its value is not known when it is decided whether a connection is let in.
    pub(crate) fn is_unknown_at_first(&self) -> bool {
        self.is_of_the_end() || matches!(self, Variable::TlsServerName)
    }

    /// Whether its value is only known at the end.
    pub(crate) fn is_of_the_end(&self) -> bool {
        use Variable as V;
        matches!(
            self,
            V::BytesReceived
                | V::BytesSent
                | V::CloseReason
                | V::SessionTime
                | V::Status
                | V::Upstream
                | V::UpstreamAddr
                | V::UpstreamBytesReceived
                | V::UpstreamBytesSent
                | V::UpstreamConnectTime
        )
    }
}

impl drover_service::Variable for Variable {
    type Facts<'a> = Facts<'a>;

    fn named(name: &str) -> Option<Variable> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, variable)| *variable)
    }

    fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name)
    }

    fn push(&self, facts: &Facts<'_>, out: &mut Vec<u8>, text: fn(&mut Vec<u8>, &[u8])) {
        match self {
            Variable::BytesReceived => push_number(out, facts.bytes_received),
            Variable::BytesSent => push_number(out, facts.bytes_sent),
            Variable::CloseReason => out.extend_from_slice(facts.reason.name().as_bytes()),
            Variable::Connection => push_number(out, facts.connection),
            Variable::Msec => push_seconds(out, facts.unix_millis),
            Variable::Pid => push_number(out, u64::from(facts.pid)),
            Variable::Protocol => out.extend_from_slice(facts.protocol.as_bytes()),
            Variable::PeerAddr => push_ip(out, facts.peer),
            Variable::PeerPort => push_port(out, facts.peer),
            Variable::RemoteAddr => push_ip(out, facts.client),
            Variable::RemotePort => push_port(out, facts.client),
            Variable::ServerAddr => match facts.local {
                Some(local) => push_address(out, local.ip()),
                None => out.extend_from_slice(b"unix:"),
            },
            Variable::ServerPort => {
                if let Some(local) = facts.local {
                    push_number(out, u64::from(local.port()));
                }
            }
            Variable::SessionTime => push_seconds(out, facts.session_time),
            Variable::Status => push_number(out, u64::from(status(facts.reason))),
            Variable::TimeIso8601 => out.extend_from_slice(facts.time_iso8601.as_bytes()),
            Variable::TimeLocal => out.extend_from_slice(facts.time_local.as_bytes()),
            Variable::TlsServerName => text(out, facts.server_name),
            Variable::Upstream => text(out, facts.upstream.as_bytes()),
            Variable::UpstreamAddr => text(out, facts.servers),
            Variable::UpstreamBytesReceived => push_number(out, facts.upstream_bytes_received),
            Variable::UpstreamBytesSent => push_number(out, facts.upstream_bytes_sent),
            Variable::UpstreamConnectTime => {
                if let Some(time) = facts.connect_time {
                    push_seconds(out, time);
                }
            }
            Variable::Worker => push_number(out, u64::from(facts.worker)),
        }
    }
}

fn push_ip(out: &mut Vec<u8>, address: PeerAddress) {
    match address.ip() {
        Some(ip) => push_address(out, ip),
        // A unix socket has no address worth a name.
        None => out.extend_from_slice(b"unix:"),
    }
}

fn push_port(out: &mut Vec<u8>, address: PeerAddress) {
    if address.ip().is_some() {
        push_number(out, u64::from(address.port()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_service::Variable as _;

    fn log(format: &str) -> String {
        let template = Template::parse(format).expect("a template");
        let mut out = Vec::new();
        template.push_for_log(
            &Facts {
                protocol: "TCP",
                client: PeerAddress::Internet(SocketAddr::from(([10, 0, 0, 1], 1234))),
                peer: PeerAddress::Internet(SocketAddr::from(([10, 0, 0, 9], 99))),
                local: Some(SocketAddr::from(([10, 0, 0, 2], 443))),
                pid: 42,
                worker: 3,
                connection: 17,
                bytes_received: 100,
                bytes_sent: 2000,
                session_time: 12_045,
                upstream: "db",
                servers: b"10.0.0.5:5432, unix:/run/db.sock",
                upstream_bytes_received: 2000,
                upstream_bytes_sent: 128,
                connect_time: Some(3),
                server_name: b"example.org",
                reason: CloseReason::Finished,
                unix_millis: 1_136_214_245_007,
                time_local: "02/Jan/2006:15:04:05 +0000",
                time_iso8601: "2006-01-02T15:04:05+00:00",
            },
            &mut out,
        );
        String::from_utf8(out).expect("escaped text is ASCII")
    }

    #[test]
    fn every_variable_has_its_value() {
        for (format, want) in [
            ("$remote_addr:$remote_port $server_addr:$server_port", "10.0.0.1:1234 10.0.0.2:443"),
            ("$peer_addr:$peer_port", "10.0.0.9:99"),
            ("$pid $worker $connection $protocol", "42 3 17 TCP"),
            ("$bytes_received $bytes_sent", "100 2000"),
            ("$upstream_bytes_received $upstream_bytes_sent", "2000 128"),
            ("$session_time $upstream_connect_time $msec", "12.045 0.003 1136214245.007"),
            ("$time_local $time_iso8601", "02/Jan/2006:15:04:05 +0000 2006-01-02T15:04:05+00:00"),
            ("$upstream $upstream_addr", "db 10.0.0.5:5432, unix:/run/db.sock"),
            ("$tls_server_name $close_reason $status", "example.org finished 200"),
        ] {
            assert_eq!(log(format), want, "{format}");
        }
        let all: Vec<String> = Variable::names().map(|name| format!("${name}")).collect();
        assert!(!log(&all.join(" ")).contains(" - "), "each has a value");
        assert!(NAMES.is_sorted_by_key(|(name, _)| *name));
    }
}
