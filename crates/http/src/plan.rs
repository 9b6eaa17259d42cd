//! The plan: a config made ready to serve, compiled once by the master.
//!
//! Nothing is opened here; that is for [`Plan::start`](crate::server), in a worker. What a request needs is
//! found by number: listener, server, location, log, root.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use drover_config::Located;
use drover_service::TemplateError;
use drover_service::access_log::{LogPlan, Target};

use crate::config::{self, AccessLog, BUILT_IN_LOG_FORMATS, Listener, PathMatch, ProxyPass};
use crate::h1::head::Limits;
use crate::handler::Handler;
use crate::handler::files::{Files, StorePlan};
use crate::handler::fixed::Fixed;
use crate::handler::proxy::{Destination, Proxy};
use crate::router::{Hosts, Match, Paths};
use crate::types::Types;
use crate::upstreams::Upstreams;
use crate::variables::{Template, Variable};

/// A config made ready to serve.
#[derive(Clone)]
pub struct Plan(pub(crate) Rc<Compiled>);

/// Why a config cannot be made ready. A config that was checked has none of these.
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
    /// A field of `[http.proxy]` with a fault.
    #[error("proxy of location {path}")]
    Proxy {
        /// The location's path.
        path: String,
        /// What is wrong with its text.
        source: TemplateError,
    },
    /// A `return` with a fault.
    #[error("return of location {path}")]
    Return {
        /// The location's path.
        path: String,
        /// What is wrong with its text.
        source: TemplateError,
    },
}

/// What a plan holds.
pub(crate) struct Compiled {
    pub(crate) limits: Limits,
    /// Requests that a connection may have; 1 where none is to be kept.
    pub(crate) keepalive_requests: u64,
    pub(crate) timeouts: Timeouts,
    pub(crate) sendfile: bool,
    /// The value of the field `Server`.
    pub(crate) server: Box<str>,
    pub(crate) servers: Vec<Server>,
    /// Those of all servers.
    pub(crate) locations: Vec<Location>,
    pub(crate) listeners: Vec<Listener>,
    /// By listener.
    pub(crate) hosts: Vec<Hosts>,
    pub(crate) logs: Vec<LogPlan>,
    /// For requests that reach no location.
    pub(crate) default_log: Option<LogUse>,
    pub(crate) store: StorePlan,
    pub(crate) upstreams: Vec<drover_upstream::Plan>,
}

/// How long a connection is waited for.
pub(crate) struct Timeouts {
    pub(crate) header: Duration,
    pub(crate) body: Duration,
    pub(crate) keepalive: Duration,
    pub(crate) send: Duration,
    pub(crate) lingering: Duration,
    pub(crate) lingering_in_all: Duration,
}

/// A virtual server.
pub(crate) struct Server {
    /// Its first name; empty without one.
    pub(crate) name: Box<[u8]>,
    paths: Paths,
    /// Number of the location for paths that no other is for.
    fallback: usize,
}

impl Server {
    /// Number of the location for a normal path.
    #[inline]
    pub(crate) fn find(&self, path: &[u8]) -> usize {
        self.paths.find(path).unwrap_or(self.fallback)
    }
}

/// What happens beneath a path.
pub(crate) struct Location {
    pub(crate) handler: Handler,
    /// How long answers are held back.
    pub(crate) delay: Option<Duration>,
    pub(crate) log: Option<LogUse>,
    /// The largest body in bytes.
    pub(crate) body_limit: u64,
}

/// A log as a location uses it.
#[derive(Clone)]
pub(crate) struct LogUse {
    /// Number of the log.
    pub(crate) log: usize,
    pub(crate) format: Rc<Template>,
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
    /// A text with variables that does not compile, or a name that is not defined.
    pub fn new(config: &config::Http, workers: u32) -> Result<Plan, PlanError> {
        Compiler::new(config, workers)?.compile().map(|compiled| Plan(Rc::new(compiled)))
    }

    /// The listeners that are needed; the services of [`Plan::start`] come in this order.
    pub fn listeners(&self) -> &[Listener] {
        &self.0.listeners
    }

    /// The files that access logs are written to, each once. The master creates them so that workers, with
    /// fewer privileges, can append.
    pub fn log_files(&self) -> impl Iterator<Item = &Path> {
        self.0.logs.iter().filter_map(|log| match &log.target {
            Target::File(path) => Some(path.as_path()),
            Target::Stderr | Target::Stdout => None,
        })
    }

    /// The size that the worker's pooled buffers need: a whole head and what follows it.
    pub fn buffer_size(&self) -> usize {
        LEAST_BUFFER.max(self.0.limits.size + AFTER_HEAD)
    }
}

struct Compiler<'a> {
    config: &'a config::Http,
    server: Box<str>,
    roots: Vec<PathBuf>,
    logs: Vec<LogPlan>,
    locations: Vec<Location>,
    default_log: Option<LogUse>,
    upstreams: Upstreams,
}

impl<'a> Compiler<'a> {
    fn new(config: &'a config::Http, workers: u32) -> Result<Compiler<'a>, PlanError> {
        let server = match config.server_tokens {
            true => concat!("drover/", env!("CARGO_PKG_VERSION")),
            false => "drover",
        };
        let (roots, logs, locations) = (Vec::new(), Vec::new(), Vec::new());
        let server = server.into();
        let upstreams = Upstreams::new(&config.upstreams, workers)?;
        let mut compiler = Compiler { config, server, roots, logs, locations, default_log: None, upstreams };
        compiler.default_log = compiler.log_use(&config.access_log)?;
        Ok(compiler)
    }

    fn compile(mut self) -> Result<Compiled, PlanError> {
        let config = self.config;
        let servers: Vec<Server> =
            config.servers.iter().map(|server| self.server(server)).collect::<Result<_, _>>()?;
        let listeners = config.listeners();
        let own_names = |server: &usize| (*server, names(&config.servers[*server].server_names));
        let hosts = listeners.iter().map(|listener| {
            let named: Vec<(usize, Vec<String>)> = listener.servers.iter().map(own_names).collect();
            Hosts::new(
                named.iter().map(|(server, names)| (*server, names.as_slice())),
                listener.default_server,
            )
        });
        let types: std::collections::BTreeMap<String, String> =
            config.types.iter().map(|(extension, kind)| (extension.clone(), kind.to_string())).collect();
        let store = StorePlan {
            roots: self.roots,
            entries: config.open_file_cache.entries,
            valid: config.open_file_cache.valid,
            small: config.open_file_cache.small_file.bytes(),
            types: Rc::new(Types::new(&types, &config.default_type)),
            server: self.server.clone(),
        };
        Ok(Compiled {
            limits: Limits {
                size: config.client_header_size.as_usize(),
                max_headers: config.max_headers as usize,
                keep_odd_names: config.underscores_in_headers,
            },
            keepalive_requests: match config.keepalive_timeout.is_zero() {
                true => 1,
                false => config.keepalive_requests,
            },
            timeouts: Timeouts {
                header: config.client_header_timeout,
                body: config.client_body_timeout,
                keepalive: config.keepalive_timeout,
                send: config.send_timeout,
                lingering: config.lingering_timeout,
                lingering_in_all: config.lingering_time,
            },
            sendfile: config.sendfile,
            server: self.server,
            hosts: hosts.collect(),
            servers,
            locations: self.locations,
            listeners,
            logs: self.logs,
            default_log: self.default_log,
            store,
            upstreams: self.upstreams.plans(),
        })
    }

    fn server(&mut self, config: &config::Server) -> Result<Server, PlanError> {
        let mut matches = Vec::with_capacity(config.locations.len());
        for location in &config.locations {
            let how = match &*location.path {
                PathMatch::Prefix(path) => Match::Prefix(path.as_bytes().into()),
                PathMatch::Exact(path) => Match::Exact(path.as_bytes().into()),
            };
            matches.push((how, self.locations.len()));
            let location = self.location(config, location)?;
            self.locations.push(location);
        }
        let fallback = self.locations.len();
        let handler = self.files(config.root.as_ref(), &config.index);
        let body_limit = self.config.client_body_size.bytes();
        self.locations.push(Location { handler, delay: None, log: self.default_log.clone(), body_limit });
        let name = config.server_names.first().map(|name| name.as_bytes().into()).unwrap_or_default();
        Ok(Server { name, paths: Paths::new(matches), fallback })
    }

    fn location(
        &mut self,
        server: &config::Server,
        config: &config::Location,
    ) -> Result<Location, PlanError> {
        let handler = match (&config.return_, &config.proxy_pass) {
            (None, Some(pass)) => Handler::Proxy(Box::new(self.proxy(config, pass)?)),
            (Some(fixed), _) => {
                let fixed = Fixed::new(fixed, &self.server);
                let wrong = |source| PlanError::Return { path: config.path.to_string(), source };
                Handler::Fixed(fixed.map_err(wrong)?)
            }
            (None, None) => {
                let root = config.root.as_ref().or(server.root.as_ref());
                self.files(root, config.index.as_ref().unwrap_or(&server.index))
            }
        };
        let log = match &config.access_log {
            Some(log) => self.log_use(log)?,
            None => self.default_log.clone(),
        };
        let body_limit = config.client_body_size.unwrap_or(self.config.client_body_size).bytes();
        let delay = config.return_.as_ref().and_then(|fixed| fixed.delay).filter(|delay| !delay.is_zero());
        Ok(Location { handler, delay, log, body_limit })
    }

    fn proxy(&mut self, location: &config::Location, pass: &str) -> Result<Proxy, PlanError> {
        let path = || location.path.to_string();
        let pass = ProxyPass::parse(pass).map_err(|what| PlanError::ProxyPass { path: path(), what })?;
        let (upstream, key) = self.upstreams.find(pass.server)?;
        let matched = match &*location.path {
            PathMatch::Prefix(prefix) => prefix.len(),
            PathMatch::Exact(_) => usize::MAX,
        };
        let to = Destination { upstream, key, pass, matched, max_headers: self.config.max_headers as usize };
        let own = location.proxy.as_ref().map(|own| own.within(&self.config.proxy));
        Proxy::new(own.as_ref().unwrap_or(&self.config.proxy), &to)
            .map_err(|source| PlanError::Proxy { path: path(), source })
    }

    fn files(&mut self, root: Option<&Located<PathBuf>>, index: &[Located<String>]) -> Handler {
        let Some(root) = root else { return Handler::Nothing };
        let root: &PathBuf = root;
        // Files found through another index are other files: such a root counts as one of its own.
        let number = self.roots.len() as u32;
        self.roots.push(root.clone());
        Handler::Files(Files {
            root: number,
            index: index.iter().map(|name| name.as_bytes().into()).collect(),
        })
    }

    fn log_use(&mut self, config: &AccessLog) -> Result<Option<LogUse>, PlanError> {
        let Some(target) = Target::of(&config.file) else { return Ok(None) };
        let format = Rc::new(self.format(&config.format)?);
        let log = match self.logs.iter().position(|log| log.target == target) {
            Some(log) => log,
            None => {
                self.logs.push(LogPlan { target, buffer: config.buffer.as_usize(), flush: config.flush });
                self.logs.len() - 1
            }
        };
        Ok(Some(LogUse {
            log,
            needs_local: format.uses(Variable::is_local),
            needs_sent_head: format.uses(Variable::is_sent_field),
            needs_time: format.uses(Variable::is_local_time),
            format,
        }))
    }

    fn format(&self, name: &str) -> Result<Template, PlanError> {
        let own = self.config.log_formats.get(name).map(|text| text.as_str());
        let text = own
            .or_else(|| BUILT_IN_LOG_FORMATS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text));
        let text = text.ok_or_else(|| PlanError::UnknownFormat { name: name.to_owned() })?;
        Template::parse(text).map_err(|source| PlanError::Format { name: name.to_owned(), source })
    }
}

fn names(located: &[Located<String>]) -> Vec<String> {
    located.iter().map(|name| name.to_string()).collect()
}
