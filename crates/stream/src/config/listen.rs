//! `listen`: the addresses of a server.

use std::time::Duration;

use drover_config::{ListenAddress, Node, Output, Place, Reader, Shorthand, Value};
use drover_service::{Accept, Listener, Probes};

drover_config::table! {
    /// An address to accept connections or datagrams on.
    #[table(inline, shorthand)]
    pub struct Listen {
        /// "ip:port", "[v6]:port" or "unix:/path".
        pub address: ListenAddress,
        /// Whether it is for datagrams rather than connections.
        pub udp: bool = false,
        /// Who gets a new connection; else as [events] accept says.
        #[example = "\"exclusive\""]
        pub accept: Option<Accept> = None,
        /// Connections that the kernel queues for accept; else 511.
        #[range = 1..=i32::MAX as u32]
        #[example = "511"]
        pub backlog: Option<u32> = None,
        /// Whether the kernel reports a connection only once it sent something (TCP_DEFER_ACCEPT).
        pub deferred: bool = false,
        /// Whether clients are proxies that say first, by the PROXY protocol, for whom they connect.
        pub proxy_protocol: bool = false,
        /// Whether an IPv6 address takes no IPv4 connections or datagrams.
        pub ipv6_only: bool = true,
        /// Silence after which the kernel probes whether a client is still there (SO_KEEPALIVE).
        #[example = "\"60s\""]
        pub tcp_keepalive: Option<KeepAlive> = None,
    }
}

impl Listen {
    /// An address without options.
    pub fn new(address: ListenAddress) -> Listen {
        Listen {
            address,
            udp: false,
            accept: None,
            backlog: None,
            deferred: false,
            proxy_protocol: false,
            ipv6_only: true,
            tcp_keepalive: None,
        }
    }

    /// What the daemon has to open; `place` is where the config says so.
    pub fn listener(&self, place: Option<Place>) -> Listener {
        Listener {
            address: self.address.clone(),
            udp: self.udp,
            accept: self.accept,
            backlog: self.backlog,
            deferred: self.deferred,
            ipv6_only: self.ipv6_only,
            probes: self.tcp_keepalive.as_ref().map(KeepAlive::probes),
            client_first: self.proxy_protocol,
            place,
        }
    }
}

/// `"127.0.0.1:5432"`: an address without options.
impl Shorthand for Listen {
    const TYPE: &'static str = "address";

    fn from_value(node: &Node, reader: &mut Reader<'_>) -> Option<Listen> {
        ListenAddress::read(node, reader).map(Listen::new)
    }

    fn to_value(&self) -> Option<Output> {
        (*self == Listen::new(self.address.clone())).then(|| self.address.write())
    }
}

drover_config::table! {
    /// When the kernel probes a silent peer.
    #[table(inline, shorthand)]
    pub struct KeepAlive {
        /// Silence after which the first probe is sent.
        #[range = PROBE_SHORTEST..=PROBE_LONGEST]
        pub idle: Duration = Duration::from_secs(60),
        /// Time between two probes.
        #[range = PROBE_SHORTEST..=PROBE_LONGEST]
        pub interval: Duration = Duration::from_secs(10),
        /// Probes without an answer after which the connection fails.
        #[range = 1..=127]
        pub count: u32 = 6,
    }
}

/// The kernel counts in seconds, up to 32,767 of them (`MAX_TCP_KEEPIDLE` and its like in tcp(7)'s source).
const PROBE_SHORTEST: Duration = Duration::from_secs(1);
const PROBE_LONGEST: Duration = Duration::from_secs(32_767);

impl KeepAlive {
    /// As the sockets take it.
    pub fn probes(&self) -> Probes {
        let seconds = |time: Duration| time.as_secs() as u32;
        Probes { idle: seconds(self.idle), interval: seconds(self.interval), count: self.count }
    }
}

/// `tcp_keepalive = "60s"`: the silence alone.
impl Shorthand for KeepAlive {
    const TYPE: &'static str = "duration";

    fn from_value(node: &Node, reader: &mut Reader<'_>) -> Option<KeepAlive> {
        Duration::read(node, reader).map(|idle| KeepAlive { idle, ..KeepAlive::default() })
    }

    fn to_value(&self) -> Option<Output> {
        None
    }
}
