//! What goes wrong is told apart: by the answer's status, by a word in the access log, and by a counter.

use std::net::{SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::time::Duration;

use drover_tests::http::request;
use drover_tests::{HttpBackend, Port, Proxying};
use nix::sys::socket::{Backlog, listen};

const COUNTERS: [&str; 8] = [
    "upstream_refused",
    "upstream_connect_timeouts",
    "upstream_send_timeouts",
    "upstream_receive_timeouts",
    "upstream_closed",
    "upstream_reset",
    "upstream_invalid",
    "upstream_local",
];

/// Asks once, and expects this status and word; and that this counter alone has counted.
#[track_caller]
fn told(proxying: &Proxying, ask: &str, status: u16, word: &str, counter: &str) {
    assert_eq!(proxying.ask(ask).status, status, "{word}");
    proxying.logged(&[&format!(" {status} "), word]);
    let counted: Vec<&str> = COUNTERS.into_iter().filter(|name| proxying.counter(name) > 0).collect();
    assert_eq!(counted, [counter], "{word}");
    assert_eq!(proxying.counter(counter), 1, "{word}");
    assert_eq!(proxying.counter("upstream_retries"), 0, "{word}");
}

fn get() -> String {
    request("GET", "/", "")
}

#[test]
fn a_refusal() {
    let port = Port::new();
    told(&Proxying::start(&[port.address()], "", ""), &get(), 502, "refused", "upstream_refused");
}

/// A listener whose queue is full: the kernel leaves further connections without an answer.
fn full_queue(address: SocketAddrV4) -> (TcpListener, Vec<TcpStream>) {
    let listener = TcpListener::bind(address).expect("the port is ours");
    listen(&listener, Backlog::new(0).expect("a length")).expect("it listens");
    let mut waiting = Vec::new();
    let patience = Duration::from_millis(200);
    while let Ok(stream) = TcpStream::connect_timeout(&SocketAddr::V4(address), patience) {
        waiting.push(stream);
        assert!(waiting.len() < 20, "the queue has an end");
    }
    (listener, waiting)
}

#[test]
fn no_connection_in_time() {
    let port = Port::new();
    let _queue = full_queue(port.address());
    let proxying = Proxying::start(&[port.address()], "connect_timeout = \"300ms\"", "");
    told(&proxying, &get(), 504, "connect_timed_out", "upstream_connect_timeouts");
}

#[test]
fn a_request_that_is_not_taken_in_time() {
    let backend = HttpBackend::new(|connection| {
        let _ = connection.head();
        // Reads nothing more.
        std::thread::sleep(Duration::from_secs(10));
    });
    let size = |config: drover_tests::Config| config.http("client_body_size = \"100m\"");
    let proxying = Proxying::with(size, &[backend.address()], "", "send_timeout = \"300ms\"");
    let mut client = proxying.client();
    let mut writing = client.stream().try_clone().expect("a second handle");
    client.send(request("PUT", "/", "Content-Length: 90000000\r\n"));
    let writer = std::thread::spawn(move || {
        let _ = std::io::Write::write_all(&mut writing, &vec![b'x'; 90_000_000]);
    });
    assert_eq!(client.response().status, 504);
    drop(client);
    writer.join().expect("the writer");
    proxying.logged(&["PUT / 504", "send_timed_out"]);
    assert_eq!(proxying.counter("upstream_send_timeouts"), 1);
    assert_eq!(proxying.counter("upstream_receive_timeouts"), 0);
}

#[test]
fn no_response_in_time() {
    let backend = HttpBackend::new(|connection| {
        drop(connection.request());
        let _ = connection.is_closed_within(Duration::from_secs(20));
    });
    let proxying = Proxying::start(&[backend.address()], "", "read_timeout = \"300ms\"");
    told(&proxying, &get(), 504, "head_timed_out", "upstream_receive_timeouts");
}

#[test]
fn an_early_close() {
    let backend = HttpBackend::new(|connection| drop(connection.request()));
    told(&Proxying::to(&backend), &get(), 502, "no_response", "upstream_closed");
    let backend = HttpBackend::new(|connection| {
        drop(connection.request());
        connection.send("HTTP/1.1 200 O");
    });
    told(&Proxying::to(&backend), &get(), 502, "head_cut", "upstream_closed");
}

#[test]
fn a_reset() {
    let backend = HttpBackend::new(|connection| {
        drop(connection.request());
        connection.reset();
    });
    told(&Proxying::to(&backend), &get(), 502, "head_reset", "upstream_reset");
}

#[test]
fn bad_framing() {
    let backend = HttpBackend::answering("HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello");
    told(&Proxying::to(&backend), &get(), 502, "head_invalid", "upstream_invalid");
}

#[test]
fn no_slot_for_a_connection_with_a_server() {
    let backend = HttpBackend::echoing();
    // Listener, channel, one client, and its server; the second client has none.
    let few = |config: drover_tests::Config| config.events("worker_connections = 5");
    let slow = HttpBackend::new(|connection| {
        let _ = connection.request();
        let _ = connection.is_closed_within(Duration::from_secs(20));
    });
    drop(backend);
    let proxying = Proxying::with(few, &[slow.address()], "", "");
    let mut first = proxying.client();
    first.ask("/");
    drover_tests::eventually("the first one is passed on", || (slow.requests().len() == 1).then_some(()));
    told(&proxying, &get(), 503, "local", "upstream_local");
}
