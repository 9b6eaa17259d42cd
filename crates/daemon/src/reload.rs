//! Reloads: from a wish to a new generation that serves, or to a verdict why not.
//!
//! ```text
//!   wanted ──checked──> Starting ──all ready──> (committed) ──no surplus──────────────> none
//!      │                   │                        └──surplus──> Releasing ──released──┘
//!      └──refused          └──refused: the new workers stop, the old generation goes on
//! ```
//!
//! One at a time: whatever is asked for while workers start becomes one more reload afterwards. One that begins
//! while sockets are being released takes those over. The first start is a reload too, from an empty generation;
//! where that is refused, the daemon ends.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use drover_config::{Findings, LogFile, Style};
use tracing::{error, info, warn};

use crate::budget::Budget;
use crate::complaint::Complaints;
use crate::config::{Config, System, Target};
use crate::generation::Generation;
use crate::log;
use crate::master::{Master, Split, Stopping};
use crate::message::Command;
use crate::scoreboard::MasterState;
use crate::sockets::Sockets;
use crate::supervise::For;

/// New workers that are not ready after this are given up.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// How long surplus sockets are accepted from at least: handshakes under way end within it.
pub(crate) const SURPLUS_TIME: Duration = Duration::from_secs(2);
/// When surplus sockets are closed although a worker has not answered.
const SURPLUS_TIMEOUT: Duration = Duration::from_secs(30);

/// A reload that is under way.
pub(crate) enum Reload {
    /// The workers of the new generation are starting.
    Starting {
        /// The new generation.
        candidate: Box<Generation>,
        /// When it is given up.
        deadline: Instant,
        /// What its workers complain about.
        complaints: Complaints,
    },
    /// The new generation serves and also accepts from sockets that are on their way out.
    Releasing {
        /// When the workers are to let go, or at the latest have let go.
        deadline: Instant,
        /// Whether they were told.
        asked: bool,
    },
}

impl Reload {
    /// When something is to be done without anything happening.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self {
            Reload::Starting { deadline, .. } | Reload::Releasing { deadline, .. } => Some(*deadline),
        }
    }
}

impl Master {
    /// Does what the reload under way is waiting for, or begins the one that is wanted.
    pub(super) fn advance_reload(&mut self) -> Split {
        self.finish_step();
        // Here and not in the next round: nothing may be there to begin that.
        let starting = matches!(self.reload, Some(Reload::Starting { .. }));
        if !starting && self.reload_wanted && self.stopping.is_none() && !self.upgrade.is_pending() {
            self.reload_wanted = false;
            return self.begin_reload();
        }
        Split::Continue(())
    }

    /// Ends the step that the reload is at, if what it waits for has come.
    fn finish_step(&mut self) {
        let now = Instant::now();
        match &mut self.reload {
            Some(Reload::Starting { candidate, deadline, .. }) => {
                if self.workers.serving(candidate.number) == candidate.workers as usize {
                    self.commit();
                } else if *deadline <= now {
                    self.refuse(&format!("the new workers were not ready within {READY_TIMEOUT:?}"));
                }
            }
            Some(Reload::Releasing { deadline, asked }) if !*asked && *deadline <= now => {
                (*deadline, *asked) = (now + SURPLUS_TIMEOUT, true);
                for process in self.workers.iter().filter(|process| process.surplus) {
                    process.tell(Command::ReleaseSurplus);
                }
            }
            Some(Reload::Releasing { deadline, asked: true }) => {
                let overdue = *deadline <= now;
                let number = self.generation.number;
                let released = self.due.is_empty() && !self.workers.of(number).any(|process| process.surplus);
                if overdue {
                    warn!("not every worker let go of the sockets on their way out: closing them anyway");
                }
                if released || overdue {
                    self.show_listeners(self.generation.sockets.surplus());
                    self.generation.sockets.release();
                    self.reload = None;
                }
            }
            Some(Reload::Releasing { .. }) | None => {}
        }
    }

    fn begin_reload(&mut self) -> Split {
        self.board.reload_begins();
        self.notifier.reloading();
        let candidate = if self.upgrade.take_same_config() { self.again() } else { self.check() };
        match candidate {
            Ok(candidate) => self.start_candidate(candidate),
            Err(message) => {
                self.refuse(&message);
                Split::Continue(())
            }
        }
    }

    /// Reads and checks the configuration and opens what is new; the message says why that cannot be.
    fn check(&mut self) -> Result<Generation, String> {
        let system = System::probe();
        let (config, warnings) =
            self.source.load(&system).map_err(|findings| findings.render(Style::Plain))?;
        log_warnings(&warnings);
        self.warn_of_fixed_keys(&config);
        self.prepare(Rc::new(config), &system)
    }

    /// The generation that serves once more, whatever the config file says by now.
    fn again(&mut self) -> Result<Generation, String> {
        self.prepare(Rc::clone(&self.generation.config), &System::probe())
    }

    fn prepare(&mut self, config: Rc<Config>, system: &System) -> Result<Generation, String> {
        let number = self.last_number + 1;
        let candidate = Generation::prepare(number, config, system, &self.generation.sockets);
        let candidate = candidate.map_err(|error| error.to_string())?;
        self.last_number = number;
        Ok(candidate)
    }

    fn warn_of_fixed_keys(&self, new: &Config) {
        let (old, new) = (&self.generation.config.process, &new.process);
        let changed = [
            ("pid_file", old.pid_file != new.pid_file),
            ("runtime_dir", old.runtime_dir != new.runtime_dir),
            ("master", *old.master != *new.master),
            ("daemon", old.daemon != new.daemon),
        ];
        for (key, _) in changed.into_iter().filter(|(_, changed)| *changed) {
            warn!("[process] {key} takes effect only with a restart");
        }
    }

    /// Starts the workers of a generation that was prepared.
    pub(super) fn start_candidate(&mut self, mut candidate: Generation) -> Split {
        if let Err(reason) = candidate.seat_workers(&self.board) {
            candidate.sockets.abandon();
            self.refuse(&reason);
            return Split::Continue(());
        }
        if let Err(failure) = log::apply(candidate.log_settings(), candidate.owner()) {
            self.free_seats(&candidate);
            candidate.sockets.abandon();
            self.refuse(&format!("cannot open the log: {failure}"));
            return Split::Continue(());
        }
        if self.generation.number > 0 {
            self.board.set_state(MasterState::Reloading);
        }
        let complaints = match Complaints::new() {
            Ok(complaints) => complaints,
            Err(failure) => {
                self.free_seats(&candidate);
                candidate.sockets.abandon();
                self.refuse(&format!("cannot start workers: {failure}"));
                return Split::Continue(());
            }
        };
        candidate.place_servers(&self.board);
        if let (Some(plans), Some(before)) = (&candidate.plans, &self.generation.plans) {
            plans.inherit(before);
        }
        let deadline = Instant::now() + READY_TIMEOUT;
        let mut started = Ok(());
        for number in 0..candidate.workers {
            if started.is_ok() {
                started = self.spawn(For::Candidate(&candidate, &complaints), number)?;
            }
        }
        self.reload = Some(Reload::Starting { candidate: Box::new(candidate), deadline, complaints });
        if let Err(reason) = started {
            self.refuse(&reason);
        }
        Split::Continue(())
    }

    /// The new generation serves from now on.
    fn commit(&mut self) {
        let Some(Reload::Starting { candidate, .. }) = self.reload.take() else { return };
        let mut candidate = *candidate;
        let surplus = candidate.sockets.commit();
        if !self.upgrade.shares_sockets() {
            candidate.sockets.join_datagrams();
        }
        let mut before = std::mem::replace(&mut self.generation, candidate);
        let timeout = before.config.process.shutdown_timeout;
        // Another master that has the same sockets says what was turned away there.
        let closing = (!self.upgrade.shares_sockets()).then_some(&before.sockets);
        self.show_listeners(closing.into_iter().flat_map(|before| before.closing(&self.generation.sockets)));
        // Another master goes on with what this one leaves.
        let shared = self.upgrade.shares_sockets();
        before.sockets =
            if shared { Sockets::default() } else { before.sockets.leave(&self.generation.sockets) };
        let number = self.generation.number;
        let followed = self.generation.sockets.datagram_ports();
        for process in self.workers.iter_mut().filter(|process| process.generation < number) {
            if let Some(seat) = &process.datagrams {
                seat.table.set_followed(followed);
            }
            process.drain(timeout);
        }
        self.name_heirs();
        let (first, missing) = (before.number == 0, self.missing(&before));
        self.let_go(before, missing);
        if surplus && !self.upgrade.keeps_surplus() {
            self.release_surplus();
        }
        self.backoff.clear();
        self.due.clear();
        self.parked = false;
        let workers = self.generation.workers;
        self.board.set_generation(number, workers as usize);
        self.board.show_servers(self.generation.servers);
        self.board.set_state(MasterState::Serving);
        let summary = format!("generation {number} serves: {}", self.generation.summary());
        info!("{summary}");
        if first {
            self.announce();
            self.ask_for_names();
        } else {
            self.board.reload_ends(true, &summary);
            self.listens_anew();
        }
        self.tell_systemd_ready();
    }

    /// Shows the listeners of the generation that serves, while the sockets in `closing` are still open.
    fn show_listeners<'a>(&'a self, closing: impl Iterator<Item = &'a OwnedFd>) {
        let Generation { number, sockets, strategies, .. } = &self.generation;
        self.board.show_listeners(&sockets.listed(strategies), closing, *number);
    }

    /// Begins to let go of the sockets on their way out.
    pub(super) fn release_surplus(&mut self) {
        self.generation.sockets.steer_away();
        let deadline = Instant::now() + SURPLUS_TIME;
        self.reload = Some(Reload::Releasing { deadline, asked: false });
    }

    /// What is said once, when the first workers serve.
    fn announce(&mut self) {
        let Generation { config, workers, .. } = &self.generation;
        let budget = Budget::of(config, *workers);
        info!("{}", budget.describe());
        if let Some(shortfall) = budget.shortfall() {
            warn!("{shortfall}");
        }
        let line = format!(
            "drover {}: {}; stop with {}, reload with kill -HUP {}",
            env!("CARGO_PKG_VERSION"),
            self.generation.summary(),
            if config.process.daemon { "drover stop" } else { "Ctrl-C" },
            std::process::id(),
        );
        self.launcher.ready(config.people_read_stderr().then_some(&line));
    }

    /// The reload comes to nothing: what serves goes on, what was new goes away, and whoever asked is told.
    pub(super) fn refuse(&mut self, message: &str) {
        self.withdraw_reload();
        log_lines(message, |line| error!("{line}"));
        if self.generation.number == 0 {
            error!("drover cannot start");
            self.tell_failure(message);
            let logged = self.generation.config.log.target() == Target::File(LogFile::Stderr);
            self.launcher.failed(if logged { None } else { Some(message) });
            self.begin_stop(Stopping::Failed);
            return;
        }
        error!("the reload is refused; generation {} goes on", self.generation.number);
        self.board.set_state(if self.parked { MasterState::Parked } else { MasterState::Serving });
        self.board.reload_ends(false, message);
        self.tell_systemd_ready();
    }

    /// Takes back what a reload has done so far, unless it is committed.
    pub(super) fn withdraw_reload(&mut self) {
        let Some(Reload::Starting { candidate, .. }) = &self.reload else { return };
        let number = candidate.number;
        let Some(Reload::Starting { candidate, .. }) = self.reload.take() else { return };
        let timeout = candidate.config.process.shutdown_timeout;
        for process in self.workers.iter_mut().filter(|process| process.generation == number) {
            // It may be ready and have accepted somebody before its report is read here.
            process.drain(timeout);
        }
        let mut candidate = *candidate;
        candidate.sockets = candidate.sockets.abandon();
        self.let_go(candidate, Vec::new());
        if self.generation.sockets.has_surplus() && !self.upgrade.keeps_surplus() {
            self.release_surplus();
        }
        if let Err(failure) = log::apply(self.generation.log_settings(), self.generation.owner()) {
            warn!("cannot go back to the log of before: {failure}");
        }
    }
}

/// Warnings about a configuration, in the log.
pub(crate) fn log_warnings(warnings: &Findings) {
    log_lines(&warnings.render(Style::Plain), |line| warn!("{line}"));
}

/// One log line for each line of a text: a diagnostic keeps its shape.
pub(crate) fn log_lines(text: &str, log: impl Fn(&str)) {
    text.lines().filter(|line| !line.trim().is_empty()).for_each(log);
}
