//! Large bodies that nobody looks at pass within the kernel.

use std::io::Write;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use drover_tests::http::request;
use drover_tests::http_backend::{pattern, response};
use drover_tests::{HttpBackend, Proxying, Strace, eventually};

const LARGE: usize = 20_000_000;

/// Bytes that calls of these names moved in all.
fn moved(strace: &Strace, names: &[&str]) -> i64 {
    let calls = strace.calls();
    let ours = calls.iter().filter(|call| names.contains(&call.name.as_str()));
    ours.filter_map(|call| call.value()).filter(|count| *count > 0).sum()
}

/// The flow has changed to `splice`: millions of bytes went that way. How many depends on when each side was run.
#[track_caller]
fn passes_within_the_kernel(strace: &Strace) {
    eventually("the body is spliced", || (moved(strace, &["splice"]) > 2_000_000).then_some(()));
}

#[test]
fn a_response() {
    let backend = HttpBackend::new(|connection| {
        while connection.request().is_some() {
            connection.send(response("200 OK", "", pattern(LARGE)));
        }
    });
    let proxying = Proxying::to(&backend);
    let Some(strace) = Strace::attach(&proxying.directory, proxying.drover.worker(), "splice,recvfrom")
    else {
        return;
    };
    let mut client = proxying.client();
    client.ask("/");
    // The client reads nothing before all buffers on the way to it are full.
    let mut seen = (0, Instant::now());
    eventually("nothing moves any more", || {
        let now = moved(&strace, &["splice", "recvfrom"]);
        if now != seen.0 {
            seen = (now, Instant::now());
        }
        (now > 1_000_000 && seen.1.elapsed() > Duration::from_millis(200)).then_some(())
    });
    assert!(client.response().body == pattern(LARGE));
    passes_within_the_kernel(&strace);
}

#[test]
fn a_request() {
    let (go, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let backend = HttpBackend::new(move |connection| {
        let mut request = connection.head().expect("a head");
        let _ = wait.lock().expect("one at a time").recv_timeout(Duration::from_secs(20));
        let _ = connection.body(&mut request);
        connection.send(response(
            "200 OK",
            "",
            if request.body == pattern(LARGE) { "same" } else { "other" },
        ));
    });
    let size = |config: drover_tests::Config| config.http("client_body_size = \"100m\"");
    let proxying = Proxying::with(size, &[backend.address()], "", "");
    let Some(strace) = Strace::attach(&proxying.directory, proxying.drover.worker(), "splice,recvfrom")
    else {
        return;
    };
    let mut client = proxying.client();
    client.send(request("PUT", "/", &format!("Content-Length: {LARGE}\r\n")));
    // The server reads nothing before all buffers on the way to it are full.
    let body = pattern(LARGE);
    let mut sent = 0;
    client.stream().set_nonblocking(true).expect("a mode");
    while let Ok(count) = client.stream().write(&body[sent..]) {
        sent += count;
    }
    client.stream().set_nonblocking(false).expect("a mode");
    go.send(()).expect("the server waits");
    client.send(&body[sent..]);
    assert_eq!(client.response().text(), "same");
    passes_within_the_kernel(&strace);
}
