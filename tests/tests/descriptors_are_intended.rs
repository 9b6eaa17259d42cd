//! Master and workers have exactly the descriptors that they are meant to have: after the start, after reloads that
//! change everything, refused ones, workers that are killed, and upgrades.

use std::collections::BTreeMap;
use std::fs;

use drover_tests::{
    Config, Directory, Drover, Port, binary, descriptors, eventually, masters, process, sockets,
};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

/// How many descriptors of each kind.
type Kinds = BTreeMap<String, usize>;

struct Setup {
    directory: Directory,
    port: Port,
}

impl Setup {
    fn config(&self, strategy: &str, workers: u32) -> Config {
        let place = |name: &str| self.directory.join(name).display().to_string();
        Config::new(&self.directory, workers)
            .log(&format!("file = \"{}\"", place("drover.log")))
            .events(&format!("accept = \"{strategy}\""))
            .server_with(&format!("listen = [\"{}\", \"unix:{}\"]", self.port.address(), place("s")))
            .location("/", "return = { status = 200, body = \"ok\\n\" }")
    }

    /// What a process has open, without what the test itself handed down.
    fn kinds(&self, pid: Pid) -> Kinds {
        let handed_down = descriptors::open(Pid::this());
        let listening = sockets::listening(self.port.number());
        let of_unix = unix_listener(&self.directory.join("s").display().to_string());
        let mut kinds = Kinds::new();
        for (number, target) in descriptors::open(pid) {
            if number > 2 && handed_down.get(&number) == Some(&target) {
                continue;
            }
            let inode = target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']')?.parse().ok());
            let kind = match inode {
                _ if number <= 2 => "standard".to_owned(),
                Some(inode) if listening.contains(&inode) => "listener".to_owned(),
                Some(inode) if Some(inode) == of_unix => "unix listener".to_owned(),
                Some(_) => "channel".to_owned(),
                None => target.rsplit('/').next().unwrap_or_default().to_owned(),
            };
            *kinds.entry(kind).or_default() += 1;
        }
        kinds
    }

    /// Waits until every process has what it is meant to have, no more and no less.
    #[track_caller]
    fn assert_intended(&self, strategy: &str, workers: usize, when: &str) {
        let own = strategy == "reuseport";
        let balances = strategy == "balanced";
        let notifiers = if balances { workers } else { 0 };
        let listeners = if own { workers } else { 1 };
        let master = expected(&[
            ("standard", 3),
            ("scoreboard", 1),
            ("drover.pid", 1),
            ("drover.log", 1),
            ("anon_inode:[signalfd]", 1),
            ("listener", listeners),
            ("unix listener", 1),
            ("channel", workers),
            ("anon_inode:[eventfd]", notifiers),
        ]);
        let worker = expected(&[
            ("standard", 3),
            ("drover.log", 1),
            ("access.log", 1),
            ("anon_inode:[eventpoll]", 1),
            ("listener", 1),
            ("unix listener", 1),
            ("channel", 1),
            // Its own, and a duplicate of everybody's.
            ("anon_inode:[eventfd]", 1 + notifiers),
        ]);
        let mut seen = Vec::new();
        let settled = || {
            let name = masters::named(&self.directory);
            seen = vec![self.kinds(name)];
            seen.extend(masters::workers(name).into_iter().map(|pid| self.kinds(pid)));
            let right = seen[0] == master && seen[1..].iter().all(|kinds| *kinds == worker);
            (right && seen.len() == 1 + workers).then_some(())
        };
        let deadline = std::time::Duration::from_secs(10);
        if !soon(deadline, settled) {
            panic!(
                "{when}, with {strategy}:\nmaster {:#?}\nworkers {:#?}\nexpected {master:#?}, {worker:#?}",
                seen[0],
                &seen[1..]
            );
        }
    }
}

fn soon(deadline: std::time::Duration, mut probe: impl FnMut() -> Option<()>) -> bool {
    !drover_tests::wait::stays(deadline, || probe().is_none())
}

fn expected(counts: &[(&str, usize)]) -> Kinds {
    counts.iter().filter(|(_, count)| *count > 0).map(|(kind, count)| ((*kind).to_owned(), *count)).collect()
}

/// The inode of the unix socket that was bound to this path.
fn unix_listener(path: &str) -> Option<u64> {
    let table = fs::read_to_string("/proc/net/unix").ok()?;
    let line = table.lines().find(|line| line.ends_with(&format!(" {path}")))?;
    line.split_whitespace().nth(6)?.parse().ok()
}

#[test]
fn every_process_has_what_it_is_meant_to_have() {
    let setup = Setup { directory: Directory::new(), port: Port::new() };
    let drover = Drover::start(&setup.directory, &setup.config("exclusive", 2));
    setup.assert_intended("exclusive", 2, "at the start");
    for (strategy, workers) in [("reuseport", 3), ("balanced", 2), ("mutex", 3), ("exclusive", 2)] {
        setup.config(strategy, workers).write(&setup.directory);
        drover.reload();
        setup.assert_intended(strategy, workers as usize, "after a reload");

        setup.config(strategy, workers).events("epoll_events = 0").write(&setup.directory);
        let refused = binary::run(["reload".as_ref(), "-c".as_ref(), drover.config().as_os_str()]);
        assert!(!refused.status.success());
        setup.assert_intended(strategy, workers as usize, "after a refused reload");

        let victim = drover.workers()[0];
        process::send(victim, Signal::SIGKILL);
        eventually("the killed worker is replaced", || {
            let there = drover.workers();
            (there.len() == workers as usize && !there.contains(&victim) && drover.status().all_serve())
                .then_some(())
        });
        setup.assert_intended(strategy, workers as usize, "after a worker was killed");
    }
}

/// A new executable takes over, and then one that is asked to leave again.
#[test]
fn after_upgrades_nothing_is_left_of_them() {
    for strategy in ["exclusive", "reuseport", "balanced"] {
        let setup = Setup { directory: Directory::new(), port: Port::new() };
        let drover = Drover::start(&setup.directory, &setup.config(strategy, 2));
        let upgrade = binary::run(["upgrade".as_ref(), "-c".as_ref(), drover.config().as_os_str()]);
        assert!(upgrade.status.success(), "{}", String::from_utf8_lossy(&upgrade.stderr));
        setup.assert_intended(strategy, 2, "after an upgrade");
        let old = masters::named(&setup.directory);
        assert_ne!(old, drover.master());
        masters::quit(masters::upgrade(&setup.directory));
        assert_eq!(masters::named(&setup.directory), old);
        setup.assert_intended(strategy, 2, "after an upgrade that was taken back");
    }
}

#[test]
fn a_refused_listen_address_leaves_nothing_open() {
    let setup = Setup { directory: Directory::new(), port: Port::new() };
    let taken = Port::new();
    let _somebody = std::net::TcpListener::bind(taken.address()).expect("the port is ours");
    let drover = Drover::start(&setup.directory, &setup.config("exclusive", 1).process("workers = 2"));
    for strategy in ["exclusive", "reuseport"] {
        setup.config(strategy, 3).answering(&taken).write(&setup.directory);
        let refused = binary::run(["reload".as_ref(), "-c".as_ref(), drover.config().as_os_str()]);
        assert!(String::from_utf8_lossy(&refused.stderr).contains("in use"), "{refused:?}");
        setup.assert_intended("exclusive", 2, "after an address that was taken");
    }
}
