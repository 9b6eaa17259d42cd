//! Servers are checked beside the requests, by one worker for all; one that fails is used by none.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use drover_tests::wait::SOON;
use drover_tests::{Backend, Config, Directory, Drover, Port, eventually};

/// An HTTP server that is well or not, and names itself to whoever asks for anything but its health.
fn web(name: &'static str, well: &Arc<AtomicBool>) -> Backend {
    let well = Arc::clone(well);
    Backend::new(move |mut stream| {
        let mut head = [0; 1024];
        let count = stream.read(&mut head).unwrap_or_default();
        if head[..count].starts_with(b"GET /health ") {
            let status = if well.load(Ordering::Relaxed) { "200 OK" } else { "503 Unwell" };
            let _ = write!(stream, "HTTP/1.1 {status}\r\n\r\n");
        } else {
            let _ = stream.write_all(name.as_bytes());
        }
    })
}

fn answer(port: &Port) -> String {
    let mut stream = TcpStream::connect(port.address()).expect("connects");
    stream.set_read_timeout(Some(SOON)).expect("a time-out");
    stream.write_all(b"hello\n").expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("the stream ends");
    text
}

#[test]
fn one_worker_checks_for_all_and_all_know() {
    let (directory, port) = (Directory::new(), Port::new());
    let (well, always) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(true)));
    let (first, second) = (web("first", &well), web("second", &always));
    let upstream = format!(
        "servers = [\"{}\", \"{}\"]\nhealth_check = {{ interval = \"200ms\", path = \"/health\", fall = 2 }}",
        first.address(),
        second.address()
    );
    let keys = format!("listen = [\"{}\"]\nproxy_pass = \"group\"", port.address());
    let config = Config::new(&directory, 4).proxy(&keys).stream_upstream("group", &upstream);
    let begun = Instant::now();
    let drover = Drover::start(&directory, &config);
    eventually("ten checks", || (second.accepted() >= 10).then_some(()));
    let most = begun.elapsed().as_millis() / 200 + 2;
    assert!(second.accepted() as u128 <= most, "{} checks, at most {most} are due", second.accepted());

    well.store(false, Ordering::Relaxed);
    drover.log_line(&["upstream \"group\"", &first.address().to_string(), "is down: status 503"]);
    for _ in 0..20 {
        assert_eq!(answer(&port), "second");
    }
    // The next generation knows too.
    drover.reload();
    for _ in 0..20 {
        assert_eq!(answer(&port), "second");
    }
    well.store(true, Ordering::Relaxed);
    drover.log_line(&["upstream \"group\"", &first.address().to_string(), "is up"]);
    eventually("both are used", || (answer(&port) == "first").then_some(()));
}
