//! Sessions of datagrams stay with their worker while masters come and go, and every client is served at every moment.

use std::net::SocketAddr;
use std::time::Duration;

use drover_tests::datagrams::{Flows, Tally, UdpBackend, socket};
use drover_tests::masters::{gone, named, quit, upgrade, workers};
use drover_tests::{Config, Directory, Drover, Port, eventually, process};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

const FLOWS: u32 = 20;
const PER_SECOND: u32 = 50;

struct Setup {
    drover: Drover,
    directory: Directory,
    port: Port,
    backend: UdpBackend,
    /// Clients of the first master.
    old: Flows,
    flows: u32,
}

impl Setup {
    fn start() -> Setup {
        Setup::with("")
    }

    fn with(more: &str) -> Setup {
        Setup::at("127.0.0.1", more)
    }

    fn at(ip: &str, more: &str) -> Setup {
        let (directory, port, backend) = (Directory::new(), Port::new(), UdpBackend::echo());
        let drover = Drover::start(&directory, &config(&directory, &port, &backend, (ip, 2, more)));
        let setup = Setup { drover, directory, port, backend, old: Flows::new(0, FLOWS), flows: FLOWS };
        run(&setup.old, setup.port.address().into(), "at the start");
        setup
    }

    /// What is configured from now on.
    fn configure(&self, ip: &str, workers: u32) {
        config(&self.directory, &self.port, &self.backend, (ip, workers, "")).write(&self.directory);
    }

    /// Does something while the clients of before go on and others come; then others come once more.
    fn meanwhile<R>(&mut self, what: &str, act: impl FnOnce(&Setup) -> R) -> R {
        let address = SocketAddr::from(self.port.address());
        let (new, late) = (Flows::new(self.flows, FLOWS), Flows::new(self.flows + FLOWS, FLOWS));
        self.flows += 2 * FLOWS;
        let result = std::thread::scope(|scope| {
            let old = scope.spawn(|| run(&self.old, address, what));
            let new = scope.spawn(|| run(&new, address, what));
            let result = act(self);
            old.join().and_then(|()| new.join()).unwrap_or_else(|_| panic!("datagrams got lost: {what}"));
            result
        });
        run(&late, address, what);
        result
    }

    /// No client's session changed its worker.
    #[track_caller]
    fn assert_whole(&self) {
        let split: Vec<_> =
            self.backend.sessions().into_iter().filter(|(_, sessions)| *sessions != 1).collect();
        assert!(split.is_empty(), "flows with more than one session: {split:?}");
    }

    /// The two workers of a master that was killed have noticed that.
    fn are_left_alone(&self) {
        let left_alone = || self.drover.log_lines(&["the master is gone"]).len() == 2;
        eventually("they have noticed", || left_alone().then_some(()));
    }

    /// Clients come until each of the workers of a master serves some.
    fn all_get_sessions(&self, master: Pid, count: usize) {
        let mut clients = Vec::new();
        eventually("all workers have sessions", || {
            clients.push(socket());
            let client = clients.last()?;
            client.set_read_timeout(Some(Duration::from_millis(200))).expect("a time-out");
            client.send_to(b"?", self.port.address()).expect("sent");
            client.recv(&mut [0; 8]).ok()?;
            let (status, ours) = (self.drover.status(), workers(master));
            let is_busy = |pid: &Pid| {
                status.workers.iter().any(|worker| worker.pid == pid.as_raw() && worker.connections > 0)
            };
            (ours.iter().filter(|pid| is_busy(pid)).count() == count).then_some(())
        });
    }

    fn leaves(&self, master: Pid) {
        assert!(process::send(master, Signal::SIGQUIT));
        self.drover.log_line(&[&format!("{master} master"), "SIGQUIT"]);
    }
}

fn config(directory: &Directory, port: &Port, backend: &UdpBackend, how: (&str, u32, &str)) -> Config {
    let (ip, workers, more) = how;
    let server = backend.address();
    Config::new(directory, workers).proxy(&format!(
        "listen = [{{ address = \"{ip}:{port}\", udp = true }}]\nproxy_pass = \"{server}\"\n{more}"
    ))
}

#[track_caller]
fn run(flows: &Flows, address: SocketAddr, what: &str) {
    let tally = flows.run(address, PER_SECOND, Duration::from_secs(1));
    let expected = u64::from(FLOWS * PER_SECOND);
    assert_eq!(tally, Tally { sent: expected, answered: expected }, "{what}");
}

#[test]
fn the_old_master_leaves() {
    let mut setup = Setup::start();
    let old = named(&setup.directory);
    setup.meanwhile("both serve", |setup| upgrade(&setup.directory));
    setup.meanwhile("the old one leaves", |setup| setup.leaves(old));
    setup.meanwhile("the old one has sessions", |_| ());
    setup.assert_whole();
    assert!(process::alive(old), "it has them still");
}

#[test]
fn the_new_master_leaves() {
    let mut setup = Setup::start();
    let new = setup.meanwhile("both serve", |setup| upgrade(&setup.directory));
    setup.meanwhile("the new one leaves", |_| quit(new));
    setup.assert_whole();
}

#[test]
fn the_workers_of_the_old_master_leave_and_come_back() {
    let mut setup = Setup::start();
    let old = named(&setup.directory);
    let new = setup.meanwhile("both serve", |setup| upgrade(&setup.directory));
    setup.meanwhile("the workers of the old one leave", |_| process::send(old, Signal::SIGWINCH));
    setup.meanwhile("the new one leaves", |setup| {
        setup.leaves(new);
        eventually("the workers of the old one are back", || {
            let there = workers(old).into_iter().filter(|pid| process::title(*pid).ends_with("generation 2"));
            (there.count() == 2).then_some(())
        });
    });
    setup.assert_whole();
}

#[test]
fn the_old_master_is_killed() {
    let mut setup = Setup::start();
    let old = named(&setup.directory);
    setup.meanwhile("both serve", |setup| upgrade(&setup.directory));
    setup.meanwhile("the old one is killed", |_| {
        process::send(old, Signal::SIGKILL);
        gone(old);
    });
    setup.meanwhile("it is gone", |_| ());
    setup.assert_whole();
}

#[test]
fn the_new_master_is_killed_after_the_workers_of_the_old_one_left() {
    let mut setup = Setup::start();
    let old = named(&setup.directory);
    let new = setup.meanwhile("both serve", |setup| upgrade(&setup.directory));
    setup.meanwhile("the workers of the old one leave", |_| process::send(old, Signal::SIGWINCH));
    setup.meanwhile("the new one is killed", |_| process::send(new, Signal::SIGKILL));
    setup.meanwhile("it is gone", |_| ());
    setup.assert_whole();
}

/// Its workers leave before anybody follows them: until then they serve whoever comes.
#[test]
fn the_new_master_is_killed_while_the_old_one_is_held_up() {
    let mut setup = Setup::start();
    let old = named(&setup.directory);
    let new = setup.meanwhile("both serve", |setup| upgrade(&setup.directory));
    setup.meanwhile("the workers of the old one leave", |_| process::send(old, Signal::SIGWINCH));
    assert!(process::send(old, Signal::SIGSTOP));
    process::send(new, Signal::SIGKILL);
    setup.are_left_alone();
    setup.meanwhile("nobody follows", |_| ());
    setup.meanwhile("the old one follows", |_| process::send(old, Signal::SIGCONT));
    setup.drover.log_line(&["generation 2 serves"]);
    setup.meanwhile("it goes on", |_| ());
    setup.assert_whole();
}

#[test]
fn the_old_master_is_killed_while_the_new_one_is_held_up() {
    let mut setup = Setup::start();
    let old = named(&setup.directory);
    let new = setup.meanwhile("both serve", |setup| upgrade(&setup.directory));
    assert!(process::send(new, Signal::SIGSTOP));
    process::send(old, Signal::SIGKILL);
    setup.are_left_alone();
    setup.meanwhile("nobody follows", |_| ());
    setup.meanwhile("the new one follows", |_| process::send(new, Signal::SIGCONT));
    setup.drover.log_line(&["has left"]);
    setup.meanwhile("it goes on", |_| ());
    setup.assert_whole();
}

/// What ended without a word is not waited for, and does not get what is for it.
#[test]
fn the_new_master_is_killed_with_its_workers() {
    let mut setup = Setup::start();
    let old = named(&setup.directory);
    let new = setup.meanwhile("both serve", |setup| upgrade(&setup.directory));
    setup.meanwhile("the workers of the old one leave", |_| process::send(old, Signal::SIGWINCH));
    let (address, flows) = (SocketAddr::from(setup.port.address()), Flows::new(1000, FLOWS));
    run(&flows, address, "sessions of the new one");
    assert!(process::send(new, Signal::SIGSTOP), "it does not replace them");
    for worker in workers(new) {
        process::send(worker, Signal::SIGKILL);
    }
    process::send(new, Signal::SIGKILL);
    run(&flows, address, "the sessions begin once more");
    setup.meanwhile("it is gone", |_| ());
    assert!(setup.drover.log_lines(&["reading beside them"]).is_empty(), "nobody is waited for");
}

/// Its workers end at once, with nothing to finish.
#[test]
fn the_new_master_is_killed_while_nobody_has_a_session() {
    let setup = Setup::with("idle_timeout = \"1s\"");
    let old = named(&setup.directory);
    let new = upgrade(&setup.directory);
    process::send(old, Signal::SIGWINCH);
    eventually("the workers of the old one have left", || workers(old).is_empty().then_some(()));
    run(&setup.old, setup.port.address().into(), "sessions of the new one");
    eventually("which end", || {
        let connections = setup.drover.status().workers.iter().map(|worker| worker.connections).sum::<u64>();
        (connections == 0).then_some(())
    });
    process::send(new, Signal::SIGKILL);
    run(&setup.old, setup.port.address().into(), "sessions of the old one");
    assert!(setup.drover.log_lines(&["reading beside them"]).is_empty(), "nobody is waited for");
}

/// None of its further sockets gets datagrams before somebody reads them, nor closes with what waits there.
#[test]
fn the_new_master_with_more_workers_leaves() {
    let mut setup = Setup::start();
    setup.configure("127.0.0.1", 4);
    let new = setup.meanwhile("both serve", |setup| upgrade(&setup.directory));
    setup.meanwhile("the new one leaves", |_| quit(new));
    setup.assert_whole();
}

#[test]
fn the_new_master_with_more_workers_is_killed() {
    let mut setup = Setup::start();
    let old = named(&setup.directory);
    setup.configure("127.0.0.1", 4);
    let new = setup.meanwhile("both serve", |setup| upgrade(&setup.directory));
    setup.meanwhile("the workers of the old one leave", |_| process::send(old, Signal::SIGWINCH));
    setup.meanwhile("the new one is killed", |_| process::send(new, Signal::SIGKILL));
    setup.meanwhile("it is gone", |_| ());
    setup.assert_whole();
}

#[test]
fn the_old_master_leaves_to_more_workers() {
    let mut setup = Setup::start();
    let old = named(&setup.directory);
    setup.configure("127.0.0.1", 4);
    let new = setup.meanwhile("both serve", |setup| upgrade(&setup.directory));
    setup.meanwhile("the old one leaves", |setup| setup.leaves(old));
    setup.assert_whole();
    setup.all_get_sessions(new, 4);
}

/// The kernel would prefer the sockets of the new one, which does not read yet.
#[test]
fn the_new_master_has_a_narrower_address() {
    let mut setup = Setup::at("0.0.0.0", "");
    let old = named(&setup.directory);
    setup.configure("127.0.0.1", 2);
    let new = setup.meanwhile("both serve", |setup| upgrade(&setup.directory));
    setup.meanwhile("the new one leaves", |_| quit(new));
    let new = upgrade(&setup.directory);
    setup.meanwhile("both serve again", |_| ());
    setup.leaves(old);
    setup.all_get_sessions(new, 2);
    setup.meanwhile("the old one has sessions", |_| ());
    setup.assert_whole();
}
