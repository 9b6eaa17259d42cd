//! Responses of servers that are encoded on their way, decoded by others.

use std::io::Read;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};

use drover_tests::http::request;
use drover_tests::http_backend::{Connection, response};
use drover_tests::{Client, HttpBackend, Proxying, Response};

const CODINGS: [&str; 3] = ["gzip", "br", "zstd"];

/// Text that is worth encoding.
fn text(length: usize) -> Vec<u8> {
    (0_u64..).flat_map(|n| format!("line {n}, {:x}\n", n * n % 9973).into_bytes()).take(length).collect()
}

/// Passes on to this backend, with these keys of `proxy` and `[http.compression]`.
fn encoding_with(backend: &HttpBackend, proxy: &str, keys: &str) -> Proxying {
    let compression = format!("compression = {{ encodings = [\"zstd\", \"br\", \"gzip\"]{keys} }}");
    Proxying::with(|config| config.http(&compression), &[backend.address()], "", proxy)
}

fn encoding(backend: &HttpBackend) -> Proxying {
    encoding_with(backend, "", "")
}

fn ask(client: &mut Client, target: &str, accept: &str) -> Response {
    client.send(request("GET", target, &format!("Accept-Encoding: {accept}\r\n")));
    client.response()
}

fn decoder<'a>(coding: &str, bytes: impl Read + 'a) -> Box<dyn Read + 'a> {
    match coding {
        "gzip" => Box::new(flate2::read::GzDecoder::new(bytes)),
        "br" => Box::new(brotli::Decompressor::new(bytes, 4096)),
        "zstd" => Box::new(zstd::stream::read::Decoder::new(bytes).expect("memory")),
        other => panic!("{other} was not asked for"),
    }
}

fn decoded(answer: &Response) -> Vec<u8> {
    let mut out = Vec::new();
    let coding = answer.header("content-encoding").expect("a coding");
    decoder(coding, &answer.body[..]).read_to_end(&mut out).expect("a whole body");
    out
}

fn send_in_chunks(connection: &mut Connection, body: &[u8], size: usize) {
    for chunk in body.chunks(size) {
        connection.send(format!("{:x}\r\n", chunk.len()));
        connection.send(chunk);
        connection.send("\r\n");
    }
}

const TYPE: &str = "Content-Type: text/plain\r\n";
const LARGE: usize = 3_000_000;

/// Answers in the framing that the path tells of.
fn in_any_framing(length: usize) -> HttpBackend {
    HttpBackend::new(move |connection| {
        while let Some(request) = connection.request() {
            let body = text(length);
            match request.target.as_str() {
                "/length" => connection.send(response("200 OK", TYPE, body)),
                "/chunked" => {
                    connection.send(format!("HTTP/1.1 200 OK\r\n{TYPE}Transfer-Encoding: chunked\r\n\r\n"));
                    send_in_chunks(connection, &body, 100_003);
                    connection.send("0\r\nX-Sum: 7\r\nContent-Digest: x\r\n\r\n");
                }
                _ => {
                    connection.send(format!("HTTP/1.0 200 OK\r\n{TYPE}\r\n"));
                    return connection.send(body);
                }
            }
        }
    })
}

fn check_any_framing(proxy: &str, length: usize) {
    let backend = in_any_framing(length);
    let proxying = encoding_with(&backend, proxy, "");
    let mut client = proxying.client();
    for target in ["/length", "/chunked", "/close"] {
        for coding in CODINGS {
            let answer = ask(&mut client, target, coding);
            assert_eq!(answer.header("content-encoding"), Some(coding), "{target}");
            assert_eq!(answer.header("vary"), Some("Accept-Encoding"));
            assert_eq!(
                (answer.header("transfer-encoding"), answer.header("content-length")),
                (Some("chunked"), None)
            );
            assert!(answer.body.len() < length / 2, "{target} {coding}: {}", answer.body.len());
            assert!(decoded(&answer) == text(length), "{target} {coding}");
            let trailers: &[_] = if target == "/chunked" { &[("X-Sum".into(), "7".into())] } else { &[] };
            assert_eq!(answer.trailers, trailers);
        }
        let plain = ask(&mut client, target, "identity");
        assert_eq!((plain.header("content-encoding"), plain.header("vary")), (None, Some("Accept-Encoding")));
        assert!(plain.body == text(length), "{target}");
    }
    assert_eq!(backend.connections(), 4, "connections were kept where that is possible");
}

#[test]
fn bodies_in_any_framing_are_encoded() {
    check_any_framing("", 50_000);
}

#[test]
fn large_bodies_arrive_whole() {
    check_any_framing("", LARGE);
}

#[test]
fn bodies_that_are_buffered_are_encoded() {
    let proxy = format!("buffer_responses = \"64m\"\nbuffer_dir = \"{}\"", std::env::temp_dir().display());
    check_any_framing(&proxy, 50_000);
    check_any_framing(&proxy, LARGE);
}

#[test]
fn clients_of_http_1_0_get_the_body_up_to_the_close() {
    let backend = in_any_framing(50_000);
    let proxying = encoding(&backend);
    for target in ["/length", "/chunked", "/close"] {
        let answer = proxying
            .ask(format!("GET {target} HTTP/1.0\r\nAccept-Encoding: gzip\r\nConnection: keep-alive\r\n\r\n"));
        assert_eq!((answer.header("transfer-encoding"), answer.header("content-length")), (None, None));
        assert!(answer.closes() && decoded(&answer) == text(50_000), "{target}");
    }
}

#[test]
fn heads_tell_what_was_done() {
    let fields = "Content-Type: text/html; charset=utf-8\r\nETag: \"x\"\r\nVary: Cookie\r\nAccept-Ranges: bytes\r\n\
        Content-Digest: sha-256=:x:\r\nX-Other: y\r\n";
    let backend = HttpBackend::new(move |connection| {
        while let Some(request) = connection.request() {
            let body = if request.method == "HEAD" { Vec::new() } else { text(2000) };
            let head = String::from_utf8(response("404 Not Found", fields, text(2000))).expect("text");
            let head = head.split_inclusive("\r\n\r\n").next().expect("a head").to_owned();
            connection.send([head.into_bytes(), body].concat());
        }
    });
    let (port, directory) = (drover_tests::Port::new(), drover_tests::Directory::new());
    let config = drover_tests::Config::new(&directory, 1)
        .http("compression = { encodings = [\"gzip\"] }\nheaders = [{ set = { X-Added = \"$sent_http_etag\" } }]")
        .upstream("app", &[backend.address()], "")
        .server(&port)
        .passing("/", "app", "");
    let _drover = drover_tests::Drover::start(&directory, &config);
    let mut client = Client::to(port.address());
    for method in ["GET", "HEAD"] {
        let mut send = |accept: &str| {
            client.send(request(method, "/", &format!("Accept-Encoding: {accept}\r\n")));
            if method == "HEAD" { client.head_response() } else { client.response() }
        };
        let answer = send("gzip");
        for (name, value) in [
            ("content-encoding", Some("gzip")),
            ("etag", Some("W/\"x\"")),
            ("vary", Some("Cookie, Accept-Encoding")),
            ("accept-ranges", None),
            ("content-digest", None),
            ("content-length", None),
            ("x-other", Some("y")),
            ("x-added", Some("W/\"x\"")),
        ] {
            assert_eq!(answer.header(name), value, "{method} {name}");
        }
        assert!(answer.status == 404 && (method == "HEAD" || decoded(&answer) == text(2000)));
        let plain = send("br");
        assert_eq!((plain.header("etag"), plain.header("content-length")), (Some("\"x\""), Some("2000")));
        assert_eq!(
            (plain.header("vary"), plain.header("accept-ranges")),
            (Some("Cookie, Accept-Encoding"), Some("bytes"))
        );
    }
}

#[test]
fn what_is_not_to_be_encoded_goes_as_it_is() {
    let cases: &'static [(&str, &str, usize)] = &[
        ("200 OK", "Content-Type: text/plain\r\nContent-Encoding: deflate\r\n", 2000),
        ("200 OK", "Content-Type: text/plain\r\nCache-Control: public, No-Transform\r\n", 2000),
        ("206 Partial Content", "Content-Type: text/plain\r\nContent-Range: bytes 0-1999/5000\r\n", 2000),
        ("200 OK", "Content-Type: text/plain\r\nContent-Range: bytes 0-1999/5000\r\n", 2000),
        ("500 Internal Server Error", "Content-Type: text/plain\r\n", 2000),
        ("200 OK", "Content-Type: image/png\r\n", 2000),
        ("200 OK", "", 2000),
        ("200 OK", "Content-Type: text/plain\r\n", 999),
        ("304 Not Modified", "Content-Type: text/plain\r\n", 0),
    ];
    let backend = HttpBackend::new(|connection| {
        while let Some(request) = connection.request() {
            let (status, fields, length) = cases[request.target[1..].parse::<usize>().expect("a number")];
            connection.send(response(status, &format!("ETag: \"x\"\r\n{fields}"), text(length)));
        }
    });
    let proxying = encoding(&backend);
    let mut client = proxying.client();
    for (number, (status, fields, length)) in cases.iter().enumerate() {
        let accept = "gzip, br, zstd\r\nIf-None-Match: \"x\"";
        let answer = ask(&mut client, &format!("/{number}"), accept);
        assert_eq!(format!("{} {}", answer.status, answer.reason), *status);
        // What a part is of would be encoded if it were whole; of what type something is that has not changed, nobody
        // has to say.
        let varies = matches!(answer.status, 206 | 304).then_some("Accept-Encoding");
        assert_eq!(
            (answer.header("etag"), answer.header("vary")),
            (Some("\"x\""), varies),
            "{status} {fields}"
        );
        assert_eq!(answer.header("content-length"), Some(&*length.to_string()), "{status} {fields}");
        assert!(answer.body == text(*length), "{status} {fields}");
    }
}

/// Sends chunks as the test tells it to.
fn told() -> (HttpBackend, Sender<&'static str>) {
    let (tell, told) = channel::<&'static str>();
    let told = Mutex::new(told);
    let backend = HttpBackend::new(move |connection| {
        if connection.request().is_none() {
            return;
        }
        connection
            .send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
        for chunk in told.lock().expect("one at a time").iter() {
            connection.send(format!("{:x}\r\n{chunk}\r\n", chunk.len()));
        }
        connection.send("0\r\n\r\n");
    });
    (backend, tell)
}

/// The data of chunks as it comes.
struct Chunks<'a> {
    client: &'a mut Client,
    left: usize,
    ended: bool,
}

impl Chunks<'_> {
    fn byte(&mut self) -> std::io::Result<u8> {
        let mut byte = [0];
        match self.client.read(&mut byte)? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(byte[0]),
        }
    }

    fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        while !line.ends_with("\r\n") {
            line.push(char::from(self.byte()?));
        }
        Ok(line.trim_end().to_owned())
    }
}

impl Read for Chunks<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.ended {
            return Ok(0);
        }
        if self.left == 0 {
            let line = self.line()?;
            self.left = usize::from_str_radix(&line, 16).map_err(std::io::Error::other)?;
        }
        if self.left == 0 {
            self.ended = true;
            self.line()?;
            return Ok(0);
        }
        let room = buffer.len().min(self.left);
        let count = self.client.read(&mut buffer[..room])?;
        self.left -= count;
        if self.left == 0 {
            self.line()?;
        }
        Ok(count)
    }
}

#[test]
fn what_a_server_sends_before_a_pause_arrives() {
    let buffered = format!("buffer_responses = \"1m\"\nbuffer_dir = \"{}\"", std::env::temp_dir().display());
    for proxy in ["", &buffered] {
        for coding in CODINGS {
            let (backend, tell) = told();
            let proxying = encoding_with(&backend, proxy, "");
            let mut client = proxying.client();
            client.send(request("GET", "/", &format!("Accept-Encoding: {coding}\r\n")));
            tell.send("data: the first\n\n").expect("the server waits");
            let mut chunks = Chunks { client: &mut client, left: 0, ended: false };
            let mut head = chunks.line().expect("a status");
            while !head.ends_with('\n') {
                let line = chunks.line().expect("a head");
                head.push_str(if line.is_empty() { "\n" } else { &line });
            }
            assert!(head.contains(&format!("Content-Encoding: {coding}")), "{head}");
            let mut body = decoder(coding, chunks);
            for event in ["data: the first\n\n", "data: another\n\n", "data: the last\n\n"] {
                if event != "data: the first\n\n" {
                    tell.send(event).expect("the server waits");
                }
                let mut seen = vec![0; event.len()];
                body.read_exact(&mut seen).expect("the event, while the server pauses");
                assert_eq!(String::from_utf8_lossy(&seen), event, "{coding} {proxy}");
            }
            drop(tell);
            assert_eq!(body.read_to_end(&mut Vec::new()).expect("the end"), 0);
        }
    }
}

#[test]
fn a_response_that_is_cut_does_not_look_whole() {
    let backend = HttpBackend::new(|connection| {
        if connection.request().is_some() {
            connection.send(format!("HTTP/1.1 200 OK\r\n{TYPE}Content-Length: 100001\r\n\r\n"));
            connection.send(text(100_000));
        }
    });
    for proxy in [
        "".to_owned(),
        format!("buffer_responses = \"1m\"\nbuffer_dir = \"{}\"", std::env::temp_dir().display()),
    ] {
        let proxying = encoding_with(&backend, &proxy, "");
        for coding in CODINGS {
            let mut client = proxying.client();
            client.send(request("GET", "/", &format!("Accept-Encoding: {coding}\r\n")));
            let (bytes, _) = client.rest();
            assert!(bytes.starts_with(b"HTTP/1.1 200 ") && !bytes.ends_with(b"0\r\n\r\n"), "{coding}");
        }
        proxying.logged(&["200", "body_cut"]);
    }
}

#[test]
fn the_log_tells_what_was_sent() {
    let backend = in_any_framing(50_000);
    let proxying = encoding(&backend);
    let mut client = proxying.client();
    client.send(request("GET", "/length", "Accept-Encoding: gzip\r\nConnection: close\r\n"));
    let (bytes, end) = client.rest();
    end.expect("a proper end");
    let head = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
    proxying.logged(&["GET /length 200", &format!(" {} ", bytes.len() - head)]);
}

#[test]
fn without_an_encoder_it_goes_as_it_is() {
    let (backend, tell) = told();
    let proxying = encoding_with(&backend, "", ", max_memory = \"500000b\"");
    let mut first = proxying.client();
    first.send(request("GET", "/", "Accept-Encoding: gzip\r\n"));
    tell.send("data: the first\n\n").expect("the server waits");
    let mut some = [0; 4];
    assert_eq!(first.read(&mut some).expect("its head"), 4);
    // The backend answers the second one once the first is done, but its head comes at once.
    let mut second = proxying.client();
    second.send(request("GET", "/", "Accept-Encoding: gzip\r\n"));
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        assert_eq!(second.read(&mut byte).expect("a head"), 1);
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("text");
    assert!(!head.contains("Content-Encoding") && head.contains("Vary: Accept-Encoding"), "{head}");
    drop(tell);
}
