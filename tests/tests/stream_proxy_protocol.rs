//! The PROXY protocol on both sides of a stream: for whom a proxy connects, and who the client is.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use drover_tests::datagrams::{UdpBackend, ask, socket};
use drover_tests::wait::SOON;
use drover_tests::{Backend, Config, Directory, Drover, Port, eventually};

/// Whose words a proxy that speaks version 1 passes on.
const HEADER: &[u8] = b"PROXY TCP4 192.0.2.7 198.51.100.9 1234 5432\r\n";

/// A proxy whose listener has this option, with these keys. Its log says who was passed on, and why it ended.
fn start(directory: &Directory, port: &Port, option: &str, keys: &str) -> Drover {
    let log = drover_tests::config::toml_string(&directory.join("ends.log").display().to_string());
    let config = Config::new(directory, 1)
        .stream_log_format(
            "ends = \"$remote_addr:$remote_port $peer_addr $server_addr:$server_port $close_reason\"",
        )
        .stream(&format!("access_log = {{ file = {log}, format = \"ends\", flush = \"20ms\" }}"))
        .proxy(&format!("listen = [{{ address = \"{}\", {option} }}]\n{keys}", port.address()));
    Drover::start(directory, &config)
}

fn lines(directory: &Directory, count: usize) -> Vec<String> {
    eventually("lines in the log", || {
        let lines: Vec<String> = directory.read("ends.log").lines().map(str::to_owned).collect();
        (lines.len() >= count).then_some(lines)
    })
}

/// Sends the parts, each in a packet of its own, and hears what comes back until the end.
fn exchange(port: &Port, parts: &[&[u8]]) -> Vec<u8> {
    let mut client = TcpStream::connect(port.address()).expect("connects");
    client.set_nodelay(true).expect("set");
    client.set_read_timeout(Some(SOON)).expect("set");
    for part in parts {
        if client.write_all(part).is_err() {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = client.read_to_end(&mut answer);
    answer
}

#[test]
fn a_proxy_says_for_whom_it_connects() {
    let (directory, port, backend) = (Directory::new(), Port::new(), Backend::echo());
    let pass = format!("proxy_pass = \"{}\"", backend.address());
    let _drover = start(&directory, &port, "proxy_protocol = true", &pass);
    assert_eq!(exchange(&port, &[HEADER, b"question"]), b"question");
    assert_eq!(exchange(&port, &[&[HEADER, b"question".as_slice()].concat()]), b"question");
    for line in lines(&directory, 2) {
        assert_eq!(line, "192.0.2.7:1234 127.0.0.1 198.51.100.9:5432 finished");
    }
}

#[test]
fn a_header_may_come_in_any_pieces() {
    let (directory, port, backend) = (Directory::new(), Port::new(), Backend::echo());
    let pass = format!("proxy_pass = \"{}\"", backend.address());
    let _drover = start(&directory, &port, "proxy_protocol = true", &pass);
    for at in 1..HEADER.len() {
        let (first, second) = HEADER.split_at(at);
        assert_eq!(exchange(&port, &[first, second, b"x"]), b"x", "split after {at} bytes");
    }
    let singly: Vec<&[u8]> = HEADER.chunks(1).collect();
    assert_eq!(exchange(&port, &singly), b"");
    let lines = lines(&directory, HEADER.len());
    assert!(lines.iter().all(|line| line.starts_with("192.0.2.7:1234 ")), "{lines:?}");
}

#[test]
fn garbage_is_no_header_and_reaches_no_server() {
    let (directory, port, backend) = (Directory::new(), Port::new(), Backend::echo());
    let pass = format!("proxy_pass = \"{}\"\npreread_timeout = \"300ms\"", backend.address());
    let drover = start(&directory, &port, "proxy_protocol = true", &pass);
    let signature = b"\r\n\r\n\0\r\nQUIT\n";
    let long = [b"PROXY TCP4 ".as_slice(), &[b'1'; 200]].concat();
    let garbage: Vec<Vec<u8>> = vec![
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        b"PROXY TCP4 1.2.3.4 5.6.7.8 99999 1\r\n".to_vec(),
        b"PROXY TCP4 1.2.3 5.6.7.8 1 1\r\n".to_vec(),
        b"PROXY TCP9 1.2.3.4 5.6.7.8 1 1\r\n".to_vec(),
        long,
        [signature.as_slice(), &[0x31, 0x11, 0, 12], &[0; 12]].concat(),
        [signature.as_slice(), &[0x21, 0x11, 0, 3], &[0; 3]].concat(),
        [signature.as_slice(), &[0x21, 0x11, 0xff, 0xff], &[0; 64]].concat(),
        vec![0; 4096],
        vec![0xff; 4096],
    ];
    for (number, bytes) in garbage.iter().enumerate() {
        assert_eq!(exchange(&port, &[bytes]), b"", "garbage {number}");
    }
    let lines = lines(&directory, garbage.len());
    assert!(lines.iter().all(|line| line.ends_with(" bad_proxy_protocol")), "{lines:?}");
    assert_eq!(backend.accepted(), 0);
    // Half a header, and no more.
    let mut silent = TcpStream::connect(port.address()).expect("connects");
    silent.write_all(&HEADER[..20]).expect("sent");
    silent.set_read_timeout(Some(SOON)).expect("set");
    assert!(matches!(silent.read(&mut [0; 1]), Ok(0) | Err(_)));
    assert_eq!(exchange(&port, &[&HEADER[..20]]), b"");
    let lines = self::lines(&directory, garbage.len() + 2);
    assert!(lines[garbage.len()].ends_with(" preread_timeout"), "{lines:?}");
    assert!(lines[garbage.len() + 1].ends_with(" client_gone"), "{lines:?}");
    assert_eq!(exchange(&port, &[HEADER, b"still here"]), b"still here");
    assert_eq!(drover.status().workers.iter().map(|worker| worker.connections).sum::<u64>(), 0);
}

#[test]
fn a_server_is_told_who_the_client_is() {
    for version in ["v1", "v2"] {
        let (directory, port, backend) = (Directory::new(), Port::new(), Backend::echo());
        let keys = format!("proxy_pass = \"{}\"\nproxy_protocol = \"{version}\"", backend.address());
        let _drover = start(&directory, &port, "deferred = false", &keys);
        let client = TcpStream::connect(port.address()).expect("connects");
        let own = client.local_addr().expect("an address");
        (&client).write_all(b"question").expect("sent");
        client.shutdown(Shutdown::Write).expect("half-closed");
        let mut heard = Vec::new();
        (&client).read_to_end(&mut heard).expect("heard");
        let to: SocketAddr = port.address().into();
        let want = match version {
            "v1" => format!("PROXY TCP4 127.0.0.1 127.0.0.1 {} {}\r\n", own.port(), to.port()).into_bytes(),
            _ => binary(0x11, own, to),
        };
        assert_eq!(heard, [want.as_slice(), b"question"].concat(), "{version}");
    }
}

/// A header of version 2 for addresses of IPv4.
fn binary(transport: u8, from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21".to_vec();
    header.extend([transport, 0, 12, 127, 0, 0, 1, 127, 0, 0, 1]);
    header.extend(from.port().to_be_bytes());
    header.extend(to.port().to_be_bytes());
    header
}

#[test]
fn a_server_that_speaks_first_is_told_before() {
    let backend = Backend::new(|mut stream| {
        let mut header = [0; 6];
        let _ = stream.read_exact(&mut header);
        let _ = stream.write_all(&header);
    });
    let (directory, port) = (Directory::new(), Port::new());
    let keys = format!("proxy_pass = \"{}\"\nproxy_protocol = \"v1\"", backend.address());
    let _drover = start(&directory, &port, "deferred = false", &keys);
    let mut client = TcpStream::connect(port.address()).expect("connects");
    client.set_read_timeout(Some(SOON)).expect("set");
    let mut heard = [0; 6];
    client.read_exact(&mut heard).expect("the server answers a header alone");
    assert_eq!(&heard, b"PROXY ");
}

#[test]
fn what_one_proxy_says_another_is_told() {
    let (directory, outer, backend) = (Directory::new(), Port::new(), Backend::echo());
    let keys = format!("proxy_pass = \"{}\"\nproxy_protocol = \"v1\"", backend.address());
    let _drover = start(&directory, &outer, "proxy_protocol = true", &keys);
    assert_eq!(exchange(&outer, &[HEADER, b"x"]), [HEADER, b"x"].concat());
}

#[test]
fn each_datagram_tells_who_the_client_is() {
    let (directory, port, backend) = (Directory::new(), Port::new(), UdpBackend::echo());
    let keys =
        format!("proxy_pass = \"{}\"\nproxy_protocol = \"v2\"\nidle_timeout = \"5s\"", backend.address());
    let drover = start(&directory, &port, "udp = true", &keys);
    let client = socket();
    let to: SocketAddr = port.address().into();
    let own = client.local_addr().expect("an address");
    let told = |text: &[u8]| ask(&client, to, text).0 == [binary(0x12, own, to).as_slice(), text].concat();
    assert!(told(b"one") && told(b""));
    // Behind the header there is no room for this one. The server is not to blame.
    client.send_to(&[0; 65_500], to).expect("sent");
    assert!(told(b"next"));
    assert_eq!(drover.log_lines(&["nobody is there"]), Vec::<String>::new());
    assert_eq!(drover.status().workers[0].connections, 2, "one session");
}
