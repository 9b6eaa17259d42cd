//! Users of a location: the master reads them, so that workers need not, and a reload reads them again.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use drover_tests::{Client, Config, Directory, Drover, Port};
use nix::unistd::Uid;

/// Of the passwords "first" and "second", by `openssl passwd -6`.
const FIRST: &str = "$6$0bPdZkqMMgP8S8WW$KCBOHyiB0ri4wpNzGmbKRsgMACsaYeCrc8vub0yOfM7ZhkpQLXmn1lVDmKmJRbzYcRfhBDx.tpIFyeshenw.W0";
const SECOND: &str = "$6$nz3EaVSMauk4hErP$ULhbeRRYP.E1RZ7CbFkzXHiu0QqdBDFFggqcLFeJuTvqSj9gR3YZ4T2NluenRplXugssjbH3ALHFty2kPPKn60";

/// What `ann` gets with a password, given as base64.
fn status(port: &Port, credentials: &str) -> u16 {
    let mut client = Client::to(port.address());
    client.send(format!("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Basic {credentials}\r\n\r\n"));
    client.response().status
}

/// `ann:first` and `ann:second`.
const WITH_FIRST: &str = "YW5uOmZpcnN0";
const WITH_SECOND: &str = "YW5uOnNlY29uZA==";

#[test]
fn a_reload_reads_the_users_again() {
    let (directory, port) = (Directory::new(), Port::new());
    directory.write("users", format!("ann:{FIRST}\n"));
    fs::set_permissions(directory.join("users"), fs::Permissions::from_mode(0o600)).expect("it is ours");
    let mut config = Config::new(&directory, 2)
        .log_format("by_user = \"$remote_user $status\"")
        .http(&format!(
            "access_log = {{ file = \"{}\", format = \"by_user\", flush = \"10ms\" }}",
            directory.join("access.log").display()
        ))
        .server(&port)
        .location(
            "/",
            "basic_auth = \"Staff\"\nbasic_auth_users = \"users\"\nreturn = { status = 200, body = \"ok\\n\" }",
        );
    if Uid::effective().is_root() {
        config = config.process("user = \"nobody\"");
    }
    let drover = Drover::start(&directory, &config);
    assert_eq!(drover_tests::http::get(port.address(), "/").status, 401);
    assert_eq!([status(&port, WITH_FIRST), status(&port, WITH_SECOND)], [200, 401]);
    drover_tests::eventually("both are logged", || {
        let log = directory.read("access.log");
        (log.contains("ann 200") && log.contains("- 401")).then_some(())
    });

    directory.write("users", format!("ann:{SECOND}\n"));
    drover.reload();
    assert_eq!([status(&port, WITH_FIRST), status(&port, WITH_SECOND)], [401, 200]);

    // A file that cannot be understood changes nothing.
    directory.write("users", format!("# staff\nann:{FIRST}\nbob:plain\n"));
    drover.signal(nix::sys::signal::Signal::SIGHUP);
    drover.log_line(&["users, line 3", "htpasswd -B"]);
    assert_eq!([status(&port, WITH_FIRST), status(&port, WITH_SECOND)], [401, 200]);
}
