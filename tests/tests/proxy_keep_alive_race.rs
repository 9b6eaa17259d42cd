//! A server closes a kept connection at the moment when the next request is sent on it.

use std::time::Duration;

use drover_tests::http::request;
use drover_tests::{Client, Config, Directory, Drover, HttpBackend, Port};

/// A server that answers the first request on a connection, takes the second and closes without a word.
fn closing() -> HttpBackend {
    HttpBackend::new(|connection| {
        if connection.request().is_some() {
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood");
            connection.request();
        }
    })
}

struct Setup {
    _drover: Drover,
    client: Client,
    backend: HttpBackend,
}

fn start() -> Setup {
    let (directory, port, backend) = (Directory::new(), Port::new(), closing());
    let config = Config::new(&directory, 1).server(&port).passing("/", backend.address(), "");
    let drover = Drover::start(&directory, &config);
    Setup { _drover: drover, client: Client::to(port.address()), backend }
}

impl Setup {
    fn ask(&mut self, method: &str, body: &str) -> u16 {
        let length = format!("Content-Length: {}\r\n", body.len());
        self.client.send([&request(method, "/", &length), body].concat());
        self.client.response().status
    }

    fn received(&self, method: &str) -> usize {
        self.backend.requests().iter().filter(|request| request.method == method).count()
    }
}

#[test]
fn what_may_arrive_twice_is_sent_again_on_a_new_connection() {
    let mut setup = start();
    for method in ["GET", "PUT", "GET", "DELETE"] {
        assert_eq!(setup.ask(method, ""), 200, "{method}");
    }
    assert_eq!(setup.backend.connections(), 4);
    assert_eq!((setup.received("GET"), setup.received("PUT"), setup.received("DELETE")), (3, 2, 2));
}

#[test]
fn what_must_not_arrive_twice_does_not() {
    let mut setup = start();
    assert_eq!(setup.ask("GET", ""), 200);
    // The connection was just used and looks safe, unless this machine is very slow.
    let status = setup.ask("POST", "body");
    assert_eq!(status, if setup.backend.connections() == 1 { 502 } else { 200 });
    assert_eq!(setup.received("POST"), 1);
}

#[test]
fn what_must_not_arrive_twice_takes_no_connection_that_was_idle_for_long() {
    let mut setup = start();
    assert_eq!(setup.ask("GET", ""), 200);
    std::thread::sleep(Duration::from_millis(1200));
    assert_eq!(setup.ask("POST", "body"), 200);
    assert_eq!((setup.received("POST"), setup.backend.connections()), (1, 2));
}
