//! A generation: one accepted configuration together with what was opened for it.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use drover_config::LogFile;
use drover_event::{Notifier, Strategy};
use drover_service::Listener;
use nix::unistd::{Gid, Uid};
use thiserror::Error;
use tracing::warn;

use crate::config::{Config, System, Target};
use crate::datagrams::DatagramSeat;
use crate::log;
use crate::privileges::{self, Identity, PrivilegeError};
use crate::scoreboard::{Block, Scoreboard};
use crate::services::{Plans, ServiceError};
use crate::sockets::{Address, ListenError, Sockets, Wanted};
use crate::text::counted;

/// The queue for accept where the config says nothing, as in nginx.
const DEFAULT_BACKLOG: u32 = 511;

/// One accepted configuration, its listen sockets, and how many workers it has.
pub(crate) struct Generation {
    /// Counted from 1; 0 is the empty generation before the first.
    pub(crate) number: u64,
    /// What is configured.
    pub(crate) config: Rc<Config>,
    /// What the services make of it; the empty generation has none.
    pub(crate) plans: Option<Plans>,
    /// Whom workers run as, where that is somebody else.
    pub(crate) identity: Option<Rc<Identity>>,
    /// What is listened on.
    pub(crate) sockets: Sockets,
    /// How many workers there are to be.
    pub(crate) workers: u32,
    /// The accept strategy at each address.
    pub(crate) strategies: Rc<BTreeMap<Address, Strategy>>,
    /// One for each worker number, once the generation starts.
    pub(crate) seats: Rc<Vec<Seat>>,
    /// Where on the scoreboard its workers share what they know of servers.
    pub(crate) servers: Option<usize>,
}

/// What belongs to a worker number as long as its generation serves, whichever process has it.
#[derive(Debug)]
pub(crate) struct Seat {
    /// Where the worker publishes.
    pub(crate) block: Block,
    /// How its peers wake it; only where an accept strategy needs that.
    pub(crate) notifier: Option<OwnedFd>,
    /// How it shares datagram sockets; only where there are some.
    pub(crate) datagrams: Option<Rc<DatagramSeat>>,
}

/// Why a configuration that reads well cannot be used.
#[derive(Debug, Error)]
pub(crate) enum PrepareError {
    /// Workers cannot run as asked.
    #[error(transparent)]
    Privilege(#[from] PrivilegeError),
    /// A service does not understand its tables.
    #[error(transparent)]
    Service(#[from] ServiceError),
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
            plans: None,
            identity: None,
            sockets: Sockets::default(),
            workers: 0,
            strategies: Rc::default(),
            seats: Rc::default(),
            servers: None,
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
        let workers = config.worker_count(system);
        let plans = Plans::new(&config, workers)?;
        make_log_files(&config, Some(&plans), identity.as_deref().map(owner_of))
            .map_err(PrepareError::LogFile)?;
        let mut strategies = BTreeMap::new();
        let mut wanted = BTreeMap::new();
        for listener in plans.listeners() {
            let address = address_of(listener);
            let strategy = Strategy::from(config.accept_in_force(listener, system).accept);
            // Each worker reads datagrams from a socket of its own, whatever the strategy for connections.
            let each = strategy == Strategy::ReusePort || listener.udp;
            let sockets = if each { workers as usize } else { 1 };
            let Listener { backlog, deferred, probes, .. } = *listener;
            let backlog = backlog.unwrap_or(DEFAULT_BACKLOG);
            wanted.insert(address.clone(), Wanted { sockets, backlog, deferred, probes });
            strategies.insert(address, strategy);
        }
        let sockets = Sockets::prepare(before, &wanted)?;
        Ok(Self {
            number,
            config,
            plans: Some(plans),
            identity,
            sockets,
            workers,
            strategies: Rc::new(strategies),
            seats: Rc::default(),
            servers: None,
        })
    }

    /// Makes a place for each worker: before the first is forked, since all are to know of all.
    ///
    /// # Errors
    /// Why there are not enough places.
    pub(crate) fn seat_workers(&mut self, board: &Scoreboard) -> Result<(), String> {
        let addresses: Vec<String> = self.strategies.keys().map(Address::to_string).collect();
        board.number_listeners(addresses.iter().map(String::as_str), self.number);
        let balanced = self.strategies.values().any(|strategy| *strategy == Strategy::Balanced);
        let datagrams = self.has_datagrams();
        let slots = *self.config.events.worker_connections;
        let mut seats = Vec::with_capacity(self.workers as usize);
        let seat = |number| {
            let notifier = balanced.then(Notifier::descriptor).transpose();
            let notifier = notifier.map_err(|failure| format!("cannot make a notifier: {failure}"))?;
            let datagrams = datagrams.then(|| DatagramSeat::new(slots).map(Rc::new)).transpose();
            let datagrams =
                datagrams.map_err(|failure| format!("cannot share datagram sockets: {failure}"))?;
            let block = board.lend(self.number, number, slots);
            let block = block.ok_or("no block of the scoreboard is free: too many workers still drain")?;
            Ok(Seat { block, notifier, datagrams })
        };
        for number in 0..self.workers {
            match seat(number) {
                Ok(seat) => seats.push(seat),
                Err(reason) => {
                    seats.iter().for_each(|seat: &Seat| board.fold(&seat.block));
                    return Err(reason);
                }
            }
        }
        self.seats = Rc::new(seats);
        Ok(())
    }

    /// Has the workers share what they know of servers on the scoreboard. To be called once they are seated.
    pub(crate) fn place_servers(&mut self, board: &Scoreboard) {
        let Some(plans) = &self.plans else { return };
        self.servers = board.place_servers(self.number, plans.upstreams());
        if self.servers.is_none() && plans.upstreams().next().is_some() {
            warn!("the upstreams have too many servers to be shown by `drover status`");
        }
    }

    /// The same generation with other sockets.
    pub(crate) fn with_sockets(&self, sockets: Sockets) -> Generation {
        Generation {
            number: self.number,
            config: Rc::clone(&self.config),
            plans: self.plans.clone(),
            identity: self.identity.clone(),
            sockets,
            workers: self.workers,
            strategies: Rc::clone(&self.strategies),
            seats: Rc::clone(&self.seats),
            servers: self.servers,
        }
    }

    /// Whether anything listens for datagrams.
    pub(crate) fn has_datagrams(&self) -> bool {
        self.strategies.keys().any(|address| address.udp)
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
        make_log_files(&self.config, self.plans.as_ref(), self.owner())
    }

    /// How to log.
    pub(crate) fn log_settings(&self) -> log::Settings {
        log::Settings::from_config(&self.config)
    }

    /// `http on http://127.0.0.1:80, 2 workers (exclusive)`
    pub(crate) fn summary(&self) -> String {
        let workers = counted(self.workers as usize, "worker");
        match self.places() {
            None => format!("{workers}, listening nowhere"),
            Some(places) => format!("{places}, {workers} ({})", self.strategy_names()),
        }
    }

    /// The services and where they listen; nothing where none does.
    pub(crate) fn places(&self) -> Option<String> {
        self.plans.as_ref().map(Plans::describe).filter(|places| !places.is_empty())
    }

    /// The accept strategies in use, each once.
    fn strategy_names(&self) -> String {
        let mut names: Vec<&str> = self.strategies.values().map(|strategy| strategy.name()).collect();
        names.sort_unstable();
        names.dedup();
        names.join(", ")
    }
}

/// The key under which the sockets of a listener are kept.
pub(crate) fn address_of(listener: &Listener) -> Address {
    Address { place: listener.address.clone(), udp: listener.udp, ipv6_only: listener.ipv6_only }
}

fn owner_of(identity: &Identity) -> (Uid, Gid) {
    (identity.uid, identity.gid)
}

/// Makes the files that workers append to and gives them to their user.
fn make_log_files(config: &Config, plans: Option<&Plans>, owner: log::Owner) -> std::io::Result<()> {
    let target = config.log.target();
    let own = match &target {
        Target::File(LogFile::Path(path)) => Some(path.as_path()),
        _ => None,
    };
    let services = plans.into_iter().flat_map(Plans::log_files);
    own.into_iter().chain(services).try_for_each(|path| log::open_for_append(path, owner).map(drop))
}
