//! A worker under a random script, held against what must be true of every worker.
//!
//! The kernel is real, so its edges are; the clock is the script's, and reports may be held back. The
//! bytes of a script choose what clients do (connect, send, close), what time does, and what each
//! connection's task does (echo, wait with a time-out, sleep, yield, wait for a signal, start another
//! task, share its stream, panic, drain).
//!
//! Checked throughout: a task is not resumed while it runs, nor after its end, nor while the worker
//! holds the accept mutex; sleeps end in the order of their deadlines, none early and none in a later
//! turn than due; a sleeping worker would wake for the earliest of them. And once all is quiet:
//! whatever was sent was received, every signal arrived, every slot came back.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use drover_event::backend::scripted::{Call, Script};
use drover_event::{
    AcceptMutex, BackendKind, Core, Counter, Gauge, Idle, ListenerOptions, Phase, Service, Settings, Shared,
    Stats, Strategy, Stream, StreamError, Worker,
};
use drover_sys::memory::SharedWords;

const SLOTS: u32 = 9;
const PID: u32 = 77;
/// More than any turn needs; a script that is not quiet by then never will be.
const QUIET_WITHIN: usize = 2000;
const SILENCE: Duration = Duration::from_secs(20);

/// What a panicking task says, so that other panics are told from it.
pub(crate) const EXPECTED: &str = "as the script says";

/// What all parts of the model know.
struct World {
    mutex: AcceptMutex,
    /// The same mutex, in the name of another worker.
    others: AcceptMutex,
    script: Script,
    program: RefCell<std::vec::IntoIter<u8>>,
    turn: Cell<u64>,
    panics: Cell<u64>,
    /// Deadlines of sleeps under way, with the turn in which they were set.
    sleeps: RefCell<Vec<(u64, u64)>>,
    /// The latest deadline that a sleep ended with in this turn.
    ended: Cell<(u64, u64)>,
    signals: RefCell<Vec<Rc<Signal>>>,
    received: RefCell<Vec<(u16, usize)>>,
    /// Ports of clients whose connection takes what it is sent, until it ends.
    receiving: RefCell<Vec<u16>>,
}

#[derive(Default)]
struct Signal {
    raised: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl World {
    fn next(&self) -> u8 {
        self.program.borrow_mut().next().unwrap_or(0)
    }
}

/// A future that sees to it that it is resumed as it should be.
struct Watched {
    world: Rc<World>,
    task: Pin<Box<dyn Future<Output = ()>>>,
    running: bool,
    ended: bool,
}

impl Future for Watched {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<()> {
        assert!(!self.running, "resumed while it runs");
        assert!(!self.ended, "resumed after its end");
        assert_ne!(self.world.mutex.owner(), Some(PID), "a task runs under the mutex");
        self.running = true;
        let polled = self.task.as_mut().poll(context);
        self.running = false;
        self.ended = polled.is_ready();
        polled
    }
}

struct Scene(Rc<World>);

impl Service for Scene {
    fn connection(&self, stream: Stream) -> Pin<Box<dyn Future<Output = ()>>> {
        let world = Rc::clone(&self.0);
        let task = Box::pin(act(Rc::clone(&world), stream));
        Box::pin(Watched { world, task, running: false, ended: false })
    }
}

fn start(world: &Rc<World>, core: &Core, task: impl Future<Output = ()> + 'static) {
    core.spawn(Watched { world: Rc::clone(world), task: Box::pin(task), running: false, ended: false });
}

async fn act(world: Rc<World>, stream: Stream) {
    let core = stream.core().clone();
    match world.next() % 12 {
        which @ 0..=2 => {
            let terms = if which == 2 { Idle::Further } else { Idle::First };
            let _ = take_all(&world, &stream, Some(terms)).await;
        }
        3 => {
            stream.set_read_timeout(Duration::from_millis(u64::from(world.next()) * 8));
            let _ = take_all(&world, &stream, None).await;
        }
        4 => {
            let delay = u64::from(world.next()) * 4;
            sleep(&world, &core, delay).await;
            let _ = take_all(&world, &stream, None).await;
        }
        5 => {
            for _ in 0..world.next() % 8 {
                core.yield_now().await;
                wake_oneself().await;
            }
            let _ = take_all(&world, &stream, None).await;
        }
        6 => wait_for_signal(&world).await,
        7 => {
            let (moved, other) = (Rc::clone(&world), world.next());
            let starter = core.clone();
            start(&world, &starter, async move {
                sleep(&moved, &core, u64::from(other)).await;
                let _ = take_all(&moved, &stream, Some(Idle::Further)).await;
            });
        }
        8 => {
            let (shared, seen) = (Rc::new(stream), Rc::clone(&world));
            let writer = Rc::clone(&shared);
            start(&world, &core, async move {
                while writer.try_send(&[7; 4096], false).is_ok() {}
                let _ = writer.writable().await;
            });
            let _ = take_all(&seen, &shared, None).await;
        }
        9 => {
            let mut byte = [0];
            let _ = stream.receive(&mut byte).await;
            world.panics.set(world.panics.get() + 1);
            std::panic::panic_any(EXPECTED);
        }
        10 => {
            let mut byte = [0];
            if let Ok(count) = stream.receive(&mut byte).await {
                world.received.borrow_mut().push((stream.peer().port(), count));
            }
            if byte == [b'd'] {
                core.drain();
            }
            let _ = take_all(&world, &stream, Some(Idle::Further)).await;
        }
        _ => {}
    }
}

/// Receives whatever comes, two bytes at a time, until the end.
async fn take_all(world: &World, stream: &Stream, idle: Option<Idle>) -> Result<(), StreamError> {
    let port = stream.peer().port();
    world.receiving.borrow_mut().push(port);
    let outcome = async {
        let mut bytes = [0; 2];
        loop {
            stream.set_phase(Phase::Idle);
            match idle {
                Some(terms) => stream.idle(terms).await?,
                None => stream.readable().await?,
            }
            stream.set_phase(Phase::ReadingBody);
            match stream.try_receive(&mut bytes) {
                Ok(0) => return Ok(()),
                Ok(count) => world.received.borrow_mut().push((port, count)),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    .await;
    world.receiving.borrow_mut().retain(|&other| other != port);
    outcome
}

async fn sleep(world: &World, core: &Core, milliseconds: u64) {
    let deadline = core.now().as_u64() + milliseconds;
    let entry = (deadline, world.turn.get());
    world.sleeps.borrow_mut().push(entry);
    core.sleep(Duration::from_millis(milliseconds)).await;
    let mut sleeps = world.sleeps.borrow_mut();
    let place = sleeps.iter().position(|other| *other == entry).expect("it slept");
    sleeps.remove(place);
    assert!(core.now().as_u64() >= deadline, "woken early");
    let (turn, latest) = world.ended.get();
    assert!(turn != world.turn.get() || deadline >= latest, "sleeps end out of order");
    world.ended.set((world.turn.get(), deadline));
}

async fn wake_oneself() {
    let mut woken = false;
    poll_fn(|context| {
        if std::mem::replace(&mut woken, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

async fn wait_for_signal(world: &World) {
    let signal = Rc::<Signal>::default();
    world.signals.borrow_mut().push(Rc::clone(&signal));
    poll_fn(|context| {
        if signal.raised.get() {
            return Poll::Ready(());
        }
        *signal.waker.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    })
    .await;
    world.signals.borrow_mut().retain(|other| !Rc::ptr_eq(other, &signal));
}

/// The worker, its clients, and what they sent.
struct Stage {
    world: Rc<World>,
    worker: Worker,
    address: SocketAddr,
    clients: Vec<TcpStream>,
    sent: Vec<(u16, usize)>,
}

impl Stage {
    fn new(script: &[u8], kind: BackendKind) -> Self {
        let words = Rc::new(SharedWords::anonymous(1).expect("memory"));
        let (mutex, others) = (AcceptMutex::new(Rc::clone(&words), 0, PID), AcceptMutex::new(words, 0, 5));
        let kernel = Script::over(kind.open(8).expect("a backend"));
        let stats = Stats::private().expect("memory");
        let shared = Shared { stats, mutex: Some(mutex.clone()), balance: None, notifier: None };
        let program = script.to_vec();
        let world = Rc::new(World {
            mutex,
            others,
            script: kernel.clone(),
            program: RefCell::new(program.into_iter()),
            turn: Cell::new(0),
            panics: Cell::new(0),
            sleeps: RefCell::default(),
            ended: Cell::default(),
            signals: RefCell::default(),
            received: RefCell::default(),
            receiving: RefCell::default(),
        });
        let options = world.next();
        let settings = Settings {
            workers: 2,
            connections: SLOTS,
            multi_accept: options & 1 == 1,
            ..Settings::default()
        };
        let worker = Worker::scripted(settings, shared, &kernel).expect("a worker");
        let socket = TcpListener::bind("127.0.0.1:0").expect("a listener");
        socket.set_nonblocking(true).expect("non-blocking");
        let address = socket.local_addr().expect("an address");
        let strategies = [Strategy::Shared, Strategy::Mutex, Strategy::Exclusive, Strategy::Mutex];
        let listener = ListenerOptions {
            address: address.to_string(),
            strategy: strategies[usize::from(options >> 1) % strategies.len()],
            deferred: options & 16 != 0,
            client_first: options & 8 != 0,
        };
        let scene = Rc::new(Scene(Rc::clone(&world)));
        worker.core().listen(socket.into(), listener, scene).expect("listening");
        Self { world, worker, address, clients: Vec::new(), sent: Vec::new() }
    }

    fn step(&mut self) -> Option<()> {
        let action = self.world.program.borrow_mut().next()?;
        let which = usize::from(action >> 4);
        match action % 16 {
            0..=3 if self.clients.len() < 16 && !self.worker.core().is_draining() => {
                let client = TcpStream::connect(self.address).expect("connecting");
                client.set_nonblocking(true).expect("non-blocking");
                client.set_nodelay(true).expect("no delay");
                // The kernel may lend a port again.
                let port = client.local_addr().expect("an address").port();
                self.sent.retain(|(other, _)| *other != port);
                self.world.received.borrow_mut().retain(|(other, _)| *other != port);
                self.clients.push(client);
            }
            4..=6 => self.send(which, b"xyz"),
            7 => self.send(which, b"d"),
            8 if !self.clients.is_empty() => {
                self.clients.swap_remove(which % self.clients.len());
            }
            9 => {
                let signals = self.world.signals.borrow().clone();
                for signal in signals {
                    signal.raised.set(true);
                    let waker = signal.waker.borrow_mut().take();
                    waker.into_iter().for_each(Waker::wake);
                }
            }
            10 => self.world.script.advance(u64::from(action >> 4) * 37),
            11 => self.world.script.hold_back(self.world.next().into()),
            12 => {
                assert!(self.world.others.try_lock(), "the mutex is free between turns");
                self.turn();
                assert!(self.world.others.unlock());
            }
            _ => {
                self.turn();
            }
        }
        Some(())
    }

    fn send(&mut self, which: usize, bytes: &[u8]) {
        let count = self.clients.len();
        if count == 0 {
            return;
        }
        let client = &mut self.clients[which % count];
        if let (Ok(count), Ok(address)) = (client.write(bytes), client.local_addr()) {
            self.sent.push((address.port(), count));
        }
    }

    /// One turn and what must be true after it. Tells whether it did anything.
    fn turn(&mut self) -> bool {
        let before = self.counts();
        let slept = self.checked_turn();
        !slept || before != self.counts()
    }

    fn counts(&self) -> [u64; 7] {
        let stats = self.worker.core().stats();
        let counters = [
            Counter::Posted,
            Counter::Accepts,
            Counter::AcceptEmpty,
            Counter::BytesReceived,
            Counter::StaleEvents,
            Counter::TimersExpired,
        ];
        let [a, b, c, d, e, f] = counters.map(|counter| stats.counter(counter));
        [a, b, c, d, e, f, stats.gauge(Gauge::OpenConnections)]
    }

    /// One turn and what must be true after it. Tells whether it would have slept.
    fn checked_turn(&mut self) -> bool {
        let world = Rc::clone(&self.world);
        world.turn.set(world.turn.get() + 1);
        let pending: Vec<u64> = world.sleeps.borrow().iter().map(|(deadline, _)| *deadline).collect();
        let (before, turns) = (world.script.now(), world.turn.get());
        self.worker.turn().expect("a turn");
        assert_ne!(world.mutex.owner(), Some(PID), "the mutex outlives the turn");
        let limit = self.check_wait(&pending, before);
        let now = world.script.now();
        for (deadline, set_in) in world.sleeps.borrow().iter() {
            // One that is set while timers expire is due a millisecond later at the earliest.
            assert!(*set_in == turns || *deadline + 1 > now, "a sleep until {deadline} is not over at {now}");
        }
        let stats = self.worker.core().stats();
        assert_eq!(stats.counter(Counter::TaskPanics), world.panics.get());
        let open = u64::from(self.worker.core().open_connections());
        assert_eq!(stats.gauge(Gauge::OpenConnections), open);
        assert_eq!(Phase::ALL.iter().map(|&phase| stats.in_phase(phase)).sum::<u64>(), open);
        let listening = u64::from(!self.worker.core().is_draining());
        assert_eq!(stats.gauge(Gauge::FreeSlots), u64::from(SLOTS) - open - listening);
        limit != Some(0)
    }

    /// A worker that really slept would have woken for the earliest sleep.
    fn check_wait(&self, pending: &[u64], before: u64) -> Option<u32> {
        let limit = self.world.script.take_calls().into_iter().find_map(|call| match call {
            Call::Wait { timeout_ms } => Some(timeout_ms),
            _ => None,
        });
        let limit = limit.expect("a turn waits");
        if let Some(&earliest) = pending.iter().min() {
            let left = earliest.saturating_sub(before).max(1);
            assert!(limit.is_some_and(|limit| u64::from(limit) <= left), "{limit:?} for {left} ms");
        }
        limit
    }

    /// Turns until nothing happens any more without time or clients.
    fn settle(&mut self) {
        let mut quiet = 0;
        for _ in 0..QUIET_WITHIN {
            // What was held back comes one turn later.
            quiet = if self.turn() { 0 } else { quiet + 1 };
            if quiet == 2 {
                return;
            }
        }
        panic!("never quiet");
    }

    fn check_quiet(&self) {
        let of = |list: &[(u16, usize)], port: u16| -> usize {
            list.iter().filter(|(other, _)| *other == port).map(|(_, count)| count).sum()
        };
        for &port in self.world.receiving.borrow().iter() {
            let (sent, received) = (of(&self.sent, port), of(&self.world.received.borrow(), port));
            assert_eq!(sent, received, "what client {port} sent was not all received");
        }
        let lost = self.world.signals.borrow().iter().any(|signal| signal.raised.get());
        assert!(!lost, "a signal was raised and its task sleeps");
    }
}

/// Plays a script and checks.
pub(crate) fn play(script: &[u8], kind: BackendKind) {
    let mut stage = Stage::new(script, kind);
    while stage.step().is_some() {}
    stage.settle();
    stage.check_quiet();
    // Nobody is left: every connection has to end, by the end of its stream or its sleep.
    let mut sink = [0; 65536];
    while let Some(mut client) = stage.clients.pop() {
        while client.read(&mut sink).is_ok_and(|count| count > 0) {}
    }
    for signal in stage.world.signals.borrow().clone() {
        signal.raised.set(true);
        signal.waker.borrow_mut().take().into_iter().for_each(Waker::wake);
    }
    for _ in 0..4 {
        stage.world.script.advance(SILENCE.as_millis() as u64);
        stage.settle();
    }
    assert_eq!(stage.worker.core().open_connections(), 0, "a slot leaked");
    assert_eq!(stage.world.sleeps.borrow().len(), 0);
    stage.worker.core().drain();
    assert_eq!(stage.worker.core().stats().gauge(Gauge::FreeSlots), u64::from(SLOTS));
}
