//! TCP connections are passed on: bytes and ends both ways, time-outs, other servers, unix sockets.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use drover_tests::stream_log::{eventually_lines, the_line};
use drover_tests::wait::SOON;
use drover_tests::{Backend, Config, Directory, Drover, Port, eventually};

/// A proxy on a port of its own.
fn proxy(directory: &Directory, port: &Port, keys: &str) -> Config {
    Config::new(directory, 2).proxy(&format!("listen = [\"{}\"]\n{keys}", port.address()))
}

fn connect(port: &Port) -> TcpStream {
    let stream = TcpStream::connect(port.address()).expect("connects");
    stream.set_read_timeout(Some(SOON)).expect("a time-out");
    stream
}

fn rest(mut stream: impl Read) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("the stream ends");
    text
}

#[test]
fn bytes_and_ends_pass_both_ways() {
    let (directory, port, backend) = (Directory::new(), Port::new(), Backend::echo());
    let config = proxy(&directory, &port, &format!("proxy_pass = \"{}\"", backend.address()));
    let _drover = Drover::start(&directory, &config);
    let mut client = connect(&port);
    client.write_all(b"question").expect("sent");
    let mut answer = [0; 8];
    client.read_exact(&mut answer).expect("answered");
    assert_eq!(&answer, b"question");
    let bulk = vec![b'x'; 3 << 20];
    let mut writing = client.try_clone().expect("cloned");
    let writer = std::thread::spawn(move || {
        writing.write_all(&bulk).expect("sent");
        writing.shutdown(Shutdown::Write).expect("half-closed");
    });
    assert_eq!(rest(&client).len(), 3 << 20, "what comes after the client's end still arrives");
    writer.join().expect("sent");
    let line = the_line(&directory);
    assert_eq!((line.protocol.as_str(), line.reason.as_str()), ("TCP", "finished"));
    assert_eq!((line.received, line.sent), ((3 << 20) + 8, (3 << 20) + 8));
    assert_eq!(line.servers, [backend.address().to_string()]);
}

#[test]
fn a_server_that_speaks_first_is_heard() {
    let (directory, port, backend) = (Directory::new(), Port::new(), Backend::named("220 ready"));
    let config = proxy(&directory, &port, &format!("proxy_pass = \"{}\"", backend.address()));
    let _drover = Drover::start(&directory, &config);
    assert_eq!(rest(connect(&port)), "220 ready");
}

#[test]
fn silence_ends_both_connections() {
    let (directory, port, backend) = (Directory::new(), Port::new(), Backend::echo());
    let keys = format!("proxy_pass = \"{}\"\nidle_timeout = \"300ms\"", backend.address());
    let _drover = Drover::start(&directory, &proxy(&directory, &port, &keys));
    let client = connect(&port);
    assert_eq!(rest(&client), "");
    assert_eq!(the_line(&directory).reason, "idle_timeout");
}

#[test]
fn half_a_connection_may_have_less_time() {
    // A server that never ends its stream.
    let backend = Backend::new(|mut stream| while stream.read(&mut [0; 64]).is_ok() {});
    let (directory, port) = (Directory::new(), Port::new());
    let keys = format!("proxy_pass = \"{}\"\nhalf_closed_timeout = \"400ms\"", backend.address());
    let _drover = Drover::start(&directory, &proxy(&directory, &port, &keys));
    let client = connect(&port);
    client.shutdown(Shutdown::Write).expect("half-closed");
    assert_eq!(rest(&client), "");
    assert_eq!(the_line(&directory).reason, "idle_timeout");
}

#[test]
fn a_server_that_refuses_is_told_and_another_is_tried() {
    let (directory, dead, group, single) = (Directory::new(), Port::new(), Port::new(), Port::new());
    let backend = Backend::named("second");
    let (refusing, living) = (dead.address(), backend.address());
    let config = proxy(&directory, &group, "proxy_pass = \"group\"")
        .proxy(&format!("listen = [\"{}\"]\nproxy_pass = \"{refusing}\"", single.address()))
        .stream_upstream(
            "group",
            &format!("servers = [{{ address = \"{refusing}\", max_fails = 0 }}, \"{living}\"]"),
        );
    let drover = Drover::start(&directory, &config);
    for _ in 0..10 {
        assert_eq!(rest(connect(&group)), "second");
    }
    let lines = eventually_lines(&directory, 10);
    assert!(lines.iter().all(|line| line.reason == "finished"), "{lines:?}");
    let tried = |count: usize| lines.iter().filter(|line| line.servers.len() == count).count();
    assert!(tried(2) >= 1 && tried(1) >= 1, "round robin begins with either: {lines:?}");
    // Where there is no other, the client is let go of.
    assert_eq!(rest(connect(&single)), "");
    let lines = eventually_lines(&directory, 11);
    assert_eq!(lines[10].reason, "connect_refused");
    drover.log_line(&["stream on", &refusing.to_string(), "Connection refused"]);
}

#[test]
fn complaints_about_a_server_do_not_flood_the_log() {
    let (directory, dead, port) = (Directory::new(), Port::new(), Port::new());
    let config = proxy(&directory, &port, &format!("proxy_pass = \"{}\"", dead.address()));
    let drover = Drover::start(&directory, &config);
    let begun = Instant::now();
    for _ in 0..200 {
        rest(connect(&port));
    }
    eventually_lines(&directory, 200);
    let lines = drover.log_lines(&["Connection refused"]).len();
    let most = 2 * (begun.elapsed().as_secs() as usize + 2);
    assert!((1..=most).contains(&lines), "{lines} lines in {:?}", begun.elapsed());
}

#[test]
fn unix_sockets_serve_on_both_sides() {
    let directory = Directory::new();
    let (outer, inner) = (directory.join("outer.sock"), directory.join("inner.sock"));
    let listener = UnixListener::bind(&inner).expect("a socket");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("accepted");
            let mut text = String::new();
            stream.read_to_string(&mut text).expect("received");
            stream.write_all(text.to_uppercase().as_bytes()).expect("sent");
        }
    });
    let keys = format!("listen = [\"unix:{}\"]\nproxy_pass = \"unix:{}\"", outer.display(), inner.display());
    let drover = Drover::start(&directory, &Config::new(&directory, 2).proxy(&keys));
    for _ in 0..5 {
        let mut client = UnixStream::connect(&outer).expect("connects");
        client.write_all(b"text").expect("sent");
        client.shutdown(Shutdown::Write).expect("half-closed");
        assert_eq!(rest(client), "TEXT");
    }
    drover.reload();
    assert!(UnixStream::connect(&outer).is_ok());
}

#[test]
fn rates_hold_up_and_down_by_themselves() {
    let (directory, port, backend) = (Directory::new(), Port::new(), Backend::echo());
    let keys = format!("proxy_pass = \"{}\"\ndownload_rate = \"400000b\"", backend.address());
    let _drover = Drover::start(&directory, &proxy(&directory, &port, &keys));
    let mut client = connect(&port);
    let begun = Instant::now();
    client.write_all(&[b'x'; 200_000]).expect("sent");
    client.shutdown(Shutdown::Write).expect("half-closed");
    assert_eq!(rest(client).len(), 200_000);
    // What may come at once is an eighth of a second's worth.
    assert!(begun.elapsed() >= Duration::from_millis(370), "took {:?}", begun.elapsed());
}

#[test]
fn probes_are_set_on_the_sockets_of_clients() {
    let (directory, port, backend) = (Directory::new(), Port::new(), Backend::echo());
    let keys = format!(
        "listen = [{{ address = \"{}\", tcp_keepalive = {{ idle = \"77s\" }} }}]\nproxy_pass = \"{}\"",
        port.address(),
        backend.address()
    );
    let drover = Drover::start(&directory, &Config::new(&directory, 1).proxy(&keys));
    let mut client = connect(&port);
    client.write_all(b"x").expect("sent");
    client.read_exact(&mut [0]).expect("answered");
    let Some(ss) = drover_tests::packages::tool_or_skip("ss", "iproute2") else { return };
    let sport = format!("sport = :{port}");
    let output = std::process::Command::new(ss).args(["-tnoH", "state", "established", &sport]).output();
    let text = String::from_utf8(output.expect("ss runs").stdout).expect("text");
    assert!(text.contains("timer:(keepalive,1min"), "{text}");
    drop(drover);
}

#[test]
fn a_reset_is_told_with_its_side() {
    let backend = Backend::new(|mut stream| {
        let _ = stream.read(&mut [0; 1]);
        let linger = nix::libc::linger { l_onoff: 1, l_linger: 0 };
        nix::sys::socket::setsockopt(&stream, nix::sys::socket::sockopt::Linger, &linger).expect("set");
    });
    let (directory, port) = (Directory::new(), Port::new());
    let config = proxy(&directory, &port, &format!("proxy_pass = \"{}\"", backend.address()));
    let drover = Drover::start(&directory, &config);
    let mut client = connect(&port);
    client.write_all(b"x").expect("sent");
    assert!(matches!(client.read(&mut [0; 1]), Ok(0) | Err(_)));
    assert_eq!(the_line(&directory).reason, "server_failed");
    eventually("all slots are free again", || {
        drover.status().workers.iter().all(|worker| worker.connections == 0).then_some(())
    });
}
