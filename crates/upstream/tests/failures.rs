//! Failures: who is tried next, who is given up and for how long, and what comes back.

mod support;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use drover_event::{Core, Settings};
use drover_upstream::{Cause, Connection, Failure, Next, NoPeer, Repeatable, Sent, Tally};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, getsockname, listen, socket,
};
use support::{Backend, LONG, ask, run, server, start, talk, upstream};

/// An address that refuses connections and that nobody else gets meanwhile: bound, and not listening.
struct Refusing(OwnedFd, SocketAddr);

impl Refusing {
    fn new() -> Refusing {
        let family = AddressFamily::Inet;
        let socket = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).expect("a socket");
        bind(socket.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).expect("bound");
        let address: SockaddrIn = getsockname(socket.as_raw_fd()).expect("an address");
        Refusing(socket, SocketAddr::V4(address.into()))
    }

    fn listen(self) -> TcpListener {
        listen(&self.0, Backlog::new(16).expect("a backlog")).expect("listening");
        self.0.into()
    }
}

#[test]
fn a_refused_connection_says_so_and_the_next_attempt_is_with_another() {
    let (dead, peer) = (Refusing::new(), Backend::start("a"));
    let config = upstream(vec![server(dead.1), server(peer.address)]);
    run(Settings::default(), async move |core: Core| {
        let upstream = start(&core, &config);
        let mut attempts = upstream.begin(0);
        let failure = attempts.next(&core, Connection::Any, LONG).await.err().expect("refused");
        assert_eq!(failure.next(), Next::Another);
        assert!(matches!(failure, Failure::Connect { cause: Cause::Refused, .. }), "{failure:?}");
        assert!(failure.to_string().starts_with(&format!("connecting to {}: ", dead.1)), "{failure}");
        let lease = attempts.next(&core, Connection::Any, LONG).await.expect("the other");
        assert_eq!(lease.peer().name(), peer.address.to_string());
        drop(lease);
        let failure = attempts.next(&core, Connection::Any, LONG).await.err().expect("none left");
        assert!(matches!(failure, Failure::NoPeer(NoPeer::Exhausted)), "{failure:?}");
        assert_eq!(upstream.plan().words().total(0, Tally::Failures), 1);
        // It failed once, which is as often as it may.
        for _ in 0..10 {
            let lease = upstream.begin(0).next(&core, Connection::Any, LONG).await.expect("the other");
            assert_eq!(lease.peer().name(), peer.address.to_string());
        }
    });
}

#[test]
fn one_request_tries_a_server_that_was_given_up_and_brings_it_back() {
    let refusing = Refusing::new();
    let other = Backend::start("other");
    let mut first = server(refusing.1);
    first.fail_timeout = Duration::from_millis(200);
    let config = upstream(vec![first, server(other.address)]);
    run(Settings::default(), async move |core: Core| {
        let upstream = start(&core, &config);
        assert!(upstream.begin(0).next(&core, Connection::Any, LONG).await.is_err());
        let back = Backend::on(refusing.listen(), "back");
        for _ in 0..4 {
            let (answer, lease) = ask(&core, &upstream).await.expect("a lease");
            assert_eq!(answer, "other");
            lease.done();
        }
        core.sleep(Duration::from_millis(220)).await;
        // Two at once: the second must not try it too before the first is known to have gone well.
        let one = ask(&core, &upstream).await.expect("a lease");
        let two = ask(&core, &upstream).await.expect("a lease");
        let mut answers = [one.0, two.0];
        answers.sort();
        assert_eq!(answers, ["back", "other"]);
        one.1.done();
        two.1.done();
        let mut answers = Vec::new();
        for _ in 0..4 {
            let (answer, lease) = ask(&core, &upstream).await.expect("a lease");
            answers.push(answer);
            lease.done();
        }
        assert_eq!(answers.iter().filter(|answer| *answer == "back").count(), 2, "{answers:?}");
        drop(back);
    });
}

#[test]
fn a_stale_kept_connection_leads_to_a_fresh_one_with_the_same_server() {
    let (a, b) = (Backend::start("a"), Backend::start("b"));
    let config = upstream(vec![server(a.address), server(b.address)]);
    run(Settings::default(), async move |core: Core| {
        let upstream = start(&core, &config);
        ask(&core, &upstream).await.expect("a lease").1.keep();
        ask(&core, &upstream).await.expect("a lease").1.keep();
        let mut attempts = upstream.begin(0);
        let lease = attempts.next(&core, Connection::Any, LONG).await.expect("a lease");
        assert!(lease.reused());
        let name = lease.peer().name().to_owned();
        let next = attempts.failed(lease, Cause::Closed, Sent::Something, Repeatable::Yes);
        assert_eq!(next, Next::SameAgain);
        let lease = attempts.next(&core, Connection::Any, LONG).await.expect("a lease");
        assert_eq!((lease.reused(), lease.peer().name()), (false, name.as_str()));
        assert_eq!(talk(&lease).await, "a");
        lease.keep();
        assert_eq!(upstream.plan().words().total(0, Tally::Failures), 0, "nobody failed");
        // One that must not arrive twice is not repeated.
        let mut attempts = upstream.begin(0);
        let lease = attempts.next(&core, Connection::Any, LONG).await.expect("a lease");
        assert!(lease.reused());
        let next = attempts.failed(lease, Cause::Closed, Sent::Something, Repeatable::No);
        assert_eq!(next, Next::Stop);
    });
}

#[test]
fn a_server_that_never_answers_costs_the_connect_timeout() {
    // A listener whose queue is full: the kernel drops further handshakes.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    listen(&listener, Backlog::new(0).expect("a backlog")).expect("listening");
    let mut waiting = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
        waiting.push(stream);
    }
    let peer = Backend::start("a");
    let mut config = upstream(vec![server(address), server(peer.address)]);
    config.connect_timeout = Duration::from_millis(50);
    run(Settings::default(), async move |core: Core| {
        let upstream = start(&core, &config);
        let mut attempts = upstream.begin(0);
        let failure = attempts.next(&core, Connection::Any, LONG).await.err().expect("no answer");
        assert!(matches!(failure, Failure::Connect { cause: Cause::ConnectTimedOut, .. }), "{failure:?}");
        assert!(attempts.next(&core, Connection::Any, LONG).await.is_ok());
        drop((listener, waiting));
    });
}

#[test]
fn backups_are_used_only_while_no_other_can_be() {
    let (main, backup) = (Backend::start("main"), Backend::start("backup"));
    let mut first = server(main.address);
    first.max_connections = 2;
    let mut second = server(backup.address);
    second.backup = true;
    let mut third = server("127.0.0.1:1");
    third.down = true;
    let config = upstream(vec![second, third, first]);
    run(Settings::default(), async move |core: Core| {
        let upstream = start(&core, &config);
        let mut leases = Vec::new();
        for wanted in ["main", "main", "backup", "backup"] {
            let (answer, lease) = ask(&core, &upstream).await.expect("a lease");
            assert_eq!(answer, wanted);
            leases.push(lease);
        }
        leases.clear();
        assert_eq!(ask(&core, &upstream).await.expect("a lease").0, "main");
    });
}

#[test]
fn full_and_down_are_told_apart() {
    let peer = Backend::start("a");
    let mut full = server(peer.address);
    full.max_connections = 1;
    let mut down = server("127.0.0.1:1");
    down.down = true;
    run(Settings::default(), async move |core: Core| {
        let upstream = start(&core, &upstream(vec![full, down.clone()]));
        let lease = upstream.begin(0).next(&core, Connection::Any, LONG).await.expect("a lease");
        let failure = upstream.begin(0).next(&core, Connection::Any, LONG).await.err();
        assert!(matches!(failure, Some(Failure::NoPeer(NoPeer::Full))), "{failure:?}");
        drop(lease);
        let upstream = start(&core, &support::upstream(vec![down]));
        let failure = upstream.begin(0).next(&core, Connection::Any, LONG).await.err();
        assert!(matches!(failure, Some(Failure::NoPeer(NoPeer::Down))), "{failure:?}");
    });
}

#[test]
fn a_server_that_is_the_only_one_is_never_given_up() {
    let refusing = Refusing::new();
    run(Settings::default(), async move |core: Core| {
        let upstream = start(&core, &upstream(vec![server(refusing.1)]));
        for _ in 0..3 {
            let failure = upstream.begin(0).next(&core, Connection::Any, LONG).await.err();
            assert!(matches!(failure, Some(Failure::Connect { .. })), "{failure:?}");
        }
        let peer = Backend::on(refusing.listen(), "a");
        assert_eq!(ask(&core, &upstream).await.expect("a lease").0, "a");
        drop(peer);
    });
}
