//! Tunnels outlive a reload for as long as they may, and a stop for no longer.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use drover_tests::stream_log::{eventually_lines, lines, the_line};
use drover_tests::wait::SOON;
use drover_tests::{Backend, Config, Directory, Drover, Port, eventually};
use nix::sys::signal::Signal;

fn start(directory: &Directory, port: &Port, backend: &Backend, shutdown_timeout: &str) -> Drover {
    let keys = format!("listen = [\"{}\"]\nproxy_pass = \"{}\"", port.address(), backend.address());
    let config =
        Config::new(directory, 1).process(&format!("shutdown_timeout = \"{shutdown_timeout}\"")).proxy(&keys);
    Drover::start(directory, &config)
}

fn connect(port: &Port) -> TcpStream {
    let stream = TcpStream::connect(port.address()).expect("connects");
    stream.set_read_timeout(Some(SOON)).expect("set");
    stream
}

#[track_caller]
fn is_answered(client: &mut TcpStream) {
    client.write_all(b"question").expect("sent");
    let mut answer = [0; 8];
    client.read_exact(&mut answer).expect("answered");
    assert_eq!(&answer, b"question");
}

#[test]
fn a_reload_leaves_tunnels_open_until_they_end() {
    let (directory, port, backend) = (Directory::new(), Port::new(), Backend::echo());
    let drover = start(&directory, &port, &backend, "1h");
    let mut old = connect(&port);
    is_answered(&mut old);
    let worker = drover.worker();
    drover.reload_begun();
    let mut new = connect(&port);
    is_answered(&mut new);
    is_answered(&mut old);
    drop(old);
    drover.generation_after(1);
    let line = the_line(&directory);
    assert_eq!((line.pid, line.reason.as_str()), (worker.as_raw(), "finished"));
    is_answered(&mut new);
}

#[test]
fn a_tunnel_that_outlasts_its_time_is_closed() {
    let (directory, port, backend) = (Directory::new(), Port::new(), Backend::echo());
    let drover = start(&directory, &port, &backend, "400ms");
    let mut client = connect(&port);
    is_answered(&mut client);
    let begun = Instant::now();
    drover.reload_begun();
    assert!(matches!(client.read(&mut [0]), Ok(0) | Err(_)));
    assert!(begun.elapsed() >= Duration::from_millis(350), "after {:?}", begun.elapsed());
    assert_eq!(eventually_lines(&directory, 1)[0].reason, "shutdown");
    drover.generation_after(1);
}

#[test]
fn a_graceful_stop_waits_for_tunnels_and_no_longer() {
    let (directory, port, backend) = (Directory::new(), Port::new(), Backend::echo());
    let mut drover = start(&directory, &port, &backend, "1h");
    let mut client = connect(&port);
    is_answered(&mut client);
    drover.signal(Signal::SIGQUIT);
    eventually("nobody listens any more", || TcpStream::connect(port.address()).is_err().then_some(()));
    is_answered(&mut client);
    drop(client);
    assert_eq!(drover.wait(SOON).code(), Some(0));
    // One that looked whether anybody listens may have been let in.
    let passed = lines(&directory);
    assert!(!passed.is_empty() && passed.iter().all(|line| line.reason == "finished"), "{passed:?}");
}
