//! Peers that break off, stall and flood: each costs its own connection, and no more memory than it may.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use drover_tests::client_hello::client_hello;
use drover_tests::stream_log::{eventually_lines, lines};
use drover_tests::wait::SOON;
use drover_tests::{Backend, Config, Directory, Drover, Port, eventually, process, wait};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, getsockname, listen, setsockopt, socket,
    sockopt,
};

struct Proxy {
    drover: Drover,
    directory: Directory,
    port: Port,
}

impl Proxy {
    fn new(target: SocketAddr, keys: &str) -> Proxy {
        Proxy::with(&format!("proxy_pass = \"{target}\"\n{keys}"), |config| config)
    }

    fn with(keys: &str, more: impl FnOnce(Config) -> Config) -> Proxy {
        let (directory, port) = (Directory::new(), Port::new());
        let config = Config::new(&directory, 1).events("worker_connections = 4096");
        let config = config.proxy(&format!("listen = [\"{}\"]\n{keys}", port.address()));
        Proxy { drover: Drover::start(&directory, &more(config)), directory, port }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.port.address()).expect("connects");
        stream.set_read_timeout(Some(SOON)).expect("set");
        stream.set_write_timeout(Some(SOON)).expect("set");
        stream
    }

    /// All slots are given back, and the worker is the one that it was.
    #[track_caller]
    fn is_as_before(&self, worker: nix::unistd::Pid) {
        eventually("all slots are free again", || {
            self.drover.status().workers.iter().all(|worker| worker.connections == 0).then_some(())
        });
        assert_eq!(self.drover.worker(), worker);
    }

    fn memory(&self) -> u64 {
        process::anonymous_memory(self.drover.worker()).expect("the worker is there")
    }
}

/// Has the kernel reset the connection when it is dropped.
fn reset(stream: TcpStream) {
    let linger = nix::libc::linger { l_onoff: 1, l_linger: 0 };
    setsockopt(&stream, sockopt::Linger, &linger).expect("set");
}

/// A server that takes no connection: its queue is full.
struct Unreachable {
    address: SocketAddr,
    _listener: std::os::fd::OwnedFd,
    _queued: Vec<TcpStream>,
}

impl Unreachable {
    fn new() -> Unreachable {
        let listener =
            socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).expect("a socket");
        bind(listener.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).expect("bound");
        listen(&listener, Backlog::new(0).expect("a backlog")).expect("listens");
        let bound: SockaddrIn = getsockname(listener.as_raw_fd()).expect("an address");
        let address = SocketAddr::from(std::net::SocketAddrV4::from(bound));
        let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok();
        let queued = std::iter::from_fn(connect).collect();
        Unreachable { address, _listener: listener, _queued: queued }
    }
}

#[test]
fn a_client_may_reset_at_every_phase() {
    let hello = client_hello(Some("a.example"));
    let (backend, unreachable) = (Backend::echo(), Unreachable::new());
    let keys = format!(
        "proxy_pass = \"{}\"\nserver_names = {{ \"far.example\" = \"far\" }}\npreread_timeout = \"5s\"",
        backend.address()
    );
    let far = format!("servers = [\"{}\"]\nconnect_timeout = \"3s\"", unreachable.address);
    let proxy = Proxy::with(&keys, |config| config.stream_upstream("far", &far));
    let worker = proxy.drover.worker();
    // Before a byte; in the middle of what is sniffed; while a server is connected to.
    reset(proxy.connect());
    for length in [1, 5, 6, hello.len() - 1] {
        let mut client = proxy.connect();
        client.write_all(&hello[..length]).expect("sent");
        reset(client);
    }
    let mut client = proxy.connect();
    client.write_all(&client_hello(Some("far.example"))).expect("sent");
    eventually("it is connecting", || (proxy.drover.status().workers[0].connections == 2).then_some(()));
    reset(client);
    // In the tunnel: idle, with bytes under way to the server, with bytes that nobody fetched, half-closed.
    for (sends, hears, half_closes) in
        [(0, 0, false), (1 << 20, 0, false), (1000, 1000, false), (1000, 0, true)]
    {
        let mut client = proxy.connect();
        client.write_all(&hello).expect("sent");
        client.read_exact(&mut vec![0; hello.len()]).expect("the echo");
        client.set_nonblocking(true).expect("set");
        let _ = client.write(&vec![b'x'; sends]);
        client.set_nonblocking(false).expect("set");
        client.read_exact(&mut vec![0; hears]).expect("the echo");
        if half_closes {
            client.shutdown(Shutdown::Write).expect("half-closed");
        }
        reset(client);
    }
    proxy.is_as_before(worker);
    let reasons: Vec<String> =
        eventually_lines(&proxy.directory, 10).into_iter().map(|line| line.reason).collect();
    assert!(reasons[..5].iter().all(|reason| reason == "client_gone"), "{reasons:?}");
    assert!(reasons.iter().any(|reason| reason == "connect_timeout"), "{reasons:?}");
    assert!(reasons.iter().filter(|reason| *reason == "client_failed").count() >= 3, "{reasons:?}");
}

#[test]
fn a_server_may_reset_at_every_phase() {
    // By the first byte that it is sent: at once, after some bytes, after half-closing, while it is sent to.
    let backend = Backend::new(|mut stream| {
        let mut first = [0; 1];
        let _ = stream.read_exact(&mut first);
        match first[0] {
            b'b' => drop(stream.write_all(&[b'x'; 100_000])),
            b'c' => drop(stream.shutdown(Shutdown::Write)),
            b'd' => drop(stream.read_exact(&mut [0; 100_000])),
            _ => {}
        }
        reset(stream);
    });
    let proxy = Proxy::new(backend.address(), "");
    let worker = proxy.drover.worker();
    for first in [b'a', b'b', b'c', b'd'] {
        let mut client = proxy.connect();
        let _ = client.write_all(&vec![first; 500_000]);
        let mut heard = Vec::new();
        let _ = client.read_to_end(&mut heard);
        assert!(heard.len() <= 100_000);
    }
    proxy.is_as_before(worker);
    let lines = eventually_lines(&proxy.directory, 4);
    // Who hears the end of the answer leaves too, often before the reset is there: then both have ended what they sent.
    let failed = lines.iter().filter(|line| line.reason == "server_failed").count();
    let ended =
        lines.iter().filter(|line| matches!(line.reason.as_str(), "finished" | "client_gone")).count();
    assert!(failed >= 3 && failed + ended == 4, "{lines:?}");
}

#[test]
fn a_server_that_has_ended_its_stream_still_receives() {
    let (teller, told) = std::sync::mpsc::channel();
    let teller = std::sync::Mutex::new(teller);
    let backend = Backend::new(move |mut stream| {
        let _ = stream.shutdown(Shutdown::Write);
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let _ = teller.lock().expect("one at a time").send(bytes.len());
    });
    let proxy = Proxy::new(backend.address(), "");
    let mut client = proxy.connect();
    assert_eq!(client.read(&mut [0]).expect("the end"), 0);
    client.write_all(&vec![b'x'; 2 << 20]).expect("sent");
    drop(client);
    assert_eq!(told.recv_timeout(SOON).expect("received"), 2 << 20);
    let line = eventually_lines(&proxy.directory, 1).remove(0);
    assert_eq!((line.reason.as_str(), line.received), ("finished", 2 << 20));
}

#[test]
fn clients_that_read_nothing_hold_up_their_servers_and_take_no_memory() {
    const CLIENTS: usize = 60;
    const WHOLE: usize = 24 << 20;
    const PIECE: usize = 4096;
    let sent = Arc::<AtomicUsize>::default();
    let counter = Arc::clone(&sent);
    let backend = Backend::new(move |mut stream| {
        for at in 0..WHOLE / PIECE {
            if stream.write_all(&[at as u8; PIECE]).is_err() {
                break;
            }
            counter.fetch_add(PIECE, Ordering::Relaxed);
        }
    });
    let proxy = Proxy::new(backend.address(), "");
    let worker = proxy.drover.worker();
    drop(proxy.connect());
    let before = proxy.memory();
    let mut clients: Vec<TcpStream> = (0..CLIENTS).map(|_| proxy.connect()).collect();
    eventually("nothing moves any more", || {
        let now = sent.load(Ordering::Relaxed);
        let stands =
            now > 0 && wait::stays(Duration::from_millis(500), || sent.load(Ordering::Relaxed) == now);
        stands.then_some(())
    });
    assert!(sent.load(Ordering::Relaxed) < CLIENTS * WHOLE, "the servers are held up");
    let grown = proxy.memory().saturating_sub(before);
    // One scratch buffer for each connection is 4 MiB in all; kernel pipes are not of this process.
    assert!(grown < 6 << 10, "{grown} KiB for {CLIENTS} connections");
    // Whoever begins to read after all gets everything, in its order.
    let mut client = clients.pop().expect("a client");
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes).expect("received");
    assert_eq!(bytes.len(), WHOLE);
    assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == (at / PIECE) as u8));
    drop(client);
    clients.into_iter().for_each(reset);
    proxy.is_as_before(worker);
}

#[test]
fn a_server_that_reads_nothing_holds_up_its_client() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let proxy = Proxy::new(listener.local_addr().expect("an address"), "idle_timeout = \"2s\"");
    let worker = proxy.drover.worker();
    let mut client = proxy.connect();
    client.set_write_timeout(Some(Duration::from_millis(500))).expect("set");
    let piece = vec![b'x'; 1 << 20];
    let sent = (0..64).take_while(|_| client.write_all(&piece).is_ok()).count();
    assert!(sent < 64, "the client is held up, after {sent} MiB");
    let (server, _) = listener.accept().expect("the proxy connected");
    let ended = loop {
        match client.read(&mut [0]) {
            Ok(0) => break true,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break false,
            Err(_) => break true,
            Ok(_) => {}
        }
    };
    assert!(ended, "a time-out ends it");
    drop(server);
    proxy.is_as_before(worker);
    assert_eq!(eventually_lines(&proxy.directory, 1)[0].reason, "idle_timeout");
}

#[test]
fn connections_that_end_at_once_are_all_accounted_for() {
    const MANY: usize = 1000;
    let proxy = Proxy::new(Backend::echo().address(), "");
    let backend = Backend::echo();
    let proxy_of_living = Proxy::new(backend.address(), "");
    for (number, proxy) in [&proxy, &proxy_of_living].into_iter().enumerate() {
        let worker = proxy.drover.worker();
        for at in 0..MANY {
            let client = proxy.connect();
            if at % 2 == number % 2 { reset(client) } else { drop(client) }
        }
        proxy.is_as_before(worker);
        assert_eq!(eventually_lines(&proxy.directory, MANY).len(), MANY);
        assert_eq!(lines(&proxy.directory).len(), MANY);
    }
}
