//! Names: resolved off the loop at the start and while running, without disturbing what runs.

mod support;

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use drover_event::{Core, Settings};
use drover_upstream::{Connection, Failure, NoPeer, Plan, ServerWord, Tally, Upstream};
use support::{Backend, LONG, ask, run, server, talk, until, upstream};

/// What a name means, for the test to change.
#[derive(Clone)]
struct Zone {
    answer: Arc<Mutex<Result<Vec<SocketAddr>, io::ErrorKind>>>,
    asked: Arc<AtomicUsize>,
}

impl Zone {
    fn new(answer: Result<Vec<SocketAddr>, io::ErrorKind>) -> Zone {
        Zone { answer: Arc::new(Mutex::new(answer)), asked: Arc::default() }
    }

    fn set(&self, answer: Result<Vec<SocketAddr>, io::ErrorKind>) {
        *self.answer.lock().expect("no panic") = answer;
    }

    fn plan(&self) -> Plan {
        let mut config = upstream(vec![server("app.example:80")]);
        config.resolve = Duration::from_millis(100);
        let zone = self.clone();
        Plan::new("app", &config, 1).expect("a plan").resolved_by(Arc::new(move |host, _| {
            assert_eq!(host, "app.example");
            // So that whoever does not wait for it is caught.
            std::thread::sleep(Duration::from_millis(20));
            zone.asked.fetch_add(1, Ordering::AcqRel);
            zone.answer.lock().expect("no panic").clone().map_err(io::Error::from)
        }))
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Acquire)
    }

    /// Waits for an answer that was asked for after this moment.
    async fn next_answer(&self, core: &Core) {
        let before = self.asked();
        until(core, "asked again", || self.asked() >= before + 2).await;
    }
}

fn word(upstream: &Upstream, word: ServerWord) -> u64 {
    upstream.plan().words().server_word(0, word)
}

#[test]
fn the_first_request_waits_for_the_first_answer() {
    let peer = Backend::start("a");
    run(Settings::default(), async move |core: Core| {
        let upstream = Upstream::start(&core, &Zone::new(Ok(vec![peer.address])).plan()).expect("started");
        assert_eq!(ask(&core, &upstream).await.expect("a lease").0, "a");
    });
}

#[test]
fn the_systems_resolver_knows_this_machine() {
    let peer = Backend::start("a");
    let config = upstream(vec![server(format!("localhost:{}", peer.address.port()))]);
    run(Settings::default(), async move |core: Core| {
        let upstream = support::start(&core, &config);
        let mut attempts = upstream.begin(0);
        // The name may mean ::1 too, where nobody listens.
        let lease = loop {
            match attempts.next(&core, Connection::Any, LONG).await {
                Ok(lease) => break lease,
                Err(failure) => assert!(matches!(failure, Failure::Connect { .. }), "{failure}"),
            }
        };
        assert_eq!(talk(&lease).await, "a");
    });
}

#[test]
fn other_addresses_take_over_and_what_runs_goes_on() {
    let (a, b) = (Backend::start("a"), Backend::start("b"));
    let zone = Zone::new(Ok(vec![a.address]));
    run(Settings::default(), async move |core: Core| {
        let upstream = Upstream::start(&core, &zone.plan()).expect("started");
        let (_, running) = ask(&core, &upstream).await.expect("a lease");
        let (_, kept) = ask(&core, &upstream).await.expect("a lease");
        kept.keep();
        assert_eq!(core.open_connections(), 2);
        zone.set(Ok(vec![b.address]));
        zone.next_answer(&core).await;
        let (answer, lease) = ask(&core, &upstream).await.expect("a lease");
        assert_eq!((answer.as_str(), lease.reused()), ("b", false));
        assert_eq!(core.open_connections(), 2, "the one that was kept is closed");
        assert_eq!(talk(&running).await, "a", "the one that runs goes on");
        running.keep();
        assert_eq!(core.open_connections(), 1, "and is not kept");
        lease.keep();
        assert_eq!(upstream.plan().words().total(0, Tally::Active), 0);
        assert_eq!(upstream.plan().words().total(0, Tally::Kept), 1);
    });
}

#[test]
fn an_address_that_stays_keeps_its_connections() {
    let (a, b) = (Backend::start("a"), Backend::start("b"));
    let zone = Zone::new(Ok(vec![a.address]));
    run(Settings::default(), async move |core: Core| {
        let upstream = Upstream::start(&core, &zone.plan()).expect("started");
        ask(&core, &upstream).await.expect("a lease").1.keep();
        zone.set(Ok(vec![a.address, b.address]));
        zone.next_answer(&core).await;
        let one = ask(&core, &upstream).await.expect("a lease");
        let two = ask(&core, &upstream).await.expect("a lease");
        let mut both = [(one.0, one.1.reused()), (two.0, two.1.reused())];
        both.sort();
        assert_eq!(both, [("a".to_owned(), true), ("b".to_owned(), false)]);
    });
}

#[test]
fn a_name_that_no_longer_resolves_keeps_its_addresses() {
    let peer = Backend::start("a");
    let zone = Zone::new(Ok(vec![peer.address]));
    run(Settings::default(), async move |core: Core| {
        let upstream = Upstream::start(&core, &zone.plan()).expect("started");
        ask(&core, &upstream).await.expect("a lease").1.done();
        for answer in [Err(io::ErrorKind::NotFound), Ok(Vec::new())] {
            zone.set(answer);
            zone.next_answer(&core).await;
            assert_eq!(ask(&core, &upstream).await.expect("a lease").0, "a");
        }
        assert!(word(&upstream, ServerWord::ResolveFailures) >= 2);
    });
}

#[test]
fn a_name_without_addresses_fails_at_once_and_works_once_it_has_one() {
    let peer = Backend::start("a");
    let zone = Zone::new(Err(io::ErrorKind::NotFound));
    run(Settings::default(), async move |core: Core| {
        let upstream: Rc<Upstream> = Upstream::start(&core, &zone.plan()).expect("started");
        for _ in 0..2 {
            let failure = upstream.begin(0).next(&core, Connection::Any, LONG).await.err();
            assert!(matches!(failure, Some(Failure::NoPeer(NoPeer::Unresolved))), "{failure:?}");
        }
        zone.set(Ok(vec![peer.address]));
        zone.next_answer(&core).await;
        assert_eq!(ask(&core, &upstream).await.expect("a lease").0, "a");
    });
}
