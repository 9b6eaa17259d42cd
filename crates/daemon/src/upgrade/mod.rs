//! Upgrades: a new executable takes over from a running master, and the other way round.
//!
//! ```text
//! old master   none ──USR2──> Starting ──Ready──> HandingOver ──Named──> Successor ──it ended──> none
//!                                └─failed, ended, overdue─┘ the old one goes on, the verdict says why
//!
//! new master   Predecessor, nameless ──YourTurn──> Predecessor ──it left──> none
//!                        └─it was killed: the new one takes the names by itself─┘
//! ```
//!
//! The new master gets the listen sockets over the [`link`]. Until its workers serve nothing changes for
//! anybody: its files have other names ([`crate::owned_path`]). Then the names change hands, and both
//! masters serve until somebody stops one of them: the old one, which makes the upgrade final, or the new one,
//! which undoes it. Whoever stops leaves names, files of unix sockets and the word to systemd to the other.
//!
//! `old.rs` has the side that starts the other master, `new.rs` that which was started; what is the same for
//! both is here.

mod datagrams;
mod executable;
pub(crate) mod inherit;
mod link;
mod new;
mod old;

use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tracing::debug;

use crate::datagrams::DatagramSeat;
use crate::lock;
use crate::master::{Master, Stopping};
use crate::owned_path::{self, OwnedPath};
use crate::reload::SURPLUS_TIME;
use crate::sockets::Sockets;
use crate::unix_socket;
use link::{Heard, Link, Message};

pub(crate) use executable::Executable;
pub(crate) use inherit::Predecessor;
pub(crate) use link::{Handed, Holdings};

/// How often two masters tell each other what they have counted.
const REFRESH: Duration = Duration::from_millis(250);

/// What a master knows of upgrades.
#[derive(Debug)]
pub(crate) struct Upgrade {
    executable: Executable,
    /// Asked for; a reload that is under way comes first.
    wanted: bool,
    other: Option<Other>,
    /// The files of this master have not got their names yet.
    nameless: bool,
    /// The next reload brings back workers of the generation there is, rather than read the config.
    same_config: bool,
    /// Surplus sockets are accepted from until the other master is gone.
    surplus_waits: bool,
    /// A graceful stop begins then: until that, members of groups that only this master has are drained.
    leave_at: Option<Instant>,
    /// Files of unix sockets that were left to the other master.
    left_files: Vec<PathBuf>,
    /// This master has finished; until then it waits for the old one to take the names back.
    parting: Option<Instant>,
    refresh_at: Instant,
    /// The places of the other master's workers that share datagram sockets.
    seats: Vec<Rc<DatagramSeat>>,
}

/// The other master.
#[derive(Debug)]
struct Other {
    pid: Pid,
    link: Link,
    /// Whether its end of the link is open.
    open: bool,
    standing: Standing,
    /// Whether it has begun to stop.
    leaving: bool,
    /// What it listens on.
    holds: Holdings,
    /// Why it will end, by its own account.
    failure: Option<String>,
    /// "drover 0.1.0 (process 7): http on ...".
    summary: String,
}

/// Where the other master stands; see the picture above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Started by this one; its workers do not serve yet.
    Starting {
        /// When it is given up.
        deadline: Instant,
    },
    /// Its workers serve; it is about to take the names.
    HandingOver {
        /// When it is given up.
        deadline: Instant,
    },
    /// Given up, and killed.
    Doomed,
    /// It serves and has the names.
    Successor,
    /// It has started this one.
    Predecessor,
}

impl Other {
    /// Whether it serves after this master.
    fn goes_on(&self) -> bool {
        self.standing == Standing::Successor && self.open && !self.leaving
    }
}

impl Upgrade {
    /// Knows how to start another master; `predecessor` is the one that started this one.
    pub(crate) fn new(executable: Executable, predecessor: Option<Predecessor>) -> Self {
        let nameless = predecessor.is_some();
        let mut seats = Vec::new();
        let other = predecessor.map(|predecessor| {
            seats = predecessor.seats;
            Other {
                pid: predecessor.pid,
                link: predecessor.link,
                open: true,
                standing: Standing::Predecessor,
                leaving: false,
                holds: Holdings::new(),
                failure: None,
                summary: String::new(),
            }
        });
        Self {
            executable,
            wanted: false,
            other,
            nameless,
            same_config: false,
            surplus_waits: false,
            leave_at: None,
            left_files: Vec::new(),
            parting: None,
            refresh_at: Instant::now(),
            seats,
        }
    }

    /// Where the other master is heard, as long as it can be.
    pub(crate) fn source(&self) -> Option<BorrowedFd<'_>> {
        self.other.as_ref().filter(|other| other.open).map(|other| other.link.as_fd())
    }

    /// When something is to be done without anything happening.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let of_other = self.other.as_ref().and_then(|other| match other.standing {
            Standing::Starting { deadline } | Standing::HandingOver { deadline } => Some(deadline),
            Standing::Successor | Standing::Predecessor => Some(self.refresh_at),
            Standing::Doomed => None,
        });
        [of_other, self.leave_at, self.parting].into_iter().flatten().min()
    }

    /// Whether it is open what becomes of the new master: until then sockets stay as they are.
    pub(crate) fn is_pending(&self) -> bool {
        let serves = |standing| matches!(standing, Standing::Successor | Standing::Predecessor);
        self.other.as_ref().is_some_and(|other| !serves(other.standing))
    }

    /// Whether this master has to stay, to see what becomes of the new one or to tidy up after it.
    pub(crate) fn has_to_stay(&self) -> bool {
        let leaves = |other: &Other| other.standing == Standing::Successor && other.leaving;
        self.is_pending() || self.other.as_ref().is_some_and(leaves)
    }

    /// Whether another master serves on the same sockets.
    pub(crate) fn shares_sockets(&self) -> bool {
        self.other.is_some() && !self.is_pending()
    }

    /// Takes note that a surplus of sockets can be released only once the other master is gone, if there is one.
    pub(crate) fn keeps_surplus(&mut self) -> bool {
        self.surplus_waits = self.shares_sockets();
        self.surplus_waits
    }

    /// Whether the reload that begins is to start workers with the config there is; asked once.
    pub(crate) fn take_same_config(&mut self) -> bool {
        std::mem::take(&mut self.same_config)
    }

    fn tell(&self, message: &Message) {
        let Some(other) = self.other.as_ref().filter(|other| other.open) else { return };
        // Its end is noticed elsewhere.
        if let Err(error) = other.link.send(message) {
            debug!("the other master (process {}) does not hear: {error}", other.pid);
        }
    }
}

impl Master {
    /// Takes in what the other master says.
    pub(super) fn hear_other(&mut self) {
        loop {
            let Some(other) = self.upgrade.other.as_mut().filter(|other| other.open) else { return };
            match other.link.receive() {
                Heard::Message(Message::Seats { seed }, with) => self.know_seats(seed, with),
                Heard::Message(message, _) => self.obey_other(message),
                Heard::Nothing => return,
                Heard::Ended => {
                    other.open = false;
                    match other.standing {
                        Standing::Predecessor => self.predecessor_left(),
                        // Its end as a process is what counts.
                        _ => self.successor_fell_silent(),
                    }
                }
            }
        }
    }

    fn obey_other(&mut self, message: Message) {
        let Some(other) = &mut self.upgrade.other else { return };
        match message {
            Message::Ready { version, summary, holds } => {
                other.summary = format!("drover {version} (process {}): {summary}", other.pid);
                other.holds = holds;
                self.hand_over();
            }
            Message::Named => self.names_changed_hands(),
            Message::Failed { reason } => other.failure = Some(reason),
            Message::YourTurn { totals, holds } => self.take_over(&totals, holds),
            Message::Totals(totals) => self.board.carry(&totals),
            Message::Holds(holds) => self.other_holds(holds),
            Message::Leaving => self.other_leaves(),
            Message::Parting { totals } => self.retake_names(&totals),
            // Said only before a master runs.
            Message::Hello { .. } | Message::Sockets(_) | Message::Seats { .. } | Message::Complete => {}
        }
    }

    fn other_holds(&mut self, holds: Holdings) {
        self.generation.sockets.leave_files(&holds);
        if let Some(other) = &mut self.upgrade.other {
            other.holds = holds;
        }
        self.name_heirs();
    }

    fn names_changed_hands(&mut self) {
        match self.upgrade.parting {
            Some(_) => self.upgrade.parting = Some(Instant::now()),
            None => self.succeeded(),
        }
    }

    fn other_leaves(&mut self) {
        let Some(other) = &mut self.upgrade.other else { return };
        other.leaving = true;
        let standing = other.standing;
        self.follow_datagrams();
        match standing {
            Standing::Predecessor => self.become_main(),
            _ => self.go_on(),
        }
    }

    /// Does what an upgrade is waiting for.
    pub(super) fn advance_upgrade(&mut self) {
        let now = Instant::now();
        if self.upgrade.leave_at.is_some_and(|at| at <= now) {
            self.upgrade.leave_at = None;
            self.begin_stop(Stopping::Graceful);
        }
        if self.upgrade.shares_sockets() && self.upgrade.refresh_at <= now {
            self.upgrade.refresh_at = now + REFRESH;
            self.upgrade.tell(&Message::Totals(self.board.own_totals()));
        }
        self.give_up_overdue(now);
        if self.upgrade.wanted {
            self.consider_upgrade();
        }
    }

    /// A generation serves that listens on other sockets than the one before.
    pub(super) fn listens_anew(&self) {
        self.upgrade.tell(&Message::Holds(self.generation.sockets.holdings()));
    }

    /// Whether a graceful stop has to wait: members of a group that the other master does not have are steered
    /// away from, and accepted from for a while.
    pub(super) fn leaves_later(&mut self) -> bool {
        self.hear_other();
        if self.stopping.is_some() || !self.upgrade.shares_sockets() {
            return false;
        }
        let Some(other) = &self.upgrade.other else { return false };
        if self.upgrade.leave_at.is_none() && self.generation.sockets.steer_to(&other.holds) {
            self.upgrade.leave_at = Some(Instant::now() + SURPLUS_TIME);
        }
        self.upgrade.leave_at.is_some()
    }

    /// This master begins to stop: what is left to the other one, and what systemd is told. Returns the sockets that
    /// nobody goes on with, for what is queued there.
    pub(super) fn leave(&mut self, how: Stopping) -> Sockets {
        self.hear_other();
        self.leave_datagrams();
        self.upgrade.leave_at = None;
        self.upgrade.wanted = false;
        self.upgrade.left_files.extend(self.generation.sockets.left_files());
        let queues = if how == Stopping::Graceful { self.leave_addresses() } else { Sockets::default() };
        let other = self.upgrade.other.as_ref().map(|other| (other.standing, other.pid, other.goes_on()));
        match other {
            Some((Standing::Starting { .. }, pid, _)) if how != Stopping::Graceful => {
                self.doom(pid);
                self.notifier.stopping();
            }
            // What is said depends on what becomes of the new master.
            Some((Standing::Starting { .. } | Standing::HandingOver { .. }, ..)) => {}
            Some((Standing::Successor, pid, true)) => self.cede_to(pid),
            _ => {
                self.upgrade.tell(&Message::Leaving);
                self.notifier.stopping();
            }
        }
        queues
    }

    /// A killed master removes nothing: what is left beside the names of this one's files.
    fn remove_what_was_left(&mut self) {
        for place in self.files() {
            for path in [owned_path::fresh(place.name()), owned_path::aside(place.name())] {
                if path != place.path() && path.exists() && lock::holder(&path).is_none() {
                    let _ = fs::remove_file(path);
                }
            }
        }
    }

    /// The files that tell which master this is. The pid file is the last one: whoever waits for it to change finds
    /// the others changed.
    fn files(&mut self) -> Vec<&mut OwnedPath> {
        let pid_file = self.pid_file.as_mut().map(|file| &mut file.place);
        std::iter::once(&mut self.board.place).chain(pid_file).collect()
    }

    /// What no other master listens on is gone with this one.
    fn leave_addresses(&self) -> Sockets {
        match &self.upgrade.other {
            None => self.generation.sockets.leave_all(),
            // It may listen on all of them.
            Some(other) if self.upgrade.is_pending() || other.holds.is_empty() => Sockets::default(),
            Some(other) => self.generation.sockets.leave_to(&other.holds),
        }
    }

    /// The new master does not serve any more: whatever was left to it is this master's again.
    fn go_on(&mut self) {
        if self.stopping.is_none() && self.parked {
            self.upgrade.same_config = true;
            self.reload_wanted = true;
        }
    }

    /// The last thing a master does. False where it has to stay for the other one.
    pub(super) fn parts(&mut self) -> bool {
        self.hear_other();
        if self.upgrade.has_to_stay() || self.waits_for_predecessor() {
            return false;
        }
        self.upgrade.tell(&Message::Totals(self.board.own_totals()));
        if self.upgrade.other.take().is_none() {
            self.upgrade.left_files.iter().for_each(|path| unix_socket::remove_left_behind(path));
        }
        true
    }

    fn cede_to(&mut self, pid: Pid) {
        // Systemd first: what the other one says as soon as it hears must not come before.
        self.notifier.hand_over_to(pid);
        self.upgrade.tell(&Message::Leaving);
    }

    fn doom(&mut self, pid: Pid) {
        if let Some(other) = &mut self.upgrade.other {
            other.standing = Standing::Doomed;
        }
        // It may have ended, which is noticed elsewhere.
        let _ = kill(pid, Signal::SIGKILL);
    }
}
