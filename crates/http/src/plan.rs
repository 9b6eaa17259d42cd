//! The plan: a config made ready to serve, compiled once by the master.
//!
//! Nothing is opened here but the files of users; the rest is for [`Plan::start`](crate::server), in a worker. What a request needs is
//! found by number: listener, server, location, log, root.

mod compile;

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use drover_event::Patience;
use drover_service::access_log::LogPlan;
use drover_service::{LogFormat, TemplateError};
use drover_upstream::proxy_protocol;

use crate::access::{PeerSet, TrustedProxies};
use crate::basic_auth::{BasicAuth, UsersError};
use crate::config::{self, AccessRule, Listener};
use crate::encoding::Levels;
use crate::error_pages::{ErrorPageError, ErrorPages};
use crate::h1::head::Limits as HeadLimits;
use crate::handler::Handler;
use crate::handler::files::store::StorePlan;
use crate::handler::files::try_files::TryFilesError;
use crate::handler::fixed::Fixed;
use crate::handler::status::{Source, StatusSource};
use crate::header_changes::HeaderChanges;
use crate::limits::{ConnectionLimitUse, Limits, RequestLimitUse};
use crate::own::MapError;
use crate::router::{Hosts, Paths};
use crate::rules::{Condition, Rule, RuleError};
use crate::values::Values;
use crate::variables::Variable;

/// A config made ready to serve.
#[derive(Clone)]
pub struct Plan(pub(crate) Rc<Compiled>);

/// Why a config cannot be made ready. A config that was checked has none of these, but for what the system says.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A log format with a fault.
    #[error("log format \"{name}\"")]
    Format {
        /// Its name.
        name: String,
        /// What is wrong with its text.
        source: TemplateError,
    },
    /// A log format that does not exist.
    #[error("log format \"{name}\" is not defined")]
    UnknownFormat {
        /// Its name.
        name: String,
    },
    /// An upstream that is neither defined nor an address.
    #[error("upstream \"{name}\" is not defined")]
    UnknownUpstream {
        /// Its name.
        name: String,
    },
    /// A `hash` with a fault.
    #[error("hash of upstream \"{name}\"")]
    Hash {
        /// The upstream's name.
        name: String,
        /// What is wrong with its text.
        source: TemplateError,
    },
    /// An upstream for which there is no memory.
    #[error(transparent)]
    Upstream(#[from] drover_upstream::PlanError),
    /// A `proxy_pass` that names no server.
    #[error("proxy_pass of location {path}: {what}")]
    ProxyPass {
        /// The location's path.
        path: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A text of a location with a fault.
    #[error("location {path}")]
    Location {
        /// The location's path.
        path: String,
        /// What is wrong with its text.
        source: TemplateError,
    },
    /// A rule of a location, or of a server, with a fault.
    #[error("rules of {of}")]
    Rule {
        /// The location's path, or the server's name.
        of: String,
        /// What is wrong.
        source: RuleError,
    },
    /// Error pages with a fault.
    #[error("error_pages of {of}")]
    ErrorPages {
        /// The location's path, or the server's name.
        of: String,
        /// What is wrong.
        source: ErrorPageError,
    },
    /// `try_files` with a fault.
    #[error("try_files of {of}")]
    TryFiles {
        /// The location's path.
        of: String,
        /// What is wrong.
        source: TryFilesError,
    },
    /// An expression with a fault.
    #[error("{0}")]
    Expression(String),
    /// The key of a limit with a fault.
    #[error("limit \"{name}\"")]
    Limit {
        /// The limit's name.
        name: String,
        /// What is wrong with its text.
        source: TemplateError,
    },
    /// A limit that is not defined.
    #[error("limit \"{name}\" is not defined")]
    UnknownLimit {
        /// The limit's name.
        name: String,
    },
    /// No memory for what workers share about a limit.
    #[error("memory for the limit \"{name}\"")]
    Memory {
        /// The limit's name.
        name: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Users that cannot be read.
    #[error(transparent)]
    Users(#[from] UsersError),
    /// A location that asks for passwords and has nobody's.
    #[error("location {path}: `basic_auth` without `basic_auth_users`")]
    NoUsers {
        /// The location's path.
        path: String,
    },
    /// A map with a fault.
    #[error(transparent)]
    Map(#[from] MapError),
}

/// What a plan holds.
pub(crate) struct Compiled {
    pub(crate) limits: HeadLimits,
    /// Of what clients may do.
    pub(crate) client_limits: Limits,
    /// Who may speak the PROXY protocol where it is spoken; all where there is no such list.
    pub(crate) proxies: Option<PeerSet>,
    /// Whose word about the client's address is trusted.
    pub(crate) trusted: Option<TrustedProxies>,
    /// Requests that a connection may have; 1 where none is to be kept.
    pub(crate) keepalive_requests: u64,
    pub(crate) timeouts: Timeouts,
    pub(crate) sendfile: bool,
    /// The value of the field `Server`.
    pub(crate) server: Box<str>,
    pub(crate) servers: Vec<Server>,
    /// Those of all servers.
    pub(crate) locations: Vec<Location>,
    /// Numbers of the named locations.
    pub(crate) named: Vec<usize>,
    /// The answers of rules, with the time each is held back.
    pub(crate) answers: Vec<(Fixed, Option<Duration>)>,
    pub(crate) listeners: Vec<Listener>,
    /// By listener.
    pub(crate) hosts: Vec<Hosts>,
    pub(crate) logs: Vec<LogPlan>,
    /// For requests that reach no location.
    pub(crate) default_log: Option<LogUse>,
    pub(crate) store: StorePlan,
    pub(crate) upstreams: Vec<drover_upstream::Plan>,
    pub(crate) levels: Levels,
    /// Bytes that a worker's encoders may take.
    pub(crate) encoder_memory: usize,
    pub(crate) status: Source,
}

/// How long a connection is waited for.
pub(crate) struct Timeouts {
    pub(crate) header: Duration,
    pub(crate) body: Patience,
    pub(crate) keepalive: Duration,
    pub(crate) send: Patience,
    pub(crate) lingering: Duration,
    pub(crate) lingering_in_all: Duration,
}

/// A virtual server.
pub(crate) struct Server {
    /// Its first name; empty without one.
    pub(crate) name: Box<[u8]>,
    /// What a request goes through before a location is looked for.
    pub(crate) rules: Vec<Rule>,
    paths: Paths,
    /// Number of the location for paths that no other is for.
    pub(crate) fallback: usize,
}

impl Server {
    /// Number of the location for a normal path.
    #[inline]
    pub(crate) fn find(&self, path: &[u8], values: &mut Values) -> usize {
        self.paths.find(path, values).unwrap_or(self.fallback)
    }
}

/// What happens beneath a path.
pub(crate) struct Location {
    pub(crate) handler: Handler,
    /// What a request goes through before the handler answers it; none for most locations.
    pub(crate) gate: Option<Box<Gate>>,
    pub(crate) error_pages: Option<Rc<ErrorPages>>,
    pub(crate) headers: Option<Rc<HeaderChanges>>,
    /// Directory of its files; empty without one.
    pub(crate) root: Box<[u8]>,
    /// How long answers are held back.
    pub(crate) delay: Option<Duration>,
    pub(crate) log: Option<LogUse>,
    /// The largest body in bytes.
    pub(crate) body_limit: u64,
}

impl Location {
    /// Whether and for what it asks for passwords.
    pub(crate) fn basic_auth(&self) -> Option<&BasicAuth> {
        self.gate.as_ref()?.basic_auth.as_ref()
    }
}

/// What a request goes through before a location's handler answers it.
pub(crate) struct Gate {
    /// Only drover itself leads here.
    pub(crate) internal: bool,
    pub(crate) rules: Vec<Rule>,
    pub(crate) request_limits: Vec<RequestLimitUse>,
    pub(crate) connection_limits: Vec<ConnectionLimitUse>,
    /// Who is let in.
    pub(crate) access: Vec<AccessRule>,
    pub(crate) basic_auth: Option<BasicAuth>,
}

impl Gate {
    fn does_something(&self) -> bool {
        let Gate { internal, rules, request_limits, connection_limits, access, basic_auth } = self;
        *internal
            || !(rules.is_empty()
                && request_limits.is_empty()
                && connection_limits.is_empty()
                && access.is_empty()
                && basic_auth.is_none())
    }
}

/// A log as a location uses it.
#[derive(Clone)]
pub(crate) struct LogUse {
    /// Number of the log.
    pub(crate) log: usize,
    /// Only requests of which this is true are logged.
    pub(crate) when: Option<Rc<Condition>>,
    pub(crate) format: Rc<LogFormat<Variable>>,
    pub(crate) needs_local: bool,
    pub(crate) needs_sent_head: bool,
    pub(crate) needs_time: bool,
}

/// Room for the bytes that follow a head.
const AFTER_HEAD: usize = 4096;
/// What a buffer has at least.
const LEAST_BUFFER: usize = 16 * 1024;

impl Plan {
    /// Compiles a config for so many workers. Nothing is opened; memory that workers share is made.
    ///
    /// # Errors
    /// A text with variables that does not compile, a name that is not defined, or no memory.
    pub fn new(config: &config::Http, workers: u32) -> Result<Plan, PlanError> {
        compile::compile(config, workers).map(|compiled| Plan(Rc::new(compiled)))
    }

    /// The listeners that are needed; the services of [`Plan::start`] come in this order.
    pub fn listeners(&self) -> &[Listener] {
        &self.0.listeners
    }

    /// The upstreams that requests are passed on to.
    pub fn upstreams(&self) -> &[drover_upstream::Plan] {
        &self.0.upstreams
    }

    /// The files that access logs are written to, each once. The master creates them so that workers, with
    /// fewer privileges, can append.
    pub fn log_files(&self) -> impl Iterator<Item = &Path> {
        self.0.logs.iter().filter_map(|log| log.target.file())
    }

    /// Has locations with a `status` ask `source`. To be called once, after the fork.
    pub fn show_status(&self, source: Box<dyn StatusSource>) {
        self.0.status.set(source);
    }

    /// The size that the worker's pooled buffers need: a whole head and what follows it.
    pub fn buffer_size(&self) -> usize {
        // Before the first head there may stand a header of the PROXY protocol, alone.
        LEAST_BUFFER.max(self.0.limits.size + AFTER_HEAD).max(proxy_protocol::LONGEST + AFTER_HEAD)
    }
}
