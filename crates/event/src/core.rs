//! The core: what the loop, the handlers, the tasks and the streams of one worker share.
//!
//! [`Core`] is a cheap handle that protocol code may clone and keep. Behind it stands one
//! [`State`] in a `RefCell`. Invariant: no handler, task or service is called while the state is
//! borrowed; whoever needs one takes what it needs, lets go of the borrow and then calls.

use std::cell::{Cell, Ref, RefCell, RefMut};
use std::rc::Rc;
use std::time::Duration;

use drover_sys::memory;
use nix::sys::signal::SigSet;
use tracing::debug;

use crate::accept::gate::Gate;
use crate::backend::{Backend, BackendKind, Kind};
use crate::blocking::ThreadPool;
use crate::buffer::{Buffer, BufferPool};
use crate::clock::{Clock, Millis, WallClock};
use crate::close::CloseReason;
use crate::connection::{NONE, Slots};
use crate::datagram::{Outgoing, Sessions};
use crate::debug::DebugConnection;
use crate::event::{EventId, Events, Flags};
use crate::kept::Keeper;
use crate::kernel_pipe::PipeStore;
use crate::listener::Listener;
use crate::notify::Notifier;
use crate::posted::{PostedQueues, QueueName};
use crate::stats::{Counter, Stats};
use crate::task::Tasks;
use crate::timer::{self, MAX_DELAY_MS, Nodes, TimerTree};
use crate::worker::Shared;

/// A time-out whose deadline would move by less than this is left alone, so that re-setting one for
/// every request costs a comparison.
const LAZY_MS: u32 = 300;

/// How a worker is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The worker's number, for logs.
    pub worker: u32,
    /// How many workers share the listeners. One alone needs no accept strategy.
    pub workers: u32,
    /// How many slots there are: listeners, the channel and connections take one each.
    pub connections: u32,
    /// The readiness mechanism.
    pub backend: BackendKind,
    /// The most readiness reports that one wait returns.
    pub epoll_events: u32,
    /// Whether an accept event takes all connections there are, or one.
    pub multi_accept: bool,
    /// How long a worker that lost the accept mutex sleeps at most, and how long accepting pauses
    /// when descriptors have run out.
    pub accept_mutex_delay: Duration,
    /// The size of the worker's pooled buffers in bytes.
    pub buffer_size: usize,
    /// How exact timers have to be: with it the wait has no limit of its own, a periodic alarm ends
    /// it instead, and the clock is read only when that rang. `None`: as exact as the clock.
    pub timer_resolution: Option<Duration>,
    /// Peers whose connections are logged at debug level while others are not; see
    /// [`logging_verbosely`](crate::logging_verbosely).
    pub debug_connections: Vec<DebugConnection>,
    /// The signal mask in force during the backend's wait and only then.
    pub wait_signals: Option<SigSet>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            worker: 0,
            workers: 1,
            connections: 512,
            backend: BackendKind::Epoll,
            epoll_events: 512,
            multi_accept: false,
            accept_mutex_delay: Duration::from_millis(500),
            buffer_size: 16 * 1024,
            timer_resolution: None,
            debug_connections: Vec::new(),
            wait_signals: None,
        }
    }
}

/// Everything that changes while the loop turns.
pub(crate) struct State {
    pub(crate) slots: Slots,
    pub(crate) events: Events,
    pub(crate) timers: TimerTree,
    pub(crate) queues: PostedQueues,
    pub(crate) tasks: Tasks,
    pub(crate) backend: Box<dyn Backend>,
    pub(crate) kind: Kind,
    pub(crate) listeners: Vec<Option<Listener>>,
    pub(crate) keepers: Vec<Rc<dyn Keeper>>,
    pub(crate) gate: Gate,
    pub(crate) sessions: Sessions,
    /// Connections with peers that are open.
    pub(crate) open: u32,
    pub(crate) draining: bool,
    /// The worker is being dropped, and with it what is open.
    pub(crate) ending: bool,
    /// Idle connections are being asked to close.
    pub(crate) reclaiming: bool,
    /// Timers are expiring: one that is set now is due in a later turn.
    pub(crate) expiring: bool,
    /// Bytes moved since the running task was resumed.
    pub(crate) moved: usize,
    /// The number that the next connection gets.
    pub(crate) next_number: u64,
    /// When a shortage of slots was last logged.
    pub(crate) shortage_logged: Option<Millis>,
}

/// What [`Core::each_second`] has called.
type EachSecond = Rc<dyn Fn(&Core)>;

pub(crate) struct Inner {
    state: RefCell<State>,
    pub(crate) clock: Clock,
    pub(crate) stats: Stats,
    pub(crate) settings: Settings,
    pub(crate) notifier: Notifier,
    pub(crate) buffers: BufferPool,
    pub(crate) pipes: PipeStore,
    pub(crate) outgoing: RefCell<Outgoing>,
    pub(crate) thread_pool: RefCell<Option<ThreadPool>>,
    /// Called once a second, while there are turns.
    each_second: RefCell<Option<EachSecond>>,
    /// Whether the running task has arranged to be resumed again.
    pub(crate) armed: Cell<bool>,
}

/// A handle on a worker's engine.
#[derive(Clone)]
pub struct Core(Rc<Inner>);

thread_local! {
    /// The engine of the worker that this thread runs. The worker takes it out at its end.
    static CURRENT: RefCell<Option<Core>> = const { RefCell::new(None) };
}

impl Core {
    pub(crate) fn new(
        settings: Settings,
        shared: Shared,
        clock: Clock,
        backend: Box<dyn Backend>,
        notifier: Notifier,
    ) -> Self {
        let rows = settings.connections;
        let state = State {
            slots: Slots::with_capacity(rows),
            events: Events::with_capacity(rows),
            timers: TimerTree::for_slots(rows),
            queues: PostedQueues::default(),
            tasks: Tasks::default(),
            kind: backend.kind(),
            backend,
            listeners: Vec::new(),
            keepers: Vec::new(),
            gate: Gate::new(shared.mutex, shared.balance),
            sessions: Sessions::default(),
            open: 0,
            draining: false,
            ending: false,
            reclaiming: false,
            expiring: false,
            moved: 0,
            next_number: 1,
            shortage_logged: None,
        };
        let buffers = BufferPool::new(settings.buffer_size);
        let core = Self(Rc::new(Inner {
            state: RefCell::new(state),
            clock,
            stats: shared.stats,
            settings,
            notifier,
            buffers,
            pipes: PipeStore::default(),
            outgoing: RefCell::default(),
            thread_pool: RefCell::new(None),
            each_second: RefCell::new(None),
            armed: Cell::new(false),
        }));
        // An earlier worker of this thread may end here, so it must not find the place borrowed.
        let earlier = CURRENT.replace(Some(core.clone()));
        drop(earlier);
        core
    }

    /// Calls `call` with the engine of the worker that this thread runs; `None` if it runs none.
    pub(crate) fn with_current<T>(call: impl FnOnce(&Core) -> T) -> Option<T> {
        CURRENT.with(|current| current.borrow().as_ref().map(call))
    }

    /// This thread runs the worker no longer.
    pub(crate) fn forget_current(&self) {
        let taken = CURRENT.with(|current| {
            let current = &mut *current.borrow_mut();
            current.take_if(|current| Rc::ptr_eq(&current.0, &self.0))
        });
        drop(taken);
    }

    pub(crate) fn state(&self) -> RefMut<'_, State> {
        self.0.state.borrow_mut()
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.0
    }

    /// The time of this turn.
    pub fn now(&self) -> Millis {
        self.0.clock.now()
    }

    /// The wall clock of this turn.
    pub fn wall_clock(&self) -> Ref<'_, WallClock> {
        self.0.clock.wall()
    }

    /// What this worker counts.
    pub fn stats(&self) -> &Stats {
        &self.0.stats
    }

    /// How this worker was set up.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// By which other threads and processes wake this worker.
    pub fn notifier(&self) -> &Notifier {
        &self.0.notifier
    }

    /// A buffer of [`Settings::buffer_size`] bytes from the worker's pool, to which it goes back
    /// when dropped. Its content is what the last user left.
    pub fn take_buffer(&self) -> Buffer {
        self.0.buffers.take()
    }

    /// Has `call` called at the end of a turn, once a second while there are turns: for what is to be published
    /// now and then. It must be quick, and wakes nobody up.
    pub fn each_second(&self, call: impl Fn(&Core) + 'static) {
        *self.0.each_second.borrow_mut() = Some(Rc::new(call));
    }

    #[cold]
    pub(crate) fn call_each_second(&self) {
        let call = self.0.each_second.borrow().clone();
        if let Some(call) = call {
            call(self);
        }
    }

    /// Gives memory that is free back to the system, wherever it lies; by itself much of it stays with the process.
    /// For who has let go of a good deal: it takes as long as some requests do.
    pub fn trim_memory(&self) {
        memory::trim_heap();
    }

    /// How many connections with peers are open: accepted and outgoing ones, sessions of datagrams and sockets for
    /// datagrams.
    pub fn open_connections(&self) -> u32 {
        self.state().open
    }

    /// Whether [`Core::drain`] was called.
    pub fn is_draining(&self) -> bool {
        self.state().draining
    }

    /// Puts `event` on a posted queue.
    pub(crate) fn post(&self, state: &mut State, event: EventId, queue: QueueName) {
        if state.queues.post(&mut state.events, event.index(), queue) {
            debug!(event = ?event, "posted to {queue:?}");
            self.0.stats.add(Counter::Posted, 1);
        }
    }

    /// Sets the timer of `event` to `delay` from now.
    pub(crate) fn set_timer(&self, state: &mut State, event: EventId, delay: Duration) {
        if state.events.node(event.index()).is_set() {
            state.timers.remove(&mut state.events, event.index());
        }
        let delay_ms = clamped(state, delay);
        self.insert_timer(state, event, self.now().key_after(delay_ms));
    }

    /// Sets a time-out: a timer that need not be exact. It stays where it is if it would move by less
    /// than 300 ms.
    pub(crate) fn set_timeout(&self, state: &mut State, event: EventId, delay: Duration) {
        let delay_ms = clamped(state, delay);
        let key = self.now().key_after(delay_ms);
        let node = state.events.node(event.index());
        if node.is_set() {
            if (key.wrapping_sub(node.key()) as i32).unsigned_abs() < LAZY_MS {
                return;
            }
            state.timers.remove(&mut state.events, event.index());
        }
        self.insert_timer(state, event, key);
    }

    fn insert_timer(&self, state: &mut State, event: EventId, key: u32) {
        debug!(event = ?event, "event timer add: {}: {key}", key.wrapping_sub(self.now().key_after(0)));
        state.timers.insert(&mut state.events, event.index(), key);
        self.0.stats.add(Counter::TimersSet, 1);
    }

    /// Cancels the timer of `event` and forgets that it expired.
    pub(crate) fn cancel_timer(&self, state: &mut State, event: EventId) {
        if state.events[event].timer.is_set() {
            debug!(event = ?event, "event timer del: {}", state.events[event].timer.key());
            state.timers.remove(&mut state.events, event.index());
        }
        state.events[event].flags.clear(Flags::TIMED_OUT);
    }

    /// Milliseconds to the earliest timer; `None` without timers.
    pub(crate) fn time_to_next_timer(&self) -> Option<u32> {
        let state = self.state();
        let first = state.timers.first()?;
        let key = state.events.node(first).key();
        let now = self.now().key_after(0);
        Some(if timer::before(now, key) { key.wrapping_sub(now) } else { 0 })
    }
}

/// The delay in milliseconds that a timer can have. While timers expire it is not zero, so that one
/// that is set again and again does not keep the turn from ending.
fn clamped(state: &State, delay: Duration) -> u32 {
    let seconds = u32::try_from(delay.as_secs()).unwrap_or(u32::MAX);
    let delay_ms = seconds.saturating_mul(1000).saturating_add(delay.subsec_millis());
    delay_ms.clamp(u32::from(state.expiring), MAX_DELAY_MS)
}

impl State {
    /// The number of a connection that begins, or that would have.
    #[inline]
    pub(crate) fn number_connection(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        number
    }

    /// Why the connection in a slot ends, as far as that is known.
    pub(crate) fn end_of(&self, slot: u32) -> Option<CloseReason> {
        if self.ending { Some(CloseReason::Shutdown) } else { self.slots[slot].end.reason() }
    }

    /// Gives back the memory of slots, events and tasks that a busier time needed. Not to be called while events
    /// are being handled: their numbers would be worth nothing.
    #[cold]
    pub(crate) fn cut(&mut self) {
        let before = self.slots.rows();
        self.slots.cut();
        if self.slots.rows() < before {
            self.tasks.cut();
            self.events.cut(self.slots.rows().max(self.tasks.rows()), self.slots.capacity());
            memory::trim_heap();
            debug!("{before} slots were cut to {}", self.slots.rows());
        }
    }

    /// Takes `event` off its queue and out of the timer tree, for good.
    pub(crate) fn retire(&mut self, event: EventId) {
        let Self { events, timers, queues, .. } = self;
        if events[event].timer.is_set() {
            timers.remove(events, event.index());
        }
        queues.unlink(events, event.index());
        events[event].flags = Flags::default();
        events[event].handler = crate::event::ignore;
        events[event].task = NONE;
    }
}
