//! The master that starts another one.

use std::io;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use tracing::{error, info, warn};

use super::link::{Holdings, Link, Message};
use super::{Other, Standing};
use crate::master::Master;
use crate::owned_path::OwnedPath;
use crate::reload::log_lines;
use crate::scoreboard::Totals;
use crate::signals::Received;
use crate::workers::describe;

/// What a new master may take to have the names once its workers serve.
const HAND_OVER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the end of a new master may be in coming after it closed the link.
const SILENCE: Duration = Duration::from_secs(1);

impl Master {
    fn why_no_upgrade(&self) -> Option<String> {
        if self.stopping.is_some() || self.upgrade.leave_at.is_some() {
            return Some("this master is stopping".to_owned());
        }
        if Pid::this() == Pid::from_raw(1) {
            // With it the container, or the system, would end.
            return Some("this master is process 1, which cannot leave: start a new container".to_owned());
        }
        let other = self.upgrade.other.as_ref()?;
        let (what, pid) = (other.standing, other.pid);
        Some(match what {
            Standing::Successor => format!(
                "the new master (process {pid}) of the last upgrade serves beside this one: stop one of them first"
            ),
            Standing::Predecessor => {
                format!("the old master (process {pid}) of the last upgrade still runs: stop it first")
            }
            _ => format!("an upgrade is under way: process {pid} is starting"),
        })
    }

    /// Somebody wants another executable to take over. Looked into once the children that have ended are known: one of
    /// them may be the other master that stands in the way.
    pub(crate) fn upgrade_asked(&mut self, received: Received) {
        let waits = self.reload.is_some() || self.reload_wanted;
        info!("{received}: upgrade{}", if waits { ", once the reload is over" } else { "" });
        self.upgrade.wanted = true;
    }

    /// Begins the upgrade that is wanted, or says why there is none.
    pub(super) fn consider_upgrade(&mut self) {
        if let Some(reason) = self.why_no_upgrade() {
            self.upgrade.wanted = false;
            warn!("no upgrade: {reason}");
            // While one is under way its verdict is what is waited for.
            if !self.upgrade.is_pending() {
                self.board.upgrade_begins();
                self.board.upgrade_ends(false, &reason);
            }
        } else if self.reload.is_none() && !self.reload_wanted {
            self.upgrade.wanted = false;
            self.begin_upgrade();
        }
    }

    fn begin_upgrade(&mut self) {
        self.board.upgrade_begins();
        match self.start_successor() {
            Ok(other) => {
                info!("{} is process {}", self.upgrade.executable.path().display(), other.pid);
                self.upgrade.other = Some(other);
                self.name_heirs();
                // Until it is known what the new master makes of them.
                self.generation.sockets.leave_files(&self.generation.sockets.holdings());
            }
            Err(failure) => {
                let path = self.upgrade.executable.path().display();
                self.upgrade_failed(&format!("cannot start {path}: {failure}"));
            }
        }
    }

    /// Everything is said before the new master begins, so that it never waits and this one never does.
    fn start_successor(&self) -> io::Result<Other> {
        let (link, theirs) = Link::pair()?;
        let pid = Pid::this().as_raw();
        link.send(&Message::Hello { pid, generation: self.last_number })?;
        link.send_sockets(&self.generation.sockets.to_hand_over())?;
        link.send_seats(&self.own_seats())?;
        link.send(&Message::Complete)?;
        let pid = self.upgrade.executable.start(&theirs)?;
        let deadline = Instant::now() + self.generation.config.process.upgrade_timeout;
        Ok(Other {
            pid,
            link,
            open: true,
            standing: Standing::Starting { deadline },
            leaving: false,
            holds: Holdings::new(),
            failure: None,
            summary: String::new(),
        })
    }

    /// The new master's workers serve: the names are its own from now on.
    pub(super) fn hand_over(&mut self) {
        let deadline = Instant::now() + HAND_OVER_TIMEOUT;
        let Some(other) = &mut self.upgrade.other else { return };
        if !matches!(other.standing, Standing::Starting { .. }) {
            return;
        }
        other.standing = Standing::HandingOver { deadline };
        if let Err(failure) = self.step_aside() {
            let reason = format!("the files of this master cannot step aside: {failure}");
            return self.give_up_on_successor(reason);
        }
        let Some(other) = &self.upgrade.other else { return };
        self.generation.sockets.leave_files(&other.holds);
        self.name_heirs();
        // Readers wait from here on, so whatever they have seen is in these totals.
        self.board.set_handing_over(true);
        let totals = self.board.own_totals();
        self.upgrade.tell(&Message::YourTurn { totals, holds: self.generation.sockets.holdings() });
    }

    /// The new master has the names.
    pub(super) fn succeeded(&mut self) {
        let stopping = self.stopping.is_some();
        let Some(other) = &mut self.upgrade.other else { return };
        if !matches!(other.standing, Standing::HandingOver { .. }) {
            return;
        }
        other.standing = Standing::Successor;
        let (pid, summary) = (other.pid, other.summary.clone());
        self.files().into_iter().for_each(|place| place.give_up_name());
        info!("{summary}; this master goes on too, until it is stopped");
        self.board.upgrade_ends(true, &summary);
        if stopping {
            self.cede_to(pid);
        }
    }

    /// HUP to a master whose workers were asked to leave for a new master's brings them back as they were: the
    /// config file may be the new one's by now.
    pub(crate) fn bring_workers_back(&mut self) {
        let successor =
            self.upgrade.other.as_ref().is_some_and(|other| other.standing == Standing::Successor);
        self.upgrade.same_config = successor && self.parked;
    }

    /// Gives up a new master that takes too long.
    pub(super) fn give_up_overdue(&mut self, now: Instant) {
        let Some(other) = &self.upgrade.other else { return };
        let reason = match other.standing {
            Standing::Starting { deadline } if deadline <= now && other.open => {
                format!("it was not ready within {:?}", self.generation.config.process.upgrade_timeout)
            }
            Standing::Starting { deadline } if deadline <= now => {
                "it does not know how to take over: it closed the link".to_owned()
            }
            Standing::HandingOver { deadline } if deadline <= now => {
                format!("it was ready and did not take over within {HAND_OVER_TIMEOUT:?}")
            }
            _ => return,
        };
        self.give_up_on_successor(reason);
    }

    fn give_up_on_successor(&mut self, reason: String) {
        let Some(other) = &mut self.upgrade.other else { return };
        other.failure.get_or_insert(reason);
        let pid = other.pid;
        warn!("the new master (process {pid}) is killed");
        self.doom(pid);
    }

    /// The new master closed its end of the link. Mostly it ended, and the kernel is about to say how.
    pub(super) fn successor_fell_silent(&mut self) {
        let Some(other) = &mut self.upgrade.other else { return };
        if let Standing::Starting { deadline } | Standing::HandingOver { deadline } = &mut other.standing {
            *deadline = (Instant::now() + SILENCE).min(*deadline);
        }
    }

    /// A child ended: whether it was the new master.
    pub(crate) fn successor_ended(&mut self, pid: Pid, status: ExitStatus) -> bool {
        if self.upgrade.other.as_ref().is_none_or(|other| other.pid != pid) {
            return false;
        }
        // What it said last.
        self.hear_other();
        let Some(other) = self.upgrade.other.take_if(|other| other.pid == pid) else { return true };
        let how = describe(status);
        self.come_back();
        match other.standing {
            Standing::Successor | Standing::Predecessor => {
                if status.success() {
                    info!("the new master (process {pid}) {how}");
                } else {
                    error!("the new master (process {pid}) {how}");
                }
            }
            Standing::Doomed => self.upgrade_failed(&other.failure.unwrap_or(how)),
            Standing::Starting { .. } | Standing::HandingOver { .. } => {
                let why = other.failure.unwrap_or_else(|| "what it printed may say why".to_owned());
                self.upgrade_failed(&format!(
                    "the new master (process {pid}) {how} before it was ready: {why}"
                ));
            }
        }
        if self.stopping.is_some() {
            self.notifier.stopping();
        } else {
            info!("generation {} goes on under this master", self.generation.number);
            self.go_on();
        }
        true
    }

    fn upgrade_failed(&mut self, reason: &str) {
        log_lines(reason, |line| error!("{line}"));
        error!("the upgrade failed");
        self.board.upgrade_ends(false, reason);
    }

    fn step_aside(&mut self) -> io::Result<()> {
        self.files().into_iter().try_for_each(OwnedPath::step_aside)
    }

    /// The new master has finished.
    pub(super) fn retake_names(&mut self, totals: &Totals) {
        self.board.carry(totals);
        self.take_names();
        self.board.set_handing_over(false);
        self.upgrade.tell(&Message::Named);
    }

    /// This master is the only one again.
    fn come_back(&mut self) {
        if self.board.place.path() != self.board.place.name() {
            self.board.catch_up_with(self.board.place.name());
        }
        self.take_names();
        self.board.set_handing_over(false);
        self.other_is_gone();
    }
}
