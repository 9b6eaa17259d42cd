//! Bodies of requests: read over within bounds, whatever their framing.

mod common;

use common::{bytes, fixed, location, serve, serve_ok};

const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\n";

#[test]
fn a_body_is_read_over_and_the_next_request_is_found() {
    let server = serve_ok(|_| {});
    let mut client = server.connect();
    for body in [
        "Content-Length: 5\r\n\r\nhello".to_owned(),
        "Content-Length: 0\r\n\r\n".to_owned(),
        "Transfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nTrailer: z\r\n\r\n".to_owned(),
        format!("Content-Length: 200000\r\n\r\n{}", "x".repeat(200_000)),
        format!(
            "Transfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n",
            format!("2000\r\n{}\r\n", "y".repeat(8192)).repeat(50)
        ),
    ] {
        client.send(format!("{POST}{body}GET /a HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(client.answer().status, 200);
        assert_eq!(client.answer().status, 200);
    }
}

#[test]
fn a_body_may_come_byte_by_byte() {
    let server = serve_ok(|_| {});
    let mut client = server.connect();
    for body in ["Content-Length: 5\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"]
    {
        for byte in format!("{POST}{body}").bytes() {
            client.send([byte]);
        }
        assert_eq!(client.answer().status, 200);
    }
}

#[test]
fn a_body_above_the_limit_is_refused() {
    let server = serve(|http| {
        http.servers[0].locations.push(fixed("/", 200, "ok\n"));
        let mut wide = fixed("/wide", 200, "ok\n");
        wide.client_body_size = Some(bytes(100));
        http.servers[0].locations.push(wide);
        http.client_body_size = bytes(10);
    });
    for (request, status) in [
        (format!("{POST}Content-Length: 10\r\n\r\n0123456789"), 200),
        (format!("{POST}Content-Length: 11\r\n\r\n01234567890"), 413),
        (format!("{POST}Transfer-Encoding: chunked\r\n\r\n6\r\n012345\r\n6\r\n012345\r\n0\r\n\r\n"), 413),
        (format!("{POST}Transfer-Encoding: chunked\r\n\r\nx\r\n"), 400),
        ("POST /wide HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\n01234567890123456789".to_owned(), 200),
    ] {
        let mut client = server.connect();
        client.send(&request);
        assert_eq!(client.answer().status, status, "{request}");
    }
}

#[test]
fn a_client_that_waits_is_told_to_continue_only_where_that_helps() {
    let server = serve(|http| {
        http.servers[0].locations.push(fixed("/", 200, "ok\n"));
        http.servers[0].locations.push(location("/none"));
        http.client_body_size = bytes(10);
    });
    let mut client = server.connect();
    client.send(format!("{POST}Expect: 100-continue\r\nContent-Length: 5\r\n\r\n"));
    assert_eq!(client.answer().status, 100);
    client.send("hello");
    assert_eq!(client.answer().status, 200);
    // It did not wait.
    client.send(format!("{POST}Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello"));
    assert_eq!(client.answer().status, 200);
    client.send(format!("{POST}Expect: 100-continue\r\nContent-Length: 500\r\n\r\n"));
    assert_eq!(client.answer().status, 413);
    let mut client = server.connect();
    client.send("POST /none HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    let answer = client.answer();
    assert_eq!((answer.status, answer.field("Connection")), (404, Some("close")));
}

#[test]
fn a_client_that_stops_within_a_body_is_told() {
    let server = serve_ok(|http| http.client_body_timeout = std::time::Duration::from_millis(400));
    let mut client = server.connect();
    client.send(format!("{POST}Content-Length: 5\r\n\r\nhel"));
    assert_eq!(client.answer().status, 408);
}
