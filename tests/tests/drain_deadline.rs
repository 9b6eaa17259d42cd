//! `shutdown_timeout` is kept by every kind of connection, and a connection that is idle may still ask once.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use drover_tests::datagrams::{UdpBackend, ask, socket};
use drover_tests::http::{PATIENCE, get, request};
use drover_tests::http_backend::HttpBackend;
use drover_tests::wait::SOON;
use drover_tests::{Backend, Client, Config, Directory, Drover, Port, eventually, process};
use nix::sys::signal::Signal;

const TIMEOUT: Duration = Duration::from_secs(2);
/// More than the buffers of both sockets hold.
const LARGE: usize = 64 << 20;

/// Listens on a port and a unix socket for requests.
fn config(directory: &Directory, port: &Port) -> Config {
    let root = directory.join("www");
    std::fs::create_dir_all(&root).expect("the directory is ours");
    let large = std::fs::File::create(root.join("large")).expect("the directory is ours");
    large.set_len(LARGE as u64).expect("a hole");
    let listen = format!("listen = [\"{}\", \"unix:{}\"]", port.address(), directory.join("s").display());
    Config::new(directory, 2)
        .process(&format!("shutdown_timeout = \"{}s\"", TIMEOUT.as_secs()))
        .server_with(&listen)
        .location("/", "return = { status = 200, body = \"ok\\n\" }")
        .location("/slow", "return = { status = 200, body = \"slow\\n\", delay = \"60s\" }")
        .location("/large", &format!("root = \"{}\"", root.display()))
}

/// What a connection does when the drain begins: what it has sent by then.
const BUSY: [(&str, &str); 7] = [
    ("sends nothing", ""),
    ("sends half a request", "GET / HTTP/1.1\r\nHost: local"),
    ("sends half a body", "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nhalf"),
    ("waits for a delayed answer", "GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    ("waits for a server", "GET /silent HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    ("reads a download slowly", "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    (
        "has a tunnel, for a download",
        "GET /tunnel HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
    ),
];
/// How many of these, and of those that are passed on, have a connection to a server too; all but the last three come
/// over two kinds of sockets.
const TO_SERVERS: u64 = 2 * 2 + 3;

/// A connection that does one of these, reading slowly until `over`, and how many bytes it has received by the end.
fn busy(
    mut stream: impl Read + Write + Send + 'static,
    sends: &'static str,
    over: &Arc<AtomicBool>,
) -> thread::JoinHandle<usize> {
    let over = Arc::clone(over);
    stream.write_all(sends.as_bytes()).expect("sent");
    thread::spawn(move || {
        let (mut received, mut buffer) = (0, [0; 1024]);
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return received,
                Ok(count) => received += count,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return received,
                Err(error) => panic!("{sends:?} was not closed: {error}"),
            }
            if !over.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(20));
            }
        }
    })
}

/// Clients that do all of that, over TCP and over the unix socket.
fn busy_clients(
    directory: &Directory,
    port: &Port,
    over: &Arc<AtomicBool>,
) -> Vec<(&'static str, thread::JoinHandle<usize>)> {
    let mut clients = Vec::new();
    for (what, sends) in BUSY {
        let tcp = std::net::TcpStream::connect(port.address()).expect("connected");
        let unix = UnixStream::connect(directory.join("s")).expect("connected");
        tcp.set_read_timeout(Some(PATIENCE)).expect("more than zero");
        unix.set_read_timeout(Some(PATIENCE)).expect("more than zero");
        clients.extend([(what, busy(tcp, sends, over)), (what, busy(unix, sends, over))]);
    }
    clients
}

/// Begins a drain with every kind of connection open, over TCP and over a unix socket, and passed on to servers that
/// are silent or do not stop sending.
fn everything_ends(signal: Signal) {
    let (directory, port) = (Directory::new(), Port::new());
    let (silent, busy_port) = (Port::new(), Port::new());
    let servers = [(&silent, Backend::echo()), (&busy_port, Backend::new(send_for_ever))];
    let silent_server = HttpBackend::new(|connection| while connection.receive().is_some() {});
    let tunnel = HttpBackend::new(|connection| {
        let _ = connection.request();
        connection
            .send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n");
        while connection.try_send(vec![b'x'; 4096]).is_ok() {}
    });
    let config = config(&directory, &port).passing("/silent", silent_server.address(), "").passing(
        "/tunnel",
        tunnel.address(),
        "",
    );
    let config = servers.iter().fold(config, |config, (port, server)| {
        config.proxy(&format!("listen = [\"{}\"]\nproxy_pass = \"{}\"", port.address(), server.address()))
    });
    let (datagrams, echo) = (Port::new(), UdpBackend::echo());
    let listen = format!("{{ address = \"{}\", udp = true }}", datagrams.address());
    let config = config.proxy(&format!("listen = [{listen}]\nproxy_pass = \"{}\"", echo.address()));
    let drover = Drover::start(&directory, &config);
    let old = drover.workers();
    let over = Arc::default();
    let client = socket();
    assert_eq!(ask(&client, datagrams.address().into(), b"before").0, b"before");
    let mut clients = busy_clients(&directory, &port, &over);
    for (port, _) in &servers {
        let passed_on = std::net::TcpStream::connect(port.address()).expect("connected");
        passed_on.set_read_timeout(Some(PATIENCE)).expect("more than zero");
        clients.push(("is passed on, such as a download", busy(passed_on, "", &over)));
    }
    eventually("every connection is there", || {
        let open: u64 = drover.status().workers.iter().map(|worker| worker.connections).sum();
        // The session of datagrams has two as well.
        (open == clients.len() as u64 + 1 + TO_SERVERS).then_some(())
    });
    let asked = Instant::now();
    drover.signal(signal);
    assert_eq!(ask(&client, datagrams.address().into(), b"meanwhile").0, b"meanwhile");
    eventually("the old workers have ended", || {
        drover.processes().iter().all(|pid| !old.contains(pid)).then_some(())
    });
    let took = asked.elapsed();
    over.store(true, Ordering::Relaxed);
    assert!(took >= TIMEOUT.mul_f64(0.9), "took {took:?}");
    // They ended by themselves: nobody had to be killed for it.
    assert_eq!(drover.log_lines(&["killing it"]), Vec::<String>::new());
    for (what, client) in clients {
        let received = client.join().expect("it was closed");
        assert!(received < LARGE, "a client that {what} received {received} bytes");
        if !what.contains("download") {
            assert_eq!(received, 0, "a client that {what}");
        }
    }
}

fn send_for_ever(mut client: std::net::TcpStream) {
    while client.write_all(&[b'x'; 4096]).is_ok() {}
}

#[test]
fn with_a_stop() {
    everything_ends(Signal::SIGQUIT);
}

#[test]
fn with_a_reload() {
    everything_ends(Signal::SIGHUP);
}

/// Idle connections to servers are nobody's: a worker that drains does not wait for their end.
#[test]
fn connections_that_are_kept_to_servers_hold_up_nothing() {
    let backend = HttpBackend::answering("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n");
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, 1).process("shutdown_timeout = \"300s\"").server(&port).passing(
        "/",
        backend.address(),
        "",
    );
    let drover = Drover::start(&directory, &config);
    let old = drover.worker();
    for _ in 0..3 {
        assert_eq!(get(port.address(), "/").text(), "ok\n");
    }
    assert!(drover.status().workers[0].connections > 0, "one is kept");
    drover.reload_begun();
    eventually("the old worker has gone", || (!process::alive(old)).then_some(()));
}

/// The request that is on its way when the drain begins is answered; the answer says that it was the last.
#[test]
fn an_idle_connection_may_ask_once_more() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = Drover::start(&directory, &config(&directory, &port).process("workers = 1"));
    let mut idle: Vec<Client> = (0..5).map(|_| Client::to(port.address())).collect();
    for client in &mut idle {
        let response = client.get("/");
        assert!(response.status == 200 && !response.closes(), "{response:?}");
    }
    drover.signal(Signal::SIGHUP);
    drover.log_line(&["drains 5 connections"]);
    for client in &mut idle {
        client.send(request("GET", "/", ""));
    }
    for client in &mut idle {
        let response = client.response();
        assert!(response.status == 200 && response.closes(), "{response:?}");
        assert!(client.is_closed_within(SOON));
    }
}
