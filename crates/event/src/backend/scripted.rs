//! A backend that plays a script, for tests of the loop: no kernel decides what is ready or when.
//!
//! The test keeps a [`Script`], queues what the next wait reports and how far the clock moves
//! meanwhile, runs a turn, and reads back which actions the engine asked for, in order. Sockets are
//! real, so that handlers have something to receive from.
//!
//! ```
//! use drover_event::backend::scripted::{Call, Script};
//! use drover_event::{Settings, Shared, Stats, Worker};
//!
//! let script = Script::new();
//! let shared = Shared::alone(Stats::private()?);
//! let mut worker = Worker::scripted(Settings::default(), shared, &script)?;
//! worker.turn()?;
//! assert_eq!(script.take_calls(), [Call::Wait { timeout_ms: None }]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::rc::Rc;

use nix::sys::signal::SigSet;

use super::{Backend, Kind, Mode, Registration, Report};
use crate::event::Direction;
use crate::token::Token;

/// An action that the engine asked of the backend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the actions are those of the backend table")]
pub enum Call {
    Add { descriptor: RawFd, direction: Direction, mode: Mode },
    Del { descriptor: RawFd, direction: Direction },
    AddConnection { descriptor: RawFd },
    DelConnection { descriptor: RawFd, closing: bool },
    Wait { timeout_ms: Option<u32> },
}

#[derive(Default)]
struct Inner {
    tokens: HashMap<RawFd, Token>,
    reports: Vec<Report>,
    calls: Vec<Call>,
    advance_ms: u64,
    failure: Option<io::Error>,
    wait_failure: Option<io::Error>,
    kernel: Option<Box<dyn Backend>>,
    /// What the kernel reported and the script holds back.
    held: Vec<Report>,
    holding: u64,
}

impl Inner {
    /// Adds what the kernel has and what was held back before it.
    fn ask_kernel(&mut self, reports: &mut Vec<Report>) -> io::Result<()> {
        let Some(kernel) = &mut self.kernel else { return Ok(()) };
        reports.append(&mut self.held);
        let mut found = Vec::new();
        kernel.process_events(Some(0), None, &mut found)?;
        let holding = std::mem::take(&mut self.holding);
        for (index, report) in found.into_iter().enumerate() {
            let held = holding >> (index % 64) & 1 == 1;
            if held { &mut self.held } else { &mut *reports }.push(report);
        }
        Ok(())
    }
}

/// The test's side of a scripted backend and clock.
#[derive(Clone, Default)]
pub struct Script {
    inner: Rc<RefCell<Inner>>,
    now: Rc<Cell<u64>>,
}

impl Script {
    /// A script in which nothing happens yet. Its clock starts at 1000 ms.
    pub fn new() -> Self {
        let script = Self::default();
        script.now.set(1000);
        script
    }

    /// A script over a real backend: each wait reports, besides what is queued, what the kernel has,
    /// at once. Only the clock is the script's, and what it holds back.
    pub fn over(kernel: Box<dyn Backend>) -> Self {
        let script = Self::new();
        script.inner.borrow_mut().kernel = Some(kernel);
        script
    }

    /// Of what the kernel has for the next wait, report *n* is held back to the one after it if bit
    /// *n* is set, as one that finds its array full does it.
    pub fn hold_back(&self, reports: u64) {
        self.inner.borrow_mut().holding = reports;
    }

    /// The time that the clock shows, in milliseconds.
    pub fn now(&self) -> u64 {
        self.now.get()
    }

    /// The next wait reports readiness of `descriptor`, as registered by then.
    pub fn ready(&self, descriptor: RawFd, direction: Direction) {
        if let Some(token) = self.token(descriptor) {
            self.report(Report {
                token,
                readable: direction == Direction::Read,
                writable: direction == Direction::Write,
                ended: false,
                broken: false,
                urgent: false,
            });
        }
    }

    /// The next wait reports this.
    pub fn report(&self, report: Report) {
        self.inner.borrow_mut().reports.push(report);
    }

    /// The token with which `descriptor` was last added.
    pub fn token(&self, descriptor: RawFd) -> Option<Token> {
        self.inner.borrow().tokens.get(&descriptor).copied()
    }

    /// The clock moves on by this much during the next wait.
    pub fn advance(&self, milliseconds: u64) {
        self.inner.borrow_mut().advance_ms += milliseconds;
    }

    /// The clock moves on by this much now, as while a handler runs that takes its time.
    pub fn pass(&self, milliseconds: u64) {
        self.now.set(self.now.get() + milliseconds);
    }

    /// The next action that watches something fails with `error`.
    pub fn fail_next_add(&self, error: io::Error) {
        self.inner.borrow_mut().failure = Some(error);
    }

    /// The next wait fails with `error`.
    pub fn fail_next_wait(&self, error: io::Error) {
        self.inner.borrow_mut().wait_failure = Some(error);
    }

    /// What the engine asked for since this was last called.
    pub fn take_calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.inner.borrow_mut().calls)
    }

    pub(crate) fn clock(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.now)
    }

    fn note(&self, call: Call) {
        self.inner.borrow_mut().calls.push(call);
    }

    fn watch(
        &self,
        target: Registration,
        watch: impl FnOnce(&mut dyn Backend) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut inner = self.inner.borrow_mut();
        if let Some(failure) = inner.failure.take() {
            return Err(failure);
        }
        inner.tokens.insert(target.descriptor, target.token);
        match &mut inner.kernel {
            Some(kernel) => watch(&mut **kernel),
            None => Ok(()),
        }
    }

    /// Passes an action on to the kernel, if there is one.
    fn pass_on(&self, action: impl FnOnce(&mut dyn Backend) -> io::Result<()>) -> io::Result<()> {
        match &mut self.inner.borrow_mut().kernel {
            Some(kernel) => action(&mut **kernel),
            None => Ok(()),
        }
    }
}

impl Backend for Script {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn kind(&self) -> Kind {
        let scripted = Kind { edge: true, reports_end: true, exclusive: true };
        self.inner.borrow().kernel.as_ref().map_or(scripted, |kernel| kernel.kind())
    }

    fn add(&mut self, target: Registration, direction: Direction, mode: Mode) -> io::Result<()> {
        self.note(Call::Add { descriptor: target.descriptor, direction, mode });
        self.watch(target, |kernel| kernel.add(target, direction, mode))
    }

    fn del(&mut self, target: Registration, direction: Direction) -> io::Result<()> {
        self.note(Call::Del { descriptor: target.descriptor, direction });
        self.pass_on(|kernel| kernel.del(target, direction))
    }

    fn add_connection(&mut self, target: Registration) -> io::Result<()> {
        self.note(Call::AddConnection { descriptor: target.descriptor });
        self.watch(target, |kernel| kernel.add_connection(target))
    }

    fn del_connection(&mut self, target: Registration, closing: bool) -> io::Result<()> {
        self.note(Call::DelConnection { descriptor: target.descriptor, closing });
        self.pass_on(|kernel| kernel.del_connection(target, closing))
    }

    fn notify(&mut self, descriptor: BorrowedFd<'_>, token: Token) -> io::Result<()> {
        self.pass_on(|kernel| kernel.notify(descriptor, token))
    }

    fn process_events(
        &mut self,
        timeout_ms: Option<u32>,
        _: Option<&SigSet>,
        reports: &mut Vec<Report>,
    ) -> io::Result<()> {
        self.note(Call::Wait { timeout_ms });
        let mut inner = self.inner.borrow_mut();
        if let Some(failure) = inner.wait_failure.take() {
            return Err(failure);
        }
        self.now.set(self.now.get() + std::mem::take(&mut inner.advance_ms));
        reports.append(&mut inner.reports);
        inner.ask_kernel(reports)
    }
}
