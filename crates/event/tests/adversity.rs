//! Orders of events that nobody plans for: what one task does to another, to a listener, to itself.

mod support;

use std::cell::{Cell, RefCell};
use std::io::{self, Read};
use std::net::{TcpListener, TcpStream};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use drover_event::backend::scripted::Call;
use drover_event::{
    Asked, Counter, Direction, Gauge, Idle, ListenerOptions, Service, Settings, Shared, Stats, Strategy,
    Stream, StreamError, Worker,
};
use support::{Closure, Log, Scripted, send};

fn two_workers() -> Settings {
    Settings { workers: 2, ..Settings::default() }
}

/// A service that keeps its connections itself, as a pool of kept connections does.
#[derive(Default)]
struct Keeper(RefCell<Vec<Stream>>);

impl Service for Keeper {
    fn connection(&self, stream: Stream) -> Pin<Box<dyn Future<Output = ()>>> {
        self.0.borrow_mut().push(stream);
        Box::pin(async {})
    }
}

#[test]
fn a_service_that_owns_streams_may_go_with_its_listener() {
    let mut scripted = Scripted::new(Settings::default());
    let listener = scripted.listen(Strategy::Shared, Keeper::default());
    let mut client = scripted.connect(listener);
    assert_eq!(scripted.worker.core().open_connections(), 1);
    scripted.worker.core().drain();
    assert_eq!(scripted.worker.core().open_connections(), 0);
    assert_eq!(client.read(&mut [0; 1]).expect("closed in order"), 0);
}

#[test]
fn a_reclaimed_connection_may_drain_the_worker_that_is_accepting() {
    let mut scripted = Scripted::new(Settings { connections: 2, ..Settings::default() });
    let log = Log::default();
    let kept = log.clone();
    let listener = scripted.listen(
        Strategy::Shared,
        Closure(move |stream: Stream| {
            let log = kept.clone();
            async move {
                let number = stream.number();
                if let Err(StreamError::Asked(Asked::Reclaim)) = stream.idle(Idle::First).await {
                    stream.core().drain();
                }
                log.note(format!("end {number}"));
            }
        }),
    );
    let _first = scripted.connect(listener);
    let _second = scripted.connect(listener);
    assert_eq!(log.take(), ["end 1"]);
    let core = scripted.worker.core();
    assert!(core.is_draining());
    assert_eq!(core.open_connections(), 1, "the one that was being accepted is served");
    assert_eq!(core.stats().gauge(Gauge::OpenConnections), 1);
}

#[test]
fn a_task_that_sleeps_for_no_time_again_and_again_does_not_stop_the_turn() {
    let mut scripted = Scripted::new(Settings::default());
    let rounds = Rc::new(Cell::new(0));
    let (core, counting) = (scripted.worker.core().clone(), Rc::clone(&rounds));
    scripted.worker.core().spawn(async move {
        while counting.get() < 1000 {
            core.sleep(Duration::ZERO).await;
            counting.set(counting.get() + 1);
        }
    });
    for _ in 0..3 {
        scripted.script.advance(1);
        scripted.turn();
    }
    assert_eq!(rounds.get(), 2, "once a turn after the first");
}

#[test]
fn a_task_that_wakes_itself_gives_way() {
    let mut scripted = Scripted::new(Settings::default());
    let rounds = Rc::new(Cell::new(0));
    let counting = Rc::clone(&rounds);
    scripted.worker.core().spawn(std::future::poll_fn(move |context| {
        counting.set(counting.get() + 1);
        context.waker().wake_by_ref();
        if counting.get() < 1000 { Poll::Pending } else { Poll::Ready(()) }
    }));
    scripted.turn();
    scripted.turn();
    assert_eq!(rounds.get(), 2);
    let waits = scripted.script.take_calls();
    assert!(waits.iter().all(|call| *call == Call::Wait { timeout_ms: Some(0) }), "{waits:?}");
}

#[test]
fn a_waker_that_was_kept_once_need_not_be_kept_again() {
    let mut scripted = Scripted::new(Settings::default());
    let kept: Rc<RefCell<Option<Waker>>> = Rc::default();
    let (keeper, done) = (Rc::clone(&kept), Rc::new(Cell::new(0)));
    let polls = Rc::clone(&done);
    // As channels of other crates do it: the waker is cloned only if it is another one.
    scripted.worker.core().spawn(std::future::poll_fn(move |context| {
        polls.set(polls.get() + 1);
        let mut kept = keeper.borrow_mut();
        if !kept.as_ref().is_some_and(|kept| kept.will_wake(context.waker())) {
            *kept = Some(context.waker().clone());
        }
        if polls.get() < 3 { Poll::Pending } else { Poll::Ready(()) }
    }));
    scripted.turn();
    for _ in 0..2 {
        kept.borrow().as_ref().expect("kept").wake_by_ref();
        scripted.turn();
    }
    assert_eq!(done.get(), 3);
    assert_eq!(scripted.worker.core().stats().counter(Counter::TaskPanics), 0);
}

#[test]
fn a_task_that_is_asked_while_it_runs_looks_again() {
    let log = Log::default();
    let noted = log.clone();
    let mut scripted = Scripted::new(Settings::default());
    let listener = scripted.listen(
        Strategy::Shared,
        Closure(move |stream: Stream| {
            let log = noted.clone();
            async move {
                let mut idle = std::pin::pin!(stream.idle(Idle::Further));
                let mut drained = false;
                let outcome = std::future::poll_fn(|context| {
                    let polled = idle.as_mut().poll(context);
                    if polled.is_pending() && !std::mem::replace(&mut drained, true) {
                        stream.core().drain();
                    }
                    polled
                })
                .await;
                log.note(format!("{outcome:?}"));
            }
        }),
    );
    let _client = scripted.connect(listener);
    assert_eq!(log.take(), ["Err(Asked(Drain))"]);
    assert_eq!(scripted.worker.core().open_connections(), 0);
}

#[test]
fn two_tasks_may_wait_for_the_two_directions_of_a_stream() {
    let log = Log::default();
    let noted = log.clone();
    let mut scripted = Scripted::new(Settings::default());
    let listener = scripted.listen(
        Strategy::Shared,
        Closure(move |stream: Stream| {
            let (log, stream) = (noted.clone(), Rc::new(stream));
            async move {
                while stream.try_send(&[0; 65536], false).is_ok() {}
                let (writer, writer_log) = (Rc::clone(&stream), log.clone());
                stream.core().spawn(async move {
                    let outcome = writer.writable().await;
                    writer_log.note(format!("writable {outcome:?}"));
                });
                let outcome = stream.readable().await;
                log.note(format!("readable {outcome:?}"));
            }
        }),
    );
    let mut client = scripted.connect(listener);
    // Having sent that much it gave way first.
    scripted.turn();
    let descriptor = scripted.watched_last();
    send(&mut client, b"x");
    scripted.script.ready(descriptor, Direction::Read);
    scripted.turn();
    scripted.script.ready(descriptor, Direction::Write);
    scripted.turn();
    assert_eq!(log.take(), ["readable Ok(())", "writable Ok(())"]);
}

fn out_of_memory() -> io::Error {
    io::Error::from_raw_os_error(nix::libc::ENOMEM)
}

fn adds(calls: &[Call]) -> Vec<i32> {
    let added = calls.iter().filter_map(|call| match call {
        Call::Add { descriptor, .. } => Some(*descriptor),
        _ => None,
    });
    added.collect()
}

/// A surplus listener, which is the worker's first, and an exclusive one; accepting has just paused.
fn paused() -> (Scripted, i32) {
    let mut scripted = Scripted::new(two_workers());
    let surplus = TcpListener::bind("127.0.0.1:0").expect("listener");
    surplus.set_nonblocking(true).expect("non-blocking");
    let options = ListenerOptions {
        address: "surplus".to_owned(),
        strategy: Strategy::ReusePort,
        deferred: false,
        client_first: false,
    };
    scripted
        .worker
        .core()
        .listen_surplus(surplus.into(), options, Rc::new(Keeper::default()))
        .expect("listening");
    let listener = scripted.listen(Strategy::Exclusive, Keeper::default());
    for _ in 0..15 {
        scripted.connect(listener);
    }
    scripted.script.fail_next_add(out_of_memory());
    scripted.connect(listener);
    scripted.script.take_calls();
    (scripted, listener.0)
}

#[test]
fn a_pause_ends_also_when_the_first_listener_has_left_meanwhile() {
    let (mut scripted, descriptor) = paused();
    scripted.worker.core().release_surplus();
    scripted.script.advance(499);
    scripted.turn();
    assert_eq!(adds(&scripted.script.take_calls()), []);
    scripted.script.advance(1);
    scripted.turn();
    scripted.turn();
    assert_eq!(adds(&scripted.script.take_calls()), [descriptor]);
}

#[test]
fn a_listener_that_the_backend_refuses_after_a_pause_is_tried_again() {
    let (mut scripted, descriptor) = paused();
    scripted.worker.core().release_surplus();
    for refused in [true, true, false] {
        scripted.script.advance(500);
        scripted.turn();
        if refused {
            scripted.script.fail_next_add(out_of_memory());
        }
        scripted.turn();
        assert_eq!(adds(&scripted.script.take_calls()), [descriptor]);
    }
    scripted.script.advance(5000);
    scripted.turn();
    scripted.turn();
    assert_eq!(adds(&scripted.script.take_calls()), []);
}

#[test]
fn a_wait_that_fails_lets_the_mutex_go() {
    let mut scripted = Scripted::new(two_workers());
    scripted.listen(Strategy::Mutex, Keeper::default());
    scripted.turn();
    scripted.script.fail_next_wait(out_of_memory());
    assert!(scripted.worker.turn().is_err());
    assert_eq!(scripted.mutex.owner(), None);
    scripted.turn();
    assert_eq!(scripted.worker.core().stats().counter(Counter::MutexLost), 0);
}

#[test]
fn a_refused_listener_leaves_nothing_behind() {
    let mut scripted = Scripted::new(Settings::default());
    let socket = TcpListener::bind("127.0.0.1:0").expect("listener");
    let options = ListenerOptions {
        address: "refused".to_owned(),
        strategy: Strategy::Shared,
        deferred: false,
        client_first: false,
    };
    scripted.script.fail_next_add(out_of_memory());
    let core = scripted.worker.core().clone();
    core.listen(socket.into(), options, Rc::new(Keeper::default())).expect_err("refused");
    assert_eq!(core.stats().gauge(Gauge::FreeSlots), u64::from(core.settings().connections));
    let listener = scripted.listen(Strategy::Shared, Keeper::default());
    scripted.connect(listener);
    assert_eq!(core.open_connections(), 1);
}

#[test]
fn draining_makes_room_for_what_is_queued() {
    let mut scripted = Scripted::new(Settings { connections: 3, ..Settings::default() });
    let listener = scripted.listen(
        Strategy::Shared,
        Closure(|stream: Stream| async move {
            let _ = stream.idle(Idle::First).await;
        }),
    );
    let _kept = [scripted.connect(listener), scripted.connect(listener)];
    let _queued = [TcpStream::connect(listener.1), TcpStream::connect(listener.1)];
    scripted.worker.core().drain();
    let stats = scripted.worker.core().stats();
    assert_eq!(stats.counter(Counter::Accepts), 4);
    assert_eq!(stats.counter(Counter::Dropped), 0);
    assert_eq!(stats.counter(Counter::Reclaimed), 2);
}

#[test]
fn nothing_is_reclaimed_by_running_tasks_under_the_mutex() {
    let mut scripted = Scripted::new(Settings { connections: 3, ..two_workers() });
    let log = Log::default();
    let (noted, mutex) = (log.clone(), scripted.mutex.clone());
    let listener = scripted.listen(
        Strategy::Mutex,
        Closure(move |stream: Stream| {
            let (log, mutex) = (noted.clone(), mutex.clone());
            async move {
                let number = stream.number();
                let _ = stream.idle(Idle::First).await;
                log.note(format!("end {number}, mutex owner {:?}", mutex.owner()));
            }
        }),
    );
    scripted.turn();
    let _kept = [scripted.connect(listener), scripted.connect(listener)];
    let _third = scripted.connect(listener);
    assert_eq!(log.take(), ["end 1, mutex owner None"]);
    let core = scripted.worker.core().clone();
    assert_eq!(core.stats().counter(Counter::Accepts), 2, "it waits in the queue for its slot");
    scripted.script.ready(listener.0, Direction::Read);
    scripted.turn();
    assert_eq!(core.stats().counter(Counter::Accepts), 3);
    assert_eq!(core.stats().counter(Counter::Dropped), 0);
}

#[test]
fn a_worker_that_ends_lets_go_of_services_and_of_what_their_tasks_started() {
    struct SpawnsWhenDropped(drover_event::Core, Rc<()>);
    impl Drop for SpawnsWhenDropped {
        fn drop(&mut self) {
            let (core, probe) = (self.0.clone(), Rc::clone(&self.1));
            self.0.spawn(async move {
                let _held = (core, probe);
                std::future::pending::<()>().await;
            });
        }
    }
    let probe = Rc::new(());
    let scripted = Scripted::new(Settings::default());
    let core = scripted.worker.core().clone();
    let (held, held_core) = (Rc::clone(&probe), core.clone());
    scripted.listen(
        Strategy::Shared,
        Closure(move |_: Stream| {
            let _held = (&held, &held_core);
            async {}
        }),
    );
    let guard = SpawnsWhenDropped(core.clone(), Rc::clone(&probe));
    core.spawn(async move {
        let _guard = guard;
        std::future::pending::<()>().await;
    });
    drop((scripted, core));
    assert_eq!(Rc::strong_count(&probe), 1);
}

#[test]
fn a_coarse_clock_does_not_make_a_worker_look_stuck() {
    let shared = Shared::alone(Stats::private().expect("memory"));
    let settings = Settings { timer_resolution: Some(Duration::from_secs(60)), ..Settings::default() };
    let mut worker = Worker::new(settings, shared).expect("worker");
    std::thread::sleep(Duration::from_millis(100));
    worker.core().notifier().notify();
    worker.turn().expect("turn");
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).expect("clock");
    let now = now.tv_sec() as u64 * 1000 + now.tv_nsec() as u64 / 1_000_000;
    let started = worker.core().stats().gauge(Gauge::TurnStarted);
    assert!(now - started < 90, "{} ms ago", now - started);
}

#[test]
fn a_sleep_within_a_sleep_is_a_panic_and_no_endless_wait() {
    if !cfg!(debug_assertions) {
        return;
    }
    let mut scripted = Scripted::new(Settings::default());
    let core = scripted.worker.core().clone();
    scripted.worker.core().spawn(async move {
        let mut first = std::pin::pin!(core.sleep(Duration::from_millis(5)));
        let mut second = std::pin::pin!(core.sleep(Duration::from_millis(9)));
        std::future::poll_fn(|context| {
            let polled = (first.as_mut().poll(context), second.as_mut().poll(context));
            if polled.0.is_ready() && polled.1.is_ready() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    });
    scripted.turn();
    scripted.script.advance(10);
    scripted.turn();
    assert_eq!(scripted.worker.core().stats().counter(Counter::TaskPanics), 1);
}
