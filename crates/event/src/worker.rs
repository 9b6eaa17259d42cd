//! The worker: one turn of the loop, its phases in order.

use std::os::fd::OwnedFd;

use tracing::debug;

use crate::accept::balanced::Balance;
use crate::accept::mutex::AcceptMutex;
use crate::alarm::Alarm;
use crate::backend::scripted::Script;
use crate::backend::{Backend, Report};
use crate::clock::{Clock, Millis, Source};
use crate::core::{Core, Settings};
use crate::error::Error;
use crate::event::{EventId, Flags};
use crate::lag::TurnTimes;
use crate::notify::Notifier;
use crate::posted::QueueName;
use crate::stats::{Counter, Gauge, Stats};
use crate::timer::{self, Nodes};
use crate::token::Token;

/// What a worker shares with other processes.
#[derive(Debug)]
pub struct Shared {
    /// Where the worker counts.
    pub stats: Stats,
    /// The lock behind the `mutex` strategy; without it such listeners fall back to `shared`.
    pub mutex: Option<AcceptMutex>,
    /// The workers among which `balanced` listeners balance; without it such listeners fall back to
    /// `shared`.
    pub balance: Option<Balance>,
    /// An eventfd made before the fork, by which other processes can wake this worker; without it
    /// the worker makes its own.
    pub notifier: Option<OwnedFd>,
}

impl Shared {
    /// What a worker has that shares nothing: where it counts.
    pub fn alone(stats: Stats) -> Self {
        Self { stats, mutex: None, balance: None, notifier: None }
    }
}

/// The owner of one worker's loop. A thread runs at most one.
pub struct Worker {
    core: Core,
    reports: Vec<Report>,
    alarm: Option<Alarm>,
    times: TurnTimes,
}

impl Worker {
    /// Installs the backend and prepares the slots.
    ///
    /// # Errors
    /// When the backend or the notifier cannot be made.
    pub fn new(settings: Settings, shared: Shared) -> Result<Self, Error> {
        let backend = settings.backend;
        let made = backend.open(settings.epoll_events);
        let made = made.map_err(|source| Error::Install { backend: backend.name(), source })?;
        Self::with_backend(settings, shared, made, Source::System)
    }

    /// A worker whose readiness and clock come from a script, for tests.
    ///
    /// # Errors
    /// When the notifier cannot be made.
    pub fn scripted(settings: Settings, shared: Shared, script: &Script) -> Result<Self, Error> {
        Self::with_backend(settings, shared, Box::new(script.clone()), Source::Scripted(script.clock()))
    }

    fn with_backend(
        settings: Settings,
        mut shared: Shared,
        mut backend: Box<dyn Backend>,
        clock: Source,
    ) -> Result<Self, Error> {
        let install = |backend, source| Error::Install { backend, source };
        let name = backend.name();
        let notifier = match shared.notifier.take() {
            Some(descriptor) => descriptor,
            None => Notifier::descriptor().map_err(|source| install(name, source))?,
        };
        let notifier = Notifier::install(notifier);
        backend.notify(notifier.as_fd(), Token::NOTIFIER).map_err(|source| install(name, source))?;
        let alarm = settings.timer_resolution.map(Alarm::every).transpose();
        let alarm = alarm.map_err(|source| install(name, source))?;
        if let Some(alarm) = &alarm {
            backend.notify(alarm.as_fd(), Token::ALARM).map_err(|source| install(name, source))?;
        }
        let reports = Vec::with_capacity(settings.epoll_events as usize);
        let core = Core::new(settings, shared, Clock::new(clock), backend, notifier);
        core.stats().set(Gauge::FreeSlots, u64::from(core.settings().connections));
        Ok(Self { core, reports, alarm, times: TurnTimes::default() })
    }

    /// The engine, to which listeners and tasks are added.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// One turn: sleeps once, then handles everything that is due.
    ///
    /// # Errors
    /// When the backend's wait fails; a signal is no failure.
    pub fn turn(&mut self) -> Result<(), Error> {
        let mut sleep_ms = if self.alarm.is_some() { None } else { self.core.time_to_next_timer() };
        self.core.try_gate(&mut sleep_ms);
        if self.ready_posted_next() {
            sleep_ms = Some(0);
        }
        // Whoever fails to wait must not keep others from accepting.
        self.wait(sleep_ms).inspect_err(|_| self.core.release_gate())?;
        self.handle_reports();
        self.run_posted(QueueName::Accept);
        self.core.release_gate();
        self.expire_timers();
        self.run_posted(QueueName::Posted);
        self.core.stats().add(Counter::Turns, 1);
        Ok(())
    }

    /// Moves what was posted for this turn to the posted queue; tells whether anything is on it,
    /// which may also have been posted between two turns.
    fn ready_posted_next(&self) -> bool {
        let state = &mut *self.core.state();
        while let Some(index) = state.queues.take(&mut state.events, QueueName::Next) {
            state.events[EventId::from_index(index)].flags.set(Flags::READY);
            state.queues.post(&mut state.events, index, QueueName::Posted);
        }
        !state.queues.is_empty(QueueName::Posted)
    }

    fn wait(&mut self, sleep_ms: Option<u32>) -> Result<(), Error> {
        let (clock, stats) = (&self.core.inner().clock, self.core.stats());
        let asleep_from = clock.read_nanos();
        self.times.turn_ends(&self.core, asleep_from);
        stats.set(Gauge::TurnStarted, 0);
        let waited = {
            let state = &mut *self.core.state();
            // Once a turn: connections stop and begin to wait at each request.
            stats.set(Gauge::ReusableConnections, u64::from(state.slots.reusable()));
            if sleep_ms != Some(0) && state.slots.are_many_free() {
                state.cut();
            }
            let signals = self.core.settings().wait_signals.as_ref();
            let waited = state.backend.process_events(sleep_ms, signals, &mut self.reports);
            waited.map_err(|source| Error::Wait { backend: state.backend.name(), source })
        };
        let woke_at = clock.read_nanos();
        let now = Millis::from_nanos(woke_at);
        if self.alarm.as_ref().is_none_or(|alarm| rang(alarm, &self.reports)) {
            clock.refresh(now);
        }
        self.times.wakes_up(stats, woke_at, asleep_from, self.reports.len());
        // The cached clock may stand still until the alarm rings; what others see of this worker not.
        stats.set(Gauge::TurnStarted, now.as_u64());
        debug!("timer delta: {}", woke_at.saturating_sub(asleep_from) / 1_000_000);
        waited
    }

    fn handle_reports(&mut self) {
        let posting = self.core.holds_mutex();
        for index in 0..self.reports.len() {
            self.core.dispatch(self.reports[index], posting);
        }
        self.reports.clear();
    }

    pub(crate) fn run_posted(&self, queue: QueueName) {
        loop {
            let (event, handler) = {
                let state = &mut *self.core.state();
                let Some(index) = state.queues.take(&mut state.events, queue) else { break };
                let event = EventId::from_index(index);
                (event, state.events[event].handler)
            };
            debug!(event = ?event, "posted event from {queue:?}");
            handler(&self.core, event);
        }
    }

    /// Handles every timer whose deadline is not in the future; one that a handler sets meanwhile is
    /// due in a later turn.
    pub(crate) fn expire_timers(&self) {
        let now = self.core.now().key_after(0);
        {
            let state = &mut *self.core.state();
            let due = |first: u32| !timer::before(now, state.events.node(first).key());
            if !state.timers.first().is_some_and(due) {
                return;
            }
            state.expiring = true;
        }
        self.expire_timers_until(now);
        self.core.state().expiring = false;
    }

    fn expire_timers_until(&self, now: u32) {
        loop {
            let (event, handler) = {
                let state = &mut *self.core.state();
                let Some(first) = state.timers.first() else { break };
                let event = EventId::from_index(first);
                let key = state.events[event].timer.key();
                if timer::before(now, key) {
                    break;
                }
                debug!(event = ?event, "event timer del: {key}: expired");
                state.timers.remove(&mut state.events, first);
                state.events[event].flags.set(Flags::TIMED_OUT);
                self.core.stats().add(Counter::TimersExpired, 1);
                if !state.events[event].flags.has(Flags::WAITING) {
                    continue;
                }
                (event, state.events[event].handler)
            };
            handler(&self.core, event);
        }
    }
}

/// Whether the alarm ended the wait.
fn rang(alarm: &Alarm, reports: &[Report]) -> bool {
    let rang = reports.iter().any(|report| report.token == Token::ALARM);
    if rang {
        alarm.reset();
    }
    rang
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.core.state().ending = true;
        // Streams inside tasks hold the core, and services may: without this they would hold each
        // other for ever. A task that is dropped may have started another.
        loop {
            let tasks = self.core.state().tasks.take_all();
            let listeners = std::mem::take(&mut self.core.state().listeners);
            let keepers = std::mem::take(&mut self.core.state().keepers);
            let services = self.core.state().sessions.take_services();
            if tasks.is_empty() && listeners.is_empty() && keepers.is_empty() && services.is_empty() {
                break;
            }
            drop((tasks, listeners, keepers, services));
        }
        self.core.forget_current();
    }
}
