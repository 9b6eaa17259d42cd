//! Kept connections: reused, watched while idle, bounded, given up when the worker needs or leaves them.

mod support;

use std::io::Write;
use std::time::Duration;

use drover_event::{BackendKind, Core, Settings};
use drover_upstream::{Connection, Tally, Upstream};
use support::{BACKENDS, Backend, LONG, ask, run, server, start, until, upstream};

fn on(backend: BackendKind) -> Settings {
    Settings { backend, ..Settings::default() }
}

fn kept(upstream: &Upstream) -> u64 {
    (0..upstream.plan().config().servers.len())
        .map(|peer| upstream.plan().words().total(peer, Tally::Kept))
        .sum()
}

#[test]
fn a_kept_connection_serves_the_next_request() {
    for backend in BACKENDS {
        let peer = Backend::start("a");
        let config = upstream(vec![server(peer.address)]);
        run(on(backend), async move |core: Core| {
            let upstream = start(&core, &config);
            for request in 1..=5 {
                let (answer, lease) = ask(&core, &upstream).await.expect("a lease");
                assert_eq!((answer.as_str(), lease.requests()), ("a", request));
                assert_eq!(lease.reused(), request > 1);
                lease.keep();
                assert_eq!((kept(&upstream), core.open_connections()), (1, 1));
            }
            assert_eq!(peer.accepted(), 1);
            let total = |tally| upstream.plan().words().total(0, tally);
            assert_eq!((total(Tally::Requests), total(Tally::Reused), total(Tally::Connects)), (5, 4, 1));
            assert_eq!(total(Tally::Active), 0);
        });
    }
}

#[test]
fn one_that_the_server_closes_or_talks_on_is_gone_at_once() {
    for backend in BACKENDS {
        for garbage in [false, true] {
            let peer = Backend::start("a");
            let config = upstream(vec![server(peer.address)]);
            run(on(backend), async move |core: Core| {
                let upstream = start(&core, &config);
                ask(&core, &upstream).await.expect("a lease").1.keep();
                assert_eq!(kept(&upstream), 1);
                match garbage {
                    false => peer.close_all(),
                    true => peer.each(|stream| stream.write_all(b"HTTP/1.1 408\r\n").expect("sent")),
                }
                until(&core, "noticed", || kept(&upstream) == 0 && core.open_connections() == 0).await;
                let (_, lease) = ask(&core, &upstream).await.expect("a lease");
                assert!(!lease.reused());
            });
        }
    }
}

#[test]
fn idle_time_and_requests_are_bounded() {
    let peer = Backend::start("a");
    let mut config = upstream(vec![server(peer.address)]);
    config.keepalive_timeout = Duration::from_millis(30);
    config.keepalive_requests = 2;
    run(Settings::default(), async move |core: Core| {
        let upstream = start(&core, &config);
        ask(&core, &upstream).await.expect("a lease").1.keep();
        until(&core, "closed after its time", || core.open_connections() == 0).await;
        for request in [1, 2] {
            let (_, lease) = ask(&core, &upstream).await.expect("a lease");
            assert_eq!(lease.requests(), request);
            lease.keep();
        }
        assert_eq!((kept(&upstream), core.open_connections()), (0, 0), "it has had its requests");
    });
}

#[test]
fn no_more_are_kept_than_keepalive_says_and_the_longest_kept_goes_first() {
    let (a, b) = (Backend::start("a"), Backend::start("b"));
    let mut config = upstream(vec![server(a.address), server(b.address)]);
    config.keepalive = 2;
    run(Settings::default(), async move |core: Core| {
        let upstream = start(&core, &config);
        let mut leases = Vec::new();
        for _ in 0..4 {
            leases.push(ask(&core, &upstream).await.expect("a lease"));
        }
        let mut order = Vec::new();
        for (answer, lease) in leases {
            order.push(answer);
            lease.keep();
            core.sleep(Duration::from_millis(2)).await;
        }
        assert_eq!(order, ["a", "b", "a", "b"]);
        assert_eq!((kept(&upstream), core.open_connections()), (2, 2));
        assert_eq!(upstream.plan().words().total(0, Tally::Kept), 1);
        config.keepalive = 0;
        let none = start(&core, &config);
        ask(&core, &none).await.expect("a lease").1.keep();
        assert_eq!(core.open_connections(), 2);
    });
}

#[test]
fn a_fresh_connection_is_none_that_was_kept() {
    let peer = Backend::start("a");
    let config = upstream(vec![server(peer.address)]);
    run(Settings::default(), async move |core: Core| {
        let upstream = start(&core, &config);
        ask(&core, &upstream).await.expect("a lease").1.keep();
        let lease = upstream.begin(0).next(&core, Connection::Fresh, LONG).await.expect("a lease");
        assert!(!lease.reused());
        assert_eq!(kept(&upstream), 1, "the kept one is still there");
    });
}

#[test]
fn what_must_not_be_sent_twice_gets_no_connection_that_was_idle_for_long() {
    let peer = Backend::start("a");
    let config = upstream(vec![server(peer.address)]);
    run(Settings::default(), async move |core: Core| {
        let upstream = start(&core, &config);
        ask(&core, &upstream).await.expect("a lease").1.keep();
        let lease = upstream.begin(0).next(&core, Connection::Recent, LONG).await.expect("a lease");
        assert!(lease.reused(), "just used");
        lease.keep();
        core.sleep(Duration::from_millis(1100)).await;
        let lease = upstream.begin(0).next(&core, Connection::Recent, LONG).await.expect("a lease");
        assert!(!lease.reused());
        let lease = upstream.begin(0).next(&core, Connection::Any, LONG).await.expect("a lease");
        assert!(lease.reused(), "it is still there for others");
    });
}

#[test]
fn kept_connections_give_way_when_slots_are_short() {
    let peer = Backend::start("a");
    let config = upstream(vec![server(peer.address)]);
    let settings = Settings { connections: 16, ..Settings::default() };
    run(settings, async move |core: Core| {
        let upstream = start(&core, &config);
        let mut leases = Vec::new();
        for _ in 0..14 {
            leases.push(upstream.begin(0).next(&core, Connection::Fresh, LONG).await.expect("a slot"));
        }
        leases.drain(..4).for_each(drover_upstream::Lease::keep);
        assert_eq!(kept(&upstream), 4);
        while leases.len() < 15 {
            leases.push(upstream.begin(0).next(&core, Connection::Fresh, LONG).await.expect("a slot"));
        }
        assert!(kept(&upstream) <= 1, "{} are still kept", kept(&upstream));
        assert_eq!(u64::from(core.open_connections()), 15 + kept(&upstream));
    });
}

#[test]
fn a_worker_that_drains_keeps_none() {
    for backend in BACKENDS {
        let peer = Backend::start("a");
        let config = upstream(vec![server(peer.address)]);
        run(on(backend), async move |core: Core| {
            let upstream = start(&core, &config);
            ask(&core, &upstream).await.expect("a lease").1.keep();
            let (_, lease) = ask(&core, &upstream).await.expect("a lease");
            let (_, other) = ask(&core, &upstream).await.expect("a lease");
            other.keep();
            core.drain();
            assert_eq!((kept(&upstream), core.open_connections()), (0, 1));
            lease.keep();
            assert_eq!((kept(&upstream), core.open_connections()), (0, 0));
        });
    }
}
