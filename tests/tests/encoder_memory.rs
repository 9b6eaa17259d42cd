//! Memory that encoding takes: never more than the config allows, and none after the load has gone.

use std::os::fd::AsFd;
use std::sync::LazyLock;

use drover_tests::http::request;
use drover_tests::{Client, Config, Directory, Drover, HttpBackend, Port, Random, eventually, process};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::RcvBuf;

/// More than `max_memory` has encoders for.
const CLIENTS: usize = 30;
const MAX_MEMORY: u64 = 8 << 20;
/// What else takes memory: connections, what came out of encoders and waits, and buffers that are kept.
const BESIDE: u64 = 4 << 20;

/// Text that an encoding leaves so large that no socket takes it whole.
static TEXT: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut random = Random::new(7);
    (0..3 << 18).flat_map(|_| format!("{:016x}", random.number()).into_bytes()).collect()
});

fn memory(drover: &Drover) -> u64 {
    process::private_dirty(drover.worker()).expect("the worker's memory can be read")
}

/// A client that reads the head of a response and no more. Whether there is an encoding.
fn begin(port: &Port, target: &str, coding: &str) -> (Client, bool) {
    let mut client = Client::to(port.address());
    setsockopt(&client.stream().as_fd(), RcvBuf, &4096).expect("a size");
    client.send(request("GET", target, &format!("Accept-Encoding: {coding}\r\n")));
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        assert_eq!(client.read(&mut byte).expect("a head"), 1);
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("text");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    (client, head.contains(&format!("Content-Encoding: {coding}\r\n")))
}

fn check(target: &str, coding: &str, level: &str) {
    let (directory, port) = (Directory::new(), Port::new());
    directory.write("www/large.txt", &*TEXT);
    // Its length is not known.
    let backend = HttpBackend::new(|connection| {
        if connection.request().is_some() {
            connection.send("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n");
            connection.send(&*TEXT);
        }
    });
    let config = Config::new(&directory, 1)
        .http(&format!("compression = {{ encodings = [\"{coding}\"], max_memory = \"8m\", {level} }}"))
        .upstream("app", &[backend.address()], "")
        .server_with(&format!("listen = [\"{}\"]\nroot = \"www\"", port.address()))
        .location("/", "")
        .passing("/app", "app", "");
    let drover = Drover::start(&directory, &config);
    drop(begin(&port, target, "identity"));
    let gone =
        || eventually("the worker is idle", || (drover.status().workers[0].connections == 0).then_some(()));
    gone();
    let before = memory(&drover);
    let clients: Vec<(Client, bool)> = (0..CLIENTS).map(|_| begin(&port, target, coding)).collect();
    let encoded = clients.iter().filter(|(_, encoded)| *encoded).count();
    let taken = memory(&drover).saturating_sub(before);
    eprintln!("{target} {coding} {level}: {encoded} encoders, {} KiB", taken / 1024);
    assert!((1..CLIENTS).contains(&encoded), "{coding} {level}: {encoded} are encoded");
    assert!(taken <= MAX_MEMORY + BESIDE, "{coding} {level}: {encoded} encoders take {taken} bytes");
    drop(clients);
    gone();
    eventually("the worker's memory goes back", || (memory(&drover) <= before + BESIDE).then_some(()));
}

#[test]
fn files_take_no_more_memory_than_encoders_may() {
    for (coding, level) in [("gzip", "gzip_level = 4"), ("br", "br_level = 6"), ("zstd", "zstd_level = 3")] {
        check("/large.txt", coding, level);
    }
}

#[test]
fn responses_of_servers_take_no_more_memory_than_encoders_may() {
    for (coding, level) in [("gzip", "gzip_level = 9"), ("br", "br_level = 4"), ("zstd", "zstd_level = 12")] {
        check("/app", coding, level);
    }
}
