//! Sessions of datagrams stay with their worker while masters come and go, and every client is served at every moment.

use std::net::SocketAddr;
use std::time::Duration;

use drover_tests::datagrams::{Flows, Tally, UdpBackend};
use drover_tests::masters::{gone, named, quit, upgrade, workers};
use drover_tests::{Config, Directory, Drover, Port, eventually, process};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

const FLOWS: u32 = 20;
const PER_SECOND: u32 = 50;

struct Setup {
    directory: Directory,
    port: Port,
    backend: UdpBackend,
    drover: Drover,
    /// Clients of the first master.
    old: Flows,
    flows: u32,
}

impl Setup {
    fn start() -> Setup {
        let (directory, port, backend) = (Directory::new(), Port::new(), UdpBackend::echo());
        let config = Config::new(&directory, 2).proxy(&format!(
            "listen = [{{ address = \"{}\", udp = true }}]\nproxy_pass = \"{}\"",
            port.address(),
            backend.address()
        ));
        let drover = Drover::start(&directory, &config);
        let setup = Setup { directory, port, backend, drover, old: Flows::new(0, FLOWS), flows: FLOWS };
        run(&setup.old, setup.port.address().into(), "at the start");
        setup
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

    fn leaves(&self, master: Pid) {
        assert!(process::send(master, Signal::SIGQUIT));
        self.drover.log_line(&[&format!("{master} master"), "SIGQUIT"]);
    }
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
