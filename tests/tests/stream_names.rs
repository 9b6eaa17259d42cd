//! The name that a TLS client asks for chooses the server, and nothing is decrypted.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use drover_tests::client_hello::client_hello;
use drover_tests::stream_log::{eventually_lines, the_line};
use drover_tests::wait::SOON;
use drover_tests::{Backend, Config, Directory, Drover, Port, Program, eventually, packages};

/// A server that says its name and then everything that it was sent.
fn named(name: &'static str) -> Backend {
    Backend::new(move |mut stream| {
        let mut bytes = name.as_bytes().to_vec();
        let _ = stream.read_to_end(&mut bytes);
        let _ = stream.write_all(&bytes);
    })
}

/// A proxy that passes on what asks for a name under `a.example` to `first`, everything else to `other`.
fn start(directory: &Directory, port: &Port, first: &Backend, other: &Backend, more: &str) -> Drover {
    let keys = format!(
        "listen = [\"{}\"]\nproxy_pass = \"{}\"\nserver_names = {{ \"*.a.example\" = \"{}\" }}\n{more}",
        port.address(),
        other.address(),
        first.address()
    );
    Drover::start(directory, &Config::new(directory, 1).proxy(&keys))
}

fn connect(port: &Port) -> TcpStream {
    let stream = TcpStream::connect(port.address()).expect("connects");
    stream.set_nodelay(true).expect("set");
    stream.set_read_timeout(Some(SOON)).expect("set");
    stream
}

/// Sends the parts, each in a packet of its own, and gives what comes back.
fn exchange(port: &Port, parts: &[&[u8]]) -> Vec<u8> {
    let mut client = connect(port);
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
fn names_choose_servers_and_every_byte_is_passed_on() {
    let (directory, port, first, other) = (Directory::new(), Port::new(), named("first"), named("other"));
    let _drover = start(&directory, &port, &first, &other, "");
    let cases: [(Vec<u8>, &str, &str); 5] = [
        (client_hello(Some("www.a.example")), "first", "www.a.example"),
        (client_hello(Some("WWW.A.Example")), "first", "www.a.example"),
        (client_hello(Some("b.example")), "other", "b.example"),
        (client_hello(None), "other", "-"),
        (b"GET / HTTP/1.0\r\n\r\n".to_vec(), "other", "-"),
    ];
    for (number, (bytes, server, name)) in cases.into_iter().enumerate() {
        assert_eq!(exchange(&port, &[&bytes, b"rest"]), [server.as_bytes(), &bytes, b"rest"].concat());
        let line = eventually_lines(&directory, number + 1).pop().expect("a line");
        assert!(line.name.eq_ignore_ascii_case(name), "{line:?}");
    }
}

#[test]
fn a_hello_may_be_split_after_every_byte() {
    let (directory, port, first, other) = (Directory::new(), Port::new(), named("first"), named("other"));
    let _drover = start(&directory, &port, &first, &other, "");
    let hello = client_hello(Some("www.a.example"));
    let want = [b"first".as_slice(), &hello].concat();
    for at in 1..hello.len() {
        let (before, after) = hello.split_at(at);
        assert_eq!(exchange(&port, &[before, after]), want, "split after {at} bytes");
    }
    let singly: Vec<&[u8]> = hello.chunks(1).collect();
    assert_eq!(exchange(&port, &singly), want);
    assert_eq!(other.accepted(), 0);
}

#[test]
fn a_hello_cut_after_any_byte_reaches_no_server() {
    let (directory, port, first, other) = (Directory::new(), Port::new(), named("first"), named("other"));
    let drover = start(&directory, &port, &first, &other, "");
    let hello = client_hello(Some("www.a.example"));
    for length in 0..hello.len() {
        assert_eq!(exchange(&port, &[&hello[..length]]), b"", "{length} bytes");
    }
    let lines = eventually_lines(&directory, hello.len());
    assert!(lines.iter().all(|line| line.reason == "client_gone"), "{lines:?}");
    assert_eq!((first.accepted(), other.accepted()), (0, 0));
    assert_eq!(drover.status().workers.iter().map(|worker| worker.connections).sum::<u64>(), 0);
}

#[test]
fn a_hello_that_lies_about_its_lengths_ends_its_connection_alone() {
    let (directory, port, first, other) = (Directory::new(), Port::new(), named("first"), named("other"));
    let keys = "preread_timeout = \"300ms\"";
    let drover = start(&directory, &port, &first, &other, keys);
    let (hello, worker) = (client_hello(Some("www.a.example")), drover.worker());
    // Each byte in turn is the greatest there is: some change nothing that matters here, none may do harm.
    for at in 0..hello.len() {
        let mut bytes = hello.clone();
        bytes[at] = 0xff;
        exchange(&port, &[&bytes]);
    }
    assert_eq!(exchange(&port, &[&hello]), [b"first".as_slice(), &hello].concat());
    assert_eq!(drover.worker(), worker);
    let lines = eventually_lines(&directory, hello.len() + 1);
    assert!(lines.iter().any(|line| line.reason == "bad_client_hello"), "{lines:?}");
}

#[test]
fn a_hello_has_its_time_however_it_drips() {
    let (directory, port, first, other) = (Directory::new(), Port::new(), named("first"), named("other"));
    let _drover = start(&directory, &port, &first, &other, "preread_timeout = \"500ms\"");
    let mut client = connect(&port);
    client.set_read_timeout(Some(Duration::from_millis(50))).expect("set");
    // A byte each time that the proxy is heard to say nothing for 50 ms.
    let hello = client_hello(Some("www.a.example"));
    let ended = hello.iter().any(|byte| {
        client.write_all(&[*byte]).is_err()
            || !matches!(client.read(&mut [0]), Err(error) if is_silence(&error))
    });
    assert!(ended, "all of it was heard");
    assert_eq!(the_line(&directory).reason, "preread_timeout");
}

fn is_silence(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::WouldBlock
}

/// A server of openssl's whose certificate has this name.
fn tls_server(directory: &Directory, openssl: &Path, name: &str, port: &Port) -> Program {
    let (key, certificate) = (format!("{name}.key"), format!("{name}.pem"));
    let made = Command::new(openssl)
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
        .args(["-days", "2", "-subj", &format!("/CN={name}"), "-keyout", &key, "-out", &certificate])
        .current_dir(directory.path())
        .stderr(Stdio::null())
        .status();
    assert!(made.expect("openssl runs").success());
    let listen = port.address().to_string();
    let arguments = ["s_server", "-accept", &listen, "-key", &key, "-cert", &certificate, "-www"];
    let server = Program::start(directory, openssl, arguments);
    eventually("openssl listens", || TcpStream::connect(port.address()).ok());
    server
}

#[test]
fn handshakes_of_openssl_reach_the_server_of_the_name() {
    let Some(openssl) = packages::tool_or_skip("openssl", "openssl") else { return };
    let (directory, port, ports) = (Directory::new(), Port::new(), [Port::new(), Port::new()]);
    let names = ["one.example", "two.example"];
    let _servers: Vec<Program> =
        names.iter().zip(&ports).map(|(name, port)| tls_server(&directory, &openssl, name, port)).collect();
    let keys = format!(
        "listen = [\"{}\"]\nserver_names = {{ \"one.example\" = \"{}\", \"two.example\" = \"{}\" }}",
        port.address(),
        ports[0].address(),
        ports[1].address()
    );
    let _drover = Drover::start(&directory, &Config::new(&directory, 2).proxy(&keys));
    let shake_hands = |name: &str, version: &str| {
        let output = Command::new(&openssl)
            .args(["s_client", "-connect", &port.address().to_string(), "-servername", name, version])
            .stdin(Stdio::null())
            .output()
            .expect("openssl runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for name in names {
        for version in ["-tls1_2", "-tls1_3"] {
            let said = shake_hands(name, version);
            assert!(said.contains(&format!("subject=CN = {name}")), "{version} {name}: {said}");
        }
    }
    assert!(!shake_hands("three.example", "-tls1_3").contains("subject="));
    let lines = eventually_lines(&directory, 5);
    assert_eq!(lines.iter().filter(|line| line.reason == "unknown_name").count(), 1, "{lines:?}");
}
