//! The PROXY protocol on listeners of HTTP, and towards servers.

use std::fmt::Write as _;
use std::time::Duration;

use drover_tests::http::{Failure, PATIENCE};
use drover_tests::{Client, Config, Directory, Drover, Port, eventually};

/// What a server says of a client.
const SAYING: &str = "return = { status = 200, body = '$remote_addr:$remote_port $server_addr:$server_port \
                      $proxy_protocol_addr $realip_remote_addr' }";

/// Of a client at 192.0.2.7 that connected to 198.51.100.2:443.
const V1: &[u8] = b"PROXY TCP4 192.0.2.7 198.51.100.2 56324 443\r\n";
const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x07\xc6\x33\x64\x02\xdc\x04\x01\xbb";
/// A proxy's own connection, such as a check.
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00";
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

struct Behind {
    drover: Drover,
    directory: Directory,
    port: Port,
}

/// A drover that proxies connect to; `keys` are of `[http]`.
fn behind_proxies(keys: &[&str], location: &str) -> Behind {
    let (directory, port) = (Directory::new(), Port::new());
    let mut config = Config::new(&directory, 1).log_format("by_worker = \"$remote_addr $request $status\"");
    for key in keys {
        config = config.http(key);
    }
    let listen = format!("listen = [{{ address = \"{}\", proxy_protocol = true }}]", port.address());
    let config = config.server_with(&listen).location("/", &format!("{location}\n{SAYING}"));
    Behind { drover: Drover::start(&directory, &config), directory, port }
}

impl Behind {
    fn ask(&self, bytes: &[u8]) -> Result<String, Failure> {
        let mut client = Client::to(self.port.address());
        client.send(bytes);
        client.receive(true).map(|answer| format!("{} {}", answer.status, answer.text()))
    }
}

#[test]
fn the_client_is_who_the_proxy_says() {
    let behind = behind_proxies(&[], "");
    let wanted = "200 192.0.2.7:56324 198.51.100.2:443 192.0.2.7 127.0.0.1";
    for header in [V1, V2] {
        assert_eq!(behind.ask(&[header, REQUEST].concat()).expect("an answer"), wanted);
        let mut client = Client::to(behind.port.address());
        for byte in header.iter().chain(REQUEST) {
            client.send([*byte]);
        }
        assert_eq!(client.response().text(), wanted["200 ".len()..]);
        // It is said once for all requests of the connection.
        client.send([REQUEST, REQUEST].concat());
        assert_eq!([client.response().text(), client.response().text()], [&wanted["200 ".len()..]; 2]);
    }
    let own = behind.ask(&[LOCAL, REQUEST].concat()).expect("an answer");
    assert!(own.starts_with("200 127.0.0.1:"), "{own}");
    eventually("the client is logged", || {
        behind.directory.read("access.log").contains("192.0.2.7 GET / HTTP/1.1 200").then_some(())
    });
}

#[test]
fn without_a_header_there_is_no_answer() {
    let behind = behind_proxies(&["client_header_timeout = \"300ms\""], "");
    for bytes in
        [REQUEST, b"PROXY nonsense\r\n", b"PROXY TCP4 1.2.3 4.5.6.7 1 2\r\n", b"\r\n\r\n\0\r\nQUIT\n\xff"]
    {
        assert!(
            matches!(behind.ask(bytes), Err(Failure::Closed | Failure::Io(_))),
            "{}",
            bytes.escape_ascii()
        );
    }
    behind.drover.log_line(&["no PROXY protocol header"]);
    // Whoever says nothing, or half of it, is not waited for any longer than for a head.
    for bytes in [&b""[..], b"P", V1, &V2[..20]] {
        let mut client = Client::to(behind.port.address());
        client.send(bytes);
        assert!(client.is_closed_within(PATIENCE), "{}", bytes.escape_ascii());
    }
    // After half a request the client is known, and told.
    let late = behind.ask(&[V1, b"GET / HTTP/1.1\r\n"].concat()).expect("an answer");
    assert!(late.starts_with("408"), "{late}");
}

#[test]
fn only_proxies_on_the_list_may_connect() {
    let behind = behind_proxies(&["proxy_protocol_from = [\"10.0.0.0/8\"]"], "");
    assert!(behind.ask(&[V1, REQUEST].concat()).is_err());
    behind.drover.log_line(&["127.0.0.1", "is no proxy that may connect here"]);
    let behind = behind_proxies(&["proxy_protocol_from = [\"10.0.0.0/8\", \"127.0.0.1\"]"], "");
    assert!(behind.ask(&[V1, REQUEST].concat()).is_ok());
}

#[test]
fn access_limits_and_what_other_proxies_say_go_by_that_client() {
    let behind = behind_proxies(
        &[
            "real_ip.from = [\"192.0.2.0/24\"]",
            "request_limits.per_client = { key = \"$remote_addr\", rate = \"1/m\" }",
        ],
        "access = [\"deny 192.0.2.7\"]\nlimit_requests = [{ limit = \"per_client\" }]",
    );
    let ask = |header: &str, fields: &str| {
        let request = format!("{header}GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        behind.ask(request.as_bytes()).expect("an answer")
    };
    let of = |last: u8| format!("PROXY TCP4 192.0.2.{last} 198.51.100.2 56324 443\r\n");
    assert!(ask(&of(7), "").starts_with("403"));
    assert!(ask(&of(8), "").starts_with("200 192.0.2.8:"));
    assert!(ask(&of(8), "").starts_with("429"));
    assert!(ask(&of(9), "X-Forwarded-For: 203.0.113.5\r\n").starts_with("200 203.0.113.5:"));
}

#[test]
fn servers_are_told_of_the_client() {
    for version in ["v1", "v2"] {
        let (directory, front, back) = (Directory::new(), Port::new(), Port::new());
        let mut listen = String::new();
        let _ = write!(listen, "listen = [{{ address = \"{}\", proxy_protocol = true }}]", back.address());
        let config = Config::new(&directory, 1)
            .upstream("app", &[back.address()], "")
            .server(&front)
            .passing("/", "app", &format!("proxy_protocol = \"{version}\""))
            .server_with(&listen)
            .location(
                "/",
                "return = { status = 200, body = '$remote_addr:$remote_port $server_port $connection' }",
            );
        let _drover = Drover::start(&directory, &config);
        let mut connections = Vec::new();
        for _ in 0..2 {
            let mut client = Client::to(front.address());
            client.set_patience(Duration::from_secs(10));
            let wanted = format!("127.0.0.1:{} {} ", client.port(), front.address().port());
            for _ in 0..2 {
                let text = client.get("/").text();
                connections.push(
                    text.strip_prefix(&wanted).unwrap_or_else(|| panic!("{text}: {wanted}")).to_owned(),
                );
            }
        }
        connections.sort_unstable();
        connections.dedup();
        assert_eq!(connections.len(), 4, "each request has a connection of its own");
    }
}
