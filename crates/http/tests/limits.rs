//! Limits of requests and connections, and who is let in, as clients see them.

mod common;

use std::time::{Duration, Instant};

use common::{Client, configured};

fn status(client: &mut Client, target: &str, fields: &str) -> u16 {
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    client.answer().status
}

#[test]
fn requests_above_a_rate_are_refused_for_each_key() {
    let server = configured(
        r#"
limit_requests = [{ limit = "by_key", burst = 2, at_once = "all" }]
[[servers.locations]]
path = "/"
return = { status = 200, body = "ok" }
[[servers.locations]]
path = "/other"
limit_requests = [{ limit = "by_key", status = 503 }]
return = { status = 200, body = "ok" }
error_pages = [{ statuses = [503], to = "/" }]
[[servers.locations]]
path = "/free"
limit_requests = []
return = { status = 200, body = "ok" }
[request_limits.by_key]
key = "$http_x_key"
rate = "1/h"
"#,
    );
    let mut client = server.connect();
    let mut ask = |target, key: &str| status(&mut client, target, &format!("X-Key: {key}\r\n"));
    assert_eq!([ask("/", "a"), ask("/", "a"), ask("/", "a"), ask("/", "a")], [200, 200, 200, 429]);
    assert_eq!(ask("/other", "a"), 503, "its page is shown once, and not limited again");
    assert_eq!((ask("/other", "b"), ask("/other", "b")), (200, 503));
    assert_eq!(ask("/free", "a"), 200);
    // Without a key there is no limit.
    for _ in 0..5 {
        assert_eq!(status(&mut client, "/", ""), 200);
    }
}

#[test]
fn a_burst_waits_for_its_time() {
    let server = configured(
        r#"
limit_requests = [{ limit = "all", burst = 5, at_once = 1 }]
[[servers.locations]]
path = "/"
return = { status = 200, body = "ok" }
[request_limits.all]
key = "all"
rate = "5/s"
"#,
    );
    let mut client = server.connect();
    let begun = Instant::now();
    assert_eq!([status(&mut client, "/", ""), status(&mut client, "/", "")], [200, 200]);
    let at_once = begun.elapsed();
    assert_eq!(status(&mut client, "/", ""), 200);
    // The third comes 0.2 s after the second would have. Clocks are read in milliseconds.
    assert!(begun.elapsed() >= Duration::from_millis(190), "{at_once:?}, {:?}", begun.elapsed());
}

#[test]
fn so_many_requests_are_under_way_at_once() {
    let server = configured(
        r#"
limit_connections = [{ limit = "by_key", most = 2 }]
[[servers.locations]]
path = "/slow"
return = { status = 200, body = "ok", delay = "300ms" }
[[servers.locations]]
path = "/"
return = { status = 200, body = "ok" }
[connection_limits.by_key]
key = "$arg_k"
"#,
    );
    let mut clients: Vec<Client> = (0..2).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| client.send("GET /slow?k=1 HTTP/1.1\r\nHost: a\r\n\r\n"));
    let mut other = server.connect();
    let becomes =
        |status| common::wait_for("the limit", || (server.get("/?k=1").status == status).then_some(()));
    becomes(429);
    assert_eq!(status(&mut other, "/?k=2", ""), 200);
    assert!(clients.iter_mut().all(|client| client.answer().status == 200));
    assert_eq!(status(&mut other, "/?k=1", ""), 200, "idle connections do not count");
    // A client that goes away gives its place back.
    let mut gone: Vec<Client> = (0..2).map(|_| server.connect()).collect();
    gone.iter_mut().for_each(|client| client.send("GET /slow?k=1 HTTP/1.1\r\nHost: a\r\n\r\n"));
    becomes(429);
    drop(gone);
    becomes(200);
}

#[test]
fn clients_are_let_in_by_address_also_behind_proxies() {
    let server = configured(
        r#"
access = ["deny 192.0.2.0/24", "allow all"]
[[servers.locations]]
path = "/"
return = { status = 200, body = "$remote_addr $realip_remote_addr" }
[[servers.locations]]
path = "/closed"
access = ["deny all"]
[[servers.locations]]
path = "/rule"
rules = [{ rewrite = "^/rule", to = "/closed", then = "last" }]
[real_ip]
from = ["127.0.0.0/8"]
"#,
    );
    let mut client = server.connect();
    assert_eq!(client.get("/").text(), "127.0.0.1 127.0.0.1");
    client.send("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 198.51.100.7\r\n\r\n");
    assert_eq!(client.answer().text(), "198.51.100.7 127.0.0.1");
    assert_eq!(status(&mut client, "/", "X-Forwarded-For: 192.0.2.9\r\n"), 403);
    assert_eq!(status(&mut client, "/", "X-Forwarded-For: 192.0.2.9, 198.51.100.7\r\n"), 200);
    assert_eq!((status(&mut client, "/closed", ""), status(&mut client, "/rule", "")), (403, 403));
}
