//! The adaptive pipe between real connections, under every backend.

mod support;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use drover_event::{BackendKind, Carrying, ConnectFailure, PipeEnd, PipeTerms, Stream, Target, pipe};
use nix::libc;
use nix::sys::socket::sockopt::TcpCork;
use nix::sys::socket::{MsgFlags, send, setsockopt};
use support::Closure;
use support::running::Running;

const LIMIT: Duration = Duration::from_secs(10);

/// What a proxied connection ended with: bytes to the backend, bytes to the client, and how.
type Outcome = (u64, u64, String);

fn proxy(
    backend: BackendKind,
    target: SocketAddr,
    idle: Duration,
    carrying: Carrying,
) -> (Running, Receiver<Outcome>) {
    let (told, tell) = channel();
    let running = Running::start(backend, move || {
        Closure(move |client: Stream| forward(client, target, idle, carrying, told.clone()))
    });
    (running, tell)
}

async fn forward(
    client: Stream,
    target: SocketAddr,
    idle: Duration,
    carrying: Carrying,
    told: Sender<Outcome>,
) {
    let server = client.core().connect(&Target::Internet(target), None, LIMIT).await.expect("connecting");
    let piped = pipe(&client, &server, PipeTerms { carrying, ..PipeTerms::new(idle) }).await;
    let end = match piped.end {
        PipeEnd::Finished => "finished".to_owned(),
        PipeEnd::TimedOut => "timed out".to_owned(),
        PipeEnd::Failed(side, error) => format!("{side:?} failed: {:?}", error.kind()),
    };
    drop((client, server));
    told.send((piped.to_right, piped.to_left, end)).expect("telling");
}

fn connect(running: &Running, backend: &TcpListener) -> (TcpStream, TcpStream) {
    let client = TcpStream::connect(running.address).expect("connecting");
    let (server, _) = backend.accept().expect("accepting");
    for end in [&client, &server] {
        end.set_read_timeout(Some(LIMIT)).expect("time-out");
        end.set_nodelay(true).expect("no delay");
    }
    (client, server)
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listener");
    let address = listener.local_addr().expect("address");
    (listener, address)
}

fn each(case: impl Fn(BackendKind, Carrying)) {
    for &backend in BackendKind::ALL {
        for carrying in [Carrying::Adaptive, Carrying::Copy] {
            case(backend, carrying);
        }
    }
}

#[test]
fn messages_pass_both_ways_and_each_end_is_passed_on_by_itself() {
    each(|kind, carrying| {
        let (backend, target) = listener();
        let (running, outcome) = proxy(kind, target, LIMIT, carrying);
        let (mut client, mut server) = connect(&running, &backend);
        let mut buffer = [0; 16];
        for _ in 0..100 {
            client.write_all(b"question").expect("sending");
            server.read_exact(&mut buffer[..8]).expect("receiving");
            server.write_all(b"answer").expect("sending");
            client.read_exact(&mut buffer[..6]).expect("receiving");
        }
        client.shutdown(Shutdown::Write).expect("half-close");
        assert_eq!(server.read(&mut buffer).expect("the end"), 0);
        server.write_all(b"afterwards").expect("the other way still goes");
        client.read_exact(&mut buffer[..10]).expect("receiving");
        drop(server);
        assert_eq!(client.read(&mut buffer).expect("the end"), 0);
        assert_eq!(outcome.recv_timeout(LIMIT).expect("outcome"), (800, 610, "finished".to_owned()));
        let counts = running.stop();
        assert_eq!((counts.open, counts.panics), (0, 0), "{counts:?}");
    });
}

/// Bytes whose place can be told, so that any loss, repetition or swap shows.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index % 251) as u8 ^ (index >> 16) as u8).collect()
}

#[test]
fn bulk_passes_both_ways_at_once_unharmed() {
    const LENGTH: usize = 12 * 1024 * 1024;
    // Made before anything waits for it: under valgrind that takes a while.
    let bytes = Arc::new(pattern(LENGTH));
    each(|kind, carrying| {
        let (backend, target) = listener();
        let (running, outcome) = proxy(kind, target, LIMIT, carrying);
        let (client, server) = connect(&running, &backend);
        let threads: Vec<_> = [client, server]
            .into_iter()
            .map(|end| {
                let mut writing = end.try_clone().expect("clone");
                let mut reading = end;
                let (sent, wanted) = (Arc::clone(&bytes), Arc::clone(&bytes));
                let writer = std::thread::spawn(move || {
                    writing.write_all(&sent).expect("sending");
                    writing.shutdown(Shutdown::Write).expect("half-close");
                });
                let reader = std::thread::spawn(move || {
                    let mut received = Vec::new();
                    reading.read_to_end(&mut received).expect("receiving");
                    assert!(received == *wanted, "{} bytes, not as sent", received.len());
                });
                (writer, reader)
            })
            .collect();
        for (writer, reader) in threads {
            writer.join().expect("writer");
            reader.join().expect("reader");
        }
        let length = LENGTH as u64;
        assert_eq!(outcome.recv_timeout(LIMIT).expect("outcome"), (length, length, "finished".to_owned()));
        assert_eq!(running.stop().open, 0);
    });
}

#[test]
fn a_slow_receiver_holds_up_its_sender_within_bounds() {
    each(|kind, carrying| {
        let (backend, target) = listener();
        let (running, _outcome) = proxy(kind, target, LIMIT, carrying);
        let (mut client, mut server) = connect(&running, &backend);
        client.set_nonblocking(true).expect("non-blocking");
        // Nobody receives: what the sender gets rid of is what kernels and the flow hold.
        let mut sent = 0;
        let mut quiet_since = Instant::now();
        while quiet_since.elapsed() < Duration::from_millis(300) {
            match client.write(&[7; 65536]) {
                Ok(count) => {
                    sent += count;
                    quiet_since = Instant::now();
                }
                Err(_) => std::thread::yield_now(),
            }
            assert!(sent < 64 << 20, "the pipe has no back-pressure");
        }
        client.set_nonblocking(false).expect("blocking");
        client.shutdown(Shutdown::Write).expect("half-close");
        let mut received = Vec::new();
        server.read_to_end(&mut received).expect("receiving");
        assert_eq!(received.len(), sent);
    });
}

#[test]
fn bulk_that_turns_into_messages_and_back_passes_unharmed() {
    let bytes = pattern(4 << 20);
    each(|kind, carrying| {
        let (backend, target) = listener();
        let (running, _outcome) = proxy(kind, target, LIMIT, carrying);
        let (mut client, mut server) = connect(&running, &backend);
        let mut buffer = vec![0; bytes.len()];
        for round in 0..3 {
            let bulk = &bytes[round..];
            let mut writing = client.try_clone().expect("clone");
            let sent = bulk.to_vec();
            let writer = std::thread::spawn(move || writing.write_all(&sent).expect("sending"));
            server.read_exact(&mut buffer[..bulk.len()]).expect("receiving");
            writer.join().expect("writer");
            assert!(buffer[..bulk.len()] == bulk[..]);
            for _ in 0..20 {
                client.write_all(b"small").expect("sending");
                server.read_exact(&mut buffer[..5]).expect("receiving");
                assert_eq!(&buffer[..5], b"small");
            }
        }
    });
}

/// Sends text with an urgent byte within, all in one packet.
fn send_urgent(client: &TcpStream, before: &[u8], behind: &[u8]) {
    setsockopt(client, TcpCork, &true).expect("set");
    for (bytes, flags) in [(before, 0), (b"!", libc::MSG_OOB), (behind, 0)] {
        let flags = MsgFlags::from_bits_retain(flags);
        assert_eq!(send(client.as_raw_fd(), bytes, flags).expect("sending"), bytes.len());
    }
    setsockopt(client, TcpCork, &false).expect("set");
}

#[test]
fn what_follows_urgent_data_passes_in_a_lull_and_at_the_end() {
    each(|kind, carrying| {
        // None, and enough to splice.
        for bulk in [0, 4 << 20] {
            let (backend, target) = listener();
            let (running, _outcome) = proxy(kind, target, LIMIT, carrying);
            let (client, mut server) = connect(&running, &backend);
            let mut writing = client.try_clone().expect("clone");
            let writer = std::thread::spawn(move || writing.write_all(&vec![7; bulk]).expect("sending"));
            server.read_exact(&mut vec![0; bulk]).expect("receiving");
            writer.join().expect("writer");
            let mut buffer = [0; 6];
            for _ in 0..3 {
                send_urgent(&client, b"abc", b"def");
                server.read_exact(&mut buffer).expect("what was behind");
                assert_eq!(&buffer, b"abcdef");
            }
            send_urgent(&client, b"abc", b"def");
            client.shutdown(Shutdown::Write).expect("half-close");
            let mut rest = Vec::new();
            server.read_to_end(&mut rest).expect("receiving");
            assert_eq!(rest, b"abcdef", "{kind:?}, {carrying:?}, after {bulk}");
        }
    });
}

#[test]
fn silence_ends_in_a_time_out() {
    each(|kind, carrying| {
        let (backend, target) = listener();
        let (running, outcome) = proxy(kind, target, Duration::from_millis(50), carrying);
        let (mut client, _server) = connect(&running, &backend);
        client.write_all(b"x").expect("sending");
        assert_eq!(outcome.recv_timeout(LIMIT).expect("outcome").2, "timed out");
        assert_eq!(client.read(&mut [0; 1]).expect("closed"), 0);
    });
}

#[test]
fn a_reset_is_told_with_its_side() {
    each(|kind, carrying| {
        let (backend, target) = listener();
        let (running, outcome) = proxy(kind, target, LIMIT, carrying);
        let (mut client, mut server) = connect(&running, &backend);
        client.write_all(b"x").expect("sending");
        server.read_exact(&mut [0; 1]).expect("receiving");
        let linger = nix::libc::linger { l_onoff: 1, l_linger: 0 };
        nix::sys::socket::setsockopt(&server, nix::sys::socket::sockopt::Linger, &linger).expect("linger");
        drop(server);
        let end = outcome.recv_timeout(LIMIT).expect("outcome").2;
        assert_eq!(end, "Right failed: ConnectionReset");
        assert!(matches!(client.read(&mut [0; 1]), Ok(0) | Err(_)), "closed");
    });
}

#[test]
fn connecting_fails_with_the_reason() {
    let (told, tell) = channel();
    let (closed, target) = listener();
    drop(closed);
    let running = Running::start(BackendKind::Epoll, move || {
        Closure(move |client: Stream| {
            let told = told.clone();
            async move {
                let core = client.core();
                let refused = core.connect(&Target::Internet(target), None, LIMIT).await;
                let missing = core.connect(&Target::Unix("/nonexistent/socket".into()), None, LIMIT).await;
                // Not an address of this machine, so it cannot be the source.
                let foreign = Some("192.0.2.1:0".parse().expect("address"));
                let unbound = core.connect(&Target::Internet(target), foreign, LIMIT).await;
                for outcome in [refused, missing, unbound] {
                    let error = outcome.err().expect("no connection");
                    let local = matches!(error.failure, ConnectFailure::Local(_));
                    told.send((local, error.to_string())).expect("telling");
                }
            }
        })
    });
    let _client = TcpStream::connect(running.address).expect("connecting");
    let next = || tell.recv_timeout(LIMIT).expect("outcome");
    let (local, text) = next();
    assert!(!local && text.contains("Connection refused") && text.contains(&target.to_string()), "{text}");
    let (_, text) = next();
    assert!(text.contains("unix:/nonexistent/socket") && text.contains("No such file"), "{text}");
    let (local, text) = next();
    assert!(local && text.contains("Cannot assign requested address"), "{text}");
    assert_eq!(running.stop().open, 0, "sockets of failed attempts are closed");
}
