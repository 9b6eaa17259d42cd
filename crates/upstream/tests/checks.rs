//! Active checks: servers that fail them are out of use, before any request finds out.

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use drover_config::Located;
use drover_event::{Core, Settings};
use drover_upstream::config::{HealthCheck, Upstream as Config};
use drover_upstream::{PeerWord, Upstream};
use support::{Backend, ask, run, server, start, until, upstream};

fn check() -> HealthCheck {
    HealthCheck {
        interval: Duration::from_millis(20),
        timeout: Some(Duration::from_secs(2)),
        rise: 2,
        fall: 2,
        ..HealthCheck::default()
    }
}

fn with_check(mut config: Config, check: HealthCheck) -> Config {
    config.health_check = Some(Located::from(check));
    config
}

/// An HTTP server whose status the test sets; it tells what it was asked.
struct Web {
    address: SocketAddr,
    status: Arc<AtomicU16>,
    asked: Arc<Mutex<String>>,
}

impl Web {
    fn start() -> Web {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("an address");
        let web = Web { address, status: Arc::new(AtomicU16::new(200)), asked: Arc::default() };
        let (status, asked) = (Arc::clone(&web.status), Arc::clone(&web.asked));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let mut head = Vec::new();
                let mut buffer = [0; 512];
                while !head.ends_with(b"\r\n\r\n") {
                    match stream.read(&mut buffer) {
                        Ok(count @ 1..) => head.extend_from_slice(&buffer[..count]),
                        _ => break,
                    }
                }
                *asked.lock().expect("no panic") = String::from_utf8_lossy(&head).into_owned();
                let status = status.load(Ordering::Acquire);
                let _ = write!(stream, "HTTP/1.1 {status} Whatever\r\nContent-Length: 0\r\n\r\n");
            }
        });
        web
    }
}

fn is_down(upstream: &Upstream, peer: usize) -> bool {
    upstream.plan().words().peer_word(peer, PeerWord::Trouble) & 1 == 1
}

#[test]
fn a_server_that_is_not_there_is_down_until_it_is() {
    let (a, b) = (Backend::start("a"), Backend::start("b"));
    let address = a.address;
    let config = with_check(upstream(vec![server(a.address), server(b.address)]), check());
    run(Settings::default(), async move |core: Core| {
        let upstream = start(&core, &config);
        let word = |word| upstream.plan().words().peer_word(0, word);
        until(&core, "checked", || word(PeerWord::Checks) >= 3).await;
        assert!(!is_down(&upstream, 0) && !is_down(&upstream, 1));
        a.stop();
        until(&core, "found down", || is_down(&upstream, 0)).await;
        for _ in 0..4 {
            assert_eq!(ask(&core, &upstream).await.expect("a lease").0, "b");
        }
        let a = Backend::on(TcpListener::bind(address).expect("the address again"), "a");
        until(&core, "found up", || !is_down(&upstream, 0)).await;
        let mut answers = Vec::new();
        for _ in 0..4 {
            answers.push(ask(&core, &upstream).await.expect("a lease").0);
        }
        assert_eq!(answers.iter().filter(|answer| *answer == "a").count(), 2, "{answers:?}");
        drop(a);
    });
}

#[test]
fn the_status_of_an_http_response_decides() {
    let web = Web::start();
    let check = HealthCheck {
        path: Some(Located::from("/health?x=1".to_owned())),
        host: Some(Located::from("app.example".to_owned())),
        ..check()
    };
    let config = with_check(upstream(vec![server(web.address)]), check.clone());
    run(Settings::default(), async move |core: Core| {
        let upstream = start(&core, &config);
        let checks = || upstream.plan().words().peer_word(0, PeerWord::Checks);
        until(&core, "checked", || checks() >= 3).await;
        assert!(!is_down(&upstream, 0));
        let asked = web.asked.lock().expect("no panic").clone();
        assert!(asked.starts_with("GET /health?x=1 HTTP/1.1\r\nHost: app.example\r\n"), "{asked}");
        web.status.store(500, Ordering::Release);
        until(&core, "found down", || is_down(&upstream, 0)).await;
        web.status.store(302, Ordering::Release);
        until(&core, "found up", || !is_down(&upstream, 0)).await;
        // With a list of its own, 302 is not good.
        let strict = HealthCheck { status: Some(Located::from(vec![200])), ..check };
        let strict = start(&core, &with_check(config, strict));
        until(&core, "found down", || is_down(&strict, 0)).await;
    });
}

#[test]
fn bytes_that_have_to_come_back_decide() {
    let peer = Backend::start("pong");
    let says = |expect: &str| HealthCheck {
        send: Some(Located::from("ping\n".to_owned())),
        expect: Some(Located::from(expect.to_owned())),
        ..check()
    };
    let (good, bad) =
        (says("ong"), HealthCheck { timeout: Some(Duration::from_millis(100)), ..says("pang") });
    let config = upstream(vec![server(peer.address)]);
    run(Settings::default(), async move |core: Core| {
        let good = start(&core, &with_check(config.clone(), good));
        let bad = start(&core, &with_check(config, bad));
        until(&core, "found down", || is_down(&bad, 0)).await;
        assert!(good.plan().words().peer_word(0, PeerWord::Checks) > 0);
        assert_eq!(good.plan().words().peer_word(0, PeerWord::ChecksFailed), 0);
        assert!(ask(&core, &bad).await.is_err(), "nobody is left");
    });
}

#[test]
fn a_port_of_its_own_is_checked() {
    let (peer, web) = (Backend::start("a"), Web::start());
    let check =
        HealthCheck { port: Some(web.address.port()), path: Some(Located::from("/".to_owned())), ..check() };
    let config = with_check(upstream(vec![server(peer.address)]), check);
    run(Settings::default(), async move |core: Core| {
        let upstream = start(&core, &config);
        until(&core, "checked", || upstream.plan().words().peer_word(0, PeerWord::Checks) >= 2).await;
        assert!(!is_down(&upstream, 0));
        assert_eq!(peer.accepted(), 0, "checks go elsewhere");
        assert_eq!(ask(&core, &upstream).await.expect("a lease").0, "a");
    });
}

#[test]
fn a_worker_that_drains_checks_no_more() {
    let peer = Backend::start("a");
    let config = with_check(upstream(vec![server(peer.address)]), check());
    run(Settings::default(), async move |core: Core| {
        let upstream = start(&core, &config);
        let checks = || upstream.plan().words().peer_word(0, PeerWord::Checks);
        until(&core, "checked", || checks() >= 2).await;
        core.drain();
        until(&core, "the last check over", || core.open_connections() == 0).await;
        let last = checks();
        core.sleep(Duration::from_millis(100)).await;
        assert!(checks() <= last + 1, "{last}, then {}", checks());
    });
}
