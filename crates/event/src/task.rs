//! Tasks: futures driven by the loop's own machinery.
//!
//! A task has a number and an event; waking it posts that event, so the run queue *is* the posted
//! queue. A task that waits for readiness stores no waker: the slot knows its task, and the
//! handler of the slot's event resumes it.
//!
//! While a task runs, its future is out of the table; whatever would resume it meanwhile posts its
//! event, and it runs again later in the same turn. A task that wakes itself yields, as Rust's
//! futures do it: it goes on in the next turn. A panic in a task ends that task alone.
//!
//! In debug builds a task that goes to sleep without anything that could resume it (an event it
//! waits for, a timer, a posted entry, a kept waker) is a bug and panics at once.

use std::any::Any;
use std::future::poll_fn;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use drover_sys::waker::{WakeByToken, waker};
use tracing::{debug, error};

use crate::close::CloseReason;
use crate::connection::{NONE, release};
use crate::core::{Core, State};
use crate::debug::log_verbosely;
use crate::event::{EventId, Flags};
use crate::notify::Notifier;
use crate::posted::QueueName;
use crate::stats::{Counter, Gauge};
use crate::token::Token;

/// The future of one task, boxed once.
pub type Task = Pin<Box<dyn Future<Output = ()>>>;

struct Entry {
    /// `None` while the task runs, and while the entry is free.
    future: Option<Task>,
    generation: u32,
    live: bool,
    next_free: u32,
    /// The connection it was made for; zero for none.
    connection: u64,
    /// The slot of that connection.
    slot: u32,
    /// Logged at debug level whatever the log's level.
    verbose: bool,
    /// Somebody keeps a waker of this task, or kept one once: what it waits for may be theirs.
    waker_kept: bool,
}

/// All tasks of a worker.
pub(crate) struct Tasks {
    entries: Vec<Entry>,
    free: u32,
    running: u32,
    /// The highest generation among entries that were cut off: those that follow them begin there.
    past: u32,
}

impl Default for Tasks {
    fn default() -> Self {
        Self { entries: Vec::new(), free: NONE, running: NONE, past: 0 }
    }
}

impl Tasks {
    /// The task that runs now; [`NONE`] outside of any.
    pub(crate) fn running(&self) -> u32 {
        self.running
    }

    /// The connection that `task` was made for; zero for none, and for no task.
    fn connection_of(&self, task: u32) -> u64 {
        self.entries.get(task as usize).map_or(0, |entry| entry.connection)
    }

    fn resolve(&self, token: Token) -> Option<u32> {
        let entry = self.entries.get(token.index() as usize)?;
        (entry.live && entry.generation == token.generation()).then_some(token.index())
    }

    fn lend(&mut self, connection: u64, slot: u32, verbose: bool) -> u32 {
        if self.free == NONE {
            self.entries.push(Entry {
                future: None,
                generation: self.past.wrapping_add(1),
                live: true,
                next_free: NONE,
                connection,
                slot,
                verbose,
                waker_kept: false,
            });
            return self.entries.len() as u32 - 1;
        }
        let task = self.free;
        let entry = &mut self.entries[task as usize];
        self.free = entry.next_free;
        entry.generation = entry.generation.wrapping_add(1);
        entry.live = true;
        entry.connection = connection;
        entry.slot = slot;
        entry.verbose = verbose;
        entry.waker_kept = false;
        task
    }

    fn give_back(&mut self, task: u32) {
        let entry = &mut self.entries[task as usize];
        entry.live = false;
        entry.next_free = self.free;
        self.free = task;
    }

    /// How many entries there are, free ones among them.
    pub(crate) fn rows(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Gives back the memory of the free entries behind the last live one.
    pub(crate) fn cut(&mut self) {
        let kept = self.entries.iter().rposition(|entry| entry.live).map_or(0, |last| last + 1);
        self.past = self.entries[kept..].iter().map(|entry| entry.generation).fold(self.past, u32::max);
        self.entries.truncate(kept);
        release(&mut self.entries, kept);
        self.free = NONE;
        for task in (0..kept).rev().filter(|task| !self.entries[*task].live).collect::<Vec<_>>() {
            self.entries[task].next_free = self.free;
            self.free = task as u32;
        }
    }

    /// Takes every future out, for the end of the worker.
    pub(crate) fn take_all(&mut self) -> Vec<Task> {
        self.entries.iter_mut().filter_map(|entry| entry.future.take()).collect()
    }
}

impl Core {
    /// Starts a task that belongs to no connection. It first runs later in this turn.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        let number = self.reserve_task(0, NONE, false);
        self.install_task(number, Box::pin(task));
        let mut state = self.state();
        self.post(&mut state, EventId::of_task(number), QueueName::Posted);
    }

    /// Takes a task number; [`Core::install_task`] must follow.
    pub(crate) fn reserve_task(&self, connection: u64, slot: u32, verbose: bool) -> u32 {
        let mut state = self.state();
        let task = state.tasks.lend(connection, slot, verbose);
        state.events.ensure_row(task);
        let event = &mut state.events[EventId::of_task(task)];
        event.handler = run_posted;
        event.flags.set(Flags::WAITING);
        task
    }

    pub(crate) fn install_task(&self, task: u32, future: Task) {
        self.state().tasks.entries[task as usize].future = Some(future);
    }

    /// Runs `task` until it waits or ends.
    pub(crate) fn resume(&self, task: u32) {
        let mut state = self.state();
        let entry = &mut state.tasks.entries[task as usize];
        let Some(mut future) = entry.future.take() else {
            // It runs already, further out, and has to look again at what it was resumed for.
            if entry.live {
                self.post(&mut state, EventId::of_task(task), QueueName::Posted);
            }
            return;
        };
        let token = Token::new(task, entry.generation);
        let (connection, slot, verbose) = (entry.connection, entry.slot, entry.verbose);
        // A task may be resumed while another runs: reclaiming a slot asks an idle one to close.
        let outer = std::mem::replace(&mut state.tasks.running, task);
        let outer_moved = std::mem::take(&mut state.moved);
        let outer_connection = state.tasks.connection_of(outer);
        let phase = state.slots.phase_of(slot);
        drop(state);
        let outer_verbose = log_verbosely(verbose);
        let outer_armed = self.inner().armed.replace(false);
        if connection != outer_connection {
            self.stats().set(Gauge::RunningConnection, connection);
            self.stats().set(Gauge::RunningPhase, phase as u64);
        }

        // It owns nothing, so there is nothing to drop, and dropping it would be a call.
        let waker = ManuallyDrop::new(waker::<CurrentWorker>(token.as_u64()));
        let mut context = Context::from_waker(&waker);
        let outcome = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context)));
        let pending = outcome.unwrap_or_else(|panic| {
            self.note_panic(task, connection, slot, panic.as_ref());
            Poll::Ready(())
        });
        let mut state = if pending.is_pending() {
            let mut state = self.state();
            let entry = &mut state.tasks.entries[task as usize];
            debug_assert!(
                self.inner().armed.get() || entry.waker_kept,
                "task {task} (connection {connection}) sleeps and nothing will wake it"
            );
            entry.future = Some(future);
            state
        } else {
            self.end_task(task, connection, slot, future);
            self.state()
        };
        state.tasks.running = outer;
        state.moved = outer_moved;
        drop(state);
        self.inner().armed.set(outer_armed);
        log_verbosely(outer_verbose);
        if connection != outer_connection {
            self.stats().set(Gauge::RunningConnection, outer_connection);
        }
    }

    /// Drops the future, which closes its streams, and returns the task's number.
    fn end_task(&self, task: u32, connection: u64, slot: u32, future: Task) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(future))) {
            self.note_panic(task, connection, slot, panic.as_ref());
        }
        let mut state = self.state();
        state.retire(EventId::of_task(task));
        state.tasks.give_back(task);
    }

    fn note_panic(&self, task: u32, connection: u64, slot: u32, panic: &(dyn Any + Send)) {
        let message = panic
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no message");
        error!(connection, "task {task} panicked and its connection is closed: {message}");
        self.stats().add(Counter::TaskPanics, 1);
        let state = &mut *self.state();
        if slot != NONE && state.slots[slot].number == connection {
            state.slots[slot].end.say(CloseReason::InternalError);
        }
    }

    /// Waits for `delay` on the running task's own timer: one sleep at a time per task.
    pub async fn sleep(&self, delay: Duration) {
        let _timer = CancelOnDrop { core: self, event: self.running_event() };
        let mut started = false;
        poll_fn(|_| {
            let state = &mut *self.state();
            let event = EventId::of_task(state.tasks.running());
            if !started {
                started = true;
                self.cancel_timer(state, event);
                self.set_timer(state, event, delay);
            } else if state.events[event].flags.take(Flags::TIMED_OUT) {
                return Poll::Ready(());
            }
            debug_assert!(state.events[event].timer.is_set(), "a task sleeps once at a time");
            self.inner().armed.set(true);
            Poll::Pending
        })
        .await;
    }

    /// Gives way: the running task goes on in the next turn, after everything that is ready.
    pub async fn yield_now(&self) {
        let mut yielded = false;
        poll_fn(|_| {
            if yielded {
                return Poll::Ready(());
            }
            yielded = true;
            self.give_way(&mut self.state());
            Poll::Pending
        })
        .await;
    }

    /// Has the running task resumed in the next turn.
    pub(crate) fn give_way(&self, state: &mut State) {
        self.inner().armed.set(true);
        let event = EventId::of_task(state.tasks.running());
        self.post(state, event, QueueName::Next);
    }

    /// The token by which other threads wake the running task.
    pub(crate) fn running_token(&self) -> Token {
        let tasks = &self.state().tasks;
        let generation = tasks.entries.get(tasks.running as usize).map_or(0, |entry| entry.generation);
        Token::new(tasks.running, generation)
    }

    fn running_event(&self) -> EventId {
        EventId::of_task(self.state().tasks.running())
    }

    /// Posts the task of `token`, if it still lives. One that wakes itself gives way: it would
    /// otherwise keep everybody else from their turn.
    pub(crate) fn wake(&self, token: Token) {
        let state = &mut *self.state();
        match state.tasks.resolve(token) {
            Some(task) if task == state.tasks.running() => self.give_way(state),
            Some(task) => self.post(state, EventId::of_task(task), QueueName::Posted),
            None => debug!(task = token.index(), "stale wake"),
        }
    }
}

/// The running task's own timer, for futures that wait for several things at once.
pub(crate) struct TaskAlarm<'a> {
    core: &'a Core,
    event: EventId,
    set: bool,
}

impl TaskAlarm<'_> {
    /// Has the task resumed after `delay` at the latest.
    pub(crate) fn set(&mut self, delay: Duration) {
        let state = &mut *self.core.state();
        state.events[self.event].flags.clear(Flags::TIMED_OUT);
        self.core.set_timer(state, self.event, delay);
        self.core.inner().armed.set(true);
        self.set = true;
    }
}

impl Drop for TaskAlarm<'_> {
    fn drop(&mut self) {
        if self.set {
            self.core.cancel_timer(&mut self.core.state(), self.event);
        }
    }
}

impl Core {
    /// The running task's own timer, instead of [`Core::sleep`].
    pub(crate) fn task_alarm(&self) -> TaskAlarm<'_> {
        TaskAlarm { core: self, event: self.running_event(), set: false }
    }
}

struct CancelOnDrop<'a> {
    core: &'a Core,
    event: EventId,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        self.core.cancel_timer(&mut self.core.state(), self.event);
    }
}

/// The handler of a task's own event.
fn run_posted(core: &Core, event: EventId) {
    core.resume(event.row());
}

/// The handler of a slot's events: resumes the task that waits there.
pub(crate) fn resume_waiting(core: &Core, event: EventId) {
    let task = {
        let event = &mut core.state().events[event];
        event.flags.clear(Flags::WAITING);
        event.task
    };
    if task != NONE {
        core.resume(task);
    }
}

/// Brings wakes to the worker of this thread, or through the notifier to that of the process.
struct CurrentWorker;

impl WakeByToken for CurrentWorker {
    fn wake(token: u64) {
        let token = Token::from_u64(token);
        if Core::with_current(|core| core.wake(token)).is_none() {
            Notifier::wake_from_elsewhere(token);
        }
    }

    fn kept(token: u64) {
        Core::with_current(|core| {
            let tasks = &mut core.state().tasks;
            if let Some(task) = tasks.resolve(Token::from_u64(token)) {
                tasks.entries[task as usize].waker_kept = true;
            }
        });
    }
}
