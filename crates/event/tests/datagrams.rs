//! Sessions of datagrams, under every backend.

mod support;

use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use drover_event::{BackendKind, DatagramService, Session};
use support::running::Running;

const LIMIT: Duration = Duration::from_secs(10);

/// Answers each datagram with the session's number and the datagram, until `quiet` passes.
struct Echo {
    quiet: Duration,
    told: Sender<(u64, u32)>,
}

impl DatagramService for Echo {
    fn session(&self, session: Session) -> Pin<Box<dyn Future<Output = ()>>> {
        let (quiet, told) = (self.quiet, self.told.clone());
        Box::pin(async move {
            let mut datagram = Vec::new();
            let mut count = 0;
            session.set_timeout(quiet);
            while session.receive(&mut datagram).await.is_ok() {
                session.set_timeout(quiet);
                count += 1;
                datagram.insert(0, b'0' + session.number() as u8);
                session.send(&datagram);
            }
            let _ = told.send((session.number(), count));
        })
    }
}

fn each_backend(case: impl Fn(BackendKind)) {
    BackendKind::ALL.iter().for_each(|&backend| case(backend));
}

fn client(bind: &str) -> UdpSocket {
    let socket = UdpSocket::bind(bind).expect("client");
    socket.set_read_timeout(Some(LIMIT)).expect("time-out");
    socket
}

fn ask(client: &UdpSocket, server: SocketAddr, bytes: &[u8]) -> (Vec<u8>, SocketAddr) {
    client.send_to(bytes, server).expect("sending");
    let mut answer = vec![0; 70_000];
    let (length, from) = client.recv_from(&mut answer).expect("an answer");
    answer.truncate(length);
    (answer, from)
}

#[test]
fn a_session_is_one_local_and_one_remote_address() {
    each_backend(|backend| {
        let (told, _) = channel();
        let running = Running::start_datagrams(backend, "0.0.0.0:0", move || Echo { quiet: LIMIT, told });
        let port = running.address.port();
        let at = |host: &str| SocketAddr::new(host.parse().expect("address"), port);
        let (first, second) = (client("127.0.0.1:0"), client("127.0.0.1:0"));
        let (one, two) = (at("127.0.0.1"), at("127.0.0.2"));
        assert_eq!(ask(&first, one, b"a"), (b"1a".to_vec(), one));
        assert_eq!(ask(&second, one, b"b"), (b"2b".to_vec(), one));
        assert_eq!(ask(&first, two, b"c"), (b"3c".to_vec(), two), "from the address that was asked");
        assert_eq!(ask(&first, one, b"d"), (b"1d".to_vec(), one), "the session goes on");
        assert_eq!(running.stop().open, 3);
    });
}

#[test]
fn datagrams_of_no_and_of_the_largest_length_pass() {
    each_backend(|backend| {
        let (told, _) = channel();
        let running = Running::start_datagrams(backend, "127.0.0.1:0", move || Echo { quiet: LIMIT, told });
        let client = client("127.0.0.1:0");
        assert_eq!(ask(&client, running.address, b"").0, b"1");
        // 65,507 is what an IPv4 datagram holds; the echo adds one byte.
        let largest = vec![b'x'; 65_506];
        let (answer, _) = ask(&client, running.address, &largest);
        assert!(answer[0] == b'1' && answer[1..] == largest[..], "{} bytes", answer.len());
    });
}

#[test]
fn a_quiet_session_ends_and_gives_its_slot_back() {
    each_backend(|backend| {
        let (told, ended) = channel();
        let quiet = Duration::from_millis(50);
        let running = Running::start_datagrams(backend, "127.0.0.1:0", move || Echo { quiet, told });
        let client = client("127.0.0.1:0");
        ask(&client, running.address, b"x");
        assert_eq!(ended.recv_timeout(LIMIT).expect("ended"), (1, 1));
        assert_eq!(ask(&client, running.address, b"y").0, b"2y", "another session");
        assert_eq!(ended.recv_timeout(LIMIT).expect("ended"), (2, 1));
        let counts = running.stop();
        assert_eq!((counts.open, counts.panics), (0, 0));
    });
}

#[test]
fn many_sessions_at_once_lose_nothing() {
    each_backend(|backend| {
        let (told, _) = channel();
        let running = Running::start_datagrams(backend, "127.0.0.1:0", move || Echo { quiet: LIMIT, told });
        let clients: Vec<UdpSocket> = (0..100).map(|_| client("127.0.0.1:0")).collect();
        for round in 0..20u8 {
            for client in &clients {
                client.send_to(&[round], running.address).expect("sending");
            }
            for client in &clients {
                let mut answer = [0; 8];
                let (length, _) = client.recv_from(&mut answer).expect("an answer");
                assert_eq!((length, answer[1]), (2, round));
            }
        }
        assert_eq!(running.stop().open, 100);
    });
}
