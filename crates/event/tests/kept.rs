//! Kept streams: left to the loop, taken again, and what ends them, told once.

mod support;

use std::cell::RefCell;
use std::net::TcpListener;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::Duration;

use drover_event::{
    Asked, Core, Direction, Gauge, Keeper, KeeperNumber, Kept, KeptEnd, Phase, Settings, Strategy, Stream,
    Target,
};
use support::{Closure, SECOND, Scripted, send};

/// Notes what ended and how.
#[derive(Default)]
struct Ends(RefCell<Vec<(Kept, KeptEnd)>>);

impl Keeper for Ends {
    fn ended(&self, kept: Kept, end: KeptEnd) {
        self.0.borrow_mut().push((kept, end));
    }
}

/// A worker with one outgoing stream, its other end, and a keeper.
struct Kit {
    scripted: Scripted,
    keeper: KeeperNumber,
    ends: Rc<Ends>,
    descriptor: RawFd,
    server: std::net::TcpStream,
}

impl Kit {
    fn new() -> (Kit, Stream) {
        Kit::with(Settings::default())
    }

    fn with(settings: Settings) -> (Kit, Stream) {
        let mut scripted = Scripted::new(settings);
        let listener = TcpListener::bind("127.0.0.1:0").expect("listener");
        let target = Target::Internet(listener.local_addr().expect("address"));
        let place = Rc::new(RefCell::new(None));
        let (core, put) = (scripted.worker.core().clone(), Rc::clone(&place));
        core.clone().spawn(async move {
            *put.borrow_mut() = Some(core.connect(&target, None, SECOND).await.expect("connected"));
        });
        scripted.turn();
        let (server, _) = listener.accept().expect("accepted");
        let descriptor = scripted.watched_last();
        scripted.script.ready(descriptor, Direction::Write);
        scripted.turn();
        let ends = Rc::new(Ends::default());
        let keeper = scripted.worker.core().add_keeper(Rc::clone(&ends) as Rc<dyn Keeper>);
        let stream = place.take().expect("a stream");
        (Kit { scripted, keeper, ends, descriptor, server }, stream)
    }

    fn core(&self) -> Core {
        self.scripted.worker.core().clone()
    }

    fn keep(&self, stream: Stream) -> Kept {
        stream.keep(self.keeper, SECOND).expect("kept")
    }

    fn report(&mut self) {
        self.scripted.script.ready(self.descriptor, Direction::Read);
        self.scripted.turn();
    }

    /// As others see it, who look between two turns.
    fn reusable(&mut self) -> u64 {
        self.scripted.turn();
        self.core().stats().gauge(Gauge::ReusableConnections)
    }

    fn assert_ended(&mut self, kept: Kept, end: KeptEnd) {
        assert_eq!(self.ends.0.take(), [(kept, end)]);
        assert_eq!((self.core().open_connections(), self.reusable()), (0, 0));
        assert_eq!(self.core().take_kept(kept, SECOND).err(), Some(KeptEnd::Closed), "the name is stale");
    }
}

#[test]
fn a_kept_stream_is_idle_and_reusable_and_comes_back_as_it_was() {
    let (mut kit, stream) = Kit::new();
    let number = stream.number();
    let kept = kit.keep(stream);
    assert_eq!((kit.core().open_connections(), kit.reusable()), (1, 1));
    assert_eq!(kit.core().stats().in_phase(Phase::Idle), 1);
    let stream = kit.core().take_kept(kept, SECOND).expect("a stream");
    assert_eq!((stream.number(), kit.reusable()), (number, 0));
    assert_eq!(kit.core().stats().in_phase(Phase::WaitingUpstream), 1);
    assert!(kit.core().take_kept(kept, SECOND).is_err(), "it is somebody's already");
    drop(stream);
    assert_eq!((kit.core().open_connections(), kit.ends.0.borrow().len()), (0, 0), "nothing to tell");
}

#[test]
fn what_ends_it_is_told() {
    let (mut kit, stream) = Kit::new();
    let kept = kit.keep(stream);
    send(&mut kit.server, b"unasked");
    kit.report();
    kit.assert_ended(kept, KeptEnd::Data);

    let (mut kit, stream) = Kit::new();
    let kept = kit.keep(stream);
    kit.server.shutdown(std::net::Shutdown::Write).expect("shut down");
    kit.report();
    kit.assert_ended(kept, KeptEnd::Closed);

    let (mut kit, stream) = Kit::new();
    let kept = kit.keep(stream);
    kit.scripted.script.advance(999);
    kit.scripted.turn();
    assert!(kit.ends.0.borrow().is_empty());
    kit.scripted.script.advance(1);
    kit.scripted.turn();
    kit.assert_ended(kept, KeptEnd::TimedOut);

    let (mut kit, stream) = Kit::new();
    let kept = kit.keep(stream);
    kit.core().drain();
    kit.assert_ended(kept, KeptEnd::Asked(Asked::Drain));
}

#[test]
fn a_report_without_anything_behind_it_ends_nothing() {
    let (mut kit, stream) = Kit::new();
    let kept = kit.keep(stream);
    kit.report();
    assert!(kit.ends.0.borrow().is_empty());
    send(&mut kit.server, b"unasked");
    kit.report();
    kit.assert_ended(kept, KeptEnd::Data);
}

#[test]
fn what_has_ended_already_is_not_kept() {
    let (mut kit, stream) = Kit::new();
    // The backend reports what came before anybody waited for it.
    send(&mut kit.server, b"unasked");
    kit.report();
    assert_eq!(stream.keep(kit.keeper, SECOND).err(), Some(KeptEnd::Data));
    assert_eq!((kit.core().open_connections(), kit.ends.0.borrow().len()), (0, 0));

    let (kit, stream) = Kit::new();
    kit.core().drain();
    assert_eq!(stream.keep(kit.keeper, SECOND).err(), Some(KeptEnd::Asked(Asked::Drain)));
    assert_eq!(kit.core().open_connections(), 0);
}

/// While the accept mutex is held what is ready is handled later in the turn: whoever takes the stream before
/// that has to find out.
#[test]
fn an_end_that_was_reported_and_not_handled_yet_is_found_on_taking() {
    let (mut kit, stream) = Kit::with(Settings { workers: 2, ..Settings::default() });
    let kept = kit.keep(stream);
    let taken = Rc::new(RefCell::new(None));
    let (core, put) = (kit.core(), Rc::clone(&taken));
    let service = Closure(move |stream: Stream| {
        // Accepted under the mutex, before what was posted.
        *put.borrow_mut() = Some(core.take_kept(kept, SECOND).err());
        async move { drop(stream) }
    });
    let listener = kit.scripted.listen(Strategy::Mutex, service);
    // The lock is won, and the listener watched.
    kit.scripted.turn();
    send(&mut kit.server, b"unasked");
    let client = std::net::TcpStream::connect(listener.1).expect("connecting");
    kit.scripted.script.ready(kit.descriptor, Direction::Read);
    kit.scripted.script.ready(listener.0, Direction::Read);
    kit.scripted.turn();
    assert_eq!(taken.take(), Some(Some(KeptEnd::Data)));
    assert!(kit.ends.0.borrow().is_empty(), "whoever took it knows");
    drop(client);
}

#[test]
fn keeping_again_moves_the_deadline() {
    let (mut kit, stream) = Kit::new();
    let mut kept = kit.keep(stream);
    for _ in 0..3 {
        kit.scripted.script.advance(700);
        kit.scripted.turn();
        let stream = kit.core().take_kept(kept, Duration::from_secs(60)).expect("still there");
        kept = kit.keep(stream);
    }
    kit.scripted.script.advance(1000);
    kit.scripted.turn();
    kit.assert_ended(kept, KeptEnd::TimedOut);
}
