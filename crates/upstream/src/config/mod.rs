//! `[http.upstreams.NAME]` and `[stream.upstreams.NAME]`: groups of servers that answer for one another.
//!
//! The structs are the schema: see [`drover_config::table!`]. What goes across keys is checked by
//! [`Upstream::check`]; the variables of `hash` belong to the service, which checks them itself.

mod check;
mod source;
#[cfg(test)]
mod tests;

use std::time::Duration;

use drover_config::{Located, Node, Output, Reader, ServerAddress, Shorthand, Value};

use crate::attempts::TRIES_MOST;
use crate::words::ADDRESSES_MOST;

pub use source::SourceAddress;

/// No time-out is longer than this: ten years, which a timer still can count.
const LONGEST: Duration = Duration::from_secs(3650 * 24 * 3600);
const SHORTEST: Duration = Duration::from_millis(1);

drover_config::choice! {
    /// How a server is chosen.
    pub enum Balance {
        /// One after another, as often as their weights say.
        RoundRobin = "round_robin",
        /// The one with the fewest requests under way for its weight.
        LeastConnections = "least_connections",
        /// The same one for the same key.
        Hash = "hash",
        /// Of two drawn at random, the one with fewer requests under way for its weight.
        RandomTwo = "random_two",
    }
}

drover_config::table! {
    /// A group of servers that answer for one another.
    pub struct Upstream {
        /// The servers: addresses, or tables with an address and more.
        pub servers: Located<Vec<Located<Server>>>,
        /// How a server is chosen; "hash" needs a key, `hash`.
        pub balance: Located<Balance> = Balance::RoundRobin.into(),
        /// The key of balance = "hash", with variables: what is equal goes to the same server.
        #[example = "\"$remote_addr\""]
        pub hash: Option<Located<String>> = None,
        /// With balance = "hash": a server with more than this percentage of its share of what is under way is
        /// passed over; 0 for no limit.
        #[range = 0..=10_000]
        pub hash_balance_factor: Located<u32> = 0.into(),
        /// Time to connect to a server.
        #[range = SHORTEST..=LONGEST]
        pub connect_timeout: Duration = Duration::from_secs(5),
        /// Address of this machine to connect from.
        #[example = "\"192.0.2.7\""]
        pub source: Option<SourceAddress> = None,
        /// Servers tried for one request or connection before it fails.
        #[range = 1..=TRIES_MOST as u32]
        pub tries: u32 = 3,
        /// Idle connections that each worker keeps open; 0 for none.
        #[range = 0..=100_000]
        pub keepalive: u32 = 64,
        /// Time a connection is kept idle: less than the servers keep theirs.
        #[range = SHORTEST..=LONGEST]
        pub keepalive_timeout: Duration = Duration::from_secs(60),
        /// Requests on one connection, after which it is not kept.
        #[range = 1..=1_000_000_000]
        pub keepalive_requests: u32 = 1000,
        /// Time after which the addresses of names are asked for again.
        #[range = Duration::from_millis(100)..=LONGEST]
        pub resolve: Duration = Duration::from_secs(30),
        /// Checks of the servers beside what requests show.
        #[example = "{ interval = \"5s\" }"]
        pub health_check: Option<Located<HealthCheck>> = None,
    }
}

drover_config::table! {
    /// A server.
    #[table(inline, shorthand)]
    pub struct Server {
        /// "ip:port", "[v6]:port", "name:port" or "unix:/path"; of a name each address is a server like this.
        pub address: ServerAddress,
        /// Its share compared with others.
        #[range = 1..=10_000]
        pub weight: u32 = 1,
        /// Whether it is used only when no other can be.
        pub backup: bool = false,
        /// Whether it is out of use.
        pub down: bool = false,
        /// Requests and connections at one time, over all workers; 0 for no limit.
        #[range = 0..=10_000_000]
        pub max_connections: u32 = 0,
        /// Failures within `fail_timeout` after which it is given up for as long; 0 for never.
        #[range = 0..=1_000_000]
        pub max_fails: u32 = 1,
        /// Time in which failures are counted, and for which the server is given up then.
        #[range = SHORTEST..=LONGEST]
        pub fail_timeout: Duration = Duration::from_secs(10),
        /// Time in which its share grows from nothing when it comes back.
        #[range = Duration::ZERO..=LONGEST]
        pub slow_start: Duration = Duration::ZERO,
    }
}

drover_config::table! {
    /// Checks of servers, each made by one worker for all.
    #[table(inline)]
    pub struct HealthCheck {
        /// Time between two checks of a server.
        #[range = Duration::from_millis(10)..=LONGEST]
        pub interval: Duration = Duration::from_secs(5),
        /// Time that one check may take; else as `interval`, and 2s at most.
        #[range = SHORTEST..=LONGEST]
        #[example = "\"2s\""]
        pub timeout: Option<Duration> = None,
        /// Checks in a row that have to succeed before a server is up again.
        #[range = 1..=1000]
        pub rise: u32 = 2,
        /// Checks in a row that have to fail before a server is down.
        #[range = 1..=1000]
        pub fall: u32 = 3,
        /// Port to check; else the server's.
        #[range = 1..=65535]
        #[example = "8081"]
        pub port: Option<u16> = None,
        /// Path of an HTTP request that has to be answered well; else connecting is enough.
        #[example = "\"/health\""]
        pub path: Option<Located<String>> = None,
        /// Field Host of that request; else the server's address.
        #[example = "\"app.example.org\""]
        pub host: Option<Located<String>> = None,
        /// Status codes that are good; else 200 to 399.
        #[example = "[200]"]
        pub status: Option<Located<Vec<u16>>> = None,
        /// Bytes to send once connected.
        #[example = "\"PING\\r\\n\""]
        pub send: Option<Located<String>> = None,
        /// Text that has to come back.
        #[example = "\"+PONG\""]
        pub expect: Option<Located<String>> = None,
    }
}

impl HealthCheck {
    /// Time that one check may take.
    pub fn time(&self) -> Duration {
        self.timeout.unwrap_or(self.interval.min(Duration::from_secs(2)))
    }
}

impl Server {
    /// An address without options.
    pub fn new(address: ServerAddress) -> Server {
        Server {
            address,
            weight: 1,
            backup: false,
            down: false,
            max_connections: 0,
            max_fails: 1,
            fail_timeout: Duration::from_secs(10),
            slow_start: Duration::ZERO,
        }
    }

    /// How many addresses it may have at one time.
    pub(crate) fn addresses_most(&self) -> usize {
        if self.has_name() { ADDRESSES_MOST } else { 1 }
    }

    /// Whether its address has to be asked for.
    pub fn has_name(&self) -> bool {
        matches!(self.address, ServerAddress::Name { .. })
    }
}

/// `"127.0.0.1:9000"`: an address without options.
impl Shorthand for Server {
    const TYPE: &'static str = "address";

    fn from_value(node: &Node, reader: &mut Reader<'_>) -> Option<Server> {
        ServerAddress::read(node, reader).map(Server::new)
    }

    fn to_value(&self) -> Option<Output> {
        (*self == Server::new(self.address.clone())).then(|| self.address.write())
    }
}

impl Upstream {
    /// A group with these servers and nothing else said, such as the one that stands for an address
    /// written where an upstream's name could be.
    pub fn new(servers: Vec<Server>) -> Upstream {
        Upstream {
            servers: servers.into_iter().map(Located::from).collect::<Vec<_>>().into(),
            balance: Balance::RoundRobin.into(),
            hash: None,
            hash_balance_factor: 0.into(),
            connect_timeout: Duration::from_secs(5),
            source: None,
            tries: 3,
            keepalive: 64,
            keepalive_timeout: Duration::from_secs(60),
            keepalive_requests: 1000,
            resolve: Duration::from_secs(30),
            health_check: None,
        }
    }
}
