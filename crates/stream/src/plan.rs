//! The plan: a config made ready to serve, compiled once by the master.
//!
//! Nothing is opened here; that is for [`Plan::start`](crate::server), in a worker. What a connection needs is
//! found by number: listener, server, upstream, log.

use std::io;
use std::num::NonZeroU64;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use drover_config::{Located, ServerAddress, Size};
use drover_event::PeerAddress;
use drover_service::access::{self, Access, AccessRule};
use drover_service::access_log::{LogPlan, Target as LogTarget};
use drover_service::log_format::{Escape, LogFormat};
use drover_service::{Listener, Names, Probes, TemplateError};
use drover_upstream::config as upstream;
use drover_upstream::proxy_protocol::Version;

use crate::config::{self, AccessLog, BUILT_IN_LOG_FORMATS, KeepAlive, Target};
use crate::limits::{Applied, Limits};
use crate::variables::{Template, Variable};

/// A config made ready to serve.
#[derive(Clone)]
pub struct Plan(pub(crate) Rc<Compiled>);

/// Why a config cannot be made ready. One that was checked only ever lacks memory.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A text with a fault.
    #[error("{what}")]
    Template {
        /// Which text.
        what: String,
        /// What is wrong with it.
        source: TemplateError,
    },
    /// A log format that does not exist.
    #[error("log format \"{name}\" is not defined")]
    UnknownFormat {
        /// Its name.
        name: String,
    },
    /// A limit that does not exist.
    #[error("limit \"{name}\" is not defined")]
    UnknownLimit {
        /// Its name.
        name: String,
    },
    /// No memory for the tables of limits.
    #[error("memory for limits")]
    Memory(#[source] io::Error),
    /// An upstream that does not exist.
    #[error("upstream \"{name}\" is not defined")]
    UnknownUpstream {
        /// Its name.
        name: String,
    },
    /// What workers share about servers cannot be made.
    #[error(transparent)]
    Upstream(#[from] drover_upstream::PlanError),
}

/// What a plan holds.
pub(crate) struct Compiled {
    pub(crate) servers: Vec<Server>,
    pub(crate) listeners: Vec<ListenerPlan>,
    pub(crate) limits: Limits,
    /// Whether a text that is rendered when a connection begins names the address it came to.
    pub(crate) needs_local: bool,
    pub(crate) upstreams: Vec<UpstreamPlan>,
    pub(crate) logs: Vec<LogPlan>,
}

/// A listener and the proxy behind it.
pub(crate) struct ListenerPlan {
    pub(crate) socket: Listener,
    /// Number of the server.
    pub(crate) server: usize,
    /// Whether connections begin with a header of the PROXY protocol.
    pub(crate) proxy_protocol: bool,
}

/// An upstream, and what its key is made of.
pub(crate) struct UpstreamPlan {
    pub(crate) plan: drover_upstream::Plan,
    pub(crate) hash: Option<Template>,
    /// Whether another server may be tried where one fails.
    pub(crate) has_several: bool,
}

/// A proxy.
pub(crate) struct Server {
    /// Its first address, for logs.
    pub(crate) address: String,
    /// Number of the upstream for all that no name is for.
    pub(crate) default: Option<usize>,
    /// Numbers of upstreams by name; none where nobody is asked for a name.
    pub(crate) names: Names,
    pub(crate) idle_timeout: Duration,
    pub(crate) half_closed_timeout: Option<Duration>,
    pub(crate) preread_timeout: Duration,
    /// Datagrams of a client that make a session; 0 for any number.
    pub(crate) requests: u64,
    /// Datagrams that answer each of these; `None` for any number.
    pub(crate) responses: Option<u64>,
    /// By which servers are told who the client is.
    pub(crate) proxy_protocol: Option<Version>,
    pub(crate) server_probes: Option<Probes>,
    pub(crate) access: Vec<AccessRule>,
    pub(crate) limits: Applied,
    pub(crate) upload_rate: Option<NonZeroU64>,
    pub(crate) download_rate: Option<NonZeroU64>,
    pub(crate) log: Option<LogUse>,
}

impl Server {
    /// Whether the rules about addresses let a client in.
    pub(crate) fn lets_in(&self, client: PeerAddress) -> bool {
        access::decide(&self.access, client.ip()) != Access::Denied
    }
}

/// A log as a server uses it.
#[derive(Clone)]
pub(crate) struct LogUse {
    /// Number of the log.
    pub(crate) log: usize,
    pub(crate) format: Rc<LogFormat<Variable>>,
    pub(crate) needs_local: bool,
    pub(crate) needs_time: bool,
}

impl Plan {
    /// Compiles a config for this many workers. Nothing is opened.
    ///
    /// # Errors
    /// A text with variables that does not compile, a name that is not defined, or no memory to share.
    pub fn new(config: &config::Stream, workers: u32) -> Result<Plan, PlanError> {
        let compiler = Compiler {
            config,
            workers,
            limits: Limits::new(config, workers)?,
            targets: Vec::new(),
            upstreams: Vec::new(),
            logs: Vec::new(),
        };
        compiler.compile().map(|compiled| Plan(Rc::new(compiled)))
    }

    /// The listeners that are needed; the services of [`Plan::start`] come in this order.
    pub fn listeners(&self) -> impl Iterator<Item = &Listener> {
        self.0.listeners.iter().map(|listener| &listener.socket)
    }

    /// The upstreams that connections are passed on to.
    pub fn upstreams(&self) -> impl Iterator<Item = &drover_upstream::Plan> {
        self.0.upstreams.iter().map(|upstream| &upstream.plan)
    }

    /// The files that access logs are written to, each once. The master creates them so that workers, with
    /// fewer privileges, can append.
    pub fn log_files(&self) -> impl Iterator<Item = &Path> {
        self.0.logs.iter().filter_map(|log| log.target.file())
    }
}

struct Compiler<'a> {
    config: &'a config::Stream,
    workers: u32,
    limits: Limits,
    /// What each upstream stands for, by number.
    targets: Vec<&'a Target>,
    upstreams: Vec<UpstreamPlan>,
    logs: Vec<LogPlan>,
}

impl<'a> Compiler<'a> {
    fn compile(mut self) -> Result<Compiled, PlanError> {
        let config = self.config;
        let default_log = self.log_use(&config.access_log)?;
        let servers: Vec<Server> = config
            .servers
            .iter()
            .map(|server| self.server(server, &default_log))
            .collect::<Result<_, _>>()?;
        let listens = config.servers.iter().enumerate();
        let listens =
            listens.flat_map(|(number, server)| server.listen.iter().map(move |listen| (listen, number)));
        let listener = |(listen, server): (&Located<config::Listen>, usize)| ListenerPlan {
            socket: listen.listener(listen.place()),
            server,
            proxy_protocol: listen.proxy_protocol,
        };
        let hashes = self.upstreams.iter().filter_map(|upstream| upstream.hash.as_ref());
        let needs_local = hashes.chain(self.limits.keys()).any(|text| text.uses(Variable::is_local));
        let listeners = listens.map(listener).collect();
        let Compiler { upstreams, logs, limits, .. } = self;
        Ok(Compiled { servers, listeners, upstreams, logs, limits, needs_local })
    }

    fn server(
        &mut self,
        config: &'a config::Server,
        default_log: &Option<LogUse>,
    ) -> Result<Server, PlanError> {
        let default = config.proxy_pass.as_ref().map(|target| self.upstream(target)).transpose()?;
        let mut names = Vec::with_capacity(config.server_names.len());
        for (name, target) in &config.server_names {
            names.push((name.as_str(), self.upstream(target)?));
        }
        let log = match &config.access_log {
            Some(log) => self.log_use(log)?,
            None => default_log.clone(),
        };
        Ok(Server {
            address: config.listen.first().map(|listen| listen.address.to_string()).unwrap_or_default(),
            default,
            names: Names::new(names),
            idle_timeout: config.idle_timeout,
            half_closed_timeout: config.half_closed_timeout,
            preread_timeout: config.preread_timeout,
            requests: config.requests,
            responses: config.responses,
            proxy_protocol: config.proxy_protocol.as_ref().map(|version| **version),
            server_probes: config.server_keepalive.as_ref().map(KeepAlive::probes),
            access: config.access.clone(),
            limits: self.limits.applied(config)?,
            upload_rate: rate(config.upload_rate),
            download_rate: rate(config.download_rate),
            log,
        })
    }

    /// The number of the upstream that a target means; each is made once, however often it is meant.
    fn upstream(&mut self, target: &'a Located<Target>) -> Result<usize, PlanError> {
        let target: &Target = target;
        if let Some(number) = self.targets.iter().position(|known| *known == target) {
            return Ok(number);
        }
        let plan = match target {
            Target::Upstream(name) => self.defined(name)?,
            Target::Address(address) => self.address(address)?,
        };
        self.targets.push(target);
        self.upstreams.push(plan);
        Ok(self.upstreams.len() - 1)
    }

    fn defined(&self, name: &str) -> Result<UpstreamPlan, PlanError> {
        let config = self.config.upstreams.get(name);
        let config = config.ok_or_else(|| PlanError::UnknownUpstream { name: name.to_owned() })?;
        let hash = config.hash.as_ref().map(|text| parse(text, || format!("`hash` of upstream \"{name}\"")));
        let plan = drover_upstream::Plan::new(name, config, self.workers)?;
        let named = config.servers.iter().any(|server| server.has_name());
        let has_several = config.tries > 1 && (named || config.servers.len() > 1);
        Ok(UpstreamPlan { plan, hash: hash.transpose()?, has_several })
    }

    fn address(&self, address: &ServerAddress) -> Result<UpstreamPlan, PlanError> {
        let config = upstream::Upstream::new(vec![upstream::Server::new(address.clone())]);
        let plan = drover_upstream::Plan::new(&address.to_string(), &config, self.workers)?;
        Ok(UpstreamPlan { plan, hash: None, has_several: config.servers[0].has_name() })
    }

    fn log_use(&mut self, config: &AccessLog) -> Result<Option<LogUse>, PlanError> {
        let target = match &config.syslog {
            Some(syslog) => Some(LogTarget::Syslog((**syslog).clone())),
            None => LogTarget::of(&config.file),
        };
        let Some(target) = target else { return Ok(None) };
        let format = self.format(&config.format)?;
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
            needs_time: format.uses(Variable::is_local_time),
            format: Rc::new(format),
        }))
    }

    fn format(&self, name: &str) -> Result<LogFormat<Variable>, PlanError> {
        if let Some(format) = self.config.log_formats.get(name) {
            let wrong = |source| PlanError::Template { what: format!("log format \"{name}\""), source };
            return LogFormat::new(format, Template::parse).map_err(wrong);
        }
        let text = BUILT_IN_LOG_FORMATS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
        let text = text.ok_or_else(|| PlanError::UnknownFormat { name: name.to_owned() })?;
        parse(text, || format!("log format \"{name}\"")).map(|text| LogFormat::Text(text, Escape::Text))
    }
}

pub(crate) fn parse(text: &str, what: impl FnOnce() -> String) -> Result<Template, PlanError> {
    Template::parse(text).map_err(|source| PlanError::Template { what: what(), source })
}

fn rate(size: Size) -> Option<NonZeroU64> {
    NonZeroU64::new(size.bytes())
}
