//! The master that another one has started.

use std::time::{Duration, Instant};

use tracing::{error, info, warn};

use super::link::{Holdings, Message};
use super::{Other, Standing};
use crate::master::Master;
use crate::scoreboard::Totals;

/// How long a master that has finished waits for the old one to take the names back.
const PATIENCE: Duration = Duration::from_secs(2);

impl Master {
    /// The first generation serves: the old master is asked for the names; without one they are taken.
    pub(crate) fn ask_for_names(&mut self) {
        if self.upgrade.other.is_some() {
            self.tell_seats();
            self.upgrade.tell(&Message::Ready {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                summary: self.generation.summary(),
                holds: self.generation.sockets.holdings(),
            });
        } else if self.upgrade.nameless {
            self.take_names();
        }
    }

    /// The first generation does not come to serve: the old master is told why.
    pub(crate) fn tell_failure(&self, reason: &str) {
        if let Some(other) = &self.upgrade.other {
            other.link.send_failure(reason);
        }
    }

    /// The old master's files have stepped aside.
    pub(super) fn take_over(&mut self, totals: &Totals, holds: Holdings) {
        if !self.upgrade.nameless {
            return;
        }
        self.board.carry(totals);
        self.other_holds(holds);
        self.take_names();
        self.upgrade.tell(&Message::Named);
    }

    /// Whether the old master, which goes on, has still to take the names back: so there is one under them at every
    /// moment.
    pub(super) fn waits_for_predecessor(&mut self) -> bool {
        let goes_on = |other: &Other| other.standing == Standing::Predecessor && other.open;
        if self.upgrade.nameless || !self.upgrade.other.as_ref().is_some_and(goes_on) {
            return false;
        }
        match self.upgrade.parting {
            None => {
                // Readers wait from here on, so whatever they have seen is in these totals.
                self.board.set_handing_over(true);
                self.upgrade.tell(&Message::Parting { totals: self.board.own_totals() });
                self.upgrade.parting = Some(Instant::now() + PATIENCE);
                true
            }
            Some(until) if until > Instant::now() => true,
            Some(_) => {
                self.files().into_iter().for_each(|place| place.leave(true));
                false
            }
        }
    }

    pub(super) fn take_names(&mut self) {
        self.upgrade.nameless = false;
        for place in self.files() {
            if let Err(failure) = place.take_name() {
                error!("cannot give {} its name: {failure}", place.path().display());
            }
        }
    }

    /// The old master has ended, in one way or the other.
    pub(super) fn predecessor_left(&mut self) {
        let Some(other) = self.upgrade.other.take_if(|other| other.standing == Standing::Predecessor) else {
            return;
        };
        info!("the old master (process {}) has left", other.pid);
        if self.upgrade.nameless && self.generation.number > 0 {
            warn!("it left before it handed over");
            self.take_names();
        }
        self.other_is_gone();
        self.become_main();
    }

    /// What systemd hears from now on comes from this master.
    pub(super) fn become_main(&mut self) {
        let status = self.status_line();
        self.notifier.take_over(&status);
        if self.stopping.is_some() {
            self.notifier.stopping();
        }
    }

    /// What waited for there to be one master again.
    pub(super) fn other_is_gone(&mut self) {
        self.board.keep_carried();
        self.follow_datagrams();
        self.remove_what_was_left();
        self.generation.sockets.leave_files(&Holdings::new());
        if std::mem::take(&mut self.upgrade.surplus_waits) && self.reload.is_none() && self.stopping.is_none()
        {
            self.generation.sockets.leave_taken_over();
            self.release_surplus();
        }
    }
}
