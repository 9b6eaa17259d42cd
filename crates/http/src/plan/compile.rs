//! From the config's tables to the plan.

mod logs;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

use drover_event::Patience;
use drover_service::access_log::LogPlan;

use super::{Compiled, Gate, Location, LogUse, PlanError, Server, Timeouts};
use crate::access::{PeerSet, TrustedProxies};
use crate::basic_auth::{BasicAuth, UsersFiles};
use crate::config::{self, PathMatch, ProxyPass};
use crate::encoding::compression::{self, Compression};
use crate::error_pages::ErrorPages;
use crate::h1::head::Limits as HeadLimits;
use crate::handler::Handler;
use crate::handler::files::store::StorePlan;
use crate::handler::files::try_files::TryFiles;
use crate::handler::files::{Alias, Files};
use crate::handler::fixed::Fixed;
use crate::handler::proxy::{Choice, Destination, Proxy};
use crate::handler::status::{Source, Status};
use crate::header_changes::HeaderChanges;
use crate::limits::Limits;
use crate::own::OwnVariables;
use crate::pattern::Pattern;
use crate::router::{Entry, Hosts, Match, Paths};
use crate::rules::Rule;
use crate::types::Types;
use crate::upstreams::Upstreams;

pub(super) fn compile(config: &config::Http, workers: u32) -> Result<Compiled, PlanError> {
    Compiler::new(config, workers)?.compile()
}

fn timeouts(config: &config::Http) -> Timeouts {
    Timeouts {
        header: config.client_header_timeout,
        body: Patience::new(config.client_body_timeout, config.client_body_rate.bytes()),
        keepalive: config.keepalive_timeout,
        send: Patience::new(config.send_timeout, config.send_rate.bytes()),
        lingering: config.lingering_timeout,
        lingering_in_all: config.lingering_time,
    }
}

struct Compiler<'a> {
    config: &'a config::Http,
    server: Box<str>,
    roots: Vec<PathBuf>,
    logs: Vec<LogPlan>,
    locations: Vec<Location>,
    default_log: Option<LogUse>,
    own: OwnVariables,
    upstreams: Upstreams,
    limits: Limits,
    users: UsersFiles,
    named: Vec<usize>,
    /// The numbers among `named` of the named locations of the server at hand.
    names: BTreeMap<String, u32>,
    answers: Vec<(Fixed, Option<std::time::Duration>)>,
    compression: Compression,
    status: Source,
}

impl<'a> Compiler<'a> {
    fn new(config: &'a config::Http, workers: u32) -> Result<Compiler<'a>, PlanError> {
        let server = match config.server_tokens {
            true => concat!("drover/", env!("CARGO_PKG_VERSION")),
            false => "drover",
        };
        let own = OwnVariables::of(config)?;
        let mut compiler = Compiler {
            config,
            upstreams: Upstreams::new(&config.upstreams, workers, &own)?,
            server: server.into(),
            roots: Vec::new(),
            logs: Vec::new(),
            locations: Vec::new(),
            default_log: None,
            limits: Limits::new(config, &own, workers)?,
            users: UsersFiles::default(),
            own,
            named: Vec::new(),
            names: BTreeMap::new(),
            answers: Vec::new(),
            compression: Compression::new(&config.compression),
            status: Source::default(),
        };
        compiler.default_log = compiler.log_use(&config.access_log)?;
        Ok(compiler)
    }

    fn compile(mut self) -> Result<Compiled, PlanError> {
        let config = self.config;
        let servers: Vec<Server> =
            config.servers.iter().map(|server| self.server(server)).collect::<Result<_, _>>()?;
        let listeners = config.listeners();
        let mut hosts = Vec::with_capacity(listeners.len());
        for listener in &listeners {
            let names = listener.servers.iter().flat_map(|server| {
                config.servers[*server].server_names.iter().map(|name| (*server, name.as_str()))
            });
            let found = Hosts::new(names, listener.default_server, &self.own);
            hosts.push(found.map_err(PlanError::Expression)?);
        }
        let types: BTreeMap<String, String> =
            config.types.iter().map(|(extension, kind)| (extension.clone(), kind.to_string())).collect();
        let store = StorePlan {
            roots: self.roots,
            entries: config.open_file_cache.entries,
            valid: config.open_file_cache.valid,
            small: config.open_file_cache.small_file.bytes(),
            max_ranges: config.max_ranges,
            types: Rc::new(Types::new(&types, &config.default_type)),
            server: self.server.clone(),
        };
        Ok(Compiled {
            limits: HeadLimits {
                size: config.client_header_size.as_usize(),
                max_headers: config.max_headers as usize,
                keep_odd_names: config.underscores_in_headers,
            },
            keepalive_requests: match config.keepalive_timeout.is_zero() {
                true => 1,
                false => config.keepalive_requests,
            },
            timeouts: timeouts(config),
            client_limits: self.limits,
            proxies: PeerSet::new(&config.proxy_protocol_from),
            trusted: TrustedProxies::new(&config.real_ip),
            sendfile: config.sendfile,
            server: self.server,
            hosts,
            servers,
            locations: self.locations,
            named: self.named,
            answers: self.answers,
            listeners,
            logs: self.logs,
            default_log: self.default_log,
            store,
            upstreams: self.upstreams.plans(),
            levels: compression::levels(&config.compression),
            encoder_memory: config.compression.max_memory.as_usize(),
            status: self.status,
        })
    }

    fn server(&mut self, config: &config::Server) -> Result<Server, PlanError> {
        self.names.clear();
        self.number_names(&config.locations);
        let name = config.server_names.first().map_or("", |name| name.as_str());
        let rules = self.rules(&config.rules, name)?;
        let entries = self.entries(config, None, &config.locations)?;
        let fallback = self.locations.len();
        let mut location = config::Location::at(PathMatch::Prefix("/".to_owned()));
        location.try_files.clone_from(&config.try_files);
        let location = self.location(config, &location)?;
        self.locations.push(location);
        Ok(Server { name: name.as_bytes().into(), rules, paths: Paths::new(entries), fallback })
    }

    /// Gives the named locations their numbers: what leads to one may stand before it.
    fn number_names(&mut self, locations: &[config::Location]) {
        for location in locations {
            if let PathMatch::Named(name) = &*location.path {
                self.names.insert(name.clone(), self.named.len() as u32);
                self.named.push(usize::MAX);
            }
            self.number_names(&location.locations.0);
        }
    }

    /// Compiles locations and those inside of them.
    fn entries(
        &mut self,
        server: &config::Server,
        outer: Option<&config::Location>,
        locations: &[config::Location],
    ) -> Result<Vec<Entry>, PlanError> {
        let mut entries = Vec::with_capacity(locations.len());
        for config in locations {
            let within = outer.map(|outer| config.inside(outer));
            let config = within.as_ref().unwrap_or(config);
            let location = self.locations.len();
            let compiled = self.location(server, config)?;
            self.locations.push(compiled);
            let inside = self.entries(server, Some(config), &config.locations.0)?;
            let prefix = |path: &String, before_expressions| Match::Prefix {
                path: path.as_bytes().into(),
                before_expressions,
            };
            let how = match &*config.path {
                PathMatch::Prefix(path) => prefix(path, false),
                PathMatch::BeforeExpressions(path) => prefix(path, true),
                PathMatch::Exact(path) => Match::Exact(path.as_bytes().into()),
                PathMatch::Expression(expression) => {
                    let pattern = Pattern::new(expression, &self.own).map_err(PlanError::Expression)?;
                    Match::Expression(Box::new(pattern))
                }
                PathMatch::Named(name) => {
                    self.named[self.names[name] as usize] = location;
                    continue;
                }
            };
            entries.push(Entry { how, location, inside });
        }
        Ok(entries)
    }

    fn location(
        &mut self,
        server: &config::Server,
        config: &config::Location,
    ) -> Result<Location, PlanError> {
        let of = config.path.to_string();
        let error_pages = config.error_pages.as_ref().or(server.error_pages.as_ref());
        let error_pages = match error_pages.or(self.config.error_pages.as_ref()) {
            Some(pages) => {
                let pages = ErrorPages::new(pages, &self.own, |name| self.names.get(name).copied());
                Some(pages.map_err(|source| PlanError::ErrorPages { of: of.clone(), source })?)
            }
            None => None,
        };
        let root = config.root.as_ref().or(server.root.as_ref()).map(|root| &**root);
        let files_at = match &config.alias {
            Some(alias) => Some(Alias::of(alias, &config.path)),
            None => root.map(|root| (root.to_path_buf(), None)),
        };
        let compression = self.compression(config);
        let handler = match (&config.return_, &config.proxy_pass, files_at) {
            _ if let Some(form) = &config.status => Handler::Status(Status::new(**form, self.status.clone())),
            (Some(fixed), ..) => {
                Handler::Fixed(self.fixed(fixed, error_pages.as_ref(), &compression, &of)?)
            }
            (None, Some(pass), _) => Handler::Proxy(Box::new(self.proxy(config, pass)?)),
            (None, None, Some((root, alias))) => self.files(root, alias, server, config, compression)?,
            (None, None, None) => Handler::Nothing,
        };
        let log = match &config.access_log {
            Some(log) => self.log_use(log)?,
            None => self.default_log.clone(),
        };
        let headers = config.headers.as_ref().or(server.headers.as_ref()).or(self.config.headers.as_ref());
        let headers = headers.map(|headers| HeaderChanges::new(headers, &self.own)).transpose();
        let headers = headers.map_err(|source| PlanError::Rule { of: of.clone(), source })?;
        Ok(Location {
            handler,
            gate: self.gate(server, config, &of)?,
            error_pages: error_pages.map(Rc::new),
            headers: headers.map(Rc::new),
            root: config
                .alias
                .as_deref()
                .or(root)
                .map(|root| root.as_os_str().as_encoded_bytes().into())
                .unwrap_or_default(),
            delay: config.return_.as_ref().and_then(|fixed| fixed.delay).filter(|delay| !delay.is_zero()),
            log,
            body_limit: config.client_body_size.unwrap_or(self.config.client_body_size).bytes(),
        })
    }

    fn gate(
        &mut self,
        server: &config::Server,
        config: &config::Location,
        of: &str,
    ) -> Result<Option<Box<Gate>>, PlanError> {
        let requests = config.limit_requests.as_ref().or(server.limit_requests.as_ref());
        let requests = requests.into_iter().flatten().map(|limit| self.limits.of_requests(limit));
        let connections = config.limit_connections.as_ref().or(server.limit_connections.as_ref());
        let connections = connections.into_iter().flatten().map(|limit| self.limits.of_connections(limit));
        let access = config.access.as_ref().or(server.access.as_ref());
        let gate = Gate {
            internal: config.internal,
            request_limits: requests.collect::<Result<_, _>>()?,
            connection_limits: connections.collect::<Result<_, _>>()?,
            access: access.cloned().unwrap_or_default(),
            basic_auth: self.basic_auth(server, config, of)?,
            rules: self.rules(&config.rules, of)?,
        };
        Ok(gate.does_something().then(|| Box::new(gate)))
    }

    fn basic_auth(
        &mut self,
        server: &config::Server,
        config: &config::Location,
        of: &str,
    ) -> Result<Option<BasicAuth>, PlanError> {
        let realm = config.basic_auth.as_ref().or(server.basic_auth.as_ref());
        let Some(realm) = realm.and_then(|own| own.realm()) else { return Ok(None) };
        let users = config.basic_auth_users.as_ref().or(server.basic_auth_users.as_ref());
        let users = users.ok_or_else(|| PlanError::NoUsers { path: of.to_owned() })?;
        Ok(Some(BasicAuth::new(realm, self.users.read(users)?)))
    }

    fn fixed(
        &self,
        config: &config::Return,
        error_pages: Option<&ErrorPages>,
        compression: &Compression,
        of: &str,
    ) -> Result<Fixed, PlanError> {
        let shown = error_pages.is_some_and(|pages| pages.find(config.status).is_some());
        let fixed = Fixed::new(config, &self.server, &self.own, shown, compression);
        fixed.map_err(|source| PlanError::Location { path: of.to_owned(), source })
    }

    fn rules(&mut self, configs: &[config::Rule], of: &str) -> Result<Vec<Rule>, PlanError> {
        let mut rules = Vec::with_capacity(configs.len());
        for config in configs {
            let answer = match &config.return_ {
                Some(fixed) => {
                    // Which error pages there are is known only where the rule applies.
                    let compiled =
                        Fixed::new(fixed, &self.server, &self.own, fixed.status >= 300, &self.compression);
                    let wrong = |source| PlanError::Location { path: of.to_owned(), source };
                    let delay = fixed.delay.filter(|delay| !delay.is_zero());
                    self.answers.push((compiled.map_err(wrong)?, delay));
                    Some(self.answers.len() as u32 - 1)
                }
                None => None,
            };
            let rule = Rule::new(config, &self.own, answer);
            rules.push(rule.map_err(|source| PlanError::Rule { of: of.to_owned(), source })?);
        }
        Ok(rules)
    }

    /// The choice among all upstreams that have names.
    fn choice(&mut self, text: &str, of: &str) -> Result<Choice, PlanError> {
        let wrong = |source| PlanError::Location { path: of.to_owned(), source };
        let template = self.own.template(text).map_err(wrong)?;
        let mut known = BTreeMap::new();
        for name in self.config.upstreams.keys() {
            known.insert(name.as_bytes().into(), self.upstreams.find(name, &self.own)?);
        }
        Ok(Choice::ByName(template, Rc::new(known)))
    }

    fn proxy(&mut self, location: &config::Location, pass: &str) -> Result<Proxy, PlanError> {
        let path = || location.path.to_string();
        let pass = ProxyPass::parse(pass).map_err(|what| PlanError::ProxyPass { path: path(), what })?;
        let upstream = match pass.server.contains('$') {
            true => self.choice(pass.server, &path())?,
            false => Choice::One(self.upstreams.find(pass.server, &self.own)?),
        };
        let matched = match &*location.path {
            PathMatch::Prefix(prefix) | PathMatch::BeforeExpressions(prefix) => prefix.len(),
            PathMatch::Exact(_) | PathMatch::Expression(_) | PathMatch::Named(_) => usize::MAX,
        };
        let to = Destination { upstream, pass, matched, max_headers: self.config.max_headers as usize };
        let own = location.proxy.as_ref().map(|own| own.within(&self.config.proxy));
        Proxy::new(own.as_ref().unwrap_or(&self.config.proxy), &to, self.compression(location), &self.own)
            .map_err(|source| PlanError::Location { path: path(), source })
    }

    fn files(
        &mut self,
        root: PathBuf,
        alias: Option<Alias>,
        server: &config::Server,
        config: &config::Location,
        compression: Compression,
    ) -> Result<Handler, PlanError> {
        // Files found through another index are other files: such a root counts as one of its own.
        let number = self.roots.len() as u32;
        self.roots.push(root);
        let index = config.index.as_ref().unwrap_or(&server.index);
        let precompressed = config.precompressed.as_ref().unwrap_or(&server.precompressed);
        let named = |name: &str| self.names.get(name).copied();
        let texts = config.try_files.as_ref().map(|texts| texts.iter().map(|text| text.as_str()));
        let try_files = texts.map(|texts| TryFiles::new(texts, &self.own, named)).transpose();
        Ok(Handler::Files(Files {
            root: number,
            alias,
            index: index.iter().map(|name| name.as_bytes().into()).collect(),
            autoindex: config.autoindex.unwrap_or(server.autoindex),
            precompressed: compression::each_once(precompressed),
            compression,
            try_files: try_files
                .map_err(|source| PlanError::TryFiles { of: config.path.to_string(), source })?,
        }))
    }

    fn compression(&self, config: &config::Location) -> Compression {
        match &config.compression {
            Some(codings) => self.compression.with(codings),
            None => self.compression.clone(),
        }
    }
}
