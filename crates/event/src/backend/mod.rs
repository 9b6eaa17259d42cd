//! The backend table: what a readiness mechanism must do, and how it says what kind it is.
//!
//! A backend knows descriptors, tokens and directions, and nothing of slots, tasks or timers. The
//! engine keeps for each event whether the backend watches it (`ACTIVE`) and passes what it knows
//! with every call, so a backend needs no table of its own unless its system call does.
//!
//! The ten actions are [`add`](Backend::add), [`del`](Backend::del), [`enable`](Backend::enable),
//! [`disable`](Backend::disable), [`add_connection`](Backend::add_connection),
//! [`del_connection`](Backend::del_connection), [`notify`](Backend::notify),
//! [`process_events`](Backend::process_events), and making and dropping the value (`init`, `done`).
//! Each backend is one file.

use std::io;
use std::os::fd::{BorrowedFd, RawFd};

use nix::sys::signal::SigSet;

use crate::event::Direction;
use crate::token::Token;

pub mod epoll;
pub mod poll;
pub mod scripted;
pub mod select;

/// What kind of backend it is; callers adapt through two helpers and never ask which one runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind {
    /// Reports changes only ("clear"): a direction is added once and stays.
    pub edge: bool,
    /// Reports the end of the peer's stream together with readiness.
    pub reports_end: bool,
    /// Can watch a shared listener so that one or a few workers are woken.
    pub exclusive: bool,
}

/// A descriptor as the backend sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Registration {
    /// The descriptor to watch.
    pub descriptor: RawFd,
    /// What its reports will carry.
    pub token: Token,
    /// Whether reading is watched already.
    pub reading: bool,
    /// Whether writing is watched already.
    pub writing: bool,
}

/// How a direction is to be watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// As the backend does it best: edge-triggered where it can.
    Connection,
    /// Level-triggered: reported as long as connections are queued.
    Listener,
    /// Level-triggered, waking one or a few of the workers that watch the same socket.
    ExclusiveListener,
}

/// One readiness report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    /// As given when the descriptor was added.
    pub token: Token,
    /// Something can be received.
    pub readable: bool,
    /// Something can be sent.
    pub writable: bool,
    /// The peer's stream has ended, or an error is pending: receiving will tell.
    pub ended: bool,
    /// It is more than that the peer's stream has ended: what is received may not be all that it sent.
    pub broken: bool,
    /// Urgent data are among what can be received, before which a receive stops short (tcp(7)).
    pub urgent: bool,
}

/// The table. Errors are those of the system call behind each action.
#[allow(clippy::missing_errors_doc, reason = "said once above for all actions")]
pub trait Backend {
    /// The word used in the config and in logs.
    fn name(&self) -> &'static str;

    /// What kind of backend it is.
    fn kind(&self) -> Kind;

    /// Starts watching one direction.
    fn add(&mut self, target: Registration, direction: Direction, mode: Mode) -> io::Result<()>;

    /// Stops watching one direction.
    fn del(&mut self, target: Registration, direction: Direction) -> io::Result<()>;

    /// Watches a direction again that was disabled.
    fn enable(&mut self, target: Registration, direction: Direction) -> io::Result<()> {
        self.add(target, direction, Mode::Connection)
    }

    /// Stops watching a direction that will be wanted again.
    fn disable(&mut self, target: Registration, direction: Direction) -> io::Result<()> {
        self.del(target, direction)
    }

    /// Starts watching both directions at once.
    fn add_connection(&mut self, target: Registration) -> io::Result<()>;

    /// Forgets a descriptor that is about to be closed (`closing`) or is to live on unwatched.
    fn del_connection(&mut self, target: Registration, closing: bool) -> io::Result<()>;

    /// Watches a descriptor of the worker itself, such as its notifier, that takes no slot. An
    /// edge-triggered backend reports each notification once.
    fn notify(&mut self, descriptor: BorrowedFd<'_>, token: Token) -> io::Result<()>;

    /// Sleeps until something is ready, a signal comes that `signals` lets through, or
    /// `timeout_ms` has passed (`None`: no limit), and appends what is ready to `reports`.
    /// A signal is no error: there is just nothing to report.
    fn process_events(
        &mut self,
        timeout_ms: Option<u32>,
        signals: Option<&SigSet>,
        reports: &mut Vec<Report>,
    ) -> io::Result<()>;
}

/// The backends there are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BackendKind {
    /// `epoll(7)`
    Epoll,
    /// `poll(2)`
    Poll,
    /// `select(2)`
    Select,
}

impl BackendKind {
    /// All of them, best first.
    pub const ALL: &'static [BackendKind] = &[BackendKind::Epoll, BackendKind::Poll, BackendKind::Select];

    /// The word used in the config.
    pub const fn name(self) -> &'static str {
        match self {
            BackendKind::Epoll => "epoll",
            BackendKind::Poll => "poll",
            BackendKind::Select => "select",
        }
    }

    /// Makes one for a worker with `epoll_events` reports a wait at most.
    ///
    /// # Errors
    /// What the system call behind it reports.
    pub fn open(self, epoll_events: u32) -> io::Result<Box<dyn Backend>> {
        match self {
            BackendKind::Epoll => Ok(Box::new(epoll::EpollBackend::new(epoll_events)?)),
            BackendKind::Poll => Ok(Box::new(poll::PollBackend::new())),
            BackendKind::Select => Ok(Box::new(select::SelectBackend::new())),
        }
    }
}

/// The milliseconds as the system calls want them: -1 for no limit.
pub(crate) fn as_timeout(timeout_ms: Option<u32>) -> i32 {
    timeout_ms.map_or(-1, |limit| i32::try_from(limit).unwrap_or(i32::MAX))
}
