//! Each connection's end has one reason from one list: in the counters, in the log, and in the access log where a
//! request was the last.

use drover_tests::http::{get, request};
use drover_tests::status::Status;
use drover_tests::{Client, Config, Directory, Drover, HttpBackend, Port, eventually};
use serde_json::Value;

/// A worker whose access log has the target and `$close_reason`, and that tells every end in its log.
fn config(directory: &Directory, port: &Port) -> Config {
    let log = format!(
        "access_log = {{ file = \"{}\", format = \"ends\", flush = \"20ms\" }}",
        directory.join("ends.log").display()
    );
    Config::new(directory, 1)
        .log("level = \"debug\"")
        .http(&log)
        .log_format("ends = \"$request_uri $status $close_reason\"")
        .answering(port)
}

fn closes(drover: &Drover, reason: &str) -> u64 {
    let status: Value =
        serde_json::from_str(&Status::text(drover.config()).expect("a status")).expect("JSON");
    status["totals"]["closes"][reason].as_u64().unwrap_or_else(|| panic!("no {reason} in {status:#}"))
}

/// What `provoke` does ends one connection, for this reason and no other.
#[track_caller]
fn ends(drover: &Drover, reason: &str, provoke: impl FnOnce()) {
    let said =
        |drover: &Drover| drover.log_lines(&[" closed connection=", &format!("reason={reason}")]).len();
    let before = (closes(drover, reason), said(drover));
    provoke();
    eventually(&format!("the end for {reason} is counted and said"), || {
        (closes(drover, reason) == before.0 + 1 && said(drover) == before.1 + 1).then_some(())
    });
}

#[track_caller]
fn access_log_says(directory: &Directory, line: &str) {
    eventually(&format!("the access log says {line:?}"), || {
        directory.read("ends.log").lines().any(|found| found == line).then_some(())
    });
}

#[test]
fn what_the_client_does_is_the_reason() {
    let (directory, port) = (Directory::new(), Port::new());
    directory.write("files/large", "x".repeat(50_000_000));
    let config = config(&directory, &port)
        .http("keepalive_requests = 3")
        .location("/files/", &format!("root = \"{}\"", directory.path().display()));
    let drover = Drover::start(&directory, &config);
    let connect = || Client::to(port.address());
    ends(&drover, "client_closed", || drop(connect()));
    ends(&drover, "client_closed", || drop(connect().get("/stays")));
    access_log_says(&directory, "/stays 200 -");
    ends(&drover, "client_gone", || connect().send("GET /cut HTTP/1.1\r\nHos"));
    ends(&drover, "client_asked", || {
        let mut client = connect();
        client.send(request("GET", "/asked", "Connection: close\r\n"));
        assert!(client.response().closes());
    });
    access_log_says(&directory, "/asked 200 client_asked");
    ends(&drover, "keepalive_requests", || {
        let mut client = connect();
        (1..=3).for_each(|number| drop(client.get(&format!("/{number}"))));
    });
    access_log_says(&directory, "/2 200 -");
    access_log_says(&directory, "/3 200 keepalive_requests");
    ends(&drover, "last_answer", || {
        let mut client = connect();
        client.send(request("POST", "/files/none", "Content-Length: 9\r\nExpect: 100-continue\r\n"));
        assert!(client.response().closes());
    });
    access_log_says(&directory, "/files/none 405 last_answer");
    ends(&drover, "client_failed", || {
        let mut client = connect();
        client.ask("/files/large");
        client.head_response();
        let linger = nix::libc::linger { l_onoff: 1, l_linger: 0 };
        nix::sys::socket::setsockopt(client.stream(), nix::sys::socket::sockopt::Linger, &linger)
            .expect("set");
    });
    access_log_says(&directory, "/files/large 200 client_failed");
    ends(&drover, "invalid_request", || {
        let mut client = connect();
        client.send("GET /bad HTTP/1.1\r\nno colon\r\n\r\n");
        assert_eq!(client.response().status, 400);
    });
    eventually("the access log has the request that was refused", || {
        directory.read("ends.log").lines().any(|line| line.ends_with(" 400 invalid_request")).then_some(())
    });
}

#[test]
fn the_time_out_that_passed_is_the_reason() {
    let (directory, port) = (Directory::new(), Port::new());
    let config = config(&directory, &port)
        .http("keepalive_timeout = \"200ms\"")
        .http("client_header_timeout = \"300ms\"")
        .http("client_body_timeout = \"400ms\"")
        .http("send_timeout = \"500ms\"")
        .location("/large", &format!("root = \"{}\"", directory.path().display()));
    directory.write("large", "x".repeat(50_000_000));
    let drover = Drover::start(&directory, &config);
    let mut clients = Vec::new();
    let mut connect = |bytes: &[u8]| {
        let mut client = Client::to(port.address());
        client.send(bytes);
        clients.push(client);
    };
    ends(&drover, "header_timeout", || connect(b""));
    ends(&drover, "header_timeout", || connect(b"GET / HTT"));
    ends(&drover, "keepalive_timeout", || connect(request("GET", "/", "").as_bytes()));
    ends(&drover, "body_timeout", || connect(request("POST", "/body", "Content-Length: 9\r\n").as_bytes()));
    access_log_says(&directory, "/body 408 body_timeout");
    ends(&drover, "send_timeout", || connect(request("GET", "/large", "").as_bytes()));
    access_log_says(&directory, "/large 200 send_timeout");
}

#[test]
fn what_the_worker_needs_is_the_reason() {
    let (directory, port) = (Directory::new(), Port::new());
    let config = config(&directory, &port)
        .events("worker_connections = 6")
        .location("/slow", "return = { status = 200, delay = \"2s\" }");
    let drover = Drover::start(&directory, &config);
    // The listener and the channel take two of the six slots.
    let idle: Vec<Client> = (0..4).map(|_| Client::to(port.address())).collect();
    ends(&drover, "reclaimed", || drop(get(port.address(), "/")));
    drop(idle);
    eventually("all slots are free", || (drover.status().workers[0].connections == 0).then_some(()));
    let mut busy: Vec<Client> = (0..4)
        .map(|_| {
            let mut client = Client::to(port.address());
            client.ask("/slow");
            client
        })
        .collect();
    eventually("all slots are taken", || (drover.status().workers[0].free_slots == 0).then_some(()));
    let (before, said) =
        (closes(&drover, "no_slot"), || drover.log_lines(&["dropped", "reason=no_slot"]).len());
    assert_eq!(said(), 0);
    assert!(Client::to(port.address()).receive(true).is_err());
    assert_eq!((closes(&drover, "no_slot"), said()), (before + 1, 1));
    busy.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
    busy.truncate(1);
    eventually("three have gone", || (drover.status().workers[0].connections == 1).then_some(()));
    ends(&drover, "drained", || drover.reload_begun());
}

/// What ends within an answer, for a reason that is not the client's.
#[test]
fn what_breaks_an_answer_is_the_reason() {
    let (directory, port) = (Directory::new(), Port::new());
    let large = directory.write("large", "x".repeat(50_000_000));
    let serve = |answer: &'static str| {
        HttpBackend::new(move |connection| {
            connection.request();
            connection.send(answer);
        })
    };
    let cut = serve("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
    let hasty = HttpBackend::new(|connection| {
        connection.head();
        connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        while connection.receive().is_some() {}
    });
    let config = config(&directory, &port)
        .location("/large", &format!("root = \"{}\"", directory.path().display()))
        .passing("/cut", cut.address(), "")
        .passing("/hasty", hasty.address(), "");
    let drover = Drover::start(&directory, &config);
    let ask = |target: &str| {
        let mut client = Client::to(port.address());
        client.ask(target);
        client
    };
    ends(&drover, "internal_error", || {
        let mut client = ask("/large");
        assert_eq!(client.head_response().status, 200);
        // More than sockets hold, so that the worker is in the midst of it.
        std::fs::File::options().write(true).open(&large).and_then(|file| file.set_len(9)).expect("ours");
        let _ = client.rest();
    });
    access_log_says(&directory, "/large 200 internal_error");
    drover.log_line(&["a file shrank while it was sent"]);
    ends(&drover, "server_failed", || drop(ask("/cut").rest()));
    access_log_says(&directory, "/cut 200 server_failed");
    ends(&drover, "last_answer", || {
        let mut client = Client::to(port.address());
        client.send(request("POST", "/hasty", "Content-Length: 9\r\n"));
        assert!(client.response().closes());
    });
    access_log_says(&directory, "/hasty 200 last_answer");
}

/// After 101, connections end as those of streams do.
#[test]
fn what_ends_a_tunnel_is_the_reason() {
    const SWITCHING: &str =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
    let (directory, port) = (Directory::new(), Port::new());
    let echo = HttpBackend::new(|connection| {
        connection.request();
        connection.send(SWITCHING);
        while connection.receive().is_some() {}
    });
    let reset = HttpBackend::new(|connection| {
        connection.request();
        connection.send(SWITCHING);
        connection.receive();
        connection.reset();
    });
    let config = config(&directory, &port)
        .passing("/echo", echo.address(), "tunnel_timeout = \"300ms\"")
        .passing("/reset", reset.address(), "");
    let drover = Drover::start(&directory, &config);
    let change = |target: &str| {
        let mut client = Client::to(port.address());
        client.send(request("GET", target, "Upgrade: websocket\r\nConnection: upgrade\r\n"));
        assert_eq!(client.head_response().status, 101);
        client
    };
    ends(&drover, "finished", || change("/echo").half_close());
    access_log_says(&directory, "/echo 101 finished");
    ends(&drover, "idle_timeout", || drop(change("/echo").rest()));
    access_log_says(&directory, "/echo 101 idle_timeout");
    ends(&drover, "server_failed", || {
        let mut client = change("/reset");
        client.send("x");
        let _ = client.rest();
    });
    access_log_says(&directory, "/reset 101 server_failed");
}

/// A worker that is killed counts nothing any more; the master does, and says what became of the worker.
#[test]
fn what_a_crash_takes_with_it_is_counted_too() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = Drover::start(&directory, &config(&directory, &port));
    let clients: Vec<Client> = (0..3).map(|_| Client::to(port.address())).collect();
    eventually("they are accepted", || (drover.status().workers[0].connections == 3).then_some(()));
    assert_eq!(closes(&drover, "internal_error"), 0);
    drover_tests::process::send(drover.worker(), nix::sys::signal::Signal::SIGKILL);
    eventually("they are counted", || (closes(&drover, "internal_error") == 3).then_some(()));
    drover.log_line(&["was killed by SIGKILL"]);
    drop(clients);
}

#[test]
fn what_a_drain_cuts_short_was_shut_down() {
    let (directory, port) = (Directory::new(), Port::new());
    let config = config(&directory, &port)
        .process("shutdown_timeout = \"200ms\"")
        .location("/slow", "return = { status = 200, delay = \"20s\" }");
    let drover = Drover::start(&directory, &config);
    let mut client = Client::to(port.address());
    client.ask("/slow");
    eventually("it is under way", || (drover.status().workers[0].connections == 1).then_some(()));
    ends(&drover, "shutdown", || drover.reload_begun());
    // Nothing was sent; the status is for the log.
    access_log_says(&directory, "/slow 503 shutdown");
}

#[test]
fn requests_that_are_cut_short_are_logged_with_what_was_sent_of_the_answer() {
    let (directory, port) = (Directory::new(), Port::new());
    directory.write("large", "x".repeat(50_000_000));
    let config = config(&directory, &port)
        .process("shutdown_timeout = \"200ms\"")
        .log_format("ends = \"$request_uri $status $body_bytes_sent $close_reason\"")
        .location("/large", &format!("root = \"{}\"", directory.path().display()));
    let drover = Drover::start(&directory, &config);
    let mut gone = Client::to(port.address());
    gone.send(request("POST", "/body", "Content-Length: 9\r\n"));
    eventually("its head was read", || {
        drover.status().workers.iter().any(|w| w.connections == 1).then_some(())
    });
    drop(gone);
    access_log_says(&directory, "/body 499 0 client_gone");
    let mut slow = Client::to(port.address());
    slow.ask("/large");
    assert_eq!(slow.head_response().status, 200);
    drover.reload_begun();
    let line = eventually("it is logged when the worker ends", || {
        let text = directory.read("ends.log");
        text.lines().find(|line| line.starts_with("/large ")).map(str::to_owned)
    });
    let fields: Vec<&str> = line.split(' ').collect();
    assert_eq!((fields[1], fields[3]), ("200", "shutdown"), "{line}");
    let sent: u64 = fields[2].parse().expect("a number");
    assert!(sent > 0 && sent < 50_000_000, "{line}");
}
