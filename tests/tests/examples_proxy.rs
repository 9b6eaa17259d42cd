//! The examples that pass requests on: each is started as it is but for its ports and its directory, in front of servers
//! of the test, and does what it says.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use drover_tests::binary::source_root;
use drover_tests::http::request;
use drover_tests::http_backend::response;
use drover_tests::{Client, Example, HttpBackend, Port, eventually};

/// A file server in Python, as it comes.
struct PythonServer {
    child: Child,
    port: Port,
}

impl PythonServer {
    fn start() -> PythonServer {
        let port = Port::new();
        let mut python = Command::new("python3");
        python.args(["-m", "http.server", "--protocol", "HTTP/1.1", "--bind", "127.0.0.1"]);
        python.arg(port.number().to_string()).current_dir(source_root().join("config/examples"));
        let child = python.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("python3 is there");
        eventually("the application listens", || Client::connect(port.address()).ok());
        PythonServer { child, port }
    }

    fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for PythonServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Answers with its name, and the target as it saw it. It keeps no connection, so that all of it is gone once it is
/// dropped.
fn named(name: &'static str) -> HttpBackend {
    HttpBackend::new(move |connection| {
        if let Some(request) = connection.request() {
            connection.send(response(
                "200 OK",
                "Connection: close\r\n",
                format!("{name} {}", request.target),
            ));
        }
    })
}

#[test]
fn an_application_server() {
    let mut application = PythonServer::start();
    let example = Example::before("application-server", 8111, &[(9101, application.port.number())]);
    assert!(example.get("/limits.toml").text().contains("# Limits"), "the application's file");
    assert_eq!(example.get("/none").status, 404);
    let own = example.get("/downloads/read-me.txt");
    assert_eq!((own.status, own.header("cache-control")), (200, Some("public, max-age=3600")));
    assert_eq!(example.get("/unavailable.html").status, 404, "it is for errors alone");
    application.stop();
    let answer = example.get("/limits.toml");
    assert_eq!(answer.status, 502);
    assert!(answer.text().contains("not available"), "{}", answer.text());
    assert_eq!(example.get("/downloads/read-me.txt").status, 200);
}

/// The opening handshake of RFC 6455, with its sample key, and then each text sent back.
fn websocket_echo() -> HttpBackend {
    HttpBackend::new(|connection| {
        let Some(request) = connection.request() else { return };
        assert_eq!(request.header("sec-websocket-key"), Some("dGhlIHNhbXBsZSBub25jZQ=="));
        assert_eq!(
            (request.header("upgrade"), request.header("connection")),
            (Some("websocket"), Some("upgrade"))
        );
        connection.send(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
        );
        let mut frame = Vec::new();
        while let Some(bytes) = connection.receive() {
            frame.extend(bytes);
            // A text of less than 126 bytes, masked as clients must.
            while frame.len() >= 2 && frame.len() >= 6 + usize::from(frame[1] & 0x7f) {
                let length = usize::from(frame[1] & 0x7f);
                let whole: Vec<u8> = frame.drain(..6 + length).collect();
                let text = whole[6..].iter().zip(whole[2..6].iter().cycle()).map(|(byte, mask)| byte ^ mask);
                connection.send([vec![whole[0], length as u8], text.collect()].concat());
            }
        }
    })
}

#[test]
fn websocket() {
    let (one, other) = (websocket_echo(), websocket_echo());
    let servers = [(9111, one.address().port()), (9112, other.address().port())];
    let example = Example::before("websocket", 8112, &servers);
    assert!(example.get("/").text().contains("A static site"));
    for _ in 0..3 {
        let mut client = Client::to(example.port.address());
        client.send(request(
            "GET",
            "/chat",
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
        ));
        let answer = client.receive(false).expect("an answer");
        assert_eq!(answer.status, 101);
        assert_eq!(answer.header("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        // "Hello" as RFC 6455, 5.7 has it: masked there, plain back.
        let mut stream = client.stream();
        stream.write_all(b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58").expect("the tunnel is open");
        let mut back = [0; 7];
        stream.read_exact(&mut back).expect("the text comes back");
        assert_eq!(&back, b"\x81\x05Hello");
    }
    let counts = [one.connections(), other.connections()];
    assert!(counts == [3, 0] || counts == [0, 3], "one client has one server: {counts:?}");
}

#[test]
fn an_api_gateway() {
    let (users, spare, orders) = (named("users"), named("users"), named("orders"));
    let servers =
        [(9121, users.address().port()), (9122, spare.address().port()), (9123, orders.address().port())];
    let example = Example::before("api-gateway", 8113, &servers);
    let call = |target: &str| example.ask(request("GET", target, "X-API-Key: key-of-shop\r\n"));
    assert_eq!(call("/users/7?full").text(), "users /7?full");
    assert_eq!(call("/orders/1").text(), "orders /1");
    let order = orders.request();
    assert_eq!((order.header("x-client"), order.header("x-api-key")), (Some("shop"), None));
    assert!(order.header("x-request-id").is_some_and(|id| id.len() == 32), "{order:?}");
    let unknown = call("/nothing");
    assert_eq!((unknown.status, unknown.text().as_str()), (404, r#"{"error":"no such service"}"#));
    let stranger = example.get("/users/7");
    assert_eq!((stranger.status, stranger.text().as_str()), (401, r#"{"error":"no such key"}"#));
    // Of two servers one may go.
    drop(users);
    for _ in 0..4 {
        assert_eq!(call("/users/8").text(), "users /8");
    }
    drop((spare, orders));
    let none =
        eventually("the service is gone", || Some(call("/orders/2")).filter(|answer| answer.status != 200));
    assert_eq!(none.status, 503);
    assert_eq!(none.text(), r#"{"error":"the service is not available"}"#);
    assert_eq!(none.header("content-type"), Some("application/json"));
    let statuses: Vec<u16> = (0..40).map(|_| call("/nothing").status).collect();
    assert!(statuses.contains(&404) && statuses.ends_with(&[429]), "{statuses:?}");
    let line = example.drover.log_line(&[r#""client":"shop""#, r#""call":"GET /orders/1""#]);
    let line: serde_json::Value = serde_json::from_str(&line).expect("a line of JSON");
    assert_eq!((&line["status"], &line["fault"]), (&200.into(), &"-".into()));
}

#[test]
fn blue_and_green() {
    let (blue, green) = (named("blue"), named("green"));
    let servers = [(9131, blue.address().port()), (9132, green.address().port())];
    let example = Example::before("blue-green", 8114, &servers);
    let shares = || {
        let of_green = |_: &u32| example.get("/").text() == "green /";
        (0..20).filter(of_green).count()
    };
    assert_eq!(shares(), 2);
    for name in ["blue", "green"] {
        let chosen = example.ask(request("GET", "/page?x=1", &format!("X-Release: {name}\r\n")));
        assert_eq!(chosen.text(), format!("{name} /page?x=1"));
    }
    assert_eq!(example.get("/green/page").status, 404, "only the field chooses");
    // Half and half by a reload.
    let path = example.drover.config();
    let text = std::fs::read_to_string(path).expect("the config");
    let halves = text.replace("weight = 9", "weight = 5").replace("weight = 1 ", "weight = 5 ");
    assert_ne!(text, halves);
    std::fs::write(path, halves).expect("the config is ours");
    example.drover.reload();
    assert_eq!(shares(), 10);
}
