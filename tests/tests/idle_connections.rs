//! Memory: what an idle connection takes, and that it goes back after a load has gone.

use drover_tests::http::request;
use drover_tests::{Client, Config, Directory, Drover, Port, descriptors, eventually, packages, process};

const CONNECTIONS: usize = 10_000;
/// What an idle connection may take, its slot included.
const BYTES_EACH: u64 = 768;

fn start(directory: &Directory, port: &Port) -> Drover {
    directory.write("www/index.html", "<p>small");
    directory.write("www/large.txt", "a line that is worth encoding\n".repeat(200_000));
    let config = Config::new(directory, 1)
        .events("worker_connections = 12000")
        .http("access_log = \"off\"")
        .http("keepalive_timeout = \"10m\"")
        .http("compression = { encodings = [\"gzip\"] }")
        .server_with(&format!(
            "listen = [{{ address = \"{}\", backlog = 4096 }}]\nroot = \"www\"",
            port.address()
        ))
        .location("/", "");
    Drover::start(directory, &config)
}

/// Memory that the worker has for itself, in bytes.
fn memory(drover: &Drover) -> u64 {
    process::private_dirty(drover.worker()).expect("the worker's memory can be read")
}

fn ask_each(clients: &mut [Client]) {
    // Some hundred are under way at a time, as more would not wait in the listener's queue.
    for clients in clients.chunks_mut(200) {
        clients.iter_mut().for_each(|client| client.ask("/"));
        for client in clients {
            assert_eq!(client.response().status, 200);
        }
    }
}

fn connect(port: &Port, count: usize) -> Vec<Client> {
    let mut clients = Vec::with_capacity(count);
    while clients.len() < count {
        let begin = clients.len();
        clients.extend((begin..count.min(begin + 200)).map(|_| Client::to(port.address())));
        ask_each(&mut clients[begin..]);
    }
    clients
}

#[test]
fn ten_thousand_idle_connections_take_little_and_give_it_back() {
    if !descriptors::allow(CONNECTIONS as u64 + 500) {
        return packages::skip("10,500 descriptors are not allowed");
    }
    let (directory, port) = (Directory::new(), Port::new());
    let drover = start(&directory, &port);
    // What every load needs once: buffers, the file, code that was not used before.
    drop(connect(&port, 300));
    eventually("the worker is idle", || (drover.status().workers[0].connections == 0).then_some(()));
    let before = memory(&drover);
    for _ in 0..2 {
        let mut clients = connect(&port, CONNECTIONS);
        let each = memory(&drover).saturating_sub(before) / CONNECTIONS as u64;
        assert!(each <= BYTES_EACH, "{each} bytes each");
        // Some are real: less would mean that nothing was measured.
        assert!(each >= 200, "{each} bytes each");
        ask_each(&mut clients);
        let each = memory(&drover).saturating_sub(before) / CONNECTIONS as u64;
        assert!(each <= BYTES_EACH, "{each} bytes each after another request");
        drop(clients);
        eventually("the worker's memory goes back", || {
            (memory(&drover) <= before + 128 * 1024).then_some(())
        });
    }
}

#[test]
fn memory_goes_back_after_a_load_of_every_kind() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = start(&directory, &port);
    let kinds = [
        request("GET", "/large.txt", "Accept-Encoding: gzip\r\n"),
        request("GET", "/large.txt", ""),
        request("GET", "/large.txt", "Range: bytes=0-9,100000-4000000\r\n"),
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nbegun".to_owned(),
        "GET / HTTP/1.1\r\nHost: a\r\nX: ".to_owned() + &"y".repeat(4000),
    ];
    let load = |count: usize| -> Vec<Client> {
        let mut clients: Vec<Client> = (0..count).map(|_| Client::to(port.address())).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            client.send(&kinds[number % kinds.len()]);
        }
        clients
    };
    let gone =
        || eventually("the worker is idle", || (drover.status().workers[0].connections == 0).then_some(()));
    drop(load(20));
    gone();
    let before = memory(&drover);
    for _ in 0..3 {
        let clients = load(400);
        // All are under way: nobody reads, and nobody ends what was begun.
        eventually("all are under way", || (drover.status().workers[0].connections == 400).then_some(()));
        eventually("the load takes memory", || (memory(&drover) > before + 1024 * 1024).then_some(()));
        drop(clients);
        gone();
        // The worker keeps some buffers and encoders for the next load, whatever the size of the last.
        eventually("the worker's memory goes back", || {
            (memory(&drover) <= before + 4 * 1024 * 1024).then_some(())
        });
    }
}
