//! What is queued on a listen socket outlives the worker that was to accept it, also where nobody goes on listening
//! there: another worker is started for that, and leaves.

use std::thread;
use std::time::Duration;

use drover_tests::{Client, Config, Directory, Drover, Port, eventually, process};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

const CLIENTS: usize = 20;

struct Setup {
    directory: Directory,
    port: Port,
    drover: Drover,
}

impl Setup {
    /// Each worker has a socket and a queue of its own.
    fn start(workers: u32) -> Setup {
        let (directory, port) = (Directory::new(), Port::new());
        let drover = Drover::start(&directory, &reuseport(&directory, workers).answering(&port));
        Setup { directory, port, drover }
    }

    /// Stops all workers, then lets clients connect and ask.
    fn queue(&self) -> (Vec<Pid>, Vec<Client>) {
        let stopped = self.drover.workers();
        for worker in &stopped {
            process::send(*worker, Signal::SIGSTOP);
            eventually("the worker is stopped", || (process::state(*worker) == Some('T')).then_some(()));
        }
        let clients = (0..CLIENTS).map(|_| {
            let mut client = Client::to(self.port.address());
            client.ask("/");
            client
        });
        (stopped, clients.collect())
    }

    /// Another config, without the port that clients are queued at.
    fn move_elsewhere(&self, workers: u32) -> Port {
        let elsewhere = Port::new();
        reuseport(&self.directory, workers).answering(&elsewhere).write(&self.directory);
        elsewhere
    }
}

fn reuseport(directory: &Directory, workers: u32) -> Config {
    Config::new(directory, workers).events("accept = \"reuseport\"").process("shutdown_timeout = \"30s\"")
}

fn assert_answered(clients: Vec<Client>) {
    for mut client in clients {
        client.set_patience(Duration::from_secs(20));
        assert_eq!(client.response().status, 200);
    }
}

fn kill(workers: &[Pid]) {
    workers.iter().for_each(|worker| assert!(process::send(*worker, Signal::SIGKILL)));
}

/// No worker but those of the last generation is left, and the port is free.
fn assert_left(setup: &Setup, workers: usize) {
    eventually("only the new workers are left", || {
        (setup.drover.workers().len() == workers && !is_open(setup)).then_some(())
    });
}

fn is_open(setup: &Setup) -> bool {
    !drover_tests::sockets::listening(setup.port.number()).is_empty()
}

#[test]
fn workers_that_are_killed_before_they_have_left() {
    let setup = Setup::start(2);
    let (stopped, clients) = setup.queue();
    setup.move_elsewhere(2);
    setup.drover.reload_begun();
    kill(&stopped);
    assert_answered(clients);
    assert_left(&setup, 2);
}

#[test]
fn a_worker_that_was_dead_when_its_generation_left() {
    let setup = Setup::start(1);
    // A worker that ends young is replaced later each time.
    for _ in 0..4 {
        let worker = setup.drover.worker();
        kill(&[worker]);
        eventually("it is replaced", || {
            let workers = setup.drover.workers();
            workers.first().is_some_and(|now| *now != worker).then_some(())
        });
    }
    let (stopped, clients) = setup.queue();
    kill(&stopped);
    setup.drover.log_line(&["replaced in 1.6s"]);
    setup.move_elsewhere(1);
    setup.drover.reload();
    assert_answered(clients);
    assert_left(&setup, 1);
}

#[test]
fn a_graceful_stop() {
    let mut setup = Setup::start(2);
    let (stopped, clients) = setup.queue();
    setup.drover.signal(Signal::SIGQUIT);
    setup.drover.log_line(&["SIGQUIT", "stop"]);
    eventually("new connections are refused", || {
        Client::connect(setup.port.address()).is_err().then_some(())
    });
    kill(&stopped);
    let answered = thread::spawn(|| assert_answered(clients));
    assert!(setup.drover.wait(Duration::from_secs(30)).success());
    answered.join().expect("all are answered");
}

/// A generation that cannot be started is not tried for ever.
#[test]
fn workers_that_are_killed_again_and_again() {
    let setup = Setup::start(1);
    let (stopped, clients) = setup.queue();
    setup.move_elsewhere(1);
    setup.drover.reload_begun();
    let mut victim = stopped[0];
    for _ in 0..4 {
        kill(&[victim]);
        let title = "generation 1";
        let next = || {
            setup
                .drover
                .workers()
                .into_iter()
                .find(|pid| *pid != victim && process::title(*pid).ends_with(title))
        };
        match eventually("it is replaced or given up", || {
            next().map(Some).or_else(|| (!is_open(&setup)).then_some(None))
        }) {
            Some(next) => {
                process::send(next, Signal::SIGSTOP);
                victim = next;
            }
            None => break,
        }
    }
    drop(clients);
    eventually("the port is free", || (!is_open(&setup)).then_some(()));
}
