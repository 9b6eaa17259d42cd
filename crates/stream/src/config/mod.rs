//! The tables of the stream service: `[stream]` and what is inside.
//!
//! The structs are the schema: see [`drover_config::table!`]. What goes across keys is checked in `check`.

mod access_log;
mod check;
mod limit;
mod listen;
mod target;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use drover_config::{Located, LogFile, Size};
use drover_service::LogFormatConfig;
use drover_upstream::config::Upstream;
use drover_upstream::proxy_protocol::Version;

pub use drover_service::access::AccessRule;

pub use access_log::{AccessLog, BUILT_IN_LOG_FORMATS};
pub use limit::{AcceptLimit, ConnectionLimit, LimitAccepts, LimitConnections};
pub use listen::{KeepAlive, Listen};
pub use target::Target;

/// No time-out is longer than this: ten years, which a timer still can count.
const LONGEST: Duration = Duration::from_secs(3650 * 24 * 3600);
const SHORTEST: Duration = Duration::from_millis(1);

drover_config::table! {
    /// The stream service: TCP and UDP passed on to servers.
    pub struct Stream {
        /// The log of connections and sessions.
        pub access_log: AccessLog = AccessLog::default(),
        /// Formats of access logs by name, beside the built-in "basic".
        #[example = "short = \"$remote_addr $upstream_addr $close_reason\""]
        pub log_formats: BTreeMap<String, LogFormatConfig> = BTreeMap::new(),
        /// Limits of connections and sessions at once, by name.
        #[example = "per_client = { key = \"$remote_addr\" }"]
        pub connection_limits: BTreeMap<String, ConnectionLimit> = BTreeMap::new(),
        /// Limits of new connections and sessions a time, by name.
        #[example = "per_client = { key = \"$remote_addr\", rate = \"10/s\" }"]
        pub accept_limits: BTreeMap<String, AcceptLimit> = BTreeMap::new(),
        /// Groups of servers by name.
        #[example = "db = { servers = [\"10.0.0.5:5432\", { address = \"10.0.0.6:5432\", backup = true }] }"]
        pub upstreams: BTreeMap<String, Upstream> = BTreeMap::new(),
        /// A proxy: where it listens, and where it passes on to.
        pub servers: Vec<Server> = Vec::new(),
    }
}

drover_config::table! {
    /// A proxy: where it listens, and where it passes on to.
    pub struct Server {
        /// Addresses to accept connections or datagrams on.
        pub listen: Located<Vec<Located<Listen>>>,
        /// Where to pass on to: an upstream's name, or an address; without it only what `server_names` knows passes.
        #[example = "\"127.0.0.1:5432\""]
        pub proxy_pass: Option<Located<Target>> = None,
        /// Upstreams or addresses by the name that a TLS client asks for: exact, "*.example.org" or "www.example.*".
        #[example = "\"mail.example.org\" = \"127.0.0.1:993\""]
        pub server_names: BTreeMap<String, Located<Target>> = BTreeMap::new(),
        /// Time without a byte or datagram either way, after which both sides are closed.
        #[range = SHORTEST..=LONGEST]
        pub idle_timeout: Duration = Duration::from_secs(600),
        /// The same once one side has ended its stream; else as `idle_timeout`.
        #[range = SHORTEST..=LONGEST]
        #[example = "\"10s\""]
        pub half_closed_timeout: Option<Duration> = None,
        /// Time in which a client has to tell what decides where it is passed on to.
        #[range = SHORTEST..=LONGEST]
        pub preread_timeout: Duration = Duration::from_secs(30),
        /// Datagrams of a client after which its next one begins another session; 0 for no limit.
        #[range = 0..=1_000_000_000_000]
        pub requests: u64 = 0,
        /// Datagrams that answer each one of a client, after which its session ends; else it ends by `idle_timeout`.
        #[range = 0..=1_000_000_000]
        #[example = "1"]
        pub responses: Option<u64> = None,
        /// Version of the PROXY protocol by which servers are told who the client is; without it they are not.
        #[example = "\"v2\""]
        pub proxy_protocol: Option<Located<Version>> = None,
        /// Silence after which the kernel probes whether a server is still there (SO_KEEPALIVE).
        #[example = "\"60s\""]
        pub server_keepalive: Option<KeepAlive> = None,
        /// Who is let in by address, the first rule that fits decides: "allow 10.0.0.0/8", "deny all"
        #[example = "[\"allow 10.0.0.0/8\", \"deny all\"]"]
        pub access: Vec<AccessRule> = Vec::new(),
        /// Limits of connections and sessions at once that apply.
        #[example = "[{ limit = \"per_client\", most = 10 }]"]
        pub limit_connections: Vec<LimitConnections> = Vec::new(),
        /// Limits of new connections and sessions a time that apply.
        #[example = "[{ limit = \"per_client\", burst = 5 }]"]
        pub limit_accepts: Vec<LimitAccepts> = Vec::new(),
        /// The most bytes a second from each client; "0b" for no limit.
        pub upload_rate: Size = Size::from_bytes(0),
        /// The most bytes a second to each client; "0b" for no limit.
        pub download_rate: Size = Size::from_bytes(0),
        /// The log of connections and sessions; else as in [stream].
        #[example = "\"off\""]
        pub access_log: Option<AccessLog> = None,
    }
}

impl Stream {
    /// Where the lines of access logs go.
    pub fn log_files(&self) -> impl Iterator<Item = &Located<LogFile>> {
        let own = self.servers.iter().filter_map(|server| server.access_log.as_ref());
        own.chain([&self.access_log]).map(|log| &log.file)
    }

    /// The listeners of all servers, in the order of the config.
    pub fn listeners(&self) -> Vec<drover_service::Listener> {
        let listens = self.servers.iter().flat_map(|server| server.listen.iter());
        listens.map(|listen| listen.listener(listen.place())).collect()
    }
}
