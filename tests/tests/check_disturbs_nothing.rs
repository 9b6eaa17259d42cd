//! A config check beside a running daemon, of its own config file and of one that changes everything, leaves no
//! trace in it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use drover_tests::http::get;
use drover_tests::wait::eventually;
use drover_tests::{Config, Directory, Drover, Port, binary, descriptors};
use nix::unistd::Pid;

/// What there is in a directory and beneath it: inode, size, and time of change of each file.
fn files(directory: &Path) -> BTreeMap<String, (u64, u64, i64, i64)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("readable")) {
        let (path, metadata) = (entry.path(), entry.metadata().expect("it is there"));
        if metadata.is_dir() {
            found.extend(files(&path));
        }
        let state = (metadata.ino(), metadata.len(), metadata.ctime(), metadata.ctime_nsec());
        found.insert(path.display().to_string(), state);
    }
    found
}

fn open(drover: &Drover) -> BTreeMap<Pid, BTreeMap<i32, String>> {
    drover.processes().into_iter().map(|pid| (pid, descriptors::open(pid))).collect()
}

#[test]
fn a_check_leaves_no_trace() {
    let (directory, port, taken) = (Directory::new(), Port::new(), Port::new());
    let socket = directory.join("drover.sock");
    let config = Config::new(&directory, 2)
        .http("access_log = \"off\"")
        .server_with(&format!("listen = [\"{}\", \"unix:{}\"]", port.address(), socket.display()))
        .location("/", "return = { status = 200, body = \"ok\\n\" }");
    let drover = Drover::start(&directory, &config);
    assert_eq!(get(port.address(), "/").text(), "ok\n");
    eventually("the connection is over", || {
        drover.status().workers.iter().all(|worker| worker.connections == 0).then_some(())
    });
    let other = directory.write(
        "other.toml",
        config
            .clone()
            .process("workers = 5")
            .events("accept = \"reuseport\"")
            .http(&format!("access_log = {{ file = \"{}\" }}", directory.join("new.log").display()))
            .answering(&taken)
            .text(),
    );
    let _somebody = std::net::TcpListener::bind(taken.address()).expect("the port is ours");
    let (before, open_before, accepts) =
        (files(directory.path()), open(&drover), drover.status().totals.accepts);
    for path in [drover.config(), &other] {
        let output = binary::run(["check".as_ref(), "-c".as_ref(), path.as_os_str()]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(files(directory.path()), before);
    assert_eq!(open(&drover), open_before);
    assert_eq!((drover.status().totals.accepts, drover.status().generation()), (accepts, 1));
    assert_eq!(get(port.address(), "/").text(), "ok\n");
}
