//! A server may be a name: its addresses are asked for while the daemon runs, without holding it up.

use std::io::Read;
use std::net::{TcpStream, UdpSocket};

use drover_tests::wait::SOON;
use drover_tests::{Backend, Config, Directory, Drover, Port};

fn answer(port: &Port) -> String {
    let mut stream = TcpStream::connect(port.address()).expect("connects");
    stream.set_read_timeout(Some(SOON)).expect("a time-out");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("the stream ends");
    text
}

#[test]
fn a_name_that_this_machine_knows_is_connected_to_from_the_first_connection_on() {
    let (directory, port, backend) = (Directory::new(), Port::new(), Backend::named("here"));
    let name = format!("localhost:{}", backend.address().port());
    let keys = format!("listen = [\"{}\"]\nproxy_pass = \"{name}\"", port.address());
    let drover = Drover::start(&directory, &Config::new(&directory, 3).proxy(&keys));
    // The name may mean ::1 too, where nobody listens: then another of its addresses is tried.
    for _ in 0..10 {
        assert_eq!(answer(&port), "here");
    }
    drover.log_line(&["localhost is now", &backend.address().to_string()]);
    assert_eq!(drover.log_lines(&["localhost is now"]).len(), 1, "one worker asks for all");
    drover.reload();
    assert_eq!(answer(&port), "here");
}

#[test]
fn a_session_of_datagrams_waits_for_the_name_too() {
    let (directory, port) = (Directory::new(), Port::new());
    let server = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let name = format!("localhost:{}", server.local_addr().expect("an address").port());
    std::thread::spawn(move || {
        let mut datagram = [0; 64];
        while let Ok((length, client)) = server.recv_from(&mut datagram) {
            let _ = server.send_to(&datagram[..length], client);
        }
    });
    let listen = format!("listen = [{{ address = \"{}\", udp = true }}]", port.address());
    let config = Config::new(&directory, 1).proxy(&format!("{listen}\nproxy_pass = \"{name}\""));
    let _drover = Drover::start(&directory, &config);
    let client = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    client.set_read_timeout(Some(SOON)).expect("a time-out");
    client.send_to(b"question", port.address()).expect("sent");
    let mut answer = [0; 64];
    let length = client.recv(&mut answer).expect("an answer to the first datagram");
    assert_eq!(&answer[..length], b"question");
}

#[test]
fn a_server_without_an_address_keeps_no_other_from_serving() {
    let (directory, port, backend) = (Directory::new(), Port::new(), Backend::named("here"));
    // RFC 6761: no name under "invalid" has an address.
    let servers = format!("servers = [\"nobody.invalid:80\", \"{}\"]", backend.address());
    let keys = format!("listen = [\"{}\"]\nproxy_pass = \"group\"", port.address());
    let config = Config::new(&directory, 1).proxy(&keys).stream_upstream("group", &servers);
    let drover = Drover::start(&directory, &config);
    for _ in 0..4 {
        assert_eq!(answer(&port), "here");
    }
    drover.log_line(&["upstream \"group\"", "nobody.invalid cannot be resolved"]);
    assert_eq!(answer(&port), "here");
}
