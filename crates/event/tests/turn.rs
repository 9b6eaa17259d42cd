//! The order of a turn, under a scripted backend and clock.

mod support;

use std::cell::RefCell;
use std::io::Read;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use drover_event::backend::scripted::Call;
use drover_event::{Asked, Counter, Direction, Gauge, Idle, Phase, Settings, Strategy, Stream, StreamError};
use support::{Closure, Log, SECOND, Scripted, send};

fn two_workers() -> Settings {
    Settings { workers: 2, ..Settings::default() }
}

/// A service that notes when a connection begins and whenever it is readable.
fn noting(log: &Log) -> Closure<impl Fn(Stream) -> std::pin::Pin<Box<dyn Future<Output = ()>>> + use<>> {
    let log = log.clone();
    Closure(move |stream: Stream| {
        let log = log.clone();
        let task: std::pin::Pin<Box<dyn Future<Output = ()>>> = Box::pin(async move {
            let number = stream.number();
            log.note(format!("begin {number}"));
            let mut buffer = [0; 64];
            while let Ok(count) = stream.receive(&mut buffer).await {
                if count == 0 {
                    break;
                }
                log.note(format!("receive {number}"));
            }
            log.note(format!("end {number}"));
        });
        task
    })
}

fn wait(calls: &[Call]) -> Option<u32> {
    let mut waits = calls.iter().filter_map(|call| match call {
        Call::Wait { timeout_ms } => Some(*timeout_ms),
        _ => None,
    });
    let first = waits.next().expect("one wait");
    assert_eq!(waits.next(), None, "a turn waits once");
    first
}

#[test]
fn without_the_mutex_events_are_handled_in_the_order_of_the_reports() {
    let log = Log::default();
    let mut scripted = Scripted::new(two_workers());
    let listener = scripted.listen(Strategy::Shared, noting(&log));
    let mut client = scripted.connect(listener);
    let first = scripted.watched_last();
    assert_eq!(log.take(), ["begin 1"]);

    send(&mut client, b"hello");
    let _second = std::net::TcpStream::connect(listener.1).expect("connecting");
    scripted.script.ready(listener.0, Direction::Read);
    scripted.script.ready(first, Direction::Read);
    scripted.turn();
    assert_eq!(log.take(), ["begin 2", "receive 1"]);
}

#[test]
fn with_the_mutex_accepts_come_first_then_the_release_then_timers_then_the_rest() {
    let log = Log::default();
    let mut scripted = Scripted::new(two_workers());
    let listener = scripted.listen(Strategy::Mutex, noting(&log));
    assert_eq!(scripted.script.take_calls(), [], "the listener is not watched before the lock is won");
    scripted.turn();
    let mut client = scripted.connect(listener);
    let first = scripted.watched_last();
    assert_eq!(log.take(), ["begin 1"]);

    // A task that sleeps: its timer is due in the turn under test.
    let (core, mutex, timer_log) = (scripted.worker.core().clone(), scripted.mutex.clone(), log.clone());
    scripted.worker.core().spawn(async move {
        core.sleep(Duration::from_millis(400)).await;
        timer_log.note(format!("timer, mutex owner {:?}", mutex.owner()));
    });
    scripted.turn();

    send(&mut client, b"hello");
    let _second = std::net::TcpStream::connect(listener.1).expect("connecting");
    scripted.script.ready(first, Direction::Read);
    scripted.script.ready(listener.0, Direction::Read);
    scripted.script.advance(400);
    scripted.turn();
    assert_eq!(log.take(), ["timer, mutex owner None", "receive 1", "begin 2"]);
    assert_eq!(scripted.mutex.owner(), None);
    assert!(scripted.worker.core().stats().counter(Counter::MutexWon) >= 3);
}

#[test]
fn losing_the_mutex_takes_the_listener_out_and_bounds_the_sleep() {
    let mut scripted = Scripted::new(two_workers());
    let (descriptor, _) = scripted.listen(Strategy::Mutex, noting(&Log::default()));
    scripted.turn();
    scripted.script.take_calls();

    let other = drover_event::AcceptMutex::clone(&scripted.mutex);
    assert!(other.try_lock(), "the lock is free between turns");
    scripted.turn();
    let calls = scripted.script.take_calls();
    assert!(calls.contains(&Call::Del { descriptor, direction: Direction::Read }), "{calls:?}");
    assert_eq!(wait(&calls), Some(500));
    assert_eq!(scripted.worker.core().stats().counter(Counter::MutexLost), 1);

    other.unlock();
    scripted.turn();
    assert_eq!(wait(&scripted.script.take_calls()), None, "the winner sleeps without a limit");
}

#[test]
fn a_yielding_task_goes_on_in_the_next_turn_which_does_not_sleep() {
    let log = Log::default();
    let mut scripted = Scripted::new(Settings::default());
    let listener = scripted.listen(Strategy::Shared, noting(&log));
    let mut client = scripted.connect(listener);
    let first = scripted.watched_last();
    let (core, yield_log) = (scripted.worker.core().clone(), log.clone());
    scripted.worker.core().spawn(async move {
        for step in 0..2 {
            yield_log.note(format!("step {step}"));
            core.yield_now().await;
        }
    });
    scripted.turn();
    assert_eq!(log.take(), ["begin 1", "step 0"]);
    scripted.script.take_calls();

    send(&mut client, b"hello");
    scripted.script.ready(first, Direction::Read);
    scripted.turn();
    assert_eq!(wait(&scripted.script.take_calls()), Some(0));
    assert_eq!(log.take(), ["receive 1", "step 1"], "what is ready goes before what yielded");
}

#[test]
fn what_is_posted_between_two_turns_is_not_slept_over() {
    let log = Log::default();
    let mut scripted = Scripted::new(Settings::default());
    let spawned = log.clone();
    scripted.worker.core().spawn(async move { spawned.note("ran") });
    scripted.turn();
    assert_eq!(wait(&scripted.script.take_calls()), Some(0));
    assert_eq!(log.take(), ["ran"]);
    scripted.turn();
    assert_eq!(wait(&scripted.script.take_calls()), None);
}

#[test]
fn a_due_timer_expires_though_the_clock_did_not_move() {
    let log = Log::default();
    let mut scripted = Scripted::new(Settings::default());
    let (core, timer_log) = (scripted.worker.core().clone(), log.clone());
    scripted.worker.core().spawn(async move {
        core.sleep(Duration::ZERO).await;
        timer_log.note("slept");
    });
    scripted.turn();
    assert_eq!(log.take(), [""; 0]);
    scripted.turn();
    assert_eq!(log.take(), ["slept"]);
    assert_eq!(wait(&scripted.script.take_calls()[1..]), Some(0));
}

#[test]
fn timers_expire_by_deadline_and_among_equals_by_insertion() {
    let log = Log::default();
    let mut scripted = Scripted::new(Settings::default());
    for (name, delay) in [("late", 2000), ("a", 1000), ("b", 1000), ("early", 10)] {
        let (core, log) = (scripted.worker.core().clone(), log.clone());
        scripted.worker.core().spawn(async move {
            core.sleep(Duration::from_millis(delay)).await;
            log.note(name);
        });
    }
    scripted.turn();
    scripted.script.advance(5000);
    scripted.turn();
    assert_eq!(log.take(), ["early", "a", "b", "late"]);
}

#[test]
fn an_expiry_may_cancel_the_timer_that_is_due_next() {
    let log = Log::default();
    let mut scripted = Scripted::new(Settings::default());
    let victim: Rc<RefCell<Option<Stream>>> = Rc::default();
    let kept = Rc::clone(&victim);
    let listener = scripted.listen(
        Strategy::Shared,
        Closure(move |stream: Stream| {
            stream.set_read_timeout(SECOND);
            *kept.borrow_mut() = Some(stream);
            async {}
        }),
    );
    let _client = scripted.connect(listener);
    let (core, expiry_log) = (scripted.worker.core().clone(), log.clone());
    scripted.worker.core().spawn(async move {
        core.sleep(Duration::from_millis(500)).await;
        victim.borrow_mut().take();
        expiry_log.note("closed the other");
    });
    scripted.turn();
    scripted.script.advance(5000);
    scripted.turn();
    assert_eq!(log.take(), ["closed the other"]);
    assert_eq!(scripted.worker.core().stats().counter(Counter::TimersExpired), 1);
    assert_eq!(scripted.worker.core().open_connections(), 0);
}

#[test]
fn a_timer_that_would_move_by_less_than_300_ms_stays() {
    let log = Log::default();
    let mut scripted = Scripted::new(Settings::default());
    let timed_out = log.clone();
    let listener = scripted.listen(
        Strategy::Shared,
        Closure(move |stream: Stream| {
            let log = timed_out.clone();
            async move {
                stream.set_read_timeout(Duration::from_millis(1000));
                stream.set_read_timeout(Duration::from_millis(1299));
                let outcome = stream.readable().await;
                log.note(format!("{outcome:?}"));
            }
        }),
    );
    let _client = scripted.connect(listener);
    scripted.script.take_calls();
    scripted.script.advance(999);
    scripted.turn();
    assert_eq!(wait(&scripted.script.take_calls()), Some(1000));
    assert_eq!(log.take(), [""; 0]);
    scripted.script.advance(1);
    scripted.turn();
    assert_eq!(log.take(), ["Err(TimedOut)"]);
}

#[test]
fn a_wake_of_a_finished_task_is_nothing() {
    let mut scripted = Scripted::new(Settings::default());
    let kept: Rc<RefCell<Option<Waker>>> = Rc::default();
    let keeper = Rc::clone(&kept);
    scripted.worker.core().spawn(std::future::poll_fn(move |context| {
        match keeper.borrow_mut().replace(context.waker().clone()) {
            None => Poll::Pending,
            Some(_) => Poll::Ready(()),
        }
    }));
    scripted.turn();
    let waker = kept.borrow().clone().expect("the waker was kept");
    waker.wake_by_ref();
    scripted.turn();
    let posted = scripted.worker.core().stats().counter(Counter::Posted);
    waker.wake();
    scripted.turn();
    assert_eq!(scripted.worker.core().stats().counter(Counter::Posted), posted);
}

#[test]
fn a_panic_ends_its_connection_and_nothing_else() {
    let log = Log::default();
    let mut scripted = Scripted::new(Settings::default());
    let bad = scripted.listen(
        Strategy::Shared,
        Closure(|stream: Stream| async move {
            let mut buffer = [0; 8];
            let _ = stream.receive(&mut buffer).await;
            panic!("a bug in a protocol");
        }),
    );
    let good = scripted.listen(Strategy::Shared, noting(&log));
    let mut victim = scripted.connect(bad);
    let bad_descriptor = scripted.watched_last();
    let mut client = scripted.connect(good);
    let good_descriptor = scripted.watched_last();
    send(&mut victim, b"boom");
    send(&mut client, b"hello");
    scripted.script.ready(bad_descriptor, Direction::Read);
    scripted.script.ready(good_descriptor, Direction::Read);
    scripted.turn();
    assert_eq!(log.take(), ["begin 2", "receive 2"]);
    assert_eq!(victim.read(&mut [0; 8]).expect("closed in order"), 0);
    assert_eq!(scripted.worker.core().stats().counter(Counter::TaskPanics), 1);
    assert_eq!(scripted.worker.core().open_connections(), 1);
}

#[test]
fn a_report_for_the_previous_holder_of_a_slot_is_dropped() {
    let log = Log::default();
    let mut scripted = Scripted::new(Settings::default());
    let listener = scripted.listen(Strategy::Shared, noting(&log));
    let mut first = scripted.connect(listener);
    let descriptor = scripted.watched_last();
    let stale = scripted.script.token(descriptor).expect("registered");
    send(&mut first, b"");
    drop(first);
    // In one batch: the first connection ends, a second takes its slot, and then comes a report
    // that the kernel made for the first.
    let _second = std::net::TcpStream::connect(listener.1).expect("connecting");
    scripted.script.ready(descriptor, Direction::Read);
    scripted.script.ready(listener.0, Direction::Read);
    scripted.script.report(drover_event::backend::Report {
        token: stale,
        readable: true,
        writable: true,
        ended: true,
        broken: false,
        urgent: false,
    });
    scripted.turn();
    assert_eq!(log.take(), ["begin 1", "end 1", "begin 2"]);
    let again = scripted.watched_last();
    assert_eq!(scripted.script.token(again).expect("registered").index(), stale.index());
    assert_eq!(scripted.worker.core().stats().counter(Counter::StaleEvents), 1);
}

#[test]
fn a_drain_in_the_middle_of_a_batch_lets_what_is_ready_finish() {
    let log = Log::default();
    let mut scripted = Scripted::new(Settings::default());
    let listener = scripted.listen(Strategy::Shared, noting(&log));
    let mut client = scripted.connect(listener);
    let descriptor = scripted.watched_last();
    let idle_log = log.clone();
    let idle = scripted.listen(
        Strategy::Shared,
        Closure(move |stream: Stream| {
            let log = idle_log.clone();
            async move {
                let outcome = stream.idle(Idle::Further).await;
                assert!(matches!(outcome, Err(StreamError::Asked(Asked::Drain))), "{outcome:?}");
                log.note("idle one closes");
                stream.core().drain();
            }
        }),
    );
    let _idle_client = scripted.connect(idle);
    let core = scripted.worker.core().clone();
    core.spawn({
        let core = core.clone();
        async move { core.drain() }
    });
    // Queued, and not yet reported: accepted before the listener leaves.
    let _queued = std::net::TcpStream::connect(listener.1).expect("connecting");
    send(&mut client, b"hello");
    scripted.script.ready(descriptor, Direction::Read);
    scripted.turn();
    assert_eq!(log.take(), ["begin 1", "receive 1", "begin 3", "idle one closes"]);
    assert!(core.is_draining());
    assert_eq!(core.open_connections(), 2);
    assert!(std::net::TcpStream::connect(listener.1).is_err(), "nobody listens any more");
}

#[test]
fn a_short_receive_means_drained_unless_the_end_was_reported() {
    let log = Log::default();
    let mut scripted = Scripted::new(Settings::default());
    let listener = scripted.listen(Strategy::Shared, noting(&log));
    let mut client = scripted.connect(listener);
    let descriptor = scripted.watched_last();
    send(&mut client, b"bye");
    drop(client);
    let token = scripted.script.token(descriptor).expect("registered");
    scripted.script.report(drover_event::backend::Report {
        token,
        readable: true,
        writable: false,
        ended: true,
        broken: false,
        urgent: false,
    });
    scripted.turn();
    assert_eq!(log.take(), ["begin 1", "receive 1", "end 1"]);
}

#[test]
fn slots_run_out_idle_ones_are_reclaimed_and_busy_ones_are_not() {
    let mut scripted = Scripted::new(Settings { connections: 5, ..Settings::default() });
    let idle = scripted.listen(
        Strategy::Shared,
        Closure(|stream: Stream| async move {
            let _ = stream.idle(Idle::First).await;
        }),
    );
    let busy = scripted.listen(
        Strategy::Shared,
        Closure(|stream: Stream| async move {
            let _ = stream.readable().await;
        }),
    );
    let stats = scripted.worker.core().stats().clone();
    assert_eq!(stats.gauge(Gauge::FreeSlots), 3);
    let mut first = scripted.connect(idle);
    let _second = scripted.connect(idle);
    let _third = scripted.connect(busy);
    assert_eq!(stats.gauge(Gauge::FreeSlots), 0);
    let _fourth = scripted.connect(busy);
    assert_eq!(first.read(&mut [0; 1]).expect("closed in order"), 0, "the longest idle one");
    assert_eq!(stats.counter(Counter::Reclaimed), 1);
    let _fifth = scripted.connect(busy);
    assert_eq!(stats.counter(Counter::Reclaimed), 2);
    let mut sixth = scripted.connect(busy);
    assert_eq!(sixth.read(&mut [0; 1]).expect("closed in order"), 0, "no slot and none to reclaim");
    assert_eq!(stats.counter(Counter::Dropped), 1);
    assert_eq!(scripted.worker.core().open_connections(), 3);
}

#[test]
fn an_exclusive_listener_is_added_again_every_sixteenth_accept() {
    let mut scripted = Scripted::new(two_workers());
    let listener = scripted.listen(Strategy::Exclusive, noting(&Log::default()));
    scripted.script.take_calls();
    let clients: Vec<_> = (0..32)
        .map(|_| {
            let client = scripted.connect(listener);
            let deleted = Call::Del { descriptor: listener.0, direction: Direction::Read };
            (client, scripted.script.take_calls().contains(&deleted))
        })
        .collect();
    let at: Vec<usize> =
        (1..=32).zip(&clients).filter(|(_, (_, re_added))| *re_added).map(|(at, _)| at).collect();
    assert_eq!(at, [16, 32]);
    assert_eq!(scripted.worker.core().stats().counter(Counter::ReAdds), 2);
}

#[test]
fn others_see_which_connection_runs_and_what_it_is_busy_with() {
    let seen: Rc<RefCell<Vec<(u64, u64)>>> = Rc::default();
    let mut scripted = Scripted::new(two_workers());
    let running = {
        let stats = scripted.worker.core().stats().clone();
        move || (stats.gauge(Gauge::RunningConnection), stats.gauge(Gauge::RunningPhase))
    };
    let (noted, look) = (Rc::clone(&seen), running.clone());
    let listener = scripted.listen(
        Strategy::Shared,
        Closure(move |stream: Stream| {
            let (seen, look) = (Rc::clone(&noted), look.clone());
            async move {
                let phase = if stream.number() == 1 { Phase::ReadingBody } else { Phase::Sending };
                stream.set_phase(phase);
                seen.borrow_mut().push(look());
                let _ = stream.readable().await;
                seen.borrow_mut().push(look());
            }
        }),
    );
    let mut first = scripted.connect(listener);
    let descriptor = scripted.watched_last();
    let _second = scripted.connect(listener);
    assert_eq!(running().0, 0, "between turns none runs");

    // Resumed, without another word on its phase.
    send(&mut first, b"hello");
    scripted.script.ready(descriptor, Direction::Read);
    scripted.turn();
    let (body, sending) = (Phase::ReadingBody as u64, Phase::Sending as u64);
    assert_eq!(*seen.borrow(), [(1, body), (2, sending), (1, body)]);
}
