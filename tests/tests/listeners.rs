//! Listen addresses: each with its own strategy and options.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use drover_tests::http::{get, request};
use drover_tests::wait::SOON;
use drover_tests::{Client, Config, Directory, Drover, Port, eventually, sockets};

#[test]
fn each_may_have_a_strategy_of_its_own() {
    let (directory, exclusive, mutex, reuseport) = (Directory::new(), Port::new(), Port::new(), Port::new());
    let listen = format!(
        "listen = [\"{}\", {{ address = \"{}\", accept = \"mutex\" }}, {{ address = \"{}\", accept = \"reuseport\" }}]",
        exclusive.address(),
        mutex.address(),
        reuseport.address()
    );
    let config = Config::new(&directory, 2)
        .server_with(&listen)
        .location("/", "return = { status = 200, body = \"ok\\n\" }");
    let drover = Drover::start(&directory, &config);
    for port in [&exclusive, &mutex, &reuseport] {
        for _ in 0..20 {
            assert_eq!(get(port.address(), "/").text(), "ok\n");
        }
    }
    let watched = |port: &Port| {
        let workers = drover.workers().into_iter();
        workers.flat_map(|worker| sockets::watched(worker, port.number())).collect::<Vec<_>>()
    };
    let of_exclusive = watched(&exclusive);
    assert_eq!(of_exclusive.len(), 2);
    assert!(of_exclusive.iter().all(|(_, how)| how.is_exclusive()), "{of_exclusive:x?}");
    eventually("one worker watches", || (watched(&mutex).len() == 1).then_some(()));
    let of_reuseport = watched(&reuseport);
    assert_eq!(of_reuseport.len(), 2);
    assert_ne!(of_reuseport[0].0, of_reuseport[1].0, "a socket for each worker");
}

#[test]
fn one_worker_alone_needs_no_strategy_and_says_so() {
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, 1).events("accept = \"mutex\"").answering(&port);
    let drover = Drover::start(&directory, &config);
    let watched = sockets::watched(drover.worker(), port.number());
    assert_eq!(watched.len(), 1);
    assert!(!watched[0].1.is_exclusive());
    assert_eq!(get(port.address(), "/").text(), "ok\n");
    drover.log_line(&["shared"]);
}

#[test]
fn a_deferred_one_reports_clients_once_they_send() {
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, 1)
        .server_with(&format!("listen = [{{ address = \"{}\", deferred = true }}]", port.address()))
        .location("/", "return = { status = 200, body = \"ok\\n\" }");
    let drover = Drover::start(&directory, &config);
    let mut client = Client::to(port.address());
    // The handshake is over for the client; the worker knows nothing of it.
    assert!(drover_tests::wait::stays(Duration::from_millis(200), || drover.status().workers[0].accepts == 0));
    assert_eq!(client.get("/").text(), "ok\n");
    assert_eq!(drover.status().workers[0].accepts, 1);
    assert_eq!(client.get("/").text(), "ok\n");
}

#[test]
fn ipv6_and_ipv4_share_a_port() {
    let (directory, port) = (Directory::new(), Port::new());
    if std::net::TcpListener::bind(("::1", port.number())).is_err() {
        drover_tests::packages::skip("this machine has no IPv6");
        return;
    }
    let listen = format!("listen = [\"[::1]:{port}\", \"127.0.0.1:{port}\"]");
    let config = Config::new(&directory, 1)
        .server_with(&listen)
        .location("/", "return = { status = 200, body = \"$remote_addr\" }");
    let _drover = Drover::start(&directory, &config);
    assert_eq!(get(port.address(), "/").text(), "127.0.0.1");
    let stream = TcpStream::connect(("::1", port.number())).expect("connects");
    assert!(talk(stream).ends_with("::1"));
}

#[test]
fn a_unix_socket_is_made_and_removed() {
    let directory = Directory::new();
    let path = directory.join("drover.sock");
    let config = Config::new(&directory, 2)
        .server_with(&format!("listen = [\"unix:{}\"]", path.display()))
        .location("/", "return = { status = 200, body = \"ok\\n\" }");
    let mut drover = Drover::start(&directory, &config);
    for _ in 0..10 {
        assert!(talk(UnixStream::connect(&path).expect("connects")).ends_with("ok\n"));
    }
    drover.reload();
    assert!(talk(UnixStream::connect(&path).expect("connects")).ends_with("ok\n"));
    drover.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(drover.wait(SOON).success());
    assert!(!path.exists());
}

#[test]
fn servers_are_told_apart_by_name() {
    let (directory, port) = (Directory::new(), Port::new());
    let server = |names: &str, extra: &str| {
        format!("listen = [{{ address = \"{}\"{extra} }}]\nserver_names = [{names}]", port.address())
    };
    let answer = |name: &str| format!("return = {{ status = 200, body = \"{name}\" }}");
    let config = Config::new(&directory, 1)
        .server_with(&server("\"one.example\", \"*.one.example\"", ""))
        .location("/", &answer("one"))
        .server_with(&server("\"two.example\", \"www.two.*\"", ", default_server = true"))
        .location("/", &answer("two"));
    let _drover = Drover::start(&directory, &config);
    for (host, expected) in [
        ("one.example", "one"),
        ("ONE.example:8080", "one"),
        ("a.b.one.example", "one"),
        ("two.example", "two"),
        ("www.two.org", "two"),
        ("unknown.example", "two"),
        ("127.0.0.1", "two"),
    ] {
        let mut client = Client::to(port.address());
        client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(client.response().text(), expected, "{host}");
    }
}

fn talk(mut stream: impl Read + Write) -> String {
    stream.write_all(request("GET", "/", "Connection: close\r\n").as_bytes()).expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("answered and closed");
    text
}
