//! Slow clients: they take little memory, no more time than they may, and disturb nobody.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use drover_tests::{Client, Config, Directory, Drover, Port, descriptors, eventually, packages, process};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::RcvBuf;

const HEADS: usize = 6000;
const BODIES: usize = 3800;
const READERS: usize = 200;
const ALL: usize = HEADS + BODIES + READERS;
/// So many descriptors are allowed for one of these tests at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// What a client that sent half a head may take, its slot included.
const BYTES_EACH: u64 = 1280;

/// Half a head, as browsers send it.
const HALF_HEAD: &str = "GET /index.html HTTP/1.1\r\nHost: www.example.org\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\nAccept: text/html,application/xhtml+xml\r\nAccept-Lang";

fn start(directory: &Directory, port: &Port, keys: &[&str]) -> Drover {
    directory.write("www/large", "0123456789abcde\n".repeat(512 * 1024));
    let mut config = Config::new(directory, 1)
        .events("worker_connections = 12000")
        .http("access_log = \"off\"")
        .http("client_body_size = \"10m\"");
    for key in keys {
        config = config.http(key);
    }
    let config = config
        .server_with(&format!(
            "listen = [{{ address = \"{}\", backlog = 4096 }}]\nroot = \"www\"",
            port.address()
        ))
        .location("/", "")
        .location("/quick", "return = { status = 200, body = \"quick\\n\" }");
    Drover::start(directory, &config)
}

/// Connects many clients, each of which sends this and no more, not faster than they are accepted.
fn send_each(drover: &Drover, port: &Port, count: usize, bytes: &str) -> Vec<Client> {
    let before = drover.status().workers[0].connections;
    let mut clients = Vec::with_capacity(count);
    while clients.len() < count {
        for _ in 0..(count - clients.len()).min(1000) {
            let mut client = Client::to(port.address());
            setsockopt(&client.stream().as_fd(), RcvBuf, &4096).expect("a size");
            client.send(bytes);
            clients.push(client);
        }
        let there = before + clients.len() as u64;
        eventually("all are accepted", || (drover.status().workers[0].connections >= there).then_some(()));
    }
    clients
}

fn memory(drover: &Drover) -> u64 {
    process::private_dirty(drover.worker()).expect("the worker's memory can be read")
}

#[test]
fn half_a_head_takes_little_more_than_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if !descriptors::allow(ALL as u64 + 500) {
        return packages::skip("10,500 descriptors are not allowed");
    }
    let (directory, port) = (Directory::new(), Port::new());
    let drover = start(&directory, &port, &[]);
    drop(send_each(&drover, &port, 300, HALF_HEAD));
    eventually("the worker is idle", || (drover.status().workers[0].connections == 0).then_some(()));
    let before = memory(&drover);
    let mut clients = send_each(&drover, &port, ALL, HALF_HEAD);
    // The first request after the others were received is answered after they were read.
    assert_eq!(drover_tests::http::get(port.address(), "/quick").text(), "quick\n");
    let each = memory(&drover).saturating_sub(before) / ALL as u64;
    eprintln!("{each} bytes for each half-sent head of {} bytes", HALF_HEAD.len());
    assert!(each <= BYTES_EACH && each > HALF_HEAD.len() as u64, "{each} bytes each");
    // They are still worth an answer.
    for client in clients.iter_mut().step_by(97) {
        client.send("uage: en\r\n\r\n");
        assert_eq!(client.response().status, 404);
    }
    drop(clients);
    eventually("the worker's memory goes back", || (memory(&drover) <= before + 256 * 1024).then_some(()));
}

#[test]
fn ten_thousand_slow_ones_do_not_disturb_a_fast_one() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if !descriptors::allow(ALL as u64 + 500) {
        return packages::skip("10,500 descriptors are not allowed");
    }
    let (directory, port) = (Directory::new(), Port::new());
    let keys = ["client_header_timeout = \"20s\"", "client_body_timeout = \"8s\"", "send_timeout = \"8s\""];
    let drover = start(&directory, &port, &keys);
    let alone = slowest_of_a_thousand(&port);

    let mut clients = send_each(&drover, &port, HEADS, HALF_HEAD);
    let post = "POST /quick HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n";
    clients.extend(send_each(&drover, &port, BODIES, post));
    clients.extend(send_each(&drover, &port, READERS, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n"));
    let stop = Arc::new(AtomicBool::new(false));
    let dripping = thread::spawn({
        let stop = Arc::clone(&stop);
        move || {
            while !stop.load(Ordering::Relaxed) {
                drip(&mut clients);
            }
            clients
        }
    });
    let beside = slowest_of_a_thousand(&port);
    eprintln!("the slowest of a thousand: alone {alone:?}, beside {ALL} slow ones {beside:?}");
    assert!(beside < Duration::from_millis(250), "{beside:?}, and alone {alone:?}");

    // However they drip, all are gone in a while: heads after their time, bodies and readers for their rate.
    let begun = Instant::now();
    eventually_gone(&drover);
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    stop.store(true, Ordering::Relaxed);
    drop(dripping.join().expect("the thread goes well"));
    assert!(drover.log_lines(&["panic"]).is_empty());
}

fn eventually_gone(drover: &Drover) {
    drover_tests::eventually_within(Duration::from_secs(60), "the slow ones are gone", || {
        (drover.status().workers[0].connections == 0).then_some(())
    });
}

/// A byte to and from each.
fn drip(clients: &mut [Client]) {
    for (number, client) in clients.iter_mut().enumerate() {
        let mut stream = client.stream();
        // Whoever is closed is not missed.
        if number < HEADS + BODIES {
            let _ = stream.write(b"x");
        } else {
            let _ = stream.read(&mut [0]);
        }
        if number % 500 == 0 {
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn slowest_of_a_thousand(port: &Port) -> Duration {
    let mut client = Client::to(port.address());
    let asked = (0..1000).map(|_| {
        let begun = Instant::now();
        assert_eq!(client.get("/quick").text(), "quick\n");
        begun.elapsed()
    });
    let mut times: Vec<Duration> = asked.collect();
    times.sort_unstable();
    // Without the last few, which are the machine's.
    times[990]
}
