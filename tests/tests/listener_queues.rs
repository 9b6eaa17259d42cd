//! What `drover status` says of each listener: accepts, and by the kernel's word who waits and who was turned away.

use std::net::{Ipv6Addr, TcpStream, UdpSocket};
use std::time::Duration;

use drover_tests::http::get;
use drover_tests::status::Status;
use drover_tests::{Config, Directory, Drover, Port, eventually, process};
use nix::sys::signal::Signal;
use serde_json::Value;

fn listener(drover: &Drover, address: impl std::fmt::Display) -> Value {
    let status = Status::text(drover.config()).expect("a status");
    let status: Value = serde_json::from_str(&status).expect("JSON");
    let listeners = status["listeners"].as_array().expect("listeners");
    let found = listeners.iter().find(|listener| listener["address"] == address.to_string());
    found.cloned().unwrap_or_else(|| panic!("no {address} in {status:#}"))
}

fn config(directory: &Directory, ports: &[&Port]) -> Config {
    let server = |config: Config, port: &&Port| {
        let listen = format!("listen = [{{ address = \"{}\", backlog = 1 }}]", port.address());
        config.server_with(&listen).location("/", "return = { status = 200 }")
    };
    ports.iter().fold(Config::new(directory, 1), server)
}

#[test]
fn accepts_are_counted_by_listener_and_go_on_over_a_reload() {
    let (directory, first, second) = (Directory::new(), Port::new(), Port::new());
    let drover = Drover::start(&directory, &config(&directory, &[&first, &second]));
    let ask = |port: &Port, times| (0..times).for_each(|_| drop(get(port.address(), "/")));
    ask(&first, 5);
    ask(&second, 2);
    drover.reload();
    ask(&second, 1);
    eventually("all are counted", || {
        let counts = [&first, &second].map(|port| listener(&drover, port.address())["accepts"].clone());
        (counts == [5, 3]).then_some(())
    });
    let first = listener(&drover, first.address());
    assert_eq!(
        (&first["strategy"], &first["sockets"]),
        (&"shared".into(), &1.into()),
        "one worker shares with nobody"
    );
    assert_eq!((&first["backlog"], &first["backlog_granted"]), (&1.into(), &1.into()));
}

#[test]
fn a_full_queue_is_seen_while_the_worker_is_stopped_and_not_forgotten() {
    let (directory, port, other) = (Directory::new(), Port::new(), Port::new());
    let drover = Drover::start(&directory, &config(&directory, &[&port, &other]));
    process::send(drover.worker(), Signal::SIGSTOP);
    // Two fit in a queue of one; what comes after them is turned away.
    let _waiting: Vec<TcpStream> =
        (0..2).map(|_| TcpStream::connect(port.address()).expect("it is queued")).collect();
    let more = TcpStream::connect_timeout(&port.address().into(), Duration::from_millis(300));
    assert!(more.is_err(), "the queue is full");
    let full = listener(&drover, port.address());
    let turned_away = full["overflows"].as_u64().expect("a number");
    assert!(full["waiting"] == 2 && turned_away > 0, "{full:#}");
    let status = Status::text(drover.config()).expect("a status");
    assert!(status.contains(&format!("2 of 1 connections wait at {}", port.address())), "{status}");

    process::send(drover.worker(), Signal::SIGCONT);
    config(&directory, &[&other]).write(&directory);
    drover.reload_begun();
    let gone = listener(&drover, port.address());
    assert_eq!((&gone["serves"], &gone["waiting"]), (&false.into(), &Value::Null), "{gone:#}");
    assert!(gone["overflows"].as_u64() >= Some(turned_away), "{gone:#}");
}

/// Datagrams have no backlog, and wait as bytes; both families are looked through.
#[test]
fn datagrams_that_wait_or_are_lost_are_seen_at_addresses_of_both_families() {
    let (directory, port) = (Directory::new(), Port::new());
    let (four, six) = (port.address().to_string(), format!("[::]:{}", port.address().port()));
    let listen = [&four, &six].map(|address| format!("{{ address = \"{address}\", udp = true }}"));
    let proxy = format!("listen = [{}]\nproxy_pass = \"{four}\"", listen.join(", "));
    let drover = Drover::start(&directory, &Config::new(&directory, 1).proxy(&proxy));
    let said = || Status::text(drover.config()).expect("a status");
    assert!(!said().contains("backlog of"), "{}", said());

    process::send(drover.worker(), Signal::SIGSTOP);
    let send = |to: std::net::SocketAddr, own: &str, count| {
        let socket = UdpSocket::bind(own).expect("a socket");
        (0..count).for_each(|_| drop(socket.send_to(&[0; 1000], to)));
    };
    let port = port.address().port();
    send((Ipv6Addr::LOCALHOST, port).into(), "[::1]:0", 3);
    let six = listener(&drover, format!("udp:{six}"));
    assert!(six["waiting_bytes"].as_u64() >= Some(3000), "{six:#}");
    assert_eq!(
        (&six["backlog_granted"], &six["waiting"], &six["overflows"]),
        (&Value::Null, &Value::Null, &0.into())
    );
    let empty = listener(&drover, format!("udp:{four}"));
    assert_eq!((&empty["waiting_bytes"], &empty["transport"]), (&0.into(), &"udp".into()), "{empty:#}");
    // More than any kernel lets wait at a socket unless asked for more.
    send(four.parse().expect("an address"), "127.0.0.1:0", 5000);
    let full = listener(&drover, format!("udp:{four}"));
    assert!(full["overflows"].as_u64() > Some(0), "{full:#}");
    let text = said();
    assert!(text.contains("datagrams at ") && text.contains("net.core.rmem_default"), "{text}");
    process::send(drover.worker(), Signal::SIGCONT);
}
