//! Sockets that systemd has opened are used where the config listens on their address or their name.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use drover_tests::http::get;
use drover_tests::masters::{quit, upgrade};
use drover_tests::systemd::passing;
use drover_tests::{Config, Directory, Drover, Port, sockets};
use nix::sys::signal::Signal;

fn listening(port: &Port) -> OwnedFd {
    TcpListener::bind(port.address()).expect("the port is ours").into()
}

fn on(directory: &Directory, listens: &[&str]) -> Config {
    let listens: Vec<String> = listens.iter().map(|listen| format!("\"{listen}\"")).collect();
    Config::new(directory, 2)
        .server_with(&format!("listen = [{}]", listens.join(", ")))
        .location("/", "return = { status = 200, body = \"ok\\n\" }")
}

/// Over a reload, an upgrade and the end it stays systemd's socket.
fn lives_with(listen: impl Fn(&Port) -> String, name: &str) {
    let (directory, port) = (Directory::new(), Port::new());
    let socket = listening(&port);
    let kept = socket.try_clone().expect("systemd keeps it");
    let before = sockets::listening(port.number());
    let mut drover =
        Drover::try_start(&directory, &on(&directory, &[&listen(&port)]), &passing([socket], &[name]))
            .expect("it starts");
    drover.log_line(&[&format!("{} is `{name}` ({}), passed by systemd", listen(&port), port.address())]);
    assert_eq!(get(port.address(), "/").text(), "ok\n");
    drover.reload();
    assert_eq!(get(port.address(), "/").text(), "ok\n");

    let new = upgrade(&directory);
    drover.signal(Signal::SIGQUIT);
    assert!(drover.wait(Duration::from_secs(10)).success());
    assert_eq!(get(port.address(), "/").text(), "ok\n");
    assert_eq!(sockets::listening(port.number()), before, "one socket all the time");
    quit(new);
    assert_eq!(sockets::listening(port.number()), before, "and after the end");

    // What connects meanwhile waits for the next start.
    let mut early = drover_tests::Client::to(port.address());
    early.ask("/");
    let _next = Drover::try_start(&directory, &on(&directory, &[&listen(&port)]), &passing([kept], &[name]))
        .expect("it starts again");
    assert_eq!(early.response().text(), "ok\n");
}

#[test]
fn one_with_the_address() {
    lives_with(|port| port.address().to_string(), "drover.socket");
}

#[test]
fn one_with_the_name() {
    lives_with(|_| "systemd:web".to_owned(), "web");
}

#[test]
fn the_file_of_a_unix_socket_is_systemds_too() {
    let directory = Directory::new();
    let path = directory.join("web.sock");
    let socket = UnixListener::bind(&path).expect("the directory is ours");
    let inode = path.metadata().expect("a file").ino();
    let listen = format!("unix:{}", path.display());
    let mut drover =
        Drover::try_start(&directory, &on(&directory, &[&listen]), &passing([socket.into()], &["web"]))
            .expect("it starts");
    drover.reload();
    assert!(UnixStream::connect(&path).is_ok());
    drover.signal(Signal::SIGTERM);
    assert!(drover.wait(Duration::from_secs(10)).success());
    assert_eq!(path.metadata().expect("the file is left").ino(), inode);
}

#[test]
fn what_does_not_match_is_told_on_both_sides() {
    let (directory, wanted, stray) = (Directory::new(), Port::new(), Port::new());
    let passed = listening(&stray);
    let listen = wanted.address().to_string();
    let drover = Drover::try_start(&directory, &on(&directory, &[&listen]), &passing([passed], &["web"]))
        .expect("it starts");
    let here = format!("`web` ({}) was passed by systemd, and no server listens there", stray.address());
    drover.log_line(&["WARN", &here]);
    drover.log_line(&[&format!("systemd passed no socket for {listen}: it is opened here")]);
    assert_eq!(get(wanted.address(), "/").text(), "ok\n");
    assert!(sockets::held(drover.master(), stray.number()).is_empty(), "what is not used is closed");
}

#[test]
fn a_name_that_is_not_passed_is_refused() {
    let (directory, port) = (Directory::new(), Port::new());
    let config = on(&directory, &["systemd:web"]);
    let surroundings = passing([listening(&port)], &["admin"]);
    let failure = Drover::try_start(&directory, &config, &surroundings).expect_err("refused");
    assert_eq!(failure.code, Some(1));
    let expected = format!("no socket of that name was passed (but `admin` ({}))", port.address());
    assert!(failure.stderr.contains(&expected), "{}", failure.stderr);

    let failure = Drover::try_start(&directory, &config, &Default::default()).expect_err("refused");
    assert!(failure.stderr.contains("LISTEN_FDS is not for this process"), "{}", failure.stderr);
}

#[test]
fn a_name_that_a_reload_adds_is_refused_and_nothing_changes() {
    let (directory, port) = (Directory::new(), Port::new());
    let address = port.address().to_string();
    let config = on(&directory, &[&address]);
    let drover =
        Drover::try_start(&directory, &config, &passing([listening(&port)], &["web"])).expect("it starts");
    on(&directory, &[&address, "systemd:more"]).write(&directory);
    drover.signal(Signal::SIGHUP);
    drover.log_line(&["cannot listen on systemd:more", "only a restart of the service can take it over"]);
    assert_eq!(get(port.address(), "/").text(), "ok\n");
    assert_eq!(drover.status().generation(), 1);
}

#[test]
fn each_of_two_goes_where_it_belongs() {
    let (directory, first, second) = (Directory::new(), Port::new(), Port::new());
    let config = Config::new(&directory, 1)
        .events("accept = \"reuseport\"")
        .server_with("listen = [\"systemd:b\"]")
        .location("/", "return = { status = 200, body = \"b\\n\" }")
        .server_with("listen = [\"systemd:a\"]")
        .location("/", "return = { status = 200, body = \"a\\n\" }");
    let surroundings = passing([listening(&first), listening(&second)], &["a", "b"]);
    let drover = Drover::try_start(&directory, &config, &surroundings).expect("it starts");
    assert_eq!(
        (get(first.address(), "/").text(), get(second.address(), "/").text()),
        ("a\n".into(), "b\n".into())
    );
    drover.log_line(&["uses `shared` instead of `reuseport`"]);
    drover.log_line(&["systemd passes one socket"]);
}

#[test]
fn a_connection_is_no_listening_socket() {
    let (directory, port) = (Directory::new(), Port::new());
    let listener = TcpListener::bind(port.address()).expect("the port is ours");
    let connection = std::net::TcpStream::connect(port.address()).expect("somebody listens");
    let config = on(&directory, &["systemd:web"]);
    let failure =
        Drover::try_start(&directory, &config, &passing([connection.into()], &["web"])).expect_err("no");
    assert!(failure.stderr.contains("Accept=no"), "{}", failure.stderr);
    drop(listener);
}
