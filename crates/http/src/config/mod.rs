//! The tables of the HTTP service: `[http]` and what is inside.
//!
//! The structs are the schema: see [`drover_config::table!`]. What goes across keys is checked in `check`,
//! and [`Http::listeners`] turns the servers' addresses into the listeners that the daemon opens.

mod access;
mod access_log;
mod basic_auth;
mod check;
mod compression;
mod error_page;
mod expression;
mod headers;
mod limit;
mod listen;
mod location;
mod map;
mod path_match;
mod proxy;
mod rule;
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use drover_config::{Located, Size};
use drover_service::LogFormatConfig;
pub(crate) use drover_service::access::network;
pub use drover_service::access::{AccessRule, Peers};
use drover_upstream::config::Upstream;

pub use access::RealIp;
pub use access_log::{AccessLog, BUILT_IN_LOG_FORMATS};
pub use basic_auth::BasicAuth;
pub use compression::{Coding, Compression};
pub use error_page::{ErrorPage, PageStatus};
pub use expression::Expression;
pub use headers::{HeaderChange, Headers};
pub use limit::{AtOnce, ConnectionLimit, LimitConnections, LimitRequests, RequestLimit};
pub use listen::{Listen, Listener};
pub use location::{Location, Nested, Return};
pub(crate) use map::WHOLE;
pub use map::{Map, MapPattern};
pub use path_match::PathMatch;
pub use proxy::{Failure, Forwarded, Proxy, ProxyPass, RequestHeaders};
pub use rule::{Condition, Rule, Then};
pub use status::StatusForm;

/// No time-out is longer than this: ten years, which a timer still can count.
const LONGEST: Duration = Duration::from_secs(3650 * 24 * 3600);
const SHORTEST: Duration = Duration::from_millis(1);

drover_config::table! {
    /// The HTTP service.
    pub struct Http {
        /// Time to receive a whole request head, from the accept or the end of the request before.
        #[range = SHORTEST..=LONGEST]
        pub client_header_timeout: Duration = Duration::from_secs(60),
        /// Time between two receives of a request body.
        #[range = SHORTEST..=LONGEST]
        pub client_body_timeout: Duration = Duration::from_secs(60),
        /// Bytes of a request body a second that a client must send, over all of the time that it is waited for, beyond
        /// client_body_timeout; "0b" for any rate.
        #[range = Size::from_bytes(0)..=Size::megabytes(1)]
        pub client_body_rate: Size = Size::from_bytes(240),
        /// Time a connection may be idle between requests; "0s" closes after each response.
        #[range = Duration::ZERO..=LONGEST]
        pub keepalive_timeout: Duration = Duration::from_secs(75),
        /// Time between two sends of a response.
        #[range = SHORTEST..=LONGEST]
        pub send_timeout: Duration = Duration::from_secs(60),
        /// Bytes of a response a second that a client must take, over all of the time that it is waited for, beyond
        /// send_timeout; "0b" for any rate.
        #[range = Size::from_bytes(0)..=Size::megabytes(1)]
        pub send_rate: Size = Size::from_bytes(240),
        /// Requests on one connection, after which it is closed.
        #[range = 1..=1_000_000_000_000]
        pub keepalive_requests: u64 = 1000,
        /// The largest request head.
        #[range = Size::from_bytes(256)..=Size::megabytes(1)]
        pub client_header_size: Size = Size::kilobytes(8),
        /// The largest request body.
        pub client_body_size: Size = Size::megabytes(1),
        /// The most header fields in a request.
        #[range = 1..=10_000]
        pub max_headers: u32 = 100,
        /// Time between two receives while what a client still sends is discarded before the close.
        #[range = SHORTEST..=LONGEST]
        pub lingering_timeout: Duration = Duration::from_secs(5),
        /// Time in all for discarding what a client still sends before the close.
        #[range = SHORTEST..=LONGEST]
        pub lingering_time: Duration = Duration::from_secs(30),
        /// Whether header fields with an underscore in their name are kept rather than dropped.
        pub underscores_in_headers: bool = false,
        /// Media type of files whose extension is not known.
        pub default_type: Located<String> = "application/octet-stream".to_owned().into(),
        /// Whether the field Server tells the version.
        pub server_tokens: bool = true,
        /// Whether files that are not cached are sent by the kernel, without copying them to user space.
        pub sendfile: bool = true,
        /// Ranges that a request may ask for, else it gets the whole file; 0 for no ranges.
        #[range = 0..=1000]
        pub max_ranges: u32 = 16,
        /// Media types by file extension, before those built in.
        #[example = "wasm = \"application/wasm\""]
        pub types: BTreeMap<String, Located<String>> = BTreeMap::new(),
        /// Encoding of responses on their way, as far as the client accepts it.
        pub compression: Compression = Compression::default(),
        /// Files that each worker keeps open.
        pub open_file_cache: OpenFileCache = OpenFileCache::default(),
        /// The log of requests.
        pub access_log: AccessLog = AccessLog::default(),
        /// Formats of access logs by name, beside the built-in "combined".
        #[example = "by_worker = \"$pid $request $status\""]
        pub log_formats: BTreeMap<String, LogFormatConfig> = BTreeMap::new(),
        /// Changes to the fields of responses, where neither location nor server says otherwise.
        #[example = "{ set = { X-Served-By = \"$hostname\" } }"]
        pub headers: Option<Headers> = None,
        /// What clients are shown instead of a bare error, where neither location nor server says otherwise.
        #[example = "[{ statuses = [404], to = \"/404.html\" }]"]
        pub error_pages: Option<Vec<ErrorPage>> = None,
        /// Proxies that may connect where `proxy_protocol` is asked for; others are turned away. Empty for all.
        pub proxy_protocol_from: Vec<Peers> = Vec::new(),
        /// How the client's address is known behind proxies.
        pub real_ip: RealIp = RealIp::default(),
        /// Limits of requests a time by name, which locations apply.
        #[example = "per_client = { key = \"$remote_addr\", rate = \"10/s\" }"]
        pub request_limits: BTreeMap<String, RequestLimit> = BTreeMap::new(),
        /// Limits of requests under way at once by name, which locations apply.
        #[example = "per_client = { key = \"$remote_addr\" }"]
        pub connection_limits: BTreeMap<String, ConnectionLimit> = BTreeMap::new(),
        /// Variables by name, without `$`, whose values are looked up.
        #[example = "kind = { of = \"$arg_k\", values = { a = \"1\" } }"]
        pub maps: BTreeMap<String, Map> = BTreeMap::new(),
        /// How requests are passed to upstreams.
        pub proxy: Proxy = Proxy::default(),
        /// A group of servers that answer for one another.
        #[example = "app = { servers = [\"127.0.0.1:9000\"] }"]
        pub upstreams: BTreeMap<String, Located<Upstream>> = BTreeMap::new(),
        /// A virtual server: addresses, names and locations.
        pub servers: Vec<Server> = Vec::new(),
    }
}

drover_config::table! {
    /// Files that each worker keeps open.
    pub struct OpenFileCache {
        /// Files kept open by each worker; 0 for none.
        #[range = 0..=1_000_000]
        pub entries: u32 = 1024,
        /// Time after which an entry is checked against the file again.
        #[range = Duration::ZERO..=LONGEST]
        pub valid: Duration = Duration::from_secs(1),
        /// Files up to this size are kept in memory too.
        #[range = Size::from_bytes(0)..=Size::megabytes(1)]
        pub small_file: Size = Size::kilobytes(16),
    }
}

drover_config::table! {
    /// A virtual server: addresses, names and locations.
    pub struct Server {
        /// Addresses to accept connections on.
        pub listen: Located<Vec<Located<Listen>>>,
        /// Names this server answers to: exact, "*.example.org", "www.example.*", or "~" and an expression.
        pub server_names: Vec<Located<String>> = Vec::new(),
        /// Directory of the files to serve.
        #[example = "\"/srv/www\""]
        pub root: Option<Located<PathBuf>> = None,
        /// Files that stand for a directory, the first that exists.
        pub index: Vec<Located<String>> = vec!["index.html".to_owned().into()],
        /// Whether a directory without such a file is listed.
        pub autoindex: bool = false,
        /// Encodings in which a file may lie beside itself (.gz, .br, .zst) and is sent, unless that one is older.
        pub precompressed: Vec<Located<Coding>> = Vec::new(),
        /// Files that are tried in this order, where no location is for the path: "$uri", "$uri/" and the like; at the
        /// end what happens when none is there: "=404", a path to go on at, or "@name" of a location.
        #[example = "[\"$uri\", \"$uri/\", \"=404\"]"]
        pub try_files: Option<Vec<Located<String>>> = None,
        /// Steps that a request goes through before its location is looked for.
        pub rules: Vec<Rule> = Vec::new(),
        /// Changes to the fields of responses; else as in [http].
        #[example = "{ set = { X-Served-By = \"$hostname\" } }"]
        pub headers: Option<Headers> = None,
        /// What clients are shown instead of a bare error; else as in [http].
        #[example = "[{ statuses = [404], to = \"/404.html\" }]"]
        pub error_pages: Option<Vec<ErrorPage>> = None,
        /// Who is let in by address, the first rule that fits decides: "allow 10.0.0.0/8", "deny all".
        #[example = "[\"allow 10.0.0.0/8\", \"deny all\"]"]
        pub access: Option<Vec<AccessRule>> = None,
        /// What clients are told that the password is for which they are asked for; "off" asks for none.
        #[example = "\"Staff\""]
        pub basic_auth: Option<Located<BasicAuth>> = None,
        /// File of those who are let in, as htpasswd makes it: "name:hash" in each line, with hashes of bcrypt ($2y$) or
        /// SHA-512 crypt ($6$). A reload reads it again.
        #[example = "\"/etc/drover/users\""]
        pub basic_auth_users: Option<Located<PathBuf>> = None,
        /// Limits of requests a time that apply; a request must keep each of them.
        #[example = "[{ limit = \"per_client\", burst = 20 }]"]
        pub limit_requests: Option<Vec<LimitRequests>> = None,
        /// Limits of requests under way at once that apply.
        #[example = "[{ limit = \"per_client\", most = 10 }]"]
        pub limit_connections: Option<Vec<LimitConnections>> = None,
        /// What is served where.
        pub locations: Vec<Location> = Vec::new(),
    }
}

impl Server {
    /// A server with nothing said but its addresses.
    pub fn on(listen: Vec<Located<Listen>>) -> Server {
        Server {
            listen: listen.into(),
            server_names: Vec::new(),
            root: None,
            index: vec!["index.html".to_owned().into()],
            autoindex: false,
            precompressed: Vec::new(),
            try_files: None,
            rules: Vec::new(),
            headers: None,
            error_pages: None,
            access: None,
            basic_auth: None,
            basic_auth_users: None,
            limit_requests: None,
            limit_connections: None,
            locations: Vec::new(),
        }
    }

    /// All locations, those inside of others too.
    pub fn all_locations(&self) -> Vec<&Location> {
        fn add<'a>(locations: &'a [Location], all: &mut Vec<&'a Location>) {
            for location in locations {
                all.push(location);
                add(&location.locations.0, all);
            }
        }
        let mut all = Vec::new();
        add(&self.locations, &mut all);
        all
    }
}

/// The expression that a server's name is, if it begins with `~`.
pub(crate) fn expression_of_name(name: &str) -> Option<Result<Expression, String>> {
    name.strip_prefix('~').map(Expression::new)
}
