//! The access log: what it says of requests good and bad, and when it is written.

mod common;

use std::time::Duration;

use common::{Order, Scratch, bytes, configured, fixed, serve, wait_for};
use drover_config::LogFile;
use drover_http::config::{AccessLog, Http};

fn logging(http: &mut Http, scratch: &Scratch, format: &str) {
    http.log_formats
        .insert("own".to_owned(), drover_service::LogFormatConfig::of_text(format.to_owned().into()));
    http.access_log = AccessLog {
        file: LogFile::Path(scratch.path().join("log")).into(),
        format: "own".to_owned().into(),
        buffer: bytes(0),
        flush: Duration::from_secs(1),
        ..AccessLog::default()
    };
    http.servers[0].locations.push(fixed("/", 200, "ok\n"));
    http.servers[0].root = Some(scratch.path().to_path_buf().into());
}

#[test]
fn each_request_has_its_line() {
    let scratch = Scratch::new();
    let mut server = serve(|http| {
        logging(
            http,
            &scratch,
            "$pid $connection $connection_requests $status $body_bytes_sent $bytes_sent \"$request\" $http_x $sent_http_content_length $server_port",
        );
        http.servers[0].locations.push(common::location("/files/"));
    });
    scratch.file("files/large", vec![b'x'; 200_000]);
    let mut client = server.connect();
    client.send("GET /a?b HTTP/1.1\r\nHost: a\r\nX: \"y\r\n\r\n");
    let first = client.answer();
    client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    let second = client.answer_to(false);
    client.send("GET /files/large HTTP/1.1\r\nHost: a\r\n\r\n");
    let third = client.answer();
    client.send("GET /\u{1} HTTP/1.1\r\nHost: a\r\n\r\n");
    let fourth = client.answer();
    let (pid, port) = (std::process::id(), server.address.port());
    let length = |answer: &common::Answer| answer.head.len() + answer.body.len();
    let wanted = [
        format!(r#"{pid} 1 1 200 3 {} "GET /a?b HTTP/1.1" \x22y 3 {port}"#, length(&first)),
        format!(r#"{pid} 1 2 200 0 {} "HEAD / HTTP/1.1" - 3 {port}"#, length(&second)),
        format!(r#"{pid} 1 3 200 200000 {} "GET /files/large HTTP/1.1" - 200000 {port}"#, length(&third)),
        format!(
            r#"{pid} 1 4 400 {} {} "GET /\x01 HTTP/1.1" - {} {port}"#,
            fourth.body.len(),
            length(&fourth),
            fourth.body.len()
        ),
    ];
    server.stop();
    let text = scratch.text("log");
    assert_eq!(text.lines().collect::<Vec<_>>(), wanted);
}

#[test]
fn the_combined_format_is_built_in() {
    let scratch = Scratch::new();
    let mut server = serve(|http| {
        logging(http, &scratch, "");
        http.access_log.format = "combined".to_owned().into();
    });
    server.get("/");
    server.stop();
    let text = scratch.text("log");
    assert!(
        text.starts_with("127.0.0.1 - - [") && text.ends_with("] \"GET / HTTP/1.1\" 200 3 \"-\" \"-\"\n"),
        "{text}"
    );
}

#[test]
fn gathered_lines_are_written_after_the_flush_time_and_on_demand() {
    let scratch = Scratch::new();
    let server = serve(|http| {
        logging(http, &scratch, "$uri");
        http.access_log.buffer = bytes(1 << 20);
        http.access_log.flush = Duration::from_millis(300);
    });
    server.get("/one");
    server.get("/two");
    assert_eq!(scratch.text("log"), "");
    wait_for("the flush", || (scratch.text("log") == "/one\n/two\n").then_some(()));
    server.get("/three");
    server.order(Order::Flush);
    wait_for("the flush", || (scratch.text("log") == "/one\n/two\n/three\n").then_some(()));
}

#[test]
fn a_reopened_log_goes_on_in_the_new_file() {
    let scratch = Scratch::new();
    let mut server = serve(|http| logging(http, &scratch, "$uri"));
    server.get("/old");
    std::fs::rename(scratch.path().join("log"), scratch.path().join("log.1")).expect("a file can be renamed");
    server.order(Order::Reopen);
    wait_for("the new file", || scratch.path().join("log").exists().then_some(()));
    server.get("/new");
    server.stop();
    assert_eq!((scratch.text("log.1").as_str(), scratch.text("log").as_str()), ("/old\n", "/new\n"));
}

#[test]
fn a_location_may_have_a_log_of_its_own_or_none() {
    let scratch = Scratch::new();
    let mut server = serve(|http| {
        logging(http, &scratch, "$uri");
        let mut quiet = fixed("/quiet", 200, "");
        quiet.access_log = Some(AccessLog::default());
        http.servers[0].locations.push(quiet);
    });
    server.get("/quiet");
    server.get("/loud");
    server.stop();
    assert_eq!(scratch.text("log"), "/loud\n");
}

#[test]
fn lines_can_be_json_and_only_of_some_requests() {
    let scratch = Scratch::new();
    let path = scratch.path().join("log");
    let mut server = configured(&format!(
        r#"
[[servers.locations]]
path = "/"
return = {{ status = 200, body = "ok" }}
[[servers.locations]]
path = "/no"
return = {{ status = 404 }}
[access_log]
file = {path:?}
format = "object"
buffer = "0b"
when = {{ text = "$status", matches = "^[45]" }}
[log_formats.object]
json = {{ status = "$status", agent = "$http_user_agent", none = "$http_none", size = "$sent_http_content_length" }}
"#
    ));
    let mut client = server.connect();
    client.get("/");
    client.send(b"GET /no HTTP/1.1\r\nHost: a\r\nUser-Agent: \"a\\\xff\r\n\r\n");
    let length = client.answer().body.len();
    server.stop();
    let want =
        format!("{{\"agent\":\"\\\"a\\\\\u{fffd}\",\"none\":null,\"size\":\"{length}\",\"status\":404}}\n");
    assert_eq!(scratch.text("log"), want);
}

#[test]
fn lines_can_go_to_a_syslog_daemon() {
    let daemon = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    daemon.set_read_timeout(Some(Duration::from_secs(20))).expect("a time-out");
    let address = daemon.local_addr().expect("an address");
    let server = configured(&format!(
        r#"
[[servers.locations]]
path = "/"
return = {{ status = 200, body = "ok" }}
access_log = {{ syslog = {{ to = "{address}", facility = "daemon", severity = "notice", tag = "web" }}, format = "own" }}
[log_formats]
own = "$request $status"
"#
    ));
    server.get("/a");
    let mut buffer = [0; 500];
    let length = daemon.recv(&mut buffer).expect("a datagram");
    let line = String::from_utf8_lossy(&buffer[..length]);
    assert!(line.starts_with("<29>") && line.ends_with("]: GET /a HTTP/1.1 200"), "{line}");
}
