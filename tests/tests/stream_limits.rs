//! Who may connect, and how often: limits of connections and sessions for each client, counted over all workers.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};

use drover_tests::datagrams::{UdpBackend, ask, socket};
use drover_tests::stream_log::{eventually_lines, lines};
use drover_tests::{Backend, Client, Config, Directory, Drover, Port, eventually};

/// A proxy for connections with these keys, and workers that share the sockets evenly.
fn proxy(directory: &Directory, port: &Port, target: SocketAddr, limits: &str, keys: &str) -> Config {
    let listen = format!("listen = [\"{}\"]\nproxy_pass = \"{target}\"\n{keys}", port.address());
    Config::new(directory, 2).events("accept = \"balanced\"").stream(limits).proxy(&listen)
}

/// Whether a new connection is passed on: the echo answers.
fn is_passed(mut client: &TcpStream) -> bool {
    let asked = client.write_all(b"x").and_then(|()| client.read_exact(&mut [0; 1]));
    asked.is_ok()
}

fn connect(port: &Port) -> TcpStream {
    TcpStream::connect(port.address()).expect("connects")
}

const PER_CLIENT: &str = "connection_limits = { per_client = { key = \"$remote_addr\" } }";

#[test]
fn so_many_connections_at_once() {
    let (directory, port, backend) = (Directory::new(), Port::new(), Backend::echo());
    let keys = "limit_connections = [{ limit = \"per_client\", most = 3 }]";
    let drover = Drover::start(&directory, &proxy(&directory, &port, backend.address(), PER_CLIENT, keys));
    let mut open: Vec<TcpStream> = (0..3).map(|_| connect(&port)).collect();
    assert!(open.iter().all(is_passed));
    assert!(!is_passed(&connect(&port)), "the fourth is one too many");
    let other = Client::connect_from(Ipv4Addr::new(127, 0, 0, 9), port.address()).expect("connects");
    assert!(is_passed(other.stream()), "another client has places of its own");
    let line = eventually_lines(&directory, 1).remove(0);
    assert_eq!((line.reason.as_str(), line.servers.as_slice()), ("refused", ["-".to_owned()].as_slice()));
    open.pop();
    eventually("the place is free again", || is_passed(&connect(&port)).then_some(()));
    drop((open, other));
    drover.reload();
    assert!(is_passed(&connect(&port)), "a reload refuses nobody who may connect");
}

#[test]
fn who_is_denied_is_passed_to_nobody() {
    let (directory, port, backend) = (Directory::new(), Port::new(), Backend::echo());
    let keys = "access = [\"deny 127.0.0.9\", \"allow 127.0.0.0/29\", \"deny all\"]";
    let _drover = Drover::start(&directory, &proxy(&directory, &port, backend.address(), "", keys));
    assert!(is_passed(&connect(&port)));
    for denied in [9, 10] {
        let client =
            Client::connect_from(Ipv4Addr::new(127, 0, 0, denied), port.address()).expect("connects");
        assert!(!is_passed(client.stream()), "127.0.0.{denied}");
    }
    let lines = eventually_lines(&directory, 3);
    let refused = lines.iter().filter(|line| line.reason == "refused" && line.servers == ["-"]).count();
    assert_eq!(refused, 2, "{lines:?}");
}

#[test]
fn rules_are_about_the_client_that_a_proxy_connects_for() {
    let (directory, port, backend) = (Directory::new(), Port::new(), Backend::echo());
    let listen = format!("listen = [{{ address = \"{}\", proxy_protocol = true }}]", port.address());
    let keys = format!("{listen}\nproxy_pass = \"{}\"\naccess = [\"deny 192.0.2.0/24\"]", backend.address());
    let _drover = Drover::start(&directory, &Config::new(&directory, 1).proxy(&keys));
    for (client, passes) in [("192.0.2.7", false), ("198.51.100.7", true)] {
        let mut stream = connect(&port);
        let header = format!("PROXY TCP4 {client} 203.0.113.1 1000 2000\r\n");
        stream.write_all(header.as_bytes()).expect("sent");
        assert_eq!(is_passed(&stream), passes, "{client}");
    }
}

#[test]
fn datagrams_of_who_is_denied_are_dropped() {
    let (directory, port, backend) = (Directory::new(), Port::new(), UdpBackend::echo());
    let listen = format!("listen = [{{ address = \"{}\", udp = true }}]", port.address());
    let keys = format!(
        "{listen}\nproxy_pass = \"{}\"\naccess = [\"allow 127.0.0.1\", \"deny all\"]",
        backend.address()
    );
    let _drover = Drover::start(&directory, &Config::new(&directory, 1).proxy(&keys));
    let denied = UdpSocket::bind("127.0.0.9:0").expect("a port");
    denied.send_to(b"not me", port.address()).expect("sent");
    let line = eventually_lines(&directory, 1).remove(0);
    assert_eq!((line.reason.as_str(), line.servers.as_slice()), ("refused", ["-".to_owned()].as_slice()));
    let (answer, _) = ask(&socket(), port.address().into(), b"me");
    assert_eq!(answer, b"me");
    denied.set_nonblocking(true).expect("set");
    assert!(denied.recv(&mut [0; 100]).is_err(), "whoever is denied is not answered");
}

#[test]
fn the_places_of_a_worker_that_died_are_free_again() {
    let (directory, port, backend) = (Directory::new(), Port::new(), Backend::echo());
    let keys = "limit_connections = [{ limit = \"per_client\", most = 1 }]";
    let config = proxy(&directory, &port, backend.address(), PER_CLIENT, keys).process("workers = 1");
    let drover = Drover::start(&directory, &config);
    let first = connect(&port);
    assert!(is_passed(&first) && !is_passed(&connect(&port)));
    let worker = drover.worker();
    drover_tests::process::send(worker, nix::sys::signal::Signal::SIGKILL);
    eventually("another worker lets a connection in", || is_passed(&connect(&port)).then_some(()));
}

#[test]
fn so_many_new_connections_a_time() {
    let (directory, port, backend) = (Directory::new(), Port::new(), Backend::echo());
    let limits = "accept_limits = { per_client = { key = \"$remote_addr\", rate = \"6/h\" } }";
    let keys = "limit_accepts = [{ limit = \"per_client\", burst = 4 }]";
    let _drover = Drover::start(&directory, &proxy(&directory, &port, backend.address(), limits, keys));
    let passed = (0..20).filter(|_| is_passed(&connect(&port))).count();
    assert_eq!(passed, 5, "the first, and four above the rate");
    let lines = eventually_lines(&directory, 20);
    assert_eq!(lines.iter().filter(|line| line.reason == "refused").count(), 15, "{lines:?}");
}

#[test]
fn datagrams_begin_no_session_beyond_the_limit() {
    let (directory, port, backend) = (Directory::new(), Port::new(), UdpBackend::echo());
    let listen = format!("listen = [{{ address = \"{}\", udp = true }}]", port.address());
    let keys = format!(
        "{listen}\nproxy_pass = \"{}\"\nlimit_connections = [{{ limit = \"per_client\", most = 2 }}]",
        backend.address()
    );
    let config = Config::new(&directory, 2).stream(PER_CLIENT).proxy(&keys);
    let _drover = Drover::start(&directory, &config);
    let address: SocketAddr = port.address().into();
    let clients = [socket(), socket()];
    clients.iter().for_each(|client| assert_eq!(ask(client, address, b"one").0, b"one"));
    socket().send_to(b"two", address).expect("sent");
    let line = eventually_lines(&directory, 1).remove(0);
    assert_eq!((line.reason.as_str(), line.received), ("refused", 3));
    clients.iter().for_each(|client| assert_eq!(ask(client, address, b"more").0, b"more"));
    assert_eq!(lines(&directory).len(), 1);
}
