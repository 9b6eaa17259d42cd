//! A bounded number of bytes from one connection to another, under every backend.

mod support;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use drover_event::{BackendKind, CarryEnd, Load, Stream, StreamError, Target, carry};
use support::Closure;
use support::running::Running;

const LIMIT: Duration = Duration::from_secs(10);

fn load(most: u64, leaves_rest: bool) -> Load {
    Load { most, leaves_rest, receiving: LIMIT.into(), sending: LIMIT.into() }
}

/// Carries from the client to the target, tells how that went, and what the client has sent beyond it.
async fn forward(client: Stream, target: SocketAddr, load: Load, told: Sender<(u64, String, String)>) {
    let server = client.core().connect(&Target::Internet(target), None, LIMIT).await.expect("connecting");
    let carried = carry(&client, &server, load).await;
    let end = match carried.end {
        CarryEnd::Whole { excess } => format!("whole, excess: {excess}"),
        CarryEnd::Ended => "ended".to_owned(),
        CarryEnd::Receiving(StreamError::TimedOut) => "receiving timed out".to_owned(),
        CarryEnd::Receiving(_) => "receiving failed".to_owned(),
        CarryEnd::Sending(StreamError::TimedOut) => "sending timed out".to_owned(),
        CarryEnd::Sending(_) => "sending failed".to_owned(),
    };
    let mut buffer = client.core().take_buffer();
    let rest = client.try_receive(&mut buffer).unwrap_or(0);
    let rest = String::from_utf8_lossy(&buffer[..rest]).into_owned();
    drop((client, server));
    told.send((carried.moved, end, rest)).expect("telling");
}

fn start(backend: BackendKind, load: Load) -> (Running, TcpListener, Receiver<(u64, String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listener");
    let target = listener.local_addr().expect("address");
    let (told, tell) = channel();
    let running = Running::start(backend, move || {
        Closure(move |client: Stream| forward(client, target, load, told.clone()))
    });
    (running, listener, tell)
}

fn connect(running: &Running, backend: &TcpListener) -> (TcpStream, TcpStream) {
    let client = TcpStream::connect(running.address).expect("connecting");
    let (server, _) = backend.accept().expect("accepting");
    server.set_read_timeout(Some(LIMIT)).expect("time-out");
    (client, server)
}

#[test]
fn as_many_bytes_as_wanted_are_carried_and_the_rest_stays() {
    for &kind in BackendKind::ALL {
        for (length, leaves_rest) in [(10, true), (10, false), (3_000_000, true)] {
            let (running, backend, outcome) = start(kind, load(length, leaves_rest));
            let (mut client, mut server) = connect(&running, &backend);
            let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8 ^ (at >> 16) as u8).collect();
            let sent = bytes.clone();
            let writer = std::thread::spawn(move || {
                client.write_all(&[sent.as_slice(), b"rest"].concat()).expect("sending");
                client
            });
            let mut received = Vec::new();
            server.read_to_end(&mut received).expect("receiving");
            assert!(received == bytes, "{} bytes of {length}", received.len());
            let excess = !leaves_rest;
            let rest = if leaves_rest { "rest" } else { "" };
            let told = outcome.recv_timeout(LIMIT).expect("outcome");
            assert_eq!(told, (length, format!("whole, excess: {excess}"), rest.to_owned()));
            drop(writer.join().expect("writer"));
            assert_eq!(running.stop().open, 0);
        }
    }
}

#[test]
fn an_early_end_and_silence_are_told_apart() {
    for &kind in BackendKind::ALL {
        let (running, backend, outcome) = start(kind, load(10, false));
        let (mut client, _server) = connect(&running, &backend);
        client.write_all(b"short").expect("sending");
        client.shutdown(Shutdown::Write).expect("half-close");
        let told = outcome.recv_timeout(LIMIT).expect("outcome");
        assert_eq!(told, (5, "ended".to_owned(), String::new()));
        running.stop();

        let impatient = Load { receiving: Duration::from_millis(400).into(), ..load(10, false) };
        let (running, backend, outcome) = start(kind, impatient);
        let (_client, _server) = connect(&running, &backend);
        let told = outcome.recv_timeout(LIMIT).expect("outcome");
        assert_eq!(told, (0, "receiving timed out".to_owned(), String::new()));
        running.stop();
    }
}

#[test]
fn a_receiver_that_takes_nothing_times_out() {
    for &kind in BackendKind::ALL {
        let impatient = Load { sending: Duration::from_millis(400).into(), ..load(u64::MAX, false) };
        let (running, backend, outcome) = start(kind, impatient);
        let (mut client, _server) = connect(&running, &backend);
        // Until the connection is closed.
        while client.write_all(&[b'x'; 65_536]).is_ok() {}
        let (moved, end, _) = outcome.recv_timeout(LIMIT).expect("outcome");
        assert_eq!(end, "sending timed out");
        assert!(moved > 0);
        running.stop();
    }
}
