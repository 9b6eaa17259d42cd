//! Balanced workers under random scripts: no connection is stuck in the queue.
//!
//! Three real engines share one listening socket. The kernel is played by the test at its worst: a
//! connection wakes exactly one of the workers that sleep with the listener in their backend, any of
//! them, and nobody else learns of it. Workers are stopped, refuse listeners as for want of memory,
//! and lose connections at any moment. However it went: once whoever can run has run for a while,
//! nothing waits.

mod support;

use std::cell::RefCell;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::rc::Rc;

use drover_event::backend::Report;
use drover_event::backend::scripted::{Call, Script};
use drover_event::{
    Balance, BalancePeer, Direction, Gauge, ListenerOptions, Notifier, Service, Settings, Shared, Stats,
    Strategy, Stream, Token, Worker,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use proptest::prelude::*;

const WORKERS: usize = 3;
const SLACK: u32 = 1;

type Streams = Rc<RefCell<Vec<Stream>>>;

/// A service that keeps its connections where the test can close them.
struct Keeper(Streams);

impl Service for Keeper {
    fn connection(&self, stream: Stream) -> Pin<Box<dyn Future<Output = ()>>> {
        self.0.borrow_mut().push(stream);
        Box::pin(async {})
    }
}

struct Simulated {
    worker: Worker,
    script: Script,
    stats: Stats,
    notifier: OwnedFd,
    listener: RawFd,
    streams: Streams,
    /// The listener is in the backend.
    watched: bool,
    /// The listener is on the backend's list of what is ready.
    ready: bool,
    stopped: bool,
    /// The next time that the listener is put into the backend fails.
    refused: bool,
    /// When the wait that it sleeps in ends by itself.
    wakes_at: Option<u64>,
}

struct World {
    workers: Vec<Simulated>,
    socket: TcpListener,
    clients: Vec<TcpStream>,
    now: u64,
}

fn is_readable(descriptor: &impl AsFd) -> bool {
    poll(&mut [PollFd::new(descriptor.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO).expect("poll") > 0
}

impl World {
    fn new() -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").expect("a listener");
        socket.set_nonblocking(true).expect("non-blocking");
        let all: Vec<(Stats, OwnedFd)> = (0..WORKERS)
            .map(|_| (Stats::private().expect("memory"), Notifier::descriptor().expect("an eventfd")))
            .collect();
        let workers = (0..WORKERS).map(|own| Simulated::new(&socket, &all, own)).collect();
        let mut world = Self { workers, socket, clients: Vec::new(), now: 1000 };
        (0..WORKERS).for_each(|which| world.run(which));
        world
    }

    /// Has a worker turn until it sleeps.
    fn run(&mut self, which: usize) {
        for _ in 0..1000 {
            let queued = is_readable(&self.socket);
            if !self.workers[which].turn(self.now, queued, &self.socket) {
                return;
            }
        }
        panic!("worker {which} never sleeps");
    }

    /// A connection comes: the kernel wakes one that sleeps with the listener in its backend.
    fn connect(&mut self, choice: usize) {
        self.clients
            .push(TcpStream::connect(self.socket.local_addr().expect("an address")).expect("connecting"));
        let asleep: Vec<usize> = (0..WORKERS).filter(|&which| self.workers[which].could_be_woken()).collect();
        if let Some(&woken) = asleep.get(choice % asleep.len().max(1)) {
            self.workers[woken].ready = true;
            return;
        }
        // Those that do not sleep find it on their list when they next wait.
        self.workers.iter_mut().filter(|worker| worker.watched).for_each(|worker| worker.ready = true);
    }

    fn close(&mut self, which: usize, count: usize) {
        for _ in 0..count {
            let closed = self.workers[which].streams.borrow_mut().pop();
            drop(closed);
        }
    }

    /// Runs whoever has a reason to.
    fn step(&mut self) {
        for which in 0..WORKERS {
            let worker = &self.workers[which];
            let due = worker.wakes_at.is_some_and(|at| at <= self.now);
            if !worker.stopped && (due || worker.ready || is_readable(&worker.notifier)) {
                self.run(which);
            }
        }
    }

    fn let_pass(&mut self, milliseconds: u64) {
        for _ in 0..milliseconds / 5 {
            self.now += 5;
            self.step();
        }
    }

    fn loads(&self) -> Vec<u64> {
        self.workers.iter().map(|worker| worker.stats.gauge(Gauge::OpenConnections)).collect()
    }
}

impl Simulated {
    fn new(socket: &TcpListener, all: &[(Stats, OwnedFd)], own: usize) -> Self {
        let clone = |notifier: &OwnedFd| notifier.try_clone().expect("a duplicate");
        let peers = all
            .iter()
            .map(|(stats, notifier)| BalancePeer { stats: stats.clone(), notifier: clone(notifier) })
            .collect();
        let (stats, notifier) = &all[own];
        let shared = Shared {
            stats: stats.clone(),
            mutex: None,
            balance: Some(Balance { peers, own, slack: SLACK }),
            notifier: Some(clone(notifier)),
        };
        let script = Script::new();
        let settings = Settings { workers: WORKERS as u32, ..Settings::default() };
        let worker = Worker::scripted(settings, shared, &script).expect("a worker");
        let options = ListenerOptions {
            address: "shared".to_owned(),
            strategy: Strategy::Balanced,
            deferred: false,
            client_first: false,
        };
        let (streams, duplicate) = (Streams::default(), socket.try_clone().expect("a duplicate"));
        let listener = duplicate.as_raw_fd();
        let service = Rc::new(Keeper(Rc::clone(&streams)));
        worker.core().listen(duplicate.into(), options, service).expect("listening");
        let (stats, notifier) = (stats.clone(), clone(notifier));
        let (watched, ready, stopped, refused, wakes_at) = (false, false, false, false, None);
        Self {
            worker,
            script,
            stats,
            notifier,
            listener,
            streams,
            watched,
            ready,
            stopped,
            refused,
            wakes_at,
        }
    }

    fn could_be_woken(&self) -> bool {
        self.watched && !self.stopped && !self.ready && !is_readable(&self.notifier)
    }

    /// One turn. Tells whether the wait ended at once, so that another turn follows.
    fn turn(&mut self, now: u64, queued: bool, socket: &TcpListener) -> bool {
        self.script.advance(now - self.script.now());
        self.ready &= queued;
        if self.ready {
            self.script.ready(self.listener, Direction::Read);
        }
        let notified = is_readable(&self.notifier);
        if notified {
            let _ = nix::unistd::read(&self.notifier, &mut [0; 8]);
            let (token, readable) = (Token::NOTIFIER, true);
            self.script.report(Report {
                token,
                readable,
                writable: false,
                ended: false,
                broken: false,
                urgent: false,
            });
        }
        let busy = self.ready || notified;
        self.worker.turn().expect("a turn");
        for call in self.script.take_calls() {
            match call {
                Call::Add { .. } if std::mem::take(&mut self.refused) => {}
                Call::Add { descriptor, .. } if descriptor == self.listener => {
                    (self.watched, self.ready) = (true, is_readable(socket));
                }
                Call::Del { descriptor, .. } if descriptor == self.listener => {
                    (self.watched, self.ready) = (false, false);
                }
                Call::Wait { timeout_ms } => self.wakes_at = timeout_ms.map(|limit| now + u64::from(limit)),
                _ => {}
            }
        }
        // The wait of the next turn, which it sleeps in.
        self.stats.set(Gauge::TurnStarted, 0);
        busy || self.ready
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.min(200), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_stuck_in_the_queue(script in proptest::collection::vec((0u8..10, any::<u8>()), 1..80)) {
        let mut world = World::new();
        let mut pauses = [0; WORKERS];
        for (action, value) in script {
            let which = usize::from(value) % WORKERS;
            match action {
                0..=3 if world.clients.len() < 60 => world.connect(usize::from(value)),
                4 => world.close(which, 1 + usize::from(value >> 5)),
                // One that is stopped between the kernel's wake-up and its own turn keeps what it was
                // woken for, with any strategy.
                5 => world.workers[which].stopped |= !world.workers[which].ready,
                6 => world.workers[which].stopped = false,
                7 => {
                    world.workers[which].script.fail_next_add(std::io::ErrorKind::OutOfMemory.into());
                    world.workers[which].refused = true;
                    pauses[which] += 1;
                }
                8 => world.let_pass(u64::from(value) * 5),
                _ => world.step(),
            }
        }
        if world.workers.iter().all(|worker| worker.stopped) {
            world.workers[0].stopped = false;
        }
        // A stopped worker is noticed within a tenth of a second, and each pause takes half of one.
        let running = world.workers.iter().zip(pauses).filter(|(worker, _)| !worker.stopped);
        let fewest = running.map(|(_, pauses)| pauses).min().unwrap_or(0);
        world.let_pass(400 + 1200 * fewest);
        prop_assert!(!is_readable(&world.socket), "stuck, with loads {:?}", world.loads());
    }

    #[test]
    fn connections_that_come_one_after_another_are_spread_evenly(choices in proptest::collection::vec(any::<u8>(), 30..60)) {
        let mut world = World::new();
        for choice in choices {
            world.connect(usize::from(choice));
            (0..WORKERS).for_each(|_| world.step());
            let loads = world.loads();
            let (least, most) = (loads.iter().min(), loads.iter().max());
            // Who is the slack above the least takes one more before its gate closes.
            prop_assert!(most <= least.map(|least| least + u64::from(SLACK) + 1).as_ref(), "{loads:?}");
        }
    }
}
