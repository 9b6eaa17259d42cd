//! Real name servers, for the domain `example.test` only.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use crate::{Directory, Port, Program, dns, eventually};

/// What dnsmasq answers with.
pub const OF_DNSMASQ: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// What unbound answers with.
pub const OF_UNBOUND: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

/// Starts dnsmasq on a port of 127.0.0.1, and waits until it answers.
///
/// # Panics
///
/// When it does not.
pub fn dnsmasq(directory: &Directory, program: &Path, port: &Port) -> Program {
    let place = directory.path().display();
    let arguments = [
        "--keep-in-foreground".to_owned(),
        format!("--port={port}"),
        "--listen-address=127.0.0.1".to_owned(),
        "--bind-interfaces".to_owned(),
        "--conf-file=/dev/null".to_owned(),
        format!("--pid-file={place}/dnsmasq.pid"),
        "--no-resolv".to_owned(),
        "--no-hosts".to_owned(),
        "--user=root".to_owned(),
        "--log-facility=-".to_owned(),
        format!("--address=/example.test/{OF_DNSMASQ}"),
    ];
    let server = Program::start(directory, program, arguments);
    wait_for(port, "dnsmasq");
    server
}

/// Starts unbound on a port of 127.0.0.1, and waits until it answers.
///
/// # Panics
///
/// When it does not.
pub fn unbound(directory: &Directory, program: &Path, port: &Port) -> Program {
    let place = directory.path().display();
    let config = directory.write(
        "unbound.conf",
        format!(
            r#"server:
    interface: 127.0.0.1@{port}
    directory: "{place}"
    chroot: ""
    username: ""
    pidfile: ""
    do-daemonize: no
    use-syslog: no
    access-control: 127.0.0.0/8 allow
    local-zone: "example.test." redirect
    local-data: "example.test. 60 IN A {OF_UNBOUND}"
remote-control:
    control-enable: no
"#
        ),
    );
    let server = Program::start(directory, program, ["-d".into(), "-c".into(), config.into_os_string()]);
    wait_for(port, "unbound");
    server
}

fn wait_for(port: &Port, name: &str) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    socket.set_read_timeout(Some(Duration::from_millis(200))).expect("a time-out");
    let question = dns::question(1, "ready.example.test");
    eventually(&format!("{name} answers"), || {
        socket.send_to(&question, port.address()).ok()?;
        let mut message = [0; 512];
        let length = socket.recv(&mut message).ok()?;
        dns::answer(&question, &message[..length])
    });
}
