//! What a new master has from the old one: the listen sockets and the standard streams, and nothing else.

use std::collections::BTreeSet;

use drover_tests::daemon::Surroundings;
use drover_tests::masters::{quit, upgrade};
use drover_tests::{Config, Directory, Drover, Port, descriptors, eventually, process, sockets};
use nix::unistd::Pid;

/// What the descriptors of a process are, without numbers that differ from one to the next.
fn kinds(pid: Pid) -> Vec<String> {
    let kind = |target: String| target.split(['[', ':']).next().unwrap_or_default().to_owned();
    let mut kinds: Vec<String> = descriptors::open(pid).into_values().map(kind).collect();
    kinds.sort();
    kinds
}

#[test]
fn descriptors_are_the_same_after_many_upgrades() {
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, 2).events("accept = \"reuseport\"").answering(&port);
    let drover = Drover::start(&directory, &config);
    let mut old = drover.master();
    let (before, sockets_before) = (kinds(old), sockets::listening(port.number()));
    assert_eq!(sockets_before.len(), 2);
    for _ in 0..5 {
        let new = upgrade(&directory);
        quit(old);
        drover.log_line(&[&format!("{new} master"), "has left"]);
        eventually("it has what the first one had", || (kinds(new) == before).then_some(()));
        assert_eq!(sockets::listening(port.number()), sockets_before);
        let held: BTreeSet<u64> = sockets::held(new, port.number()).into_values().collect();
        assert_eq!(held.into_iter().collect::<Vec<_>>(), sockets_before, "the same sockets");
        old = new;
    }
}

/// The order of a group decides which worker has which socket, and its queue.
#[test]
fn each_worker_has_the_socket_of_its_number() {
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, 3).events("accept = \"reuseport\"").answering(&port);
    let drover = Drover::start(&directory, &config);
    let sockets = |pids: Vec<i32>| -> Vec<u64> {
        let socket = |pid| {
            let held = sockets::held(Pid::from_raw(pid), port.number());
            assert_eq!(held.len(), 1, "a worker has one of them");
            held.into_values().next().expect("one")
        };
        pids.into_iter().map(socket).collect()
    };
    let pids = || {
        let mut workers = drover.status().workers;
        workers.sort_by_key(|worker| worker.worker);
        workers.into_iter().map(|worker| worker.pid).collect::<Vec<_>>()
    };
    let before = sockets(pids());
    let old = drover.master();
    upgrade(&directory);
    assert_eq!(sockets(pids()), before);
    quit(old);
    assert_eq!(sockets(pids()), before);
}

#[test]
fn signals_mean_what_they_meant() {
    let (directory, port) = (Directory::new(), Port::new());
    // As under nohup: what is ignored is inherited.
    let wrapper = ["sh", "-c", "trap '' HUP USR2; exec \"$@\"", "sh"].map(Into::into).to_vec();
    let surroundings = Surroundings { wrapper, ..Surroundings::default() };
    let drover = Drover::try_start(&directory, &Config::new(&directory, 1).answering(&port), &surroundings)
        .expect("it starts");
    let state = |pid, name| process::status_line(pid, name).expect("a process");
    let old = drover.master();
    let expected = ["SigBlk", "SigIgn", "SigCgt"].map(|name| state(old, name));
    let new = upgrade(&directory);
    assert_eq!(["SigBlk", "SigIgn", "SigCgt"].map(|name| state(new, name)), expected);
    quit(old);
    let newest = upgrade(&directory);
    assert_eq!(["SigBlk", "SigIgn", "SigCgt"].map(|name| state(newest, name)), expected);
}
