//! Servers that misbehave: what the client gets, what the log says, and that nothing broken looks whole.

use std::time::Duration;

use drover_tests::http::{Failure, request};
use drover_tests::http_backend::Connection;
use drover_tests::{HttpBackend, Port, Proxying};

/// A server that answers each request with these bytes, and closes.
fn sending(bytes: &'static [u8]) -> HttpBackend {
    HttpBackend::new(move |connection| {
        if connection.request().is_some() {
            connection.send(bytes);
        }
    })
}

/// The status that a client gets of such a server, and the word in the log.
#[track_caller]
fn outcome(backend: &HttpBackend, proxy: &str, status: u16, word: &str) {
    let proxying = Proxying::start(&[backend.address()], "", proxy);
    let mut client = proxying.client();
    assert_eq!(client.get("/").status, status, "{word}");
    proxying.logged(&[&format!("GET / {status}"), word]);
    // The client's own connection is none the worse.
    assert_eq!(client.get("/").status, status, "{word}");
    proxying.drover.log_line(&[
        "upstream app",
        &backend.address().to_string(),
        &format!("answered {status}"),
    ]);
}

#[test]
fn heads_that_are_none_are_not_passed_on() {
    for (bytes, word) in [
        (b"".as_slice(), "no_response"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "head_cut"),
        (b"220 mail.example ESMTP\r\n", "head_invalid"),
        (b"HTTP/1.1 200 OK\nContent-Length: 0\n\n", "head_invalid"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", "head_invalid"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "head_invalid",
        ),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "head_invalid"),
        (b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", "head_invalid"),
        (b"HTTP/1.1 200 OK\r\nA\0: b\r\n\r\n", "head_invalid"),
        (b"HTTP/2.0 200 OK\r\n\r\n", "head_invalid"),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "upgrade_unasked"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnot a size\r\n", "body_invalid"),
    ] {
        outcome(&sending(bytes), "", 502, word);
    }
}

#[test]
fn enormous_heads_are_bounded() {
    let endless = HttpBackend::new(|connection| {
        if connection.request().is_some() {
            connection.send("HTTP/1.1 200 OK\r\n");
            while connection.try_send(format!("X-Padding: {}\r\n", "x".repeat(1000))).is_ok() {}
        }
    });
    outcome(&endless, "", 502, "head_invalid");
    let large = HttpBackend::new(|connection| {
        while connection.request().is_some() {
            let field = "x".repeat(100_000);
            connection.send(format!("HTTP/1.1 200 OK\r\nX-Large: {field}\r\nContent-Length: 0\r\n\r\n"));
        }
    });
    outcome(&large, "", 502, "head_invalid");
    // Whoever has such servers says so.
    let proxying = Proxying::start(&[large.address()], "", "header_size = \"256k\"");
    let answer = proxying.client().get("/");
    assert_eq!((answer.status, answer.header("x-large").map(str::len)), (200, Some(100_000)));
}

#[test]
fn interim_responses_without_end_are_bounded() {
    let endless = HttpBackend::new(|connection| {
        if connection.request().is_some() {
            while connection.try_send("HTTP/1.1 102 Processing\r\n\r\n").is_ok() {}
        }
    });
    let proxying = Proxying::to(&endless);
    let mut client = proxying.client();
    client.ask("/");
    let statuses: Vec<u16> = (0..=100).map(|_| client.response().status).collect();
    assert!(statuses[..100].iter().all(|status| *status == 102));
    assert_eq!(statuses[100], 502);
    proxying.logged(&["GET / 502", "too_many_interim"]);
}

#[test]
fn a_server_that_does_not_take_connections_is_no_gateway() {
    let port = Port::new();
    let proxying = Proxying::start(&[port.address()], "", "");
    assert_eq!(proxying.client().get("/").status, 502);
    proxying.logged(&["GET / 502", "refused"]);
    assert_eq!(proxying.counter("upstream_refused"), 1);
    proxying.drover.log_line(&["upstream app", "Connection refused", "answered 502"]);
}

#[test]
fn without_a_server_there_is_no_service() {
    let (port, other) = (Port::new(), Port::new());
    let servers = format!("servers = [{{ address = \"{}\", down = true }}]", port.address());
    let proxying =
        Proxying::with(|config| config.upstream("app2", &[other.address()], ""), &[port.address()], "", "");
    drop(proxying);
    let directory = drover_tests::Directory::new();
    let listen = Port::new();
    let config = drover_tests::Config::new(&directory, 1).server(&listen).passing("/", "off", "");
    let text = config.text() + &format!("\n[http.upstreams.off]\n{servers}\n");
    let _drover = drover_tests::Drover::start_text(&directory, &text);
    assert_eq!(drover_tests::http::get(listen.address(), "/").status, 503);
}

#[test]
fn silence_is_a_time_out_of_the_gateway() {
    let silent = || {
        HttpBackend::new(|connection| {
            drop(connection.request());
            let _ = connection.is_closed_within(Duration::from_secs(20));
        })
    };
    let backend = silent();
    let proxying = Proxying::start(&[backend.address()], "", "read_timeout = \"300ms\"");
    assert_eq!(proxying.client().get("/").status, 504);
    proxying.logged(&["GET / 504", "head_timed_out"]);
    assert_eq!(proxying.counter("upstream_receive_timeouts"), 1);
}

/// What becomes of a response that breaks after its head.
#[track_caller]
fn broken(respond: fn(&mut Connection), version: &str, word: &str) -> Failure {
    let backend = HttpBackend::new(move |connection| {
        if connection.request().is_some() {
            respond(connection);
        }
    });
    let proxying = Proxying::start(&[backend.address()], "", "read_timeout = \"500ms\"");
    let mut client = proxying.client();
    client.send(format!("GET / {version}\r\nHost: localhost\r\n\r\n"));
    let failure = client.receive(true).expect_err("no whole response");
    proxying.logged(&["GET / 200", word]);
    proxying.drover.log_line(&["the response 200 is cut"]);
    assert_eq!(backend.connections(), 1, "nothing is repeated");
    failure
}

#[test]
fn what_is_not_whole_never_looks_whole() {
    let cut_length: fn(&mut Connection) =
        |connection| connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nhalf");
    let cut_chunks: fn(&mut Connection) =
        |connection| connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    let bad_chunks: fn(&mut Connection) = |connection| {
        connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
        std::thread::sleep(Duration::from_millis(100));
        connection.send("5\r\nhello, and more");
        let _ = connection.is_closed_within(Duration::from_secs(10));
    };
    let stalled: fn(&mut Connection) = |connection| {
        connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
        let _ = connection.is_closed_within(Duration::from_secs(10));
    };
    let reset: fn(&mut Connection) = |connection| {
        connection.send("HTTP/1.1 200 OK\r\n\r\nhalf");
        std::thread::sleep(Duration::from_millis(100));
        connection.reset();
    };
    for (respond, word) in [
        (cut_length, "body_cut"),
        (cut_chunks, "body_cut"),
        (bad_chunks, "body_invalid"),
        (stalled, "body_timed_out"),
        (reset, "body_reset"),
    ] {
        let failure = broken(respond, "HTTP/1.1", word);
        assert!(matches!(failure, Failure::Cut | Failure::Io(_)), "{word}: {failure}");
    }
    // An old client tells the end by the close alone: this one must be none.
    for (respond, word) in [(cut_chunks, "body_cut"), (reset, "body_reset")] {
        let failure = broken(respond, "HTTP/1.0", word);
        assert!(matches!(failure, Failure::Io(_)), "{word}: {failure}");
    }
}

#[test]
fn more_than_the_response_spoils_the_connection_alone() {
    let backend = HttpBackend::new(|connection| {
        while connection.request().is_some() {
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngoodHTTP/1.1 200 OK\r\n\r\nevil");
        }
    });
    let proxying = Proxying::to(&backend);
    let mut client = proxying.client();
    for number in 1..4 {
        assert_eq!(client.get("/").text(), "good");
        assert_eq!(backend.connections(), number);
    }
}

#[test]
fn a_client_that_goes_away_is_not_the_server_s_fault() {
    let backend = HttpBackend::new(|connection| {
        if connection.request().is_some_and(|request| request.target == "/wait") {
            // The connection is closed because the client has gone.
            assert!(connection.is_closed_within(Duration::from_secs(10)));
        } else {
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let proxying = Proxying::to(&backend);
    let mut client = proxying.client();
    client.send(request("GET", "/wait", ""));
    drover_tests::eventually("the request arrives", || (!backend.requests().is_empty()).then_some(()));
    drop(client);
    proxying.logged(&["GET /wait 499 0", "client_closed"]);
    assert_eq!(proxying.client().get("/").text(), "ok");
    assert_eq!(proxying.drover.log_lines(&["WARN"]), Vec::<String>::new());
}
