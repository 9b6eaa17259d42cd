//! What one worker finds out about the servers of an upstream, all of them know, and so does the next
//! generation: failures, places that are taken, the server for a key.

use std::io::Read;
use std::net::TcpStream;

use drover_tests::stream_log::eventually_lines;
use drover_tests::wait::SOON;
use drover_tests::{Backend, Client, Config, Directory, Drover, HttpBackend, Port, eventually};
use nix::sys::signal::Signal;

const WORKERS: u32 = 4;

/// A proxy with an upstream of these keys. Each connection goes to another worker in turn, nearly.
fn proxy(directory: &Directory, port: &Port, upstream: &str) -> Config {
    Config::new(directory, WORKERS)
        .events("accept = \"balanced\"")
        .proxy(&format!("listen = [\"{}\"]\nproxy_pass = \"group\"", port.address()))
        .stream_upstream("group", upstream)
}

/// A connection with a server: it is there once the server has said its name.
fn connect(port: &Port) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(port.address()).expect("connects");
    stream.set_read_timeout(Some(SOON)).expect("a time-out");
    let mut name = [0; 1];
    stream.read_exact(&mut name).expect("a server's name");
    (stream, String::from_utf8_lossy(&name).into_owned())
}

/// A server that says its name of one letter and holds the connection until the client is gone.
fn holding(name: &'static str) -> Backend {
    use std::io::Write;
    Backend::new(move |mut stream| {
        let _ = stream.write_all(name.as_bytes());
        let _ = stream.read(&mut [0; 16]);
    })
}

fn count(clients: &[(TcpStream, String)], name: &str) -> usize {
    clients.iter().filter(|(_, said)| said == name).count()
}

#[test]
fn a_server_that_failed_once_is_left_alone_by_every_worker_and_the_next_generation() {
    let (directory, port, dead) = (Directory::new(), Port::new(), Port::new());
    let living = holding("b");
    let upstream = format!(
        "servers = [{{ address = \"{}\", fail_timeout = \"1h\" }}, \"{}\"]",
        dead.address(),
        living.address()
    );
    let drover = Drover::start(&directory, &proxy(&directory, &port, &upstream));
    for _ in 0..40 {
        connect(&port);
    }
    drover.log_line(&["upstream \"group\"", &dead.address().to_string(), "is given up"]);
    let tried = |from: usize, to: usize| {
        let lines = eventually_lines(&directory, to);
        lines[from..].iter().filter(|line| line.servers.contains(&dead.address().to_string())).count()
    };
    assert_eq!(tried(0, 40), 1, "one connection found out for all");
    drover.reload();
    for _ in 0..40 {
        connect(&port);
    }
    assert_eq!(tried(40, 80), 0, "the next generation knows");
}

#[test]
fn so_it_is_with_requests() {
    let (directory, port, dead) = (Directory::new(), Port::new(), Port::new());
    let living = HttpBackend::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let config = Config::new(&directory, WORKERS)
        .events("accept = \"balanced\"")
        .upstream("group", &[dead.address(), living.address()], "")
        .server(&port)
        .passing("/", "group", "");
    let text = config.text();
    let long = format!("{{ address = \"{}\", fail_timeout = \"1h\" }}", dead.address());
    let text = text.replace(&format!("\"{}\"", dead.address()), &long);
    let drover = Drover::start_text(&directory, &text);
    for _ in 0..2 {
        let clients: Vec<Client> = (0..20)
            .map(|_| {
                let mut client = Client::to(port.address());
                assert_eq!(client.get("/").status, 200);
                client
            })
            .collect();
        drop(clients);
        drover.reload();
    }
    let address = dead.address().to_string();
    assert_eq!(drover.log_lines(&[&address, "is given up"]).len(), 1);
    assert_eq!(drover.log_lines(&[&address, "Connection refused"]).len(), 1, "one request found out for all");
}

#[test]
fn places_at_a_server_are_counted_over_all_workers_and_given_back_by_those_that_die() {
    let (directory, port) = (Directory::new(), Port::new());
    let (small, large) = (holding("s"), holding("l"));
    let upstream = format!(
        "servers = [{{ address = \"{}\", max_connections = 5 }}, \"{}\"]",
        small.address(),
        large.address()
    );
    let drover = Drover::start(&directory, &proxy(&directory, &port, &upstream));
    let mut clients: Vec<_> = (0..40).map(|_| connect(&port)).collect();
    assert_eq!(count(&clients, "s"), 5);
    // Who has one of the five places dies with it.
    let workers = drover.workers();
    workers.iter().for_each(|worker| nix::sys::signal::kill(*worker, Signal::SIGKILL).expect("a worker"));
    eventually("all are replaced", || {
        let now = drover.workers();
        (now.len() == workers.len() && now.iter().all(|worker| !workers.contains(worker))).then_some(())
    });
    clients.clear();
    clients.extend((0..40).map(|_| connect(&port)));
    assert_eq!(count(&clients, "s"), 5);
}

#[test]
fn the_least_loaded_server_is_the_same_for_all_workers() {
    let (directory, port) = (Directory::new(), Port::new());
    let (one, two) = (holding("1"), holding("2"));
    let upstream = format!(
        "balance = \"least_connections\"\nservers = [{{ address = \"{}\", weight = 3 }}, \"{}\"]",
        one.address(),
        two.address()
    );
    let _drover = Drover::start(&directory, &proxy(&directory, &port, &upstream));
    let clients: Vec<_> = (0..40).map(|_| connect(&port)).collect();
    assert_eq!((count(&clients, "1"), count(&clients, "2")), (30, 10));
}

#[test]
fn a_key_has_the_same_server_in_all_workers_and_generations() {
    let (directory, port) = (Directory::new(), Port::new());
    let servers = ["a", "b", "c", "d", "e"].map(holding);
    let list = |servers: &[&Backend]| {
        let addresses: Vec<String> =
            servers.iter().map(|server| format!("\"{}\"", server.address())).collect();
        format!("balance = \"hash\"\nhash = \"$remote_addr\"\nservers = [{}]", addresses.join(", "))
    };
    let all: Vec<&Backend> = servers.iter().collect();
    let drover = Drover::start(&directory, &proxy(&directory, &port, &list(&all)));
    let (_, chosen) = connect(&port);
    for _ in 0..20 {
        assert_eq!(connect(&port).1, chosen);
    }
    // In another order, and without one of those that were not chosen: nothing changes.
    let mut fewer: Vec<&Backend> = servers.iter().rev().collect();
    let other = if chosen == "a" { "b" } else { "a" };
    fewer.remove(if other == "a" { 4 } else { 3 });
    proxy(&directory, &port, &list(&fewer)).write(&directory);
    drover.reload();
    for _ in 0..20 {
        assert_eq!(connect(&port).1, chosen);
    }
}
