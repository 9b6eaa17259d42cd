//! What passing on costs: system calls of the worker for a round trip, and for a connection from its beginning to its
//! end.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use drover_tests::strace::Call;
use drover_tests::stream_log::eventually_lines;
use drover_tests::{Backend, Config, Directory, Drover, Port, Strace, eventually};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::TcpCork;

const ROUNDS: usize = 50;

fn start(directory: &Directory, port: &Port, backend: SocketAddr) -> Drover {
    let config = Config::new(directory, 1)
        .events("use = \"epoll\"")
        .proxy(&format!("listen = [\"{}\"]\nproxy_pass = \"{backend}\"", port.address()));
    Drover::start(directory, &config)
}

fn round_trip(client: &mut TcpStream) {
    client.write_all(&[b'x'; 100]).expect("sent");
    client.read_exact(&mut [0; 100]).expect("answered");
}

#[test]
fn a_round_trip_takes_six() {
    let (directory, port, backend) = (Directory::new(), Port::new(), Backend::echo());
    let drover = start(&directory, &port, backend.address());
    let mut client = TcpStream::connect(port.address()).expect("connects");
    round_trip(&mut client);
    let Some(strace) = Strace::attach(&directory, drover.worker(), "all") else { return };
    (0..ROUNDS).for_each(|_| round_trip(&mut client));
    let passed = |calls: &[Call]| calls.iter().filter(|call| call.name == "sendto").count();
    let calls = eventually("strace has seen all", || {
        Some(strace.calls()).filter(|calls| passed(calls) == 2 * ROUNDS)
    });
    // Where the machine is busy one wait may find both, or a wait may end for another reason.
    assert!(calls.len() <= 6 * ROUNDS + 10, "{} calls: {:?}", calls.len(), names(&calls));
}

#[test]
fn a_connection_takes_thirteen_beside_waiting() {
    let (directory, port) = (Directory::new(), Port::new());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let backend = listener.local_addr().expect("an address");
    let drover = start(&directory, &port, backend);
    let Some(strace) = Strace::attach(&directory, drover.worker(), "all") else { return };
    for _ in 0..ROUNDS {
        let mut client = TcpStream::connect(port.address()).expect("connects");
        let (mut server, _) = listener.accept().expect("the proxy connects");
        client.write_all(&[b'x'; 100]).expect("sent");
        server.read_exact(&mut [0; 100]).expect("received");
        // The answer and the end come in one packet.
        setsockopt(&server, TcpCork, &true).expect("set");
        server.write_all(&[b'y'; 100]).expect("sent");
        drop(server);
        client.read_to_end(&mut Vec::new()).expect("received");
    }
    eventually_lines(&directory, ROUNDS);
    // How often it waits depends on what comes together. A build for debugging asks whether a descriptor is open before
    // it closes it. The files of logs are looked at now and then, and a first receive may be tried in vain.
    let mut calls = strace.calls();
    calls.retain(|call| !["epoll_pwait", "fcntl"].contains(&call.name.as_str()));
    assert!(calls.len() <= 13 * ROUNDS + 30, "{} calls: {:?}", calls.len(), names(&calls));
}

fn names(calls: &[Call]) -> Vec<&str> {
    calls.iter().map(|call| call.name.as_str()).take(60).collect()
}
