//! The end of a connection that is passed on has one reason, the same in the counters, in the log and in the access
//! log.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};

use drover_tests::client_hello::client_hello;
use drover_tests::datagrams::{UdpBackend, ask, socket};
use drover_tests::status::Status;
use drover_tests::stream_log::lines;
use drover_tests::wait::SOON;
use drover_tests::{Backend, Config, Directory, Drover, Port, eventually};
use nix::sys::socket::{setsockopt, sockopt::Linger};
use serde_json::Value;

/// A daemon with a listener for each `[[stream.servers]]`, whose keys follow its address.
struct Proxies {
    drover: Drover,
    directory: Directory,
    ports: Vec<Port>,
}

impl Proxies {
    fn new(servers: &[(&str, String)], more: impl FnOnce(Config) -> Config) -> Proxies {
        let directory = Directory::new();
        let ports: Vec<Port> = servers.iter().map(|_| Port::new()).collect();
        let mut config = Config::new(&directory, 1).log("level = \"debug\"");
        for (port, (of_listener, keys)) in ports.iter().zip(servers) {
            let listen = format!("listen = [{{ address = \"{}\"{of_listener} }}]", port.address());
            config = config.proxy(&format!("{listen}\n{keys}"));
        }
        let drover = Drover::start(&directory, &more(config));
        Proxies { drover, directory, ports }
    }

    fn connect(&self, server: usize) -> TcpStream {
        let stream = TcpStream::connect(self.ports[server].address()).expect("connects");
        stream.set_read_timeout(Some(SOON)).expect("a time-out");
        stream
    }

    /// How many ended for `reason`: by the counters, by the log, and by the access log.
    fn ended(&self, reason: &str) -> [u64; 3] {
        let status: Value =
            serde_json::from_str(&Status::text(self.drover.config()).expect("a status")).expect("JSON");
        let counted = status["totals"]["closes"][reason].as_u64().expect("a reason of the list");
        let said = self.drover.log_lines(&["connection=", &format!(" reason={reason}")]).len();
        let logged = lines(&self.directory).iter().filter(|line| line.reason == reason).count();
        [counted, said as u64, logged as u64]
    }

    /// What `provoke` does ends one connection, for this reason and no other.
    #[track_caller]
    fn ends(&self, reason: &str, provoke: impl FnOnce(&Proxies)) {
        let before = self.ended(reason);
        provoke(self);
        let wanted = before.map(|count| count + 1);
        eventually(&format!("the end for {reason} is counted, said and logged, beyond {before:?}"), || {
            (self.ended(reason) == wanted).then_some(())
        });
    }
}

/// Reads until the end, or a reset.
fn read_out(mut stream: &TcpStream) {
    let _ = stream.read_to_end(&mut Vec::new());
}

/// Closing then resets the connection.
fn will_reset(stream: &TcpStream) {
    setsockopt(stream, Linger, &nix::libc::linger { l_onoff: 1, l_linger: 0 }).expect("set");
}

fn to(address: impl Into<SocketAddr>) -> String {
    format!("proxy_pass = \"{}\"", address.into())
}

#[test]
fn what_client_and_server_do_is_the_reason() {
    let (greeting, echo, dead) = (Backend::named("hello"), Backend::echo(), Port::new());
    let resetting = Backend::new(|mut stream| {
        let _ = stream.read(&mut [0; 1]);
        will_reset(&stream);
    });
    let servers = [
        ("", to(greeting.address())),
        ("", to(echo.address()) + "\nidle_timeout = \"300ms\""),
        ("", to(resetting.address())),
        ("", to(dead.address())),
    ];
    let proxies = Proxies::new(&servers, |config| config);
    proxies.ends("finished", |proxies| read_out(&proxies.connect(0)));
    proxies.ends("idle_timeout", |proxies| read_out(&proxies.connect(1)));
    proxies.ends("client_failed", |proxies| {
        let mut client = proxies.connect(1);
        client.write_all(b"x").expect("sent");
        client.read_exact(&mut [0; 1]).expect("echoed");
        will_reset(&client);
    });
    proxies.ends("server_failed", |proxies| {
        let mut client = proxies.connect(2);
        client.write_all(b"x").expect("sent");
        read_out(&client);
    });
    proxies.ends("connect_refused", |proxies| read_out(&proxies.connect(3)));
}

#[test]
fn who_may_not_pass_is_told_why() {
    let echo = Backend::echo();
    let address = echo.address();
    let names = format!("server_names = {{ \"a.example\" = \"{address}\" }}\npreread_timeout = \"300ms\"");
    let servers = [
        ("", "proxy_pass = \"down\"".to_owned()),
        ("", "proxy_pass = \"full\"".to_owned()),
        ("", names),
        (", proxy_protocol = true", to(address)),
        ("", to(address) + "\nlimit_connections = [{ limit = \"per_client\", most = 1 }]"),
    ];
    let proxies = Proxies::new(&servers, |config| {
        config
            .stream("connection_limits = { per_client = { key = \"$remote_addr\" } }")
            .stream_upstream("down", &format!("servers = [{{ address = \"{address}\", down = true }}]"))
            .stream_upstream(
                "full",
                &format!("servers = [{{ address = \"{address}\", max_connections = 1 }}]"),
            )
    });
    proxies.ends("no_server", |proxies| read_out(&proxies.connect(0)));
    let held = |server: usize| {
        let mut client = proxies.connect(server);
        client.write_all(b"x").expect("sent");
        client.read_exact(&mut [0; 1]).expect("echoed");
        client
    };
    let (full, limited) = (held(1), held(4));
    proxies.ends("servers_full", |proxies| read_out(&proxies.connect(1)));
    proxies.ends("refused", |proxies| read_out(&proxies.connect(4)));
    let sends = |server: usize, bytes: &[u8]| {
        let mut client = proxies.connect(server);
        client.write_all(bytes).expect("sent");
        read_out(&client);
    };
    proxies.ends("unknown_name", |_| sends(2, &client_hello(Some("b.example"))));
    let mut broken = client_hello(Some("a.example"));
    broken[6..9].fill(0xff);
    proxies.ends("bad_client_hello", |_| sends(2, &broken));
    proxies.ends("preread_timeout", |_| sends(2, &[]));
    proxies.ends("client_gone", |proxies| drop(proxies.connect(2)));
    proxies.ends("bad_proxy_protocol", |_| sends(3, b"GET / HTTP/1.1\r\n\r\n"));
    drop((full, limited));
}

#[test]
fn what_a_drain_cuts_short_was_shut_down() {
    let echo = Backend::echo();
    let proxies =
        Proxies::new(&[("", to(echo.address()))], |config| config.process("shutdown_timeout = \"200ms\""));
    let mut client = proxies.connect(0);
    client.write_all(b"x").expect("sent");
    client.read_exact(&mut [0; 1]).expect("echoed");
    proxies.ends("shutdown", |proxies| proxies.drover.reload_begun());
}

/// So many slots beside those of the listener and of the channel to the master.
fn with_free_slots(free: u32) -> impl FnOnce(Config) -> Config {
    move |config| config.events(&format!("worker_connections = {}", 2 + free))
}

/// Who has to be known by name waits to be told, and can be let go meanwhile.
fn by_name(to: SocketAddr) -> [(&'static str, String); 1] {
    [("", format!("server_names = {{ \"a.example\" = \"{to}\" }}"))]
}

#[test]
fn a_worker_without_slots_is_the_reason() {
    let echo = Backend::echo();
    let for_client_alone = Proxies::new(&[("", to(echo.address()))], with_free_slots(1));
    for_client_alone.ends("no_slot", |proxies| read_out(&proxies.connect(0)));
    let for_both = Proxies::new(&[("", to(echo.address()))], with_free_slots(2));
    let mut client = for_both.connect(0);
    client.write_all(b"x").expect("sent");
    client.read_exact(&mut [0; 1]).expect("echoed");
    // Nothing of it ever began, and it is told of all the same.
    for_both.ends("no_slot", |proxies| read_out(&proxies.connect(0)));
}

#[test]
fn a_worker_that_needs_the_slot_is_the_reason() {
    let echo = Backend::echo();
    let proxies = Proxies::new(&by_name(echo.address()), with_free_slots(4));
    let waiting: Vec<TcpStream> = (0..4).map(|_| proxies.connect(0)).collect();
    eventually("all slots are taken", || (proxies.drover.status().workers[0].free_slots == 0).then_some(()));
    let mut last = None;
    proxies.ends("reclaimed", |proxies| last = Some(proxies.connect(0)));
    // The one that waited longest.
    read_out(&waiting[0]);

    let answering = UdpBackend::echo();
    let proxies = Proxies::new(&[(", udp = true", to(answering.address()))], with_free_slots(4));
    let address = proxies.ports[0].address().into();
    // Each session has a slot for its socket to the server, too.
    let clients: Vec<UdpSocket> = (0..2).map(|_| socket()).collect();
    clients.iter().for_each(|client| drop(ask(client, address, b"x")));
    proxies.ends("reclaimed", |_| drop(ask(&socket(), address, b"x")));
}
