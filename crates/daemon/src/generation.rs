//! A generation: one accepted configuration together with what was opened for it.

use std::collections::BTreeMap;
use std::rc::Rc;

use drover_config::LogFile;
use drover_event::Strategy;
use drover_http::config::{Accept, Listener};
use nix::unistd::{Gid, Uid};
use thiserror::Error;

use crate::config::{Config, System};
use crate::log;
use crate::privileges::{self, Identity, PrivilegeError};
use crate::sockets::{Address, ListenError, Sockets, Wanted};

/// One accepted configuration, its listen sockets, and how many workers it has.
#[derive(Debug)]
pub(crate) struct Generation {
    /// Counted from 1; 0 is the empty generation before the first.
    pub(crate) number: u64,
    /// What is configured.
    pub(crate) config: Rc<Config>,
    /// Whom workers run as, where that is somebody else.
    pub(crate) identity: Option<Rc<Identity>>,
    /// What is listened on.
    pub(crate) sockets: Sockets,
    /// How many workers there are to be.
    pub(crate) workers: u32,
    /// The accept strategy at each address.
    pub(crate) strategies: Rc<BTreeMap<Address, Strategy>>,
}

/// Why a configuration that reads well cannot be used.
#[derive(Debug, Error)]
pub(crate) enum PrepareError {
    /// Workers cannot run as asked.
    #[error(transparent)]
    Privilege(#[from] PrivilegeError),
    /// An address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A log file cannot be opened.
    #[error("cannot open the log file {0}")]
    LogFile(std::io::Error),
}

impl Generation {
    /// The generation before the first: no workers and no sockets.
    pub(crate) fn none(config: Rc<Config>) -> Self {
        Self {
            number: 0,
            config,
            identity: None,
            sockets: Sockets::default(),
            workers: 0,
            strategies: Rc::default(),
        }
    }

    /// Opens what `config` needs beyond what `before` has; `before` stays as it is.
    ///
    /// # Errors
    /// The first thing that the system refuses; nothing stays open then.
    pub(crate) fn prepare(
        number: u64,
        config: Rc<Config>,
        system: &System,
        before: &Sockets,
    ) -> Result<Self, PrepareError> {
        let identity = match &config.process.user {
            Some(user) if privileges::is_root() => Some(Rc::new(Identity::resolve(user, None)?)),
            _ => None,
        };
        let owner = identity.as_deref().map(owner_of);
        for path in log_files(&config) {
            log::open_for_append(path, owner).map_err(PrepareError::LogFile)?;
        }
        let workers = config.worker_count(system);
        let mut strategies = BTreeMap::new();
        let mut wanted = BTreeMap::new();
        for listener in config.http.listeners() {
            let address = address_of(&listener);
            let strategy = strategy_of(config.accept_in_force(&listener, system).accept);
            let sockets = if strategy == Strategy::ReusePort { workers as usize } else { 1 };
            let Listener { backlog, deferred, .. } = listener;
            wanted.insert(address.clone(), Wanted { sockets, backlog, deferred });
            strategies.insert(address, strategy);
        }
        let sockets = Sockets::prepare(before, &wanted)?;
        Ok(Self { number, config, identity, sockets, workers, strategies: Rc::new(strategies) })
    }

    /// Who is to own the files that workers write to.
    pub(crate) fn owner(&self) -> log::Owner {
        self.identity.as_deref().map(owner_of)
    }

    /// Makes sure that workers can open every log file under its name: after it was moved away, or at the
    /// start.
    ///
    /// # Errors
    /// The first file that cannot be opened, by name.
    pub(crate) fn make_log_files(&self) -> std::io::Result<()> {
        log_files(&self.config)
            .into_iter()
            .try_for_each(|path| log::open_for_append(path, self.owner()).map(drop))
    }

    /// How to log.
    pub(crate) fn log_settings(&self) -> log::Settings {
        log::Settings::from_config(&self.config.log)
    }

    /// "http://127.0.0.1:8080", one for each address.
    pub(crate) fn urls(&self) -> Vec<String> {
        self.config.http.listeners().iter().map(|listener| format!("http://{}", listener.address)).collect()
    }

    /// The accept strategies in use, each once.
    pub(crate) fn strategy_names(&self) -> String {
        let mut names: Vec<&str> = self.strategies.values().map(|strategy| strategy.name()).collect();
        names.sort_unstable();
        names.dedup();
        names.join(", ")
    }
}

/// The key under which the sockets of a listener are kept.
pub(crate) fn address_of(listener: &Listener) -> Address {
    Address { place: listener.address.clone(), ipv6_only: listener.ipv6_only }
}

fn owner_of(identity: &Identity) -> (Uid, Gid) {
    (identity.uid, identity.gid)
}

fn strategy_of(accept: Accept) -> Strategy {
    match accept {
        Accept::Exclusive => Strategy::Exclusive,
        Accept::Shared => Strategy::Shared,
        Accept::Mutex => Strategy::Mutex,
        Accept::Reuseport => Strategy::ReusePort,
    }
}

/// Every log file that workers write to.
fn log_files(config: &Config) -> Vec<&std::path::Path> {
    let locations = config.http.servers.iter().flat_map(|server| &server.locations);
    let logs = locations.filter_map(|location| location.access_log.as_ref()).chain([&config.http.access_log]);
    let files = logs.map(|log| &log.file).chain([&config.log.file]);
    files
        .filter_map(|file| match &**file {
            LogFile::Path(path) => Some(path.as_path()),
            _ => None,
        })
        .collect()
}
