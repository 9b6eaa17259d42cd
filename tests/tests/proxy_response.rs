//! What a client gets of a response: its head and body as the server sent them, in a framing of drover's own.

use std::time::Duration;

use drover_tests::http::{Response, request};
use drover_tests::http_backend::{pattern, response};
use drover_tests::{Client, Config, Directory, Drover, HttpBackend, Port, process};

struct Setup {
    _drover: Drover,
    _directory: Directory,
    port: Port,
    backend: HttpBackend,
}

fn start(backend: HttpBackend) -> Setup {
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, 1).server(&port).passing("/", backend.address(), "");
    Setup { _drover: Drover::start(&directory, &config), _directory: directory, port, backend }
}

fn answered(text: &'static str) -> Response {
    let setup = start(HttpBackend::answering(text));
    let mut client = Client::to(setup.port.address());
    let first = client.get("/");
    let again = client.get("/");
    assert_eq!((first.status, &first.body), (again.status, &again.body));
    first
}

#[test]
fn fields_come_as_the_server_sent_them() {
    let got = answered(
        "HTTP/1.1 418 I am  a teapot\r\nServer: other\r\nSet-Cookie: a\r\nset-cookie: b\r\nDate: x\r\nX_odd.name: y\r\n\
         Connection: X-Hop\r\nX-Hop: z\r\nContent-Length: 4\r\n\r\nbody",
    );
    assert_eq!((got.status, got.reason.as_str(), got.text().as_str()), (418, "I am  a teapot", "body"));
    let fields: Vec<(&str, &str)> =
        got.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(
        fields,
        [
            ("Server", "other"),
            ("Set-Cookie", "a"),
            ("set-cookie", "b"),
            ("Date", "x"),
            ("X_odd.name", "y"),
            ("Content-Length", "4"),
        ]
    );
}

#[test]
fn chunks_come_in_chunks_with_their_trailers() {
    let got = answered(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n\
         5;ext=\"1\"\r\nhello\r\n00001\r\n,\r\n6\r\n world\r\n0\r\nX-Sum: 7\r\nContent-Length: 3\r\n\r\n",
    );
    assert_eq!(got.text(), "hello, world");
    assert_eq!(got.trailers, [("X-Sum".to_owned(), "7".to_owned())]);
    assert_eq!(got.header("trailer"), Some("X-Sum"));
}

#[test]
fn what_ends_with_the_close_comes_in_chunks() {
    let backend = HttpBackend::new(|connection| {
        if connection.request().is_some() {
            connection.send("HTTP/1.0 200 OK\r\n\r\nfirst");
            connection.send(" and last");
        }
    });
    let setup = start(backend);
    let mut client = Client::to(setup.port.address());
    for _ in 0..2 {
        let got = client.get("/");
        assert_eq!((got.text().as_str(), got.version.as_str()), ("first and last", "HTTP/1.1"));
        assert!(!got.closes(), "the client's connection stays");
    }
    assert_eq!(setup.backend.connections(), 2, "the server's does not");
}

#[test]
fn an_old_client_gets_no_chunks() {
    let setup = start(HttpBackend::answering(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nT: u\r\n\r\n",
    ));
    let mut client = Client::to(setup.port.address());
    client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let got = client.response();
    assert_eq!((got.text().as_str(), got.header("transfer-encoding")), ("hello", None));
    assert!(got.closes());
    assert_eq!(setup.backend.connections(), 1);
}

#[test]
fn responses_without_a_body_have_none() {
    let backend = HttpBackend::new(|connection| {
        while let Some(request) = connection.request() {
            match (request.method.as_str(), request.target.as_str()) {
                ("HEAD", _) => connection.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"),
                (_, "/204") => connection.send("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"),
                (_, "/304") => {
                    connection.send("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\nETag: \"x\"\r\n\r\n")
                }
                _ => connection.send(response("200 OK", "", "")),
            }
        }
    });
    let setup = start(backend);
    let mut client = Client::to(setup.port.address());
    client.send(request("HEAD", "/", ""));
    let head = client.head_response();
    assert_eq!((head.status, head.header("content-length")), (200, Some("1000")));
    let none = client.get("/204");
    assert_eq!((none.status, none.header("content-length")), (204, None));
    let not_modified = client.get("/304");
    assert_eq!((not_modified.status, not_modified.header("etag")), (304, Some("\"x\"")));
    assert_eq!((client.get("/").status, client.get("/").text().len()), (200, 0));
    assert!(client.is_open());
    assert_eq!(setup.backend.connections(), 1, "all of them leave the connection in step");
}

#[test]
fn interim_responses_are_passed_on_to_those_who_know_them() {
    const HINTS: &str = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    let backend = HttpBackend::new(|connection| {
        while connection.request().is_some() {
            connection.send(HINTS);
            connection.send([HINTS.as_bytes(), &response("200 OK", "", "done")].concat());
        }
    });
    let setup = start(backend);
    let mut client = Client::to(setup.port.address());
    for _ in 0..2 {
        client.ask("/");
        for _ in 0..2 {
            let hint = client.response();
            assert_eq!((hint.status, hint.header("link")), (103, Some("</a>")));
        }
        assert_eq!(client.response().text(), "done");
    }
    let mut old = Client::to(setup.port.address());
    old.send("GET / HTTP/1.0\r\n\r\n");
    assert_eq!((old.response().text().as_str(), setup.backend.connections()), ("done", 1));
}

#[test]
fn large_bodies_come_unharmed_whatever_their_framing() {
    let backend = HttpBackend::new(|connection| {
        while let Some(request) = connection.request() {
            let (kind, length) = request.target[1..].split_once('/').expect("a kind and a length");
            let body = pattern(length.parse().expect("a length"));
            match kind {
                "length" => connection.send(response("200 OK", "", &body)),
                "chunked" => {
                    connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
                    for chunk in body.chunks(7_001) {
                        connection.send(format!("{:X}\r\n", chunk.len()));
                        connection.send(chunk);
                        connection.send("\r\n");
                    }
                    connection.send("0\r\n\r\n");
                }
                _ => {
                    connection.send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
                    connection.send(&body);
                    return;
                }
            }
        }
    });
    let setup = start(backend);
    let mut client = Client::to(setup.port.address());
    for kind in ["length", "chunked", "close"] {
        for length in [1, 16_384, 65_536, 100_000, 3_000_000] {
            let got = client.get(&format!("/{kind}/{length}"));
            assert!(got.body == pattern(length), "{kind} {length}: {} bytes", got.body.len());
        }
    }
    assert!(client.is_open());
}

#[test]
fn a_slow_client_holds_up_the_server_within_bounds() {
    let backend = HttpBackend::new(|connection| {
        if connection.request().is_some() {
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n");
            for _ in 0..100 {
                connection.send(vec![b'x'; 1_000_000]);
            }
        }
    });
    let setup = start(backend);
    let mut client = Client::to(setup.port.address());
    client.ask("/");
    let memory = || process::anonymous_memory(setup._drover.worker()).expect("the worker lives");
    let before = memory();
    let mut head = [0; 1];
    std::io::Read::read_exact(&mut client.stream(), &mut head).expect("the response begins");
    // It stops when the buffers are full, and goes on as the client reads.
    std::thread::sleep(Duration::from_millis(300));
    let after = memory();
    assert!(after.saturating_sub(before) < 2_000, "{before} KiB before, {after} after");
    let mut rest = 0;
    let mut buffer = vec![0; 1 << 20];
    while rest < 100_000_000 {
        let count = std::io::Read::read(&mut client.stream(), &mut buffer).expect("the response goes on");
        assert!(count > 0, "the response ends after {rest} bytes");
        rest += count;
    }
}

#[test]
fn a_location_changes_the_fields_of_what_passes() {
    let backend =
        HttpBackend::answering("HTTP/1.1 200 OK\r\nX-Own: 1\r\nX-Kept: 2\r\nContent-Length: 2\r\n\r\nok");
    let (directory, port) = (Directory::new(), Port::new());
    let keys = format!(
        "proxy_pass = \"http://{}\"\nheaders = {{ remove = [\"X-Own\"], add = {{ X-Seen = \"$sent_http_x_own\" }} }}",
        backend.address()
    );
    let _drover = Drover::start(&directory, &Config::new(&directory, 1).server(&port).location("/", &keys));
    let response = drover_tests::http::get(port.address(), "/");
    assert_eq!((response.status, response.text().as_str()), (200, "ok"));
    assert_eq!(response.header("X-Own"), None);
    assert_eq!(response.header("X-Kept"), Some("2"));
    assert_eq!(response.header("X-Seen"), Some("1"));
}

#[test]
fn a_response_that_drips_is_passed_on_whole() {
    let setup = start(HttpBackend::new(|connection| {
        while let Some(request) = connection.request() {
            let interim = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
            let text = match request.target.as_str() {
                "/length" => "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
                _ => {
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\nX-Sum: 7\r\n\r\n"
                }
            };
            for byte in interim.bytes().chain(text.bytes()) {
                connection.send([byte]);
                // So that most bytes come alone.
                std::thread::yield_now();
            }
        }
    }));
    let mut client = Client::to(setup.port.address());
    for target in ["/length", "/chunked", "/length"] {
        client.ask(target);
        assert_eq!(client.response().status, 103);
        assert_eq!(client.response().text(), "hello", "{target}");
    }
    assert_eq!(setup.backend.connections(), 1);
}
