//! The master: reads signals, supervises workers, and carries reloads through.
//!
//! One thread, one loop: wait for a signal, a report or a deadline, then look at everything there is to
//! look at. Nothing in here waits for anything else, and nothing is opened per request.
//!
//! Forking is a return: where a worker is forked, the child gets [`ControlFlow::Break`] with all that it
//! needs, and that travels up through every `?` to [`Master::run`], which drops the master and with it
//! whatever the child was not meant to have. No list of things to close can be incomplete.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use drover_sys::title::Title;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::Signal;
use nix::sys::time::TimeSpec;
use tracing::{debug, error, info};

use crate::config::{Source, StopOnTerm};
use crate::daemonise::Launcher;
use crate::generation::Generation;
use crate::leaving::Leaving;
use crate::log;
use crate::message::{Command, Report};
use crate::pidfile::PidFile;
use crate::reload::Reload;
use crate::respawn::Backoff;
use crate::scoreboard::{MasterState, Scoreboard};
use crate::signals::{Received, Sender, Signals};
use crate::systemd::Notifier;
use crate::upgrade::Upgrade;
use crate::worker::{self, Start};
use crate::workers::{Stage, Workers};

/// In a child: what the worker starts from. In the master: nothing.
pub(crate) type Split = ControlFlow<Box<Start>>;

/// Why the master will end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stopping {
    /// Workers finish what they have.
    Graceful,
    /// Workers end at once.
    Fast,
    /// The first workers could not start.
    Failed,
}

/// The master and all that it holds.
pub(crate) struct Master {
    pub(super) source: Source,
    pub(super) board: Scoreboard,
    pub(super) signals: Signals,
    pub(super) title: Option<Title>,
    pub(super) notifier: Notifier,
    /// Held, and removed at the end.
    pub(super) pid_file: Option<PidFile>,
    /// Whoever waits for the first workers to be ready.
    pub(super) launcher: Launcher,
    pub(super) workers: Workers,
    /// The generation that serves.
    pub(super) generation: Generation,
    /// The number of the generation that was prepared last.
    pub(super) last_number: u64,
    pub(super) reload: Option<Reload>,
    /// Generations whose queues are being emptied.
    pub(super) leaving: Vec<Leaving>,
    /// A reload was asked for while another was under way.
    pub(super) reload_wanted: bool,
    pub(super) stopping: Option<Stopping>,
    /// The workers were asked to leave, the master stays.
    pub(super) parked: bool,
    pub(super) backoff: BTreeMap<u32, Backoff>,
    /// Worker numbers to be replaced, and when.
    pub(super) due: Vec<(u32, Instant)>,
    /// The other master, while there are two.
    pub(super) upgrade: Upgrade,
}

impl Master {
    /// A master without workers.
    #[expect(clippy::too_many_arguments, reason = "the parts of a start, each made by its own step")]
    pub(crate) fn new(
        source: Source,
        board: Scoreboard,
        signals: Signals,
        title: Option<Title>,
        notifier: Notifier,
        pid_file: Option<PidFile>,
        launcher: Launcher,
        generation: Generation,
        upgrade: Upgrade,
    ) -> Self {
        Self {
            source,
            board,
            signals,
            title,
            notifier,
            pid_file,
            launcher,
            generation,
            workers: Workers::default(),
            last_number: 0,
            reload: None,
            leaving: Vec::new(),
            reload_wanted: false,
            stopping: None,
            parked: false,
            backoff: BTreeMap::new(),
            due: Vec::new(),
            upgrade,
        }
    }

    /// Starts `first` and supervises until the end; in a worker's process, runs the worker.
    pub(crate) fn run(mut self, first: Generation) -> ExitCode {
        match self.supervise(first) {
            ControlFlow::Continue(code) => code,
            ControlFlow::Break(start) => {
                drop(self);
                worker::run(*start)
            }
        }
    }

    fn supervise(&mut self, first: Generation) -> ControlFlow<Box<Start>, ExitCode> {
        self.last_number = first.number;
        self.start_candidate(first)?;
        loop {
            if self.workers.is_empty()
                && let Some(stopping) = self.stopping
                && self.parts()
            {
                info!("stopped");
                log::finish();
                let failed = stopping == Stopping::Failed;
                return ControlFlow::Continue(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS });
            }
            self.wait();
            self.take_signals();
            self.take_reports();
            self.hear_other();
            self.collect_ended();
            self.workers.kill_overdue();
            self.replace_ended()?;
            self.advance_reload()?;
            self.advance_upgrade();
            self.tend_leaving()?;
            self.attend_systemd();
        }
    }

    /// Sleeps until a signal, a report or the next deadline; meanwhile looks at the workers' heartbeats.
    fn wait(&mut self) {
        let deadlines = [
            self.workers.next_deadline(),
            self.due.iter().map(|(_, at)| *at).min(),
            self.reload.as_ref().and_then(Reload::deadline),
            self.upgrade.deadline(),
            self.notifier.deadline(),
        ];
        let deadline = deadlines.into_iter().flatten().min();
        loop {
            let process = &self.generation.config.process;
            let look = self.workers.next_look(process);
            if look.is_some_and(|at| at <= Instant::now()) {
                self.workers.look_for_stalls(process);
                continue;
            }
            let woken = self.wait_until(deadline.into_iter().chain(look).min());
            if woken || deadline.is_some_and(|at| at <= Instant::now()) {
                return;
            }
        }
    }

    /// Sleeps until a signal, a report or `end`; tells whether it was one of the first two, as far as is known.
    fn wait_until(&self, end: Option<Instant>) -> bool {
        let timeout = end.map(|at| {
            // A little late rather than a little early, so that what is due is due.
            TimeSpec::from_duration(at.saturating_duration_since(Instant::now()) + Duration::from_millis(1))
        });
        let channels = self.workers.iter().map(AsFd::as_fd);
        let sources = std::iter::once(self.signals.as_fd()).chain(channels).chain(self.upgrade.source());
        let mut sources: Vec<PollFd<'_>> = sources.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        match ppoll(&mut sources, timeout, None) {
            Ok(ready) => ready > 0,
            Err(Errno::EINTR) => true,
            Err(errno) => {
                error!("ppoll: {errno}");
                // Whatever it is must not make the loop spin.
                std::thread::sleep(Duration::from_millis(100));
                true
            }
        }
    }

    fn take_signals(&mut self) {
        loop {
            match self.signals.next() {
                Ok(Some(received)) => self.obey(received),
                Ok(None) => return,
                Err(failure) => {
                    error!("cannot read signals: {failure}");
                    return;
                }
            }
        }
    }

    fn obey(&mut self, received: Received) {
        match received.signal {
            // The children are looked at in every round.
            Signal::SIGCHLD => {}
            Signal::SIGHUP => {
                info!("{received}: reload");
                self.reload_wanted = true;
                self.bring_workers_back();
            }
            Signal::SIGQUIT => self.stop(Stopping::Graceful, received),
            Signal::SIGTERM if self.generation.config.process.stop_on_term == StopOnTerm::Graceful => {
                self.stop(Stopping::Graceful, received);
            }
            Signal::SIGTERM | Signal::SIGINT => self.stop(Stopping::Fast, received),
            Signal::SIGUSR1 => {
                info!("{received}: reopen log files");
                self.reopen_logs();
            }
            Signal::SIGWINCH => {
                // Terminals send this one with every change of size, and mean nothing by it.
                if received.sender == Sender::Kernel {
                    return;
                }
                info!("{received}: the workers stop gracefully, the master stays");
                self.park();
            }
            Signal::SIGUSR2 => self.upgrade_asked(received),
            _ => info!("{received}: ignored"),
        }
    }

    fn stop(&mut self, how: Stopping, received: Received) {
        let fast = how == Stopping::Fast;
        info!("{received}: stop, {}", if fast { "closing what is open" } else { "finishing what is open" });
        if fast || !self.leaves_later() {
            self.begin_stop(how);
        }
    }

    /// Has the workers end, and the master after them. A fast stop overrules a graceful one.
    pub(super) fn begin_stop(&mut self, how: Stopping) {
        self.stopping = match self.stopping {
            Some(Stopping::Failed) => Some(Stopping::Failed),
            _ => Some(how),
        };
        self.board.set_state(MasterState::Stopping);
        self.withdraw_reload();
        let queues = self.leave(how);
        self.due.clear();
        match how {
            Stopping::Graceful => self.empty_queues(queues),
            Stopping::Fast | Stopping::Failed => self.leaving.clear(),
        }
        // Nothing but workers keeps the ports, and what is queued there.
        self.generation.sockets = Default::default();
        self.listens_anew();
        let timeout = self.generation.config.process.shutdown_timeout;
        for process in self.workers.iter_mut() {
            match how {
                Stopping::Graceful => process.drain(timeout),
                Stopping::Fast | Stopping::Failed => process.stop(),
            }
        }
    }

    fn park(&mut self) {
        if self.stopping.is_some() {
            return;
        }
        self.withdraw_reload();
        self.parked = true;
        self.due.clear();
        self.board.set_state(MasterState::Parked);
        let timeout = self.generation.config.process.shutdown_timeout;
        self.leave_datagrams();
        self.workers.iter_mut().for_each(|process| process.drain(timeout));
    }

    fn reopen_logs(&mut self) {
        let reopened = log::reopen(self.generation.owner());
        // First the master, so that the files are there and belong to the right user.
        if let Err(failure) = reopened.and_then(|()| self.generation.make_log_files()) {
            error!("cannot reopen the log files: {failure}");
        }
        self.workers.iter().for_each(|process| process.tell(Command::Reopen));
    }

    fn take_reports(&mut self) {
        for (pid, report) in self.workers.reports() {
            let releasing = matches!(self.reload, Some(Reload::Releasing { asked: true, .. }));
            let Some(process) = self.workers.iter_mut().find(|process| process.pid == pid) else { continue };
            match report {
                Report::Ready if process.stage == Stage::Starting => {
                    process.stage = Stage::Serving;
                    debug!("worker {} of generation {} is ready", process.number, process.generation);
                    if releasing && process.surplus {
                        process.tell(Command::ReleaseSurplus);
                    }
                }
                Report::Ready => {}
                Report::SurplusReleased => process.surplus = false,
                Report::QueuesEmptied => process.left = true,
            }
        }
    }
}
