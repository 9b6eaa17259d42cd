//! Several requests over one connection: kept, pipelined, split, ended.

use std::time::{Duration, Instant};

use drover_tests::http::{exchange, request};
use drover_tests::wait::SOON;
use drover_tests::{Client, Config, Directory, Drover, Port};

fn start(directory: &Directory, port: &Port, http: &[&str]) -> Drover {
    let config = http.iter().fold(Config::new(directory, 1), |config, line| config.http(line));
    let config = config
        .answering(port)
        .location("/one", "return = { status = 200, body = \"1\" }")
        .location("/two", "return = { status = 200, body = \"2\" }")
        .location("/slow", "return = { status = 200, body = \"slow\", delay = \"300ms\" }");
    Drover::start(directory, &config)
}

#[test]
fn http_1_1_keeps_and_http_1_0_closes() {
    let (directory, port) = (Directory::new(), Port::new());
    let _drover = start(&directory, &port, &[]);
    let mut client = Client::to(port.address());
    for _ in 0..3 {
        let response = client.get("/one");
        assert_eq!((response.status, response.text().as_str()), (200, "1"));
        assert!(!response.closes());
    }
    client.send(request("GET", "/two", "Connection: close\r\n"));
    let last = client.response();
    assert_eq!(last.text(), "2");
    assert!(last.closes());
    assert!(client.is_closed_within(SOON));

    let mut old = Client::to(port.address());
    old.send("GET /one HTTP/1.0\r\n\r\n");
    assert_eq!(old.response().text(), "1");
    assert!(old.is_closed_within(SOON));

    let mut kept = Client::to(port.address());
    for _ in 0..2 {
        kept.send("GET /one HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        let response = kept.response();
        assert_eq!(response.text(), "1");
        assert!(response.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("keep-alive")));
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let (directory, port) = (Directory::new(), Port::new());
    let _drover = start(&directory, &port, &[]);
    let mut client = Client::to(port.address());
    let mut bytes = String::new();
    for number in 0..50 {
        let target = ["/slow", "/one", "/two"][if number == 0 { 0 } else { 1 + number % 2 }];
        bytes.push_str(&request("GET", target, ""));
    }
    client.send(bytes);
    assert_eq!(client.response().text(), "slow");
    for number in 1..50 {
        assert_eq!(client.response().text(), ["1", "2"][number % 2], "answer {number}");
    }
    assert!(client.is_open());
}

#[test]
fn a_request_may_come_in_any_pieces() {
    let (directory, port) = (Directory::new(), Port::new());
    let _drover = start(&directory, &port, &[]);
    let bytes = request("GET", "/one", "X-Padding: 0123456789\r\n");
    let mut client = Client::to(port.address());
    for cut in 1..bytes.len() {
        client.send(&bytes[..cut]);
        client.send(&bytes[cut..]);
        assert_eq!(client.response().text(), "1", "cut at {cut}");
    }
    for byte in bytes.bytes() {
        client.send([byte]);
    }
    assert_eq!(client.response().text(), "1");
}

#[test]
fn a_client_that_ends_its_sending_half_is_still_answered() {
    let (directory, port) = (Directory::new(), Port::new());
    let _drover = start(&directory, &port, &[]);
    let mut client = Client::to(port.address());
    client.ask("/slow");
    client.half_close();
    assert_eq!(client.response().text(), "slow");
    assert!(client.is_closed_within(SOON));
}

#[test]
fn the_number_of_requests_is_limited() {
    let (directory, port) = (Directory::new(), Port::new());
    let _drover = start(&directory, &port, &["keepalive_requests = 3"]);
    let mut client = Client::to(port.address());
    assert!(!client.get("/one").closes());
    assert!(!client.get("/one").closes());
    assert!(client.get("/one").closes());
    assert!(client.is_closed_within(SOON));
}

#[test]
fn idle_connections_are_closed_after_the_keep_alive_timeout() {
    let (directory, port) = (Directory::new(), Port::new());
    let _drover = start(&directory, &port, &["keepalive_timeout = \"1s\""]);
    let mut client = Client::to(port.address());
    client.get("/one");
    let answered = Instant::now();
    assert!(client.is_closed_within(SOON));
    let after = answered.elapsed();
    assert!(after >= Duration::from_millis(900), "after {after:?}");
}

#[test]
fn bodies_are_discarded_within_bounds() {
    let (directory, port) = (Directory::new(), Port::new());
    let _drover = start(&directory, &port, &["client_body_size = \"1k\""]);
    let mut client = Client::to(port.address());
    // What follows the body is the next request.
    client.send("POST /one HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nGET /");
    let first = client.response();
    client.send("POST /one HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    let second = client.response();
    assert_eq!((first.status, second.status), (200, 200));
    assert_eq!(client.get("/two").text(), "2");

    let too_large = "POST /one HTTP/1.1\r\nHost: a\r\nContent-Length: 1025\r\n\r\n";
    assert_eq!(exchange(port.address(), too_large).expect("an answer").status, 413);
}
