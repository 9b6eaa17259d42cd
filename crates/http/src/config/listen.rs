//! `listen`: the addresses of a server, and the listeners that all servers together need.

use drover_config::{ListenAddress, Located, Node, Output, Reader, Shorthand, Value};
use drover_service::Accept;

use super::Http;

drover_config::table! {
    /// An address to accept connections on.
    #[table(inline, shorthand)]
    pub struct Listen {
        /// "ip:port", "[v6]:port", "unix:/path", or "systemd:name" for a socket that systemd passes.
        pub address: ListenAddress,
        /// Who gets a new connection; else as [events] accept says.
        #[example = "\"exclusive\""]
        pub accept: Option<Accept> = None,
        /// Connections that the kernel queues for accept; else 511.
        #[range = 1..=i32::MAX as u32]
        #[example = "511"]
        pub backlog: Option<u32> = None,
        /// Whether the kernel reports a connection only once it sent something (TCP_DEFER_ACCEPT); else false.
        #[example = "false"]
        pub deferred: Option<bool> = None,
        /// Whether an IPv6 address takes no IPv4 connections; else true.
        #[example = "true"]
        pub ipv6_only: Option<bool> = None,
        /// Whether clients are proxies that say first, by the PROXY protocol, for whom they connect; else false.
        #[example = "false"]
        pub proxy_protocol: Option<bool> = None,
        /// Whether this server answers requests on the address that name none of its servers.
        pub default_server: bool = false,
    }
}

impl Listen {
    /// An address without options.
    pub fn new(address: ListenAddress) -> Listen {
        Listen {
            address,
            accept: None,
            backlog: None,
            deferred: None,
            ipv6_only: None,
            proxy_protocol: None,
            default_server: false,
        }
    }
}

/// `"127.0.0.1:8080"`: an address without options.
impl Shorthand for Listen {
    const TYPE: &'static str = "address";

    fn from_value(node: &Node, reader: &mut Reader<'_>) -> Option<Listen> {
        ListenAddress::read(node, reader).map(Listen::new)
    }

    fn to_value(&self) -> Option<Output> {
        (*self == Listen::new(self.address.clone())).then(|| self.address.write())
    }
}

/// One listening socket and the servers behind it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listener {
    /// The socket, with the options that its servers agree on.
    pub socket: drover_service::Listener,
    /// The servers behind it, as indices into [`Http::servers`], in the order of the config.
    pub servers: Vec<usize>,
    /// Whether clients are proxies that say first for whom they connect.
    pub proxy_protocol: bool,
    /// The one among [`Http::servers`] that answers requests naming none of them.
    pub default_server: usize,
}

impl Http {
    /// The listeners of all servers: one for each address, in the order of their first mention.
    ///
    /// An option may be given wherever the address is mentioned. Contradictions are findings of the check; here
    /// the first mention wins.
    pub fn listeners(&self) -> Vec<Listener> {
        let mentions = || {
            let of = |(number, server): (usize, &'_ super::Server)| {
                server.listen.iter().map(move |listen| (number, listen.clone())).collect::<Vec<_>>()
            };
            self.servers.iter().enumerate().flat_map(of)
        };
        let mut listeners: Vec<Listener> = Vec::new();
        for (_, first) in mentions() {
            if listeners.iter().any(|listener| listener.socket.address == first.address) {
                continue;
            }
            let same: Vec<(usize, Located<Listen>)> =
                mentions().filter(|(_, listen)| listen.address == first.address).collect();
            let mut servers: Vec<usize> = same.iter().map(|(server, _)| *server).collect();
            servers.dedup();
            let default = same.iter().find(|(_, listen)| listen.default_server);
            let with_strategy = same.iter().find(|(_, listen)| listen.accept.is_some());
            listeners.push(Listener {
                socket: drover_service::Listener {
                    accept: with_strategy.and_then(|(_, listen)| listen.accept),
                    backlog: same.iter().find_map(|(_, listen)| listen.backlog),
                    deferred: same.iter().find_map(|(_, listen)| listen.deferred).unwrap_or(false),
                    ipv6_only: same.iter().find_map(|(_, listen)| listen.ipv6_only).unwrap_or(true),
                    udp: false,
                    probes: None,
                    client_first: true,
                    place: with_strategy.map_or(first.place(), |(_, listen)| listen.place()),
                    address: first.address.clone(),
                },
                proxy_protocol: same.iter().find_map(|(_, listen)| listen.proxy_protocol).unwrap_or(false),
                default_server: default.map_or(servers[0], |(server, _)| *server),
                servers,
            });
        }
        listeners
    }
}
