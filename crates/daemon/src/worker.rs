//! A worker: how it starts, its loop, and how it ends.
//!
//! The child of a fork has dropped the whole master by the time it gets here, and with it every descriptor
//! that is not its own. What is left is a [`Start`]. Privileges go before anything of the outside world is
//! touched. Commands come over the channel, or as signals from anybody who may send them; both set the same
//! orders, which are carried out between two turns.

mod attributes;

use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use drover_config::ListenAddress;
use drover_event::channel::{Channel, ChannelEnd};
use drover_event::{
    AcceptMutex, Balance, BalancePeer, Core, ListenerOptions, Neighbourhood, Settings, Shared, Worker,
};
use drover_stream::Behind;
use drover_sys::title::Title;
use nix::unistd::Pid;
use thiserror::Error;
use tracing::{debug, error, info, warn};

use crate::complaint::Complaint;
use crate::config::Config;
use crate::daemonise;
use crate::datagrams::KnownSeats;
use crate::descriptors;
use crate::generation::{Seat, address_of};
use crate::log;
use crate::message::{Command, Report};
use crate::privileges::{self, Identity, PrivilegeError};
use crate::scoreboard::{Block, WorkerState};
use crate::services::{Plans, ServiceError, Services, with_causes};
use crate::signals::{self, Flags};
use crate::sockets::{Address, Inherited};
use crate::text::counted;

/// Everything that a worker gets from the master.
pub(crate) struct Start {
    /// Its number, from 0.
    pub(crate) number: u32,
    /// Its generation.
    pub(crate) generation: u64,
    /// How many workers the generation has.
    pub(crate) workers: u32,
    /// What is configured.
    pub(crate) config: Rc<Config>,
    /// Whom to become.
    pub(crate) identity: Option<Rc<Identity>>,
    /// What the services make of that.
    pub(crate) plans: Plans,
    /// Its listen sockets.
    pub(crate) sockets: Vec<Inherited>,
    /// The accept strategy at each address.
    pub(crate) strategies: Rc<std::collections::BTreeMap<Address, drover_event::Strategy>>,
    /// Where it publishes.
    pub(crate) block: Block,
    /// The places of all workers of the generation, in the order of their numbers.
    pub(crate) seats: Rc<Vec<Seat>>,
    /// With whom it shares datagram sockets.
    pub(crate) known_seats: KnownSeats,
    /// The lock behind the `mutex` strategy.
    pub(crate) mutex: AcceptMutex,
    /// Its end of the channel; a process without a master has none.
    pub(crate) channel: Option<ChannelEnd>,
    /// Where to say why it could not start, while somebody waits for that.
    pub(crate) complaint: Option<Complaint>,
    /// By which it names itself.
    pub(crate) title: Option<Title>,
}

/// Why a worker could not start or go on.
#[derive(Debug, Error)]
pub(crate) enum WorkerError {
    /// A limit or attribute of the process.
    #[error("cannot set {what}: {source}")]
    Attribute {
        /// Which.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Privileges.
    #[error(transparent)]
    Privilege(#[from] PrivilegeError),
    /// A service.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The engine.
    #[error("{}", with_causes(.0))]
    Engine(#[from] drover_event::Error),
    /// An address that no service answers on.
    #[error("no service listens on {0}")]
    NoService(Address),
}

/// Runs a worker to its end.
pub(crate) fn run(mut start: Start) -> ExitCode {
    log::set_process(&format!("worker {}", start.number));
    start.block.set_pid(Pid::this());
    let complaint = start.complaint.take();
    let ended = match set_up(start) {
        Ok((worker, shift)) => {
            drop(complaint);
            shift.work(worker)
        }
        Err(error) => {
            if let Some(complaint) = complaint {
                complaint.tell(&error.to_string());
            }
            Err(error)
        }
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Everything up to the first turn, in its order.
fn set_up(mut start: Start) -> Result<(Worker, Shift), WorkerError> {
    let attribute = |what| move |source| WorkerError::Attribute { what, source };
    attributes::set_title(&mut start);
    attributes::set(&start)?;
    privileges::give_up(start.identity.as_deref())?;
    let flags = Flags::install().map_err(attribute("signal handlers"))?;
    let neighbourhood = neighbourhood(&mut start).map_err(attribute("the sharing of datagram sockets"))?;
    let worker = Worker::new(engine_settings(&start), shared(&mut start)?)?;
    if let Some(neighbourhood) = neighbourhood {
        worker.core().join_neighbourhood(neighbourhood)?;
    }
    let services = start.plans.start(worker.core(), start.block.readout())?;
    let orders = Rc::new(Orders::default());
    let channel = start.channel.take().map(|end| Channel::new(worker.core(), end)).transpose()?.map(Rc::new);
    listen(worker.core(), &mut start, &services)?;
    descriptors::publish(worker.core());
    start.block.set_state(WorkerState::Serving);
    if let Some(channel) = &channel {
        if start.config.process.daemon {
            // The master has let go of its starter's only after the fork.
            daemonise::detach_output().map_err(attribute("standard output"))?;
        }
        report(channel, Report::Ready);
        worker.core().spawn(obey(Rc::clone(channel), Rc::clone(&orders)));
    }
    Ok((worker, Shift { start, services, orders, channel, flags }))
}

fn engine_settings(start: &Start) -> Settings {
    let events = &start.config.events;
    Settings {
        worker: start.number,
        workers: start.workers,
        connections: *events.worker_connections,
        backend: events.backend.into(),
        epoll_events: events.epoll_events,
        multi_accept: events.multi_accept,
        accept_mutex_delay: events.accept_mutex_delay,
        buffer_size: start.plans.buffer_size(),
        timer_resolution: events.timer_resolution,
        debug_connections: events.debug_connections.iter().map(|peer| peer.0).collect(),
        wait_signals: Some(signals::worker_wait_mask()),
    }
}

/// Those with whom the worker shares datagram sockets, if it does.
fn neighbourhood(start: &mut Start) -> io::Result<Option<Neighbourhood>> {
    let known = std::mem::take(&mut start.known_seats);
    let seat = start.seats.get(start.number as usize).and_then(|seat| seat.datagrams.as_ref());
    seat.map(|seat| seat.neighbourhood(&known)).transpose()
}

fn shared(start: &mut Start) -> Result<Shared, WorkerError> {
    let attribute = |source| WorkerError::Attribute { what: "the notifiers", source };
    // Let go of at the end: what is needed of the others has been duplicated by then.
    let seats = std::mem::take(&mut start.seats);
    let notifier = seats.get(start.number as usize).and_then(|seat| seat.notifier.as_ref());
    let balance = notifier.map(|_| balance(start, &seats)).transpose().map_err(attribute)?;
    let notifier = notifier.map(OwnedFd::try_clone).transpose().map_err(attribute)?;
    Ok(Shared { stats: start.block.stats(), mutex: Some(start.mutex.clone()), balance, notifier })
}

/// The workers of the generation, for the strategy `balanced`.
fn balance(start: &Start, seats: &[Seat]) -> io::Result<Balance> {
    let peer = |(block, notifier): (&Block, &OwnedFd)| -> io::Result<BalancePeer> {
        Ok(BalancePeer { stats: block.stats(), notifier: notifier.try_clone()? })
    };
    let peers = seats.iter().filter_map(|seat| Some((&seat.block, seat.notifier.as_ref()?)));
    let peers = peers.map(peer).collect::<io::Result<_>>()?;
    Ok(Balance { peers, own: start.number as usize, slack: start.config.events.balance_slack })
}

fn listen(core: &Core, start: &mut Start, services: &Services) -> Result<(), WorkerError> {
    for Inherited { address, socket, surplus } in std::mem::take(&mut start.sockets) {
        let mut listeners = start.plans.listeners().enumerate();
        let found = listeners.find(|(_, listener)| address_of(listener) == address);
        let found = found.and_then(|(number, listener)| Some((listener, services.of(number)?)));
        let (configured, behind) = found.ok_or_else(|| WorkerError::NoService(address.clone()))?;
        let options = ListenerOptions {
            address: address.to_string(),
            strategy: start.strategies.get(&address).copied().unwrap_or_default(),
            deferred: configured.deferred,
            client_first: configured.client_first,
        };
        match (behind, &address.place) {
            (Behind::Connections(service), _) => {
                core.listen(own(socket)?, options.clone(), Rc::clone(&service))?;
                for socket in surplus {
                    core.listen_surplus(own(socket)?, options.clone(), Rc::clone(&service))?;
                }
            }
            (Behind::Datagrams(service), ListenAddress::Tcp(bound)) => {
                core.listen_datagrams(own(socket)?, *bound, options.clone(), service)?;
            }
            (Behind::Datagrams(_), _) => return Err(WorkerError::NoService(address)),
        }
        if let Some(number) = start.block.listener(&address.to_string()) {
            core.count_accepts(&options.address, number);
        }
    }
    Ok(())
}

/// The master's share of the descriptor is gone in this process, so this is normally a move.
fn own(socket: Rc<OwnedFd>) -> Result<OwnedFd, WorkerError> {
    let attribute = |source| WorkerError::Attribute { what: "a listen socket", source };
    Rc::try_unwrap(socket).or_else(|shared| shared.try_clone()).map_err(attribute)
}

/// What the worker was told and has not done yet.
#[derive(Debug, Default)]
struct Orders {
    drain: Cell<bool>,
    stop: Cell<bool>,
    reopen: Cell<bool>,
    release_surplus: Cell<bool>,
    /// The drain has taken as long as it may.
    overdue: Cell<bool>,
}

/// Reads the channel until the master is gone.
async fn obey(channel: Rc<Channel>, orders: Rc<Orders>) {
    loop {
        let order = match channel.receive().await {
            Ok(Some(word)) => match Command::from_word(word) {
                Some(Command::Drain) => &orders.drain,
                Some(Command::Stop) => &orders.stop,
                Some(Command::Reopen) => &orders.reopen,
                Some(Command::ReleaseSurplus) => &orders.release_surplus,
                None => {
                    warn!(word, "unknown command from the master");
                    continue;
                }
            },
            Ok(None) => {
                error!("the master is gone: finishing what there is");
                orders.drain.set(true);
                return;
            }
            Err(failure) => {
                error!("the channel to the master failed ({failure}): finishing what there is");
                orders.drain.set(true);
                return;
            }
        };
        order.set(true);
    }
}

fn report(channel: &Channel, report: Report) {
    if let Err(failure) = channel.send(report.to_word()) {
        warn!("cannot report to the master: {failure}");
    }
}

async fn deadline(core: Core, after: Duration, orders: Rc<Orders>) {
    core.sleep(after).await;
    orders.overdue.set(true);
}

/// A worker at work.
struct Shift {
    start: Start,
    services: Services,
    orders: Rc<Orders>,
    channel: Option<Rc<Channel>>,
    flags: Flags,
}

impl Shift {
    /// Turns until it is over.
    fn work(self, mut worker: Worker) -> Result<(), WorkerError> {
        while !self.is_over(worker.core()) {
            worker.turn()?;
            self.carry_out(worker.core());
        }
        debug!("ends with {} connections open", worker.core().open_connections());
        worker.core().leave_neighbourhood();
        drop(worker);
        self.services.finish();
        log::finish();
        Ok(())
    }

    fn is_over(&self, core: &Core) -> bool {
        let Orders { stop, overdue, .. } = &*self.orders;
        stop.get() || (core.is_draining() && (overdue.get() || core.open_connections() == 0))
    }

    /// Does what it was told during the last turn.
    fn carry_out(&self, core: &Core) {
        let Orders { drain, stop, reopen, release_surplus, .. } = &*self.orders;
        if self.flags.take_fast() {
            info!("told by a signal to stop");
            stop.set(true);
        }
        if self.flags.take_reopen() || reopen.take() {
            self.reopen_logs();
        }
        if release_surplus.take() {
            core.release_surplus();
            if let Some(channel) = &self.channel {
                report(channel, Report::SurplusReleased);
            }
        }
        let (told, asked) = (self.flags.take_graceful(), drain.take());
        if asked || (told && !core.is_draining()) {
            // A signal is from somebody who wants this process gone, in whose place the master starts another.
            core.expect_replacement(told && !asked && self.channel.is_some());
        }
        match told || asked {
            true if core.is_draining() => core.drain(),
            true => self.drain(core),
            false => {}
        }
    }

    fn drain(&self, core: &Core) {
        self.start.block.set_state(WorkerState::Draining);
        core.drain();
        if let Some(channel) = &self.channel {
            report(channel, Report::QueuesEmptied);
        }
        let timeout = self.start.config.process.shutdown_timeout;
        let connections = counted(core.open_connections() as usize, "connection");
        info!("drains {connections}, for {timeout:?} at most");
        core.spawn(deadline(core.clone(), timeout, Rc::clone(&self.orders)));
    }

    fn reopen_logs(&self) {
        // The master, or whoever moved the files, has made new ones that this user may write to.
        if let Err(failure) = log::reopen(None) {
            error!("cannot reopen the log, going on with the old file: {failure}");
        }
        self.services.reopen_logs();
        info!("log files reopened");
    }
}
