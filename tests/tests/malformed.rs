//! Requests that could be read in two ways, or in none, are refused; whole, and byte by byte alike.

use drover_tests::http::{Failure, get};
use drover_tests::http_backend::Received;
use drover_tests::wait::SOON;
use drover_tests::{Client, Config, Directory, Drover, HttpBackend, Port};

/// What is sent, and the status it gets.
const CASES: &[(&str, u16)] = &[
    ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 200),
    ("GET /?q=%41 HTTP/1.1\r\nHost: a\r\nX: \tvalue \r\n\r\n", 200),
    ("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 200),
    // Framing.
    ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\nx", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\nx", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\nx", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400),
    (
        "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n", 400),
    ("GET / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    // Lines.
    ("GET / HTTP/1.1\nHost: a\n\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: b\rc\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: b\0c\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: b\x01c\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n folded\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nX : b\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\n: empty name\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nX(y): b\r\n\r\n", 400),
    // Host.
    ("GET / HTTP/1.1\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
    ("GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET / HTTP/1.0\r\n\r\n", 200),
    // Request line.
    ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET /  HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET / a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET nothing HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("G=T / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
    ("GET / HTTP/1.2\r\nHost: a\r\n\r\n", 505),
    ("GET / HTTP/0.9\r\nHost: a\r\n\r\n", 505),
    ("GET / http/1.1\r\nHost: a\r\n\r\n", 400),
    ("GET / HTTP/1.10\r\nHost: a\r\n\r\n", 400),
    ("GET /\r\nHost: a\r\n\r\n", 400),
    ("\x16\x03\x01\x02\0\x01\0\x01\u{fc}\x03\x03\r\n\r\n", 400),
];

/// What is passed on, however it is split.
const PASSED_ON: &[&str] = &[
    "GET /a/../b?c=%41 HTTP/1.1\r\nHost: a\r\nX: \ty \r\nX:\r\n\r\n",
    "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\nGET / HTTP/1",
    "POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n00a\r\n0123456789\r\n0\r\nT: u\r\n\r\n",
    "PUT http://a/z HTTP/1.1\r\nHost: a\r\nConnection: X-Hop\r\nX-Hop: 1\r\nContent-Length: 2\r\n\r\nab",
    "GET /%0d%0aX:%20y HTTP/1.1\r\nHost: a\r\n\r\n",
];

#[test]
fn what_is_passed_on_is_the_same_however_it_is_split() {
    let (directory, port, backend) = (Directory::new(), Port::new(), HttpBackend::echoing());
    let config = Config::new(&directory, 1).http("client_header_timeout = \"60s\"").server(&port).passing(
        "/",
        backend.address(),
        "",
    );
    let _drover = Drover::start(&directory, &config);
    let mut seen = 0;
    for bytes in PASSED_ON {
        let mut client = Client::to(port.address());
        let mut send = |parts: &mut dyn Iterator<Item = &[u8]>| {
            parts.for_each(|part| client.send(part));
            assert_eq!(client.response().status, 200, "{bytes:?}");
        };
        send(&mut std::iter::once(bytes.as_bytes()));
        send(&mut bytes.as_bytes().chunks(1));
        for at in 1..bytes.len() {
            let (first, second) = bytes.as_bytes().split_at(at);
            send(&mut [first, second].into_iter());
        }
        // The backend is strict about what it takes for a request.
        let got: Vec<Received> = backend.requests().split_off(seen);
        assert_eq!(got.len(), bytes.len() + 1, "{bytes:?}");
        seen += got.len();
        for one in &got {
            assert_eq!(
                Received { connection: 0, ..one.clone() },
                Received { connection: 0, ..got[0].clone() }
            );
        }
    }
    // Of what is refused, a server sees nothing.
    for (bytes, _) in CASES.iter().filter(|(_, status)| *status >= 400) {
        let mut client = Client::to(port.address());
        client.send(bytes);
        status(&mut client);
    }
    assert_eq!(backend.requests().len(), seen);
}

fn start(directory: &Directory, port: &Port) -> Drover {
    Drover::start(directory, &Config::new(directory, 1).answering(port))
}

fn status(client: &mut Client) -> String {
    match client.receive(true) {
        Ok(response) => response.status.to_string(),
        Err(failure) => failure.to_string(),
    }
}

#[test]
fn each_case_gets_its_answer_however_it_is_split() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = start(&directory, &port);
    let worker = drover.worker();
    for (bytes, expected) in CASES {
        let mut whole = Client::to(port.address());
        whole.send(bytes);
        assert_eq!(status(&mut whole), expected.to_string(), "{bytes:?}");

        let mut piecewise = Client::to(port.address());
        for byte in bytes.bytes() {
            // The server may have answered and closed at the byte that decides.
            if piecewise.try_send([byte]).is_err() {
                break;
            }
        }
        assert_eq!(status(&mut piecewise), expected.to_string(), "byte by byte: {bytes:?}");
        for at in 1..bytes.len() {
            let mut halves = Client::to(port.address());
            halves.send(&bytes.as_bytes()[..at]);
            let _ = halves.try_send(&bytes.as_bytes()[at..]);
            assert_eq!(status(&mut halves), expected.to_string(), "split at {at}: {bytes:?}");
        }
        if *expected >= 400 {
            assert!(whole.is_closed_within(SOON), "stays open after {bytes:?}");
        }
    }
    assert_eq!(drover.worker(), worker, "the worker survived them all");
}

#[test]
fn what_follows_a_refused_request_is_not_answered() {
    let (directory, port) = (Directory::new(), Port::new());
    let _drover = start(&directory, &port);
    let mut client = Client::to(port.address());
    client.send("GET / HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().status, 400);
    assert!(client.is_closed_within(SOON));
}

#[test]
fn limits_have_statuses_of_their_own() {
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, 1)
        .http("client_header_size = \"2k\"")
        .http("max_headers = 20")
        .http("client_body_size = \"1k\"")
        .answering(&port);
    let _drover = Drover::start(&directory, &config);
    let ask = |bytes: String| {
        let mut client = Client::to(port.address());
        let _ = client.try_send(bytes);
        status(&mut client)
    };
    let long = "x".repeat(4096);
    assert_eq!(ask(format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n")), "414");
    assert_eq!(ask(format!("GET / HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\n")), "431");
    let many = "X: y\r\n".repeat(30);
    assert_eq!(ask(format!("GET / HTTP/1.1\r\nHost: a\r\n{many}\r\n")), "431");
    assert_eq!(ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1025\r\n\r\n".to_owned()), "413");
}

#[test]
fn a_worker_survives_garbage() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = start(&directory, &port);
    let worker = drover.worker();
    // A fixed sequence, so that a failure can be repeated (xorshift).
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..300 {
        let mut bytes: Vec<u8> = (0..next() % 600).map(|_| next() as u8).collect();
        if round % 2 == 0 {
            // A good request with some bytes gone bad reaches further.
            bytes = b"GET /index.html?a=b HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc".to_vec();
            for _ in 0..=next() % 4 {
                let at = next() as usize % bytes.len();
                bytes[at] = next() as u8;
            }
        }
        let mut client = Client::to(port.address());
        let _ = client.try_send(&bytes);
        if round % 3 == 0 {
            continue;
        }
        client.half_close();
        match client.receive(true) {
            Ok(response) => assert!((200..=599).contains(&response.status), "{bytes:?}"),
            Err(Failure::Closed | Failure::Io(_)) => {}
            Err(failure) => panic!("{failure} after {bytes:?}"),
        }
    }
    assert_eq!(drover.worker(), worker);
    assert_eq!(get(port.address(), "/").text(), "ok\n");
    drover_tests::eventually("every connection is gone", || {
        (drover.status().workers[0].connections == 0).then_some(())
    });
    assert!(drover.log_lines(&["panic"]).is_empty(), "{}", drover.log());
}
