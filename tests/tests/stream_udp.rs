//! Sessions of datagrams: what begins and ends them, what they carry, and which server has them.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use drover_tests::datagrams::{UdpBackend, ask, socket};
use drover_tests::stream_log::{eventually_lines, lines, the_line};
use drover_tests::{Config, Directory, Drover, Port, eventually, wait};
use nix::sys::signal::Signal;

struct Proxy {
    drover: Drover,
    directory: Directory,
    port: Port,
}

impl Proxy {
    /// Passes datagrams on to `target`, with these keys.
    fn new(target: SocketAddr, keys: &str) -> Proxy {
        Proxy::with(&format!("proxy_pass = \"{target}\"\n{keys}"), |config| config)
    }

    fn with(keys: &str, more: impl FnOnce(Config) -> Config) -> Proxy {
        let (directory, port) = (Directory::new(), Port::new());
        let listen = format!("listen = [{{ address = \"{}\", udp = true }}]", port.address());
        let config = Config::new(&directory, 1).proxy(&format!("{listen}\n{keys}"));
        Proxy { drover: Drover::start(&directory, &more(config)), directory, port }
    }

    fn address(&self) -> SocketAddr {
        self.port.address().into()
    }

    fn sessions(&self) -> u64 {
        // Each has a slot for the client and one for the socket to the server.
        self.drover.status().workers.iter().map(|worker| worker.connections).sum::<u64>() / 2
    }
}

#[test]
fn datagrams_of_no_and_of_the_largest_length_pass() {
    let backend = UdpBackend::echo();
    let proxy = Proxy::new(backend.address(), "");
    let client = socket();
    // 65,507 is what an IPv4 datagram holds.
    for length in [0, 1, 1472, 65_507, 0] {
        let sent = vec![b'x'; length];
        let (answer, from) = ask(&client, proxy.address(), &sent);
        assert!(answer == sent && from == proxy.address(), "{} bytes from {from}", answer.len());
    }
    assert_eq!(proxy.sessions(), 1);
}

#[test]
fn silence_ends_a_session() {
    let backend = UdpBackend::echo();
    let proxy = Proxy::new(backend.address(), "idle_timeout = \"300ms\"");
    let client = socket();
    ask(&client, proxy.address(), b"one");
    let line = the_line(&proxy.directory);
    assert_eq!((line.protocol.as_str(), line.reason.as_str()), ("UDP", "idle_timeout"));
    assert_eq!((line.received, line.sent), (3, 3));
    assert_eq!(line.servers, [backend.address().to_string()]);
    assert_eq!(proxy.sessions(), 0);
    assert_eq!(ask(&client, proxy.address(), b"two").0, b"two", "another begins");
}

#[test]
fn expected_responses_end_a_session() {
    let backend = UdpBackend::echo();
    let proxy = Proxy::new(backend.address(), "responses = 1");
    let client = socket();
    for number in 0..5u8 {
        assert_eq!(ask(&client, proxy.address(), &[number; 10]).0, [number; 10]);
    }
    let lines = eventually_lines(&proxy.directory, 5);
    assert!(lines.iter().all(|line| line.reason == "finished" && line.received == 10), "{lines:?}");
    assert_eq!(proxy.sessions(), 0);
}

#[test]
fn no_expected_response_ends_a_session_at_once() {
    let backend = UdpBackend::echo();
    let proxy = Proxy::new(backend.address(), "responses = 0");
    let client = socket();
    for _ in 0..5 {
        client.send_to(b"syslog", proxy.address()).expect("sent");
    }
    let lines = eventually_lines(&proxy.directory, 5);
    assert!(lines.iter().all(|line| line.reason == "finished" && line.sent == 0), "{lines:?}");
}

#[test]
fn so_many_requests_make_a_session() {
    let backend = UdpBackend::echo();
    let proxy = Proxy::new(backend.address(), "requests = 3\nresponses = 1");
    let client = socket();
    for number in 0..7u8 {
        ask(&client, proxy.address(), &[1, 2, 3, 4, number]);
    }
    let lines = eventually_lines(&proxy.directory, 2);
    assert!(lines.iter().all(|line| line.received == 15 && line.sent == 15), "{lines:?}");
    assert_eq!(proxy.sessions(), 1, "the seventh began another");
    assert_eq!(backend.sessions().values().copied().collect::<Vec<_>>(), [3]);
}

#[test]
fn a_server_that_is_not_there_leads_to_the_next() {
    let (backend, dead) = (UdpBackend::echo(), socket().local_addr().expect("address"));
    let upstream =
        format!("servers = [{{ address = \"{dead}\", max_fails = 0 }}, \"{}\"]", backend.address());
    let proxy = Proxy::with("proxy_pass = \"group\"\nresponses = 1", |config| {
        config.stream_upstream("group", &upstream)
    });
    for _ in 0..6 {
        assert_eq!(ask(&socket(), proxy.address(), b"answered").0, b"answered");
    }
    let lines = eventually_lines(&proxy.directory, 6);
    let tried = |count: usize| lines.iter().filter(|line| line.servers.len() == count).count();
    assert!(tried(1) >= 1 && tried(2) >= 1, "round robin begins with either: {lines:?}");
    proxy.drover.log_line(&["stream on", &dead.to_string(), "nobody is there"]);
}

#[test]
fn without_another_server_the_session_ends_and_says_so() {
    let dead = socket().local_addr().expect("address");
    let proxy = Proxy::new(dead, "");
    socket().send_to(b"?", proxy.address()).expect("sent");
    assert_eq!(the_line(&proxy.directory).reason, "connect_refused");
    eventually("the session has ended", || (proxy.sessions() == 0).then_some(()));
}

#[test]
fn a_wildcard_address_answers_from_the_address_that_was_asked() {
    let (directory, port, backend) = (Directory::new(), Port::new(), UdpBackend::echo());
    let keys = format!(
        "listen = [{{ address = \"0.0.0.0:{port}\", udp = true }}]\nproxy_pass = \"{}\"",
        backend.address()
    );
    let _drover = Drover::start(&directory, &Config::new(&directory, 4).proxy(&keys));
    let client = UdpSocket::bind("0.0.0.0:0").expect("client");
    client.set_read_timeout(Some(wait::SOON)).expect("a time-out");
    for host in ["127.0.0.1", "127.0.0.2", "127.1.2.3"] {
        let server = SocketAddr::new(host.parse().expect("an address"), port.number());
        assert_eq!(ask(&client, server, b"who").1, server);
    }
}

#[test]
fn connections_and_datagrams_share_a_port() {
    let (directory, port, udp) = (Directory::new(), Port::new(), UdpBackend::echo());
    let tcp = drover_tests::Backend::named("tcp");
    let config = Config::new(&directory, 2)
        .proxy(&format!("listen = [\"{}\"]\nproxy_pass = \"{}\"", port.address(), tcp.address()))
        .proxy(&format!(
            "listen = [{{ address = \"{}\", udp = true }}]\nproxy_pass = \"{}\"",
            port.address(),
            udp.address()
        ));
    let drover = Drover::start(&directory, &config);
    let both = || {
        assert_eq!(ask(&socket(), port.address().into(), b"udp").0, b"udp");
        let mut text = String::new();
        let mut stream = std::net::TcpStream::connect(port.address()).expect("connects");
        std::io::Read::read_to_string(&mut stream, &mut text).expect("received");
        assert_eq!(text, "tcp");
    };
    both();
    drover.reload_begun();
    both();
}

#[test]
fn a_stop_lets_sessions_go_on_until_its_time_is_over() {
    let backend = UdpBackend::echo();
    let mut proxy = Proxy::with(&format!("proxy_pass = \"{}\"", backend.address()), |config| {
        config.process("shutdown_timeout = \"2s\"")
    });
    let client = socket();
    ask(&client, proxy.address(), b"before");
    let asked = Instant::now();
    proxy.drover.signal(Signal::SIGQUIT);
    eventually("the worker drains", || (proxy.drover.log_lines(&["drains"]).len() == 1).then_some(()));
    assert_eq!(ask(&client, proxy.address(), b"meanwhile").0, b"meanwhile");
    let other = socket();
    other.set_read_timeout(Some(Duration::from_millis(200))).expect("a time-out");
    other.send_to(b"new", proxy.address()).expect("sent");
    assert!(other.recv(&mut [0; 8]).is_err(), "no session begins");
    assert!(proxy.drover.wait(Duration::from_secs(10)).success());
    assert!(asked.elapsed() >= Duration::from_millis(1900), "took {:?}", asked.elapsed());
    assert_eq!(lines(&proxy.directory)[0].reason, "shutdown");
}

#[test]
fn sessions_that_are_idle_longest_give_way_when_slots_are_short() {
    let backend = UdpBackend::echo();
    let proxy = Proxy::with(&format!("proxy_pass = \"{}\"", backend.address()), |config| {
        config.events("worker_connections = 32")
    });
    // Two slots each, and fewer than forty in all.
    for number in 0..40u8 {
        assert_eq!(ask(&socket(), proxy.address(), &[number]).0, [number]);
    }
    let lines = eventually_lines(&proxy.directory, 20);
    assert!(lines.iter().all(|line| line.reason == "reclaimed"), "{lines:?}");
    proxy.drover.log_line(&["slots are short"]);
}
