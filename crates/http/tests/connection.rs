//! Connections: kept, pipelined, timed out, drained, refused.

mod common;

use std::io::Write;
use std::time::{Duration, Instant};

use common::{Order, bare_return, bytes, fixed, returning, serve, serve_ok, serve_with};
use drover_config::Leaf;
use drover_event::Settings;
use drover_http::config::{Peers, Return};

#[test]
fn a_connection_is_kept_as_its_version_says() {
    let server = serve_ok(|_| {});
    let mut client = server.connect();
    for _ in 0..3 {
        let answer = client.get("/");
        assert_eq!((answer.status, answer.text(), answer.field("Connection")), (200, "ok\n", None));
        assert_eq!(answer.field("Content-Type"), Some("text/plain; charset=utf-8"));
        assert_eq!(answer.field("Server"), Some(concat!("drover/", env!("CARGO_PKG_VERSION"))));
        assert_eq!(answer.field("Date").map(str::len), Some(29));
    }
    client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(client.answer().field("Connection"), Some("keep-alive"));
    client.send("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(client.answer().field("Connection"), Some("close"));
    client.expect_end();
    assert_eq!(server.get("/").field("Connection"), Some("close"));
}

#[test]
fn what_is_for_https_is_refused_unless_a_gateway_passes_it_on() {
    let ask = "GET https://a/ HTTP/1.1\r\nHost: a\r\n\r\nGET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n";
    for (trusted, status) in [(None, 421), (Some("10.0.0.0/8"), 421), (Some("127.0.0.1"), 200)] {
        let server = serve_ok(|http| {
            http.real_ip.from = trusted.iter().map(|peers| Peers::parse(peers).expect("peers")).collect();
        });
        let mut client = server.connect();
        client.send(ask);
        assert_eq!(client.answer().status, status, "{trusted:?}");
        assert_eq!(client.answer().status, 200);
    }
}

#[test]
fn a_request_may_come_byte_by_byte() {
    let server = serve_ok(|_| {});
    let mut client = server.connect();
    for _ in 0..2 {
        for byte in b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" {
            client.send([*byte]);
        }
        assert_eq!(client.answer().text(), "ok\n");
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = serve(|http| {
        http.servers[0].locations.push(fixed("/", 200, "$uri"));
        let slow = Return { body: Some("slow".to_owned().into()), ..bare_return(200) };
        let slow = Return { delay: Some(Duration::from_millis(30)), ..slow };
        http.servers[0].locations.push(returning("/slow", slow));
        http.keepalive_requests = 10_000;
    });
    let mut client = server.connect();
    let many: String = (0..500).map(|n| format!("GET /{n} HTTP/1.1\r\nHost: a\r\n\r\n")).collect();
    client.send(format!(
        "{many}GET /slow HTTP/1.1\r\nHost: a\r\n\r\nGET /last HTTP/1.1\r\nHost: a\r\n\r\nGET /ha"
    ));
    for n in 0..500 {
        assert_eq!(client.answer().text(), format!("/{n}"));
    }
    assert_eq!(client.answer().text(), "slow");
    assert_eq!(client.answer().text(), "/last");
    client.send("lf HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer().text(), "/half");
}

#[test]
fn answers_larger_than_the_sockets_buffers_arrive_whole() {
    let large: String = (0..400_000).map(|n| char::from(b'a' + (n % 26) as u8)).collect();
    let server = serve(|http| http.servers[0].locations.push(fixed("/", 200, &large)));
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(20));
    for _ in 0..20 {
        assert!(client.answer().text() == large);
    }
}

#[test]
fn a_connection_has_so_many_requests_and_no_more() {
    let server = serve_ok(|http| http.keepalive_requests = 2);
    let mut client = server.connect();
    assert_eq!(client.get("/").field("Connection"), None);
    assert_eq!(client.get("/").field("Connection"), Some("close"));
    client.stream.shutdown(std::net::Shutdown::Write).expect("a socket can be half closed");
    client.expect_end();
    let without = serve_ok(|http| http.keepalive_timeout = Duration::ZERO);
    let mut client = without.connect();
    assert_eq!(client.get("/").field("Connection"), Some("close"));
}

#[test]
fn silence_ends_a_connection() {
    let server = serve_ok(|http| {
        http.client_header_timeout = Duration::from_millis(400);
        http.keepalive_timeout = Duration::from_millis(800);
    });
    let begun = Instant::now();
    server.connect().expect_end();
    assert!(begun.elapsed() >= Duration::from_millis(390), "{:?}", begun.elapsed());

    let begun = Instant::now();
    let mut client = server.connect();
    client.send("GET / HT");
    assert_eq!(client.answer().status, 408, "a client that began is told");
    assert!(begun.elapsed() >= Duration::from_millis(390), "{:?}", begun.elapsed());

    let mut client = server.connect();
    client.get("/");
    let begun = Instant::now();
    client.expect_end();
    assert!(begun.elapsed() >= Duration::from_millis(790), "{:?}", begun.elapsed());
}

#[test]
fn the_head_has_a_time_of_its_own_however_its_bytes_drip() {
    let server = serve_ok(|http| http.client_header_timeout = Duration::from_millis(600));
    let mut client = server.connect();
    client.get("/");
    // One byte after the other would be in time, were the time counted from the last byte.
    let stream = client.stream.try_clone().expect("a socket can be shared");
    let dripping = std::thread::spawn(move || {
        for byte in b"GET / HTTP/1.1\r\nX: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"
        {
            if std::io::Write::write_all(&mut &stream, &[*byte]).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    assert_eq!(client.answer().status, 408);
    assert!(!dripping.is_finished(), "it was told before it was done");
    drop(client);
    dripping.join().expect("the other thread ended well");
}

#[test]
fn a_draining_worker_closes_idle_connections_and_finishes_the_others() {
    let server = serve(|http| {
        http.servers[0].locations.push(fixed("/", 200, "ok\n"));
        let slow = Return { body: Some("slow".to_owned().into()), ..bare_return(200) };
        let slow = Return { delay: Some(Duration::from_millis(300)), ..slow };
        http.servers[0].locations.push(returning("/slow", slow));
    });
    let (mut idle, mut busy) = (server.connect(), server.connect());
    idle.get("/");
    busy.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    // The slow request is under way once a later one was answered on another connection.
    idle.get("/");
    server.order(Order::Drain);
    idle.expect_end();
    let answer = busy.answer();
    assert_eq!((answer.text(), answer.field("Connection")), ("slow", Some("close")));
}

#[test]
fn idle_connections_make_room_for_new_ones() {
    let settings = Settings { connections: 5, ..Settings::default() };
    let server = serve_with(settings, |http| http.servers[0].locations.push(fixed("/", 200, "ok\n")));
    let mut clients: Vec<_> = (0..4)
        .map(|_| {
            let mut client = server.connect();
            client.get("/");
            client
        })
        .collect();
    assert_eq!(server.connect().get("/").status, 200);
    clients[0].expect_end();
    assert_eq!(clients[3].get("/").status, 200);
}

#[test]
fn the_answer_to_a_refused_request_arrives_though_more_is_sent() {
    let server = serve_ok(|http| {
        http.client_header_size = bytes(1000);
        http.max_headers = 10;
    });
    let long = |length| "x".repeat(length);
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("nonsense\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\nHost: a\n\n".to_owned(), 400),
        ("GET / HTTP/3.0\r\nHost: a\r\n\r\n".to_owned(), 505),
        (format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", long(5_000_000)), 414),
        (format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", long(5_000_000)), 431),
        (format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(10)), 431),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
                .to_owned(),
            400,
        ),
        ("GET / HTTP/1.1\r\nHost: a\r\nExpect: a miracle\r\n\r\n".to_owned(), 417),
    ] {
        let mut client = server.connect();
        let mut sending = client.stream.try_clone().expect("a socket can be shared");
        let sender = std::thread::spawn(move || std::io::Write::write_all(&mut sending, request.as_bytes()));
        let answer = client.answer();
        assert_eq!((answer.status, answer.field("Connection")), (status, Some("close")));
        sender.join().expect("the sender ended").ok();
        client.stream.shutdown(std::net::Shutdown::Write).ok();
        client.expect_end();
    }
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn a_client_that_took_too_long_is_not_lingered_for() {
    let server = serve_ok(|http| http.client_header_timeout = Duration::from_millis(200));
    let mut client = server.connect();
    client.send("GET / HT");
    assert_eq!(client.answer().status, 408);
    let begun = Instant::now();
    client.expect_end();
    while client.stream.write_all(b"X: y\r\n").is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(2), "the server still receives");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn nothing_unread_needs_no_lingering() {
    let server = serve_ok(|http| http.keepalive_requests = 1);
    let mut client = server.connect();
    assert_eq!(client.get("/").field("Connection"), Some("close"));
    client.expect_end();
    // Closed, not only shut down: whatever comes now is answered with a reset.
    let begun = Instant::now();
    while client.stream.write_all(b"x").is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(2), "the server still receives");
        std::thread::sleep(Duration::from_millis(10));
    }
}
