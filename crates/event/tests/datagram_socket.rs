//! Sessions that pass datagrams on to a server, and what befalls them.

mod support;

use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::Poll;
use std::time::Duration;

use drover_event::{
    Asked, BackendKind, DatagramService, DatagramSocket, Idle, Session, Settings, StreamError,
};
use support::running::Running;

const LIMIT: Duration = Duration::from_secs(10);

/// Passes datagrams on to `target` and back, and tells why each session ended.
struct PassOn {
    target: SocketAddr,
    told: Sender<String>,
}

impl DatagramService for PassOn {
    fn session(&self, session: Session) -> Pin<Box<dyn Future<Output = ()>>> {
        let (target, told) = (self.target, self.told.clone());
        Box::pin(async move {
            let server = session.core().connect_datagrams(target, None).expect("a socket");
            session.set_timeout(LIMIT);
            let why = std::future::poll_fn(|_| poll(&session, &server)).await;
            let _ = told.send(why);
        })
    }
}

fn poll(session: &Session, server: &DatagramSocket) -> Poll<String> {
    let mut datagram = Vec::new();
    loop {
        match session.poll_receive(&mut datagram, Some(Idle::First)) {
            Poll::Pending => break,
            Poll::Ready(Ok(())) => {
                if let Err(error) = server.send(&datagram) {
                    return Poll::Ready(format!("sending: {:?}", error.kind()));
                }
            }
            Poll::Ready(Err(StreamError::Asked(Asked::Reclaim))) => {
                return Poll::Ready(format!("session {} is reclaimed", session.number()));
            }
            Poll::Ready(Err(error)) => return Poll::Ready(error.to_string()),
        }
    }
    loop {
        match server.poll_receive(|bytes| session.send(bytes)) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok(_)) => {}
            Poll::Ready(Err(error)) => return Poll::Ready(format!("receiving: {:?}", error.kind())),
        }
    }
}

fn start(settings: Settings, target: SocketAddr) -> (Running, Receiver<String>) {
    let (told, tell) = channel();
    let running = Running::start_datagrams_with(settings, "127.0.0.1:0", move || PassOn { target, told });
    (running, tell)
}

/// Asks `target`, tells how that went and answers with what it says later.
struct Ask {
    target: SocketAddr,
    told: Sender<String>,
}

impl DatagramService for Ask {
    fn session(&self, session: Session) -> Pin<Box<dyn Future<Output = ()>>> {
        let (target, told) = (self.target, self.told.clone());
        Box::pin(async move {
            let server = session.core().connect_datagrams(target, None).expect("a socket");
            server.set_timeout(Duration::from_millis(20));
            server.send(b"?").expect("sending");
            let asked = server.receive(|_| ()).await;
            let _ = told.send(format!("{:?}", asked.map_err(|error| error.kind())));
            server.set_timeout(LIMIT);
            let _ = server.receive(|answer| session.send(answer)).await;
        })
    }
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("socket");
    socket.set_read_timeout(Some(LIMIT)).expect("time-out");
    socket
}

/// Sends `bytes` through the worker, and back what the server makes of them.
fn round_trip(client: &UdpSocket, through: SocketAddr, server: &UdpSocket, bytes: &[u8]) {
    client.send_to(bytes, through).expect("sending");
    let mut buffer = vec![0; 70_000];
    let (length, from) = server.recv_from(&mut buffer).expect("passed on");
    assert!(buffer[..length] == *bytes, "{length} bytes");
    server.send_to(bytes, from).expect("answering");
    let (length, from) = client.recv_from(&mut buffer).expect("answered");
    assert!(buffer[..length] == *bytes && from == through, "{length} bytes from {from}");
}

#[test]
fn datagrams_of_any_length_pass_both_ways() {
    for &backend in BackendKind::ALL {
        let server = socket();
        let settings = Settings { backend, ..Settings::default() };
        let (running, _told) = start(settings, server.local_addr().expect("address"));
        let client = socket();
        // 65,507 is what an IPv4 datagram holds.
        for length in [5, 0, 1400, 65_507, 0, 9000] {
            round_trip(&client, running.address, &server, &vec![b'x'; length]);
        }
        let counts = running.stop();
        assert_eq!((counts.open, counts.panics), (2, 0), "the session and its socket");
    }
}

#[test]
fn many_answers_to_one_question_all_arrive() {
    let server = socket();
    let (running, _told) = start(Settings::default(), server.local_addr().expect("address"));
    let client = socket();
    client.send_to(b"?", running.address).expect("sending");
    let (_, from) = server.recv_from(&mut [0; 8]).expect("passed on");
    for number in 0..100u8 {
        server.send_to(&[number], from).expect("answering");
    }
    for number in 0..100u8 {
        let mut answer = [0; 8];
        assert_eq!(client.recv(&mut answer).expect("answered"), 1);
        assert_eq!(answer[0], number);
    }
    drop(running);
}

#[test]
fn a_server_that_is_not_there_is_noticed() {
    for &backend in BackendKind::ALL {
        let gone = socket().local_addr().expect("address");
        let (running, told) = start(Settings { backend, ..Settings::default() }, gone);
        let client = socket();
        client.send_to(b"?", running.address).expect("sending");
        let why = told.recv_timeout(LIMIT).expect("the session ends");
        assert!(why == "receiving: ConnectionRefused" || why == "sending: ConnectionRefused", "{why}");
        assert_eq!(running.stop().open, 0);
    }
}

#[test]
fn the_longest_idle_session_gives_way_when_slots_are_short() {
    let server = socket();
    // A listener, three sessions with a socket each, and one slot that is free.
    let settings = Settings { connections: 8, ..Settings::default() };
    let (running, told) = start(settings, server.local_addr().expect("address"));
    let clients: Vec<UdpSocket> = (0..3).map(|_| socket()).collect();
    for client in &clients {
        round_trip(client, running.address, &server, b"first");
    }
    // The one that began first is not the one that was idle longest.
    round_trip(&clients[0], running.address, &server, b"again");
    round_trip(&socket(), running.address, &server, b"new");
    // Sessions and their sockets are counted together: 1 and 2, 3 and 4, 5 and 6.
    assert_eq!(told.recv_timeout(LIMIT).expect("one gives way"), "session 3 is reclaimed");
    round_trip(&clients[0], running.address, &server, b"still there");
    assert_eq!(running.stop().panics, 0);
}

#[test]
fn a_server_that_says_nothing_is_waited_for_as_long_as_was_set() {
    for &backend in BackendKind::ALL {
        let server = socket();
        let (told, tell) = channel();
        let (target, settings) =
            (server.local_addr().expect("address"), Settings { backend, ..Settings::default() });
        let service = move || Ask { target, told };
        let running = Running::start_datagrams_with(settings, "127.0.0.1:0", service);
        let client = socket();
        client.send_to(b"?", running.address).expect("sending");
        assert_eq!(tell.recv_timeout(LIMIT).expect("told"), "Err(TimedOut)");
        let (_, from) = server.recv_from(&mut [0; 8]).expect("asked");
        server.send_to(b"late", from).expect("answering");
        let mut answer = [0; 8];
        let length = client.recv(&mut answer).expect("answered");
        assert_eq!(&answer[..length], b"late");
        assert_eq!(running.stop().panics, 0);
    }
}
