//! Bodies of requests: passed on as they come, whole or not at all.

use std::io::Write;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use drover_tests::http::request;
use drover_tests::http_backend::{pattern, response};
use drover_tests::{Client, Config, Directory, Drover, HttpBackend, Port, Proxying, eventually, process};

fn with_length(body: &[u8]) -> Vec<u8> {
    [request("POST", "/", &format!("Content-Length: {}\r\n", body.len())).as_bytes(), body].concat()
}

fn large(backend: &HttpBackend) -> Proxying {
    let change = |config: drover_tests::Config| {
        config.http("client_body_size = \"100m\"").http("lingering_time = \"1s\"")
    };
    Proxying::with(change, &[backend.address()], "", "")
}

#[test]
fn bodies_arrive_unharmed_whatever_their_framing() {
    let backend = HttpBackend::echoing();
    let proxying = large(&backend);
    let mut client = proxying.client();
    for length in [0, 1, 10_000, 100_000, 3_000_000] {
        let body = pattern(length);
        client.send(with_length(&body));
        assert_eq!(client.response().status, 200);
        let mut chunked = request("POST", "/c", "Transfer-Encoding: chunked\r\n").into_bytes();
        for chunk in body.chunks(5_003) {
            chunked.extend_from_slice(format!("{:X};x=y\r\n", chunk.len()).as_bytes());
            chunked.extend_from_slice(chunk);
            chunked.extend_from_slice(b"\r\n");
        }
        chunked.extend_from_slice(b"0\r\nX-Sum: 5\r\nHost: evil\r\n\r\n");
        client.send(chunked);
        assert_eq!(client.response().status, 200);
        let got = backend.requests();
        let [.., plain, chunks] = &got[..] else { panic!("two requests") };
        assert!(plain.body == body && chunks.body == body, "{length}");
        assert_eq!(chunks.trailers, [("X-Sum".to_owned(), "5".to_owned())]);
        assert_eq!((plain.header("transfer-encoding"), chunks.header("content-length")), (None, None));
    }
    assert_eq!(backend.connections(), 1);
}

#[test]
fn a_body_goes_on_as_it_comes() {
    let (told, tell) = channel();
    let told = std::sync::Mutex::new(told);
    let backend = HttpBackend::new(move |connection| {
        let _ = connection.head();
        for _ in 0..3 {
            let piece = connection.receive().expect("a piece of the body");
            told.lock().expect("one at a time").send(piece).expect("the test listens");
        }
        connection.send(response("200 OK", "", "done"));
    });
    let proxying = Proxying::to(&backend);
    let mut client = proxying.client();
    client.send(request("PUT", "/", "Content-Length: 9\r\n"));
    for piece in ["one", "two", "six"] {
        client.send(piece);
        let got = tell.recv_timeout(Duration::from_secs(10)).expect("it goes on at once");
        assert_eq!(got, piece.as_bytes());
    }
    assert_eq!(client.response().text(), "done");
}

#[test]
fn a_slow_server_holds_up_the_client_within_bounds() {
    let (go, wait) = channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let backend = HttpBackend::new(move |connection| {
        let mut request = connection.head().expect("a head");
        let _ = wait.lock().expect("one at a time").recv_timeout(Duration::from_secs(20));
        let _ = connection.body(&mut request);
        connection.send(response("200 OK", "", request.body.len().to_string()));
    });
    let proxying = large(&backend);
    let memory = || process::anonymous_memory(proxying.drover.worker()).expect("the worker lives");
    let mut client = proxying.client();
    client.send(request("PUT", "/", "Content-Length: 50000000\r\n"));
    let before = memory();
    let mut writing = client.stream().try_clone().expect("a second handle");
    let writer = thread::spawn(move || writing.write_all(&vec![b'x'; 50_000_000]));
    thread::sleep(Duration::from_millis(300));
    assert!(!writer.is_finished(), "nobody takes 50 MB");
    let after = memory();
    assert!(after.saturating_sub(before) < 2_000, "{before} KiB before, {after} after");
    go.send(()).expect("the backend waits");
    assert_eq!(client.response().text(), "50000000");
    writer.join().expect("the writer").expect("all of it is taken");
}

#[test]
fn a_body_that_is_not_whole_is_not_passed_on_as_whole() {
    let backend = HttpBackend::new(|connection| {
        let mut request = connection.head().expect("a head");
        assert!(connection.body(&mut request).is_none(), "it never is whole");
    });
    let proxying =
        Proxying::with(|config| config.http("client_body_timeout = \"400ms\""), &[backend.address()], "", "");
    // Half of it, and then the end.
    let mut client = proxying.client();
    client.send(request("PUT", "/cut", "Content-Length: 10\r\n") + "half");
    eventually("the request is on its way", || (backend.connections() == 1).then_some(()));
    client.half_close();
    proxying.logged(&["PUT /cut 499", "client_cut"]);
    // Half of it, and then nothing.
    let answer = proxying.ask(request("PUT", "/slow", "Content-Length: 10\r\n") + "half");
    assert_eq!(answer.status, 408);
    // Half of it, and then nonsense.
    let mut client = proxying.client();
    client.send(request("PUT", "/bad", "Transfer-Encoding: chunked\r\n") + "4\r\nhalf\r\n");
    eventually("the request is on its way", || (backend.connections() == 3).then_some(()));
    client.send("nonsense");
    assert_eq!(client.response().status, 400);
    assert_eq!(proxying.drover.log_lines(&["WARN"]), Vec::<String>::new());
}

#[test]
fn too_much_is_refused_before_or_while_it_comes() {
    let backend = HttpBackend::new(|connection| {
        if let Some(mut request) = connection.head() {
            let _ = connection.body(&mut request);
        }
    });
    let proxying =
        Proxying::with(|config| config.http("client_body_size = \"1k\""), &[backend.address()], "", "");
    assert_eq!(proxying.ask(with_length(&[b'x'; 2000])).status, 413);
    assert_eq!(backend.connections(), 0);
    let mut client = proxying.client();
    client.send(
        request("POST", "/", "Transfer-Encoding: chunked\r\n") + "3E8\r\n" + &"x".repeat(1000) + "\r\n",
    );
    eventually("the request is on its way", || (backend.connections() == 1).then_some(()));
    client.send("3E8\r\n");
    assert_eq!(client.response().status, 413);
}

#[test]
fn an_answer_may_come_before_the_body() {
    // Says no, and reads nothing more.
    let refusing = HttpBackend::new(|connection| {
        if connection.head().is_some() {
            connection.send(response("403 Forbidden", "", "no"));
        }
    });
    let proxying = large(&refusing);
    let mut client = proxying.client();
    client.send(request("PUT", "/", "Content-Length: 50000000\r\n"));
    let answer = client.response();
    assert_eq!((answer.status, answer.text().as_str()), (403, "no"));
    assert!(answer.closes(), "what the client still sends is not the next request");
    // A client that is in the midst of sending gets the answer too.
    let mut client = proxying.client();
    client.send(request("PUT", "/", "Content-Length: 50000000\r\n"));
    let mut writing = client.stream().try_clone().expect("a second handle");
    let writer = thread::spawn(move || while writing.write_all(&[b'x'; 65_536]).is_ok() {});
    assert_eq!(client.response().status, 403);
    drop(client);
    writer.join().expect("the writer");
    assert_eq!(proxying.counter("upstream_retries"), 0);
}

#[test]
fn both_bodies_may_pass_at_once() {
    // Sends back what it receives, from the first byte on.
    let backend = HttpBackend::new(|connection| {
        let _ = connection.head();
        connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        let mut left = 2_000_000;
        while left > 0 {
            let Some(piece) = connection.receive() else { return };
            left -= piece.len();
            connection.send(format!("{:x}\r\n", piece.len()));
            connection.send(piece);
            connection.send("\r\n");
        }
        connection.send("0\r\n\r\n");
    });
    let proxying = large(&backend);
    let mut client = proxying.client();
    client.send(request("POST", "/", "Content-Length: 2000000\r\n"));
    let mut writing = client.stream().try_clone().expect("a second handle");
    let body = pattern(2_000_000);
    let sent = body.clone();
    let writer = thread::spawn(move || writing.write_all(&sent).expect("the body is taken"));
    let answer = client.response();
    writer.join().expect("the writer");
    assert!(answer.body == body, "{} bytes come back", answer.body.len());
}

#[test]
fn a_client_that_waits_is_told_to_go_on_by_the_server() {
    let backend = HttpBackend::new(|connection| {
        while let Some(mut request) = connection.head() {
            assert_eq!(request.header("expect"), Some("100-continue"));
            if request.target == "/no" {
                connection.send(response("417 No", "", ""));
                return;
            }
            connection.send("HTTP/1.1 100 Continue\r\n\r\n");
            let _ = connection.body(&mut request);
            connection.send(response("200 OK", "", &request.body));
        }
    });
    let proxying = Proxying::to(&backend);
    let mut client = proxying.client();
    for _ in 0..2 {
        client.send(request("PUT", "/", "Expect: 100-continue\r\nContent-Length: 4\r\n"));
        assert_eq!(client.response().status, 100);
        client.send("body");
        assert_eq!(client.response().text(), "body");
    }
    client.send(request("PUT", "/no", "Expect: 100-continue\r\nContent-Length: 4\r\n"));
    let answer = client.response();
    assert_eq!(answer.status, 417);
    assert!(answer.closes());
}

#[test]
fn the_log_tells_how_much_a_server_was_sent() {
    let (directory, port, backend) = (Directory::new(), Port::new(), HttpBackend::echoing());
    let config = Config::new(&directory, 1)
        .http("client_body_size = \"100m\"")
        .log_format("by_worker = \"$request_uri $upstream_bytes_sent\"")
        .server(&port)
        .passing("/", backend.address(), "")
        .passing("/first/", backend.address(), "buffer_requests = \"16m\"");
    let _drover = Drover::start(&directory, &config);
    for target in ["/length", "/first/length"] {
        let mut client = Client::to(port.address());
        client.send(request("PUT", target, "Content-Length: 3000000\r\n"));
        client.send(pattern(3_000_000));
        assert_eq!(client.response().status, 200);
        let sent: u64 = eventually("it is logged", || {
            let log = directory.read("access.log");
            let line =
                log.lines().find_map(|line| line.strip_prefix(&format!("{target} ")).map(str::to_owned));
            line?.parse().ok()
        });
        assert!((3_000_050..3_000_500).contains(&sent), "{target}: {sent}");
    }
}

#[test]
fn pipelined_requests_wait_their_turn() {
    let backend = HttpBackend::echoing();
    let proxying = Proxying::to(&backend);
    let mut client = proxying.client();
    let mut bytes = Vec::new();
    for number in 0..20 {
        let body = format!("body {number}");
        bytes.extend(
            request("POST", &format!("/{number}"), &format!("Content-Length: {}\r\n", body.len())).bytes(),
        );
        bytes.extend(body.bytes());
    }
    let cut = bytes.len() / 2;
    client.send(&bytes[..cut]);
    client.send(&bytes[cut..]);
    for number in 0..20 {
        assert_eq!(client.response().text(), format!("POST /{number}\nbody {number}"));
    }
    assert_eq!(backend.connections(), 1);
}
