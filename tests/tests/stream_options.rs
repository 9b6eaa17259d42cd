//! What a proxy may be told about its sockets and its log: the address that it connects from, probes of servers, rates
//! up, and lines as JSON and to a syslog daemon.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use drover_tests::datagrams::ask;
use drover_tests::wait::SOON;
use drover_tests::{Backend, Config, Directory, Drover, Port, eventually, packages};
use serde_json::Value;

fn start(directory: &Directory, port: &Port, keys: &str, more: impl FnOnce(Config) -> Config) -> Drover {
    let config = Config::new(directory, 1).proxy(&format!("listen = [\"{}\"]\n{keys}", port.address()));
    Drover::start(directory, &more(config))
}

fn connect(address: impl Into<SocketAddr>) -> TcpStream {
    let stream = TcpStream::connect(address.into()).expect("connects");
    stream.set_read_timeout(Some(SOON)).expect("set");
    stream
}

fn rest(mut stream: impl Read) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("the stream ends");
    text
}

/// A server that says where the connection comes from.
fn telling_from() -> Backend {
    Backend::new(|mut stream| {
        let from = stream.peer_addr().expect("an address").ip();
        let _ = stream.write_all(from.to_string().as_bytes());
    })
}

#[test]
fn servers_are_connected_to_from_an_address_of_choice() {
    let (directory, port, backend) = (Directory::new(), Port::new(), telling_from());
    let upstream = format!("servers = [\"{}\"]\nsource = \"127.0.0.77\"", backend.address());
    let _drover =
        start(&directory, &port, "proxy_pass = \"far\"", |config| config.stream_upstream("far", &upstream));
    assert_eq!(rest(connect(port.address())), "127.0.0.77");
}

#[test]
fn datagrams_are_sent_from_an_address_of_choice() {
    let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let upstream =
        format!("servers = [\"{}\"]\nsource = \"127.0.0.78\"", server.local_addr().expect("an address"));
    let (directory, port) = (Directory::new(), Port::new());
    let keys = format!("listen = [{{ address = \"{}\", udp = true }}]\nproxy_pass = \"far\"", port.address());
    let config = Config::new(&directory, 1).stream_upstream("far", &upstream).proxy(&keys);
    let _drover = Drover::start(&directory, &config);
    let answering = std::thread::spawn(move || {
        let (_, from) = server.recv_from(&mut [0; 64]).expect("a datagram");
        server.send_to(from.ip().to_string().as_bytes(), from).expect("sent");
    });
    let (answer, _) = ask(&drover_tests::datagrams::socket(), port.address().into(), b"who");
    assert_eq!(answer, b"127.0.0.78");
    answering.join().expect("it answers");
}

#[test]
fn probes_are_set_on_the_sockets_to_servers() {
    let Some(ss) = packages::tool_or_skip("ss", "iproute2") else { return };
    let (directory, port, backend) = (Directory::new(), Port::new(), Backend::echo());
    let keys = format!("proxy_pass = \"{}\"\nserver_keepalive = {{ idle = \"80s\" }}", backend.address());
    let _drover = start(&directory, &port, &keys, |config| config);
    let mut client = connect(port.address());
    client.write_all(b"x").expect("sent");
    client.read_exact(&mut [0]).expect("answered");
    let to_server = format!("dport = :{}", backend.address().port());
    let output = Command::new(ss).args(["-tnoH", "state", "established", &to_server]).output();
    let text = String::from_utf8(output.expect("ss runs").stdout).expect("text");
    assert!(text.contains("timer:(keepalive,1min"), "{text}");
}

#[test]
fn what_comes_from_clients_is_held_to_its_rate() {
    let (directory, port, backend) = (Directory::new(), Port::new(), Backend::echo());
    let keys = format!("proxy_pass = \"{}\"\nupload_rate = \"400000b\"", backend.address());
    let _drover = start(&directory, &port, &keys, |config| config);
    let mut client = connect(port.address());
    let begun = Instant::now();
    client.write_all(&[b'x'; 200_000]).expect("sent");
    client.shutdown(Shutdown::Write).expect("half-closed");
    assert_eq!(rest(&client).len(), 200_000);
    // What may come at once is an eighth of a second's worth.
    assert!(begun.elapsed() >= Duration::from_millis(370), "took {:?}", begun.elapsed());
}

#[test]
fn lines_are_objects_of_json_and_tell_all_there_is() {
    let (directory, port, backend) = (Directory::new(), Port::new(), Backend::echo());
    let log = drover_tests::config::toml_string(&directory.join("json.log").display().to_string());
    let format = "all.json = { up = \"$bytes_received\", down = \"$bytes_sent\", to_server = \"$upstream_bytes_sent\", \
        from_server = \"$upstream_bytes_received\", connect = \"$upstream_connect_time\", time = \"$session_time\", \
        server = \"$upstream_addr\", reason = \"$close_reason\", status = \"$status\" }";
    let keys = format!(
        "proxy_pass = \"{}\"\naccess_log = {{ file = {log}, format = \"all\", flush = \"20ms\" }}",
        backend.address()
    );
    let _drover = start(&directory, &port, &keys, |config| config.stream_log_format(format));
    let mut client = connect(port.address());
    client.write_all(b"four").expect("sent");
    client.shutdown(Shutdown::Write).expect("half-closed");
    assert_eq!(rest(&client), "four");
    drop(client);
    let line = eventually("a line", || {
        let text = directory.read("json.log");
        text.ends_with('\n').then_some(text)
    });
    let object: Value = serde_json::from_str(&line).expect("an object");
    for (name, value) in [("up", "4"), ("down", "4"), ("to_server", "4"), ("from_server", "4")] {
        assert_eq!(object[name].as_str(), Some(value), "{name} in {line}");
    }
    assert_eq!(object["server"].as_str(), Some(backend.address().to_string().as_str()));
    assert_eq!((object["reason"].as_str(), object["status"].as_str()), (Some("finished"), Some("200")));
    let seconds = |name: &str| object[name].as_str().and_then(|text| text.parse::<f64>().ok());
    assert!(seconds("time").is_some() && seconds("connect").is_some(), "{line}");
}

#[test]
fn lines_go_to_a_syslog_daemon() {
    let syslog = drover_tests::datagrams::socket();
    let (directory, port, backend) = (Directory::new(), Port::new(), Backend::named("hello"));
    let keys = format!(
        "proxy_pass = \"{}\"\naccess_log = {{ syslog = {{ to = \"{}\", tag = \"streams\" }}, format = \"by_worker\" }}",
        backend.address(),
        syslog.local_addr().expect("an address")
    );
    let _drover = start(&directory, &port, &keys, |config| config);
    assert_eq!(rest(connect(port.address())), "hello");
    let mut buffer = [0; 1024];
    let count = syslog.recv(&mut buffer).expect("a line");
    let line = String::from_utf8_lossy(&buffer[..count]);
    // local7.info is 23 * 8 + 6.
    assert!(line.starts_with("<190>") && line.contains(" streams") && line.contains(" TCP 0 5 "), "{line}");
    assert!(line.trim_end().ends_with(" finished"), "{line}");
}

#[test]
fn a_client_of_ipv6_reaches_a_server_of_ipv4_which_is_told_so() {
    let Ok(probe) = TcpListener::bind("[::1]:0") else { return packages::skip("there is no IPv6 here") };
    drop(probe);
    let (directory, port, backend) = (Directory::new(), Port::new(), Backend::echo());
    let keys = format!(
        "listen = [\"[::1]:{port}\"]\nproxy_pass = \"{}\"\nproxy_protocol = \"v1\"",
        backend.address()
    );
    let _drover = Drover::start(&directory, &Config::new(&directory, 1).proxy(&keys));
    let address: SocketAddr = format!("[::1]:{port}").parse().expect("an address");
    let client = connect(address);
    let own = client.local_addr().expect("an address").port();
    client.shutdown(Shutdown::Write).expect("half-closed");
    assert_eq!(rest(&client), format!("PROXY TCP6 ::1 ::1 {own} {port}\r\n"));
}
