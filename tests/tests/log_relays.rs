//! The daemon's own log, sent to a syslog daemon or to systemd's journal.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{IoSliceMut, read_to_string};
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use drover_tests::http::get;
use drover_tests::wait::SOON;
use drover_tests::{Config, Directory, Drover, Port, eventually, process};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::signal::Signal;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use nix::unistd::close;

/// The fields of one entry.
type Entry = BTreeMap<String, String>;

/// A journal at this path.
fn journal(path: &Path) -> UnixDatagram {
    let socket = UnixDatagram::bind(path).expect("the directory is ours");
    socket.set_read_timeout(Some(SOON)).expect("a time-out");
    socket
}

/// Waits for an entry whose message has this text.
fn entry(journal: &UnixDatagram, text: &str) -> Entry {
    let mut bytes = vec![0; 1 << 16];
    eventually("the journal has the entry", || {
        let length = journal.recv(&mut bytes).expect("an entry");
        let entry = std::str::from_utf8(&bytes[..length]).expect("text");
        let field = |row: &str| row.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        let entry: Entry = entry.lines().map(|row| field(row).expect("FIELD=value")).collect();
        entry["MESSAGE"].contains(text).then_some(entry)
    })
}

fn config(directory: &Directory, port: &Port) -> Config {
    let config = Config::new(directory, 1).answering(port);
    config.log(&format!("journal = \"{}\"", directory.join("journal").display()))
}

#[test]
fn the_journal_gets_fields() {
    let (directory, port) = (Directory::new(), Port::new());
    let journal = journal(&directory.join("journal"));
    let drover = Drover::start(&directory, &config(&directory, &port));
    let serves = entry(&journal, "generation 1 serves");
    let expected = [
        ("PRIORITY", "6"),
        ("SYSLOG_IDENTIFIER", "drover"),
        ("DROVER_PROCESS", "master"),
        ("DROVER_TARGET", "drover::reload"),
    ];
    expected.iter().for_each(|(name, value)| assert_eq!(serves[*name], *value, "{serves:?}"));
    drover.signal(Signal::SIGUSR1);
    let of_worker = entry(&journal, "log files reopened");
    assert_eq!(of_worker["DROVER_PROCESS"], "worker 0");
    assert_eq!(of_worker["MESSAGE"], "worker 0: log files reopened");
    process::send(drover.worker(), Signal::SIGKILL);
    assert_eq!(entry(&journal, "was killed by SIGKILL")["PRIORITY"], "3");
}

/// The entry that came as a file instead of a datagram: journald takes it if nobody can change it any more.
fn entry_in_a_file(journal: &UnixDatagram) -> String {
    eventually("the journal has a file", || {
        let (mut bytes, mut control) = (vec![0; 1 << 16], nix::cmsg_space!([RawFd; 1]));
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let message =
            recvmsg::<()>(journal.as_raw_fd(), &mut parts, Some(&mut control), MsgFlags::MSG_CMSG_CLOEXEC)
                .expect("an entry");
        let ControlMessageOwned::ScmRights(files) = message.cmsgs().expect("room").next()? else {
            return None;
        };
        assert_eq!(message.bytes, 0, "a file is all there is");
        // Opened anew, it is read from its beginning.
        let file = File::open(format!("/proc/self/fd/{}", files[0])).expect("a file");
        close(files[0]).expect("ours");
        let seals = SealFlag::from_bits_retain(fcntl(&file, FcntlArg::F_GET_SEALS).expect("seals"));
        let needed =
            SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_SEAL;
        assert!(seals.contains(needed), "{seals:?}");
        Some(read_to_string(file).expect("text"))
    })
}

#[test]
fn what_is_longer_than_a_datagram_comes_whole() {
    let (directory, port) = (Directory::new(), Port::new());
    let journal = journal(&directory.join("journal"));
    let config = config(&directory, &port);
    let drover = Drover::start(&directory, &config);
    entry(&journal, "generation 1 serves");
    // A datagram takes what the send buffer does: 208 KiB, unless the system says otherwise.
    let key = "x".repeat(1 << 19);
    config.events(&format!("{key} = 1")).write(&directory);
    drover.signal(Signal::SIGHUP);
    let long = entry_in_a_file(&journal);
    assert!(long.starts_with("PRIORITY=3\n") && long.ends_with('\n'), "{} bytes", long.len());
    assert!(long.contains(&format!("unknown key `{key}` ")), "{} bytes", long.len());
    // What follows is neither lost nor late.
    entry(&journal, "the reload is refused");
}

/// Nobody waits for a journal, and one that comes back is told what it missed.
#[test]
fn a_journal_that_is_gone_or_stands_still_holds_up_nothing() {
    let (directory, port) = (Directory::new(), Port::new());
    let path = directory.join("journal");
    let first = journal(&path);
    let mut drover = Drover::start(&directory, &config(&directory, &port).log("level = \"debug\""));
    // Nobody reads, and requests leave more than a socket takes.
    for _ in 0..200 {
        assert_eq!(get(port.address(), "/").status, 200);
    }
    drop(first);
    std::fs::remove_file(&path).expect("ours");
    drover.reload();
    assert_eq!(get(port.address(), "/").status, 200);
    let second = journal(&path);
    second.set_nonblocking(true).expect("it is a socket");
    let mut bytes = vec![0; 1 << 16];
    eventually("what was lost is told", || {
        drover.signal(Signal::SIGUSR1);
        let entries =
            std::iter::from_fn(|| second.recv(&mut bytes).ok().map(|length| bytes[..length].to_vec()));
        let told = entries
            .map(|entry| String::from_utf8_lossy(&entry).into_owned())
            .any(|entry| entry.contains("lines of the log were lost"));
        told.then_some(())
    });
    drover.signal(Signal::SIGQUIT);
    assert!(drover.wait(SOON).success());
}

#[test]
fn a_syslog_daemon_gets_lines_as_severe_as_they_are() {
    let (directory, port) = (Directory::new(), Port::new());
    let daemon = UdpSocket::bind("127.0.0.1:0").expect("a port");
    daemon.set_read_timeout(Some(SOON)).expect("a time-out");
    let to = daemon.local_addr().expect("a bound socket has an address");
    let config = Config::new(&directory, 1)
        .log(&format!("syslog = {{ to = \"{to}\", facility = \"local3\", tag = \"web\" }}"))
        .answering(&port);
    let drover = Drover::start(&directory, &config);
    let line = |text: &str| {
        let mut bytes = vec![0; 1 << 16];
        eventually("the daemon has the line", || {
            let length = daemon.recv(&mut bytes).expect("a line");
            let line = String::from_utf8_lossy(&bytes[..length]).into_owned();
            line.contains(text).then_some(line)
        })
    };
    let (master, worker) = (drover.master(), drover.worker());
    // 19 is local3, 6 is info and 3 is error.
    let serves = line("generation 1 serves");
    assert!(serves.starts_with("<158>") && serves.contains(&format!(" web[{master}]: master: ")), "{serves}");
    process::send(worker, Signal::SIGUSR1);
    let reopened = line("log files reopened");
    assert!(reopened.ends_with(&format!(" web[{worker}]: worker 0: log files reopened")), "{reopened}");
    process::send(worker, Signal::SIGKILL);
    let killed = line("was killed by SIGKILL");
    assert!(killed.starts_with("<155>"), "{killed}");
}
