//! Another protocol after 101: a tunnel with early bytes, half-close, time-out and drain.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use drover_tests::http::request;
use drover_tests::{Client, HttpBackend, Proxying, eventually};
use nix::sys::signal::Signal;

const UPGRADE: &str = "Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Key: x\r\n";
const SWITCHING: &str =
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nX-A: b\r\n\r\n";

/// Changes the protocol, says something at once, and then echoes until the other side ends.
fn echoing() -> HttpBackend {
    HttpBackend::new(|connection| {
        let Some(request) = connection.request() else { return };
        assert_eq!(
            (request.header("upgrade"), request.header("connection")),
            (Some("websocket"), Some("upgrade"))
        );
        connection.send([SWITCHING, "early "].concat());
        while let Some(bytes) = connection.receive() {
            connection.send(bytes);
        }
        connection.send("the end");
    })
}

fn read(client: &Client, length: usize) -> String {
    let mut bytes = vec![0; length];
    let mut stream = client.stream();
    stream.read_exact(&mut bytes).expect("the tunnel passes bytes");
    String::from_utf8(bytes).expect("text")
}

#[test]
fn bytes_pass_both_ways_from_the_first_one_on() {
    let backend = echoing();
    let proxying = Proxying::to(&backend);
    let mut client = proxying.client();
    // The client does not wait for the answer.
    client.send(request("GET", "/chat", UPGRADE) + "hasty ");
    let answer = client.receive(false).expect("an answer");
    assert_eq!((answer.status, answer.header("x-a")), (101, Some("b")));
    assert_eq!((answer.header("upgrade"), answer.header("connection")), (Some("websocket"), Some("upgrade")));
    let mut got = String::from_utf8(client.buffered()).expect("text");
    got.push_str(&read(&client, "early hasty ".len() - got.len()));
    assert_eq!(got, "early hasty ");
    for number in 0..100 {
        let text = format!("message {number}");
        client.send(&text);
        assert_eq!(read(&client, text.len()), text);
    }
    // One side ends, the other one still speaks.
    client.half_close();
    assert_eq!(read(&client, 7), "the end");
    assert_eq!(client.stream().read(&mut [0; 1]).expect("the end"), 0);
    proxying.logged(&["GET /chat 101"]);
}

#[test]
fn a_server_may_end_first() {
    let backend = HttpBackend::new(|connection| {
        drop(connection.request());
        connection.send(SWITCHING);
        connection.half_close();
        let rest = connection.receive().expect("the other way still goes");
        assert_eq!(rest, b"afterwards");
    });
    let proxying = Proxying::to(&backend);
    let mut client = proxying.client();
    client.send(request("GET", "/", UPGRADE));
    assert_eq!(client.receive(false).expect("an answer").status, 101);
    assert_eq!(client.stream().read(&mut [0; 1]).expect("the end"), 0);
    client.send("afterwards");
    client.stream().shutdown(Shutdown::Write).expect("the connection is there");
    proxying.logged(&["GET / 101"]);
}

#[test]
fn a_server_may_refuse_and_the_connection_goes_on() {
    let backend = HttpBackend::answering("HTTP/1.1 400 Bad\r\nContent-Length: 2\r\n\r\nno");
    let proxying = Proxying::to(&backend);
    let mut client = proxying.client();
    for _ in 0..2 {
        client.send(request("GET", "/", UPGRADE));
        let answer = client.response();
        assert_eq!((answer.status, answer.text().as_str(), answer.closes()), (400, "no", false));
    }
    assert_eq!(backend.connections(), 1);
}

#[test]
fn a_server_changes_to_nothing_that_was_not_asked_for() {
    for (fields, status) in [
        ("Upgrade: websocket\r\n", 101),
        ("Upgrade: WebSocket\r\n", 101),
        ("Upgrade: h2c\r\n", 502),
        ("Upgrade: websocket, h2c\r\n", 502),
        ("Upgrade: \r\n", 502),
        ("", 502),
    ] {
        let backend = HttpBackend::new(move |connection| {
            if connection.request().is_some() {
                connection
                    .send(format!("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n{fields}\r\n"));
            }
        });
        let proxying = Proxying::to(&backend);
        let mut client = proxying.client();
        client.send(request("GET", "/", UPGRADE));
        assert_eq!(client.head_response().status, status, "{fields}");
    }
}

#[test]
fn only_what_is_allowed_is_asked_for() {
    let backend = HttpBackend::echoing();
    let proxying = Proxying::to(&backend);
    for headers in [
        "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: x\r\n",
        "Upgrade: websocket\r\n",
        "Connection: upgrade\r\n",
    ] {
        assert_eq!(proxying.ask(request("GET", "/", headers)).status, 200);
    }
    assert_eq!(proxying.ask(format!("GET / HTTP/1.0\r\n{UPGRADE}\r\n")).status, 200);
    let with_body = request("POST", "/", &format!("{UPGRADE}Content-Length: 1\r\n")) + "x";
    assert_eq!(proxying.ask(with_body).status, 200);
    for got in backend.requests() {
        assert_eq!((got.header("upgrade"), got.header("connection")), (None, None), "{got:?}");
        assert_eq!(got.header("http2-settings"), None);
    }
    // Of several, the one that is allowed.
    let backend = HttpBackend::echoing();
    let proxying = Proxying::start(&[backend.address()], "", "upgrade = [\"TLS/1.0\", \"mine\"]");
    let headers = "Upgrade: websocket, MINE\r\nConnection: Upgrade\r\n";
    assert_eq!(proxying.ask(request("GET", "/", headers)).status, 200);
    assert_eq!(backend.request().header("upgrade"), Some("MINE"));
}

#[test]
fn a_silent_tunnel_times_out() {
    let backend = echoing();
    let proxying = Proxying::start(&[backend.address()], "", "tunnel_timeout = \"500ms\"");
    let mut client = proxying.client();
    client.send(request("GET", "/", UPGRADE));
    assert_eq!(client.receive(false).expect("an answer").status, 101);
    assert_eq!(client.rest().0, b"early ");
    proxying.logged(&["GET / 101", "tunnel_timed_out"]);
}

#[test]
fn a_drain_waits_for_tunnels_as_long_as_it_may() {
    let backend = echoing();
    let mut proxying =
        Proxying::with(|config| config.process("shutdown_timeout = \"2s\""), &[backend.address()], "", "");
    let mut client = proxying.client();
    client.send(request("GET", "/", UPGRADE));
    assert_eq!(client.receive(false).expect("an answer").status, 101);
    let early = client.buffered().len();
    assert_eq!(read(&client, 6 - early).len() + early, 6);
    proxying.drover.signal(Signal::SIGQUIT);
    eventually("the listener is gone", || proxying.port.is_free().then_some(()));
    // It still passes bytes.
    client.stream().write_all(b"still there").expect("the tunnel is open");
    assert_eq!(read(&client, 11), "still there");
    // And is closed when time is up.
    proxying.drover.wait(Duration::from_secs(15));
    assert!(client.rest().0.is_empty());
}
