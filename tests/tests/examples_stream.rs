//! The examples of streams in `config/examples/`: each is complete, is started as it is but for its ports and its
//! directory, and does what it says.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use drover_tests::binary::source_root;
use drover_tests::client_hello::client_hello;
use drover_tests::datagrams::{ask, socket};
use drover_tests::name_servers::{OF_DNSMASQ, OF_UNBOUND, dnsmasq, unbound};
use drover_tests::wait::SOON;
use drover_tests::{Backend, Directory, Drover, Port, dns, eventually, packages};

/// Starts an example with other addresses instead of its own.
fn start(directory: &Directory, name: &str, addresses: &[(&str, String)]) -> Drover {
    let file = source_root().join(format!("config/examples/{name}.toml"));
    let mut text = fs::read_to_string(file).expect("the example is there");
    let place = |name: &str| drover_tests::config::toml_string(&directory.join(name).display().to_string());
    let run = format!("runtime_dir = {}\npid_file = {}", place("run"), place("drover.pid"));
    let own = (format!("runtime_dir = \"/tmp/drover-{name}\""), run);
    let others = addresses.iter().map(|(from, to)| (format!("\"{from}\""), format!("\"{to}\"")));
    for (from, to) in std::iter::once(own).chain(others) {
        assert!(text.contains(&from), "{name} has {from}");
        text = text.replace(&from, &to);
    }
    Drover::start_text(directory, &text)
}

fn connect(port: &Port) -> TcpStream {
    let stream = TcpStream::connect(port.address()).expect("connects");
    stream.set_read_timeout(Some(SOON)).expect("set");
    stream
}

fn heard(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn database() {
    let (directory, port) = (Directory::new(), Port::new());
    let (primary, backup) = (Backend::named("primary"), Backend::named("backup"));
    let addresses = [
        ("127.0.0.1:6432", port.address().to_string()),
        ("127.0.0.1:5432", primary.address().to_string()),
        ("127.0.0.1:5433", backup.address().to_string()),
    ];
    let drover = start(&directory, "database", &addresses);
    for _ in 0..3 {
        assert_eq!(heard(connect(&port)), "primary");
    }
    drop(primary);
    eventually("the other server is asked", || (heard(connect(&port)) == "backup").then_some(()));
    drover.log_line(&["127.0.0.1 ", &backup.address().to_string(), " 6 down: "]);
    // The limit of connections at once, for servers that keep theirs open.
    let (directory, port, echo) = (Directory::new(), Port::new(), Backend::echo());
    let addresses =
        [("127.0.0.1:6432", port.address().to_string()), ("127.0.0.1:5432", echo.address().to_string())];
    let _drover = start(&directory, "database", &addresses);
    let mut open: Vec<TcpStream> = (0..50).map(|_| connect(&port)).collect();
    for client in &mut open {
        client.write_all(b"x").expect("sent");
        client.read_exact(&mut [0]).expect("answered");
    }
    assert_eq!(heard(connect(&port)), "", "the fifty-first is refused");
}

#[test]
fn name_servers() {
    let Some(dnsmasq_program) = packages::tool_or_skip("dnsmasq", "dnsmasq-base") else { return };
    let Some(unbound_program) = packages::tool_or_skip("unbound", "unbound") else { return };
    let (directory, port, inner) = (Directory::new(), Port::new(), [Port::new(), Port::new()]);
    let first = dnsmasq(&directory, &dnsmasq_program, &inner[0]);
    let _second = unbound(&directory, &unbound_program, &inner[1]);
    let addresses = [
        ("127.0.0.1:5354", port.address().to_string()),
        ("127.0.0.1:5301", inner[0].address().to_string()),
        ("127.0.0.1:5302", inner[1].address().to_string()),
    ];
    let _drover = start(&directory, "dns", &addresses);
    let question = dns::question(7, "www.example.test");
    let address = || {
        let (message, _) = ask(&socket(), port.address().into(), &question);
        dns::answer(&question, &message).expect("an answer")
    };
    let answers: Vec<_> = (0..20).map(|_| address()).collect();
    assert!(answers.contains(&OF_DNSMASQ) && answers.contains(&OF_UNBOUND), "{answers:?}");
    drop(first);
    assert!((0..20).all(|_| address() == OF_UNBOUND));
    let mut client = connect(&port);
    client.write_all(&[&(question.len() as u16).to_be_bytes(), question.as_slice()].concat()).expect("sent");
    let mut length = [0; 2];
    client.read_exact(&mut length).expect("answered");
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    client.read_exact(&mut message).expect("answered");
    assert_eq!(dns::answer(&question, &message), Some(OF_UNBOUND));
}

#[test]
fn names_of_tls() {
    let (directory, port) = (Directory::new(), Port::new());
    // They say who they are, and what they were sent.
    let named = |name: &'static str| {
        Backend::new(move |mut stream| {
            let mut bytes = name.as_bytes().to_vec();
            let _ = stream.read_to_end(&mut bytes);
            let _ = stream.write_all(&bytes);
        })
    };
    let (first, second, mail) = (named("web"), named("web"), named("mail"));
    let addresses = [
        ("127.0.0.1:8443", port.address().to_string()),
        ("127.0.0.1:8444", first.address().to_string()),
        ("127.0.0.1:8445", second.address().to_string()),
        ("127.0.0.1:8465", mail.address().to_string()),
    ];
    let drover = start(&directory, "sni-router", &addresses);
    for (name, server) in [
        (Some("www.example.org"), "web"),
        (Some("a.shop.example"), "web"),
        (Some("mail.example.org"), "mail"),
        (Some("other.example.org"), ""),
        (None, ""),
    ] {
        let mut client = connect(&port);
        let hello = client_hello(name);
        client.write_all(&hello).expect("sent");
        let _ = client.shutdown(Shutdown::Write);
        let mut heard = Vec::new();
        let _ = client.read_to_end(&mut heard);
        assert!(heard.starts_with(server.as_bytes()) && heard.is_empty() == server.is_empty(), "{name:?}");
        if !server.is_empty() {
            let passed = &heard[server.len()..];
            assert!(passed.starts_with(b"\r\n\r\n\0\r\nQUIT\n") && passed.ends_with(&hello), "{name:?}");
        }
    }
    let accepted = [first.accepted(), second.accepted()];
    assert!(accepted.contains(&2) && accepted.contains(&0), "one client meets one server: {accepted:?}");
    drover.log_line(&["\"name\":\"mail.example.org\"", "\"end\":\"finished\""]);
    drover.log_line(&["\"name\":\"other.example.org\"", "\"end\":\"unknown_name\""]);
}
