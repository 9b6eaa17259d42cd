//! Signals: who sent them is told; workers obey some too; those that a shell ignored are not.

use drover_tests::daemon::Surroundings;
use drover_tests::http::get;
use drover_tests::{Client, Config, Directory, Drover, Port, eventually, process};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

#[test]
fn the_log_says_who_sent_a_signal() {
    let (directory, port) = (Directory::new(), Port::new());
    let mut drover = Drover::start(&directory, &Config::new(&directory, 1).answering(&port));
    let comm = std::fs::read_to_string("/proc/self/comm").expect("we exist");
    let sender = format!("from process {} ({})", Pid::this(), comm.trim_end());
    drover.signal(Signal::SIGHUP);
    drover.log_line(&["SIGHUP", &sender, "reload"]);
    drover.signal(Signal::SIGUSR1);
    drover.log_line(&["SIGUSR1", &sender, "reopen"]);
    drover.signal(Signal::SIGQUIT);
    drover.log_line(&["SIGQUIT", &sender, "stop"]);
    assert!(drover.wait(drover_tests::wait::SOON).success());
}

#[test]
fn a_worker_obeys_term_and_usr1_sent_straight_to_it() {
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, 2)
        .answering(&port)
        .location("/slow", "return = { status = 200, body = \"slow\\n\", delay = \"60s\" }");
    let drover = Drover::start(&directory, &config);
    let (victim, other) = (drover.workers()[0], drover.workers()[1]);
    process::send(victim, Signal::SIGUSR1);
    drover.log_line(&[&format!(" {victim} "), "log files reopened"]);
    assert_eq!(drover.log_lines(&["log files reopened"]).len(), 1, "it alone");
    // Both have a request under way, and one of them ends at once.
    let mut slow: Vec<Client> = (0..20).map(|_| Client::to(port.address())).collect();
    for client in &mut slow {
        client.ask("/slow");
    }
    process::send(victim, Signal::SIGTERM);
    drover.log_line(&[&format!("(process {victim})"), "exited with code 0", "unasked"]);
    eventually("it is replaced", || {
        let workers = drover.workers();
        (workers.len() == 2 && !workers.contains(&victim)).then_some(())
    });
    assert!(drover.workers().contains(&other));
    assert_eq!(get(port.address(), "/").text(), "ok\n");
}

/// The workers of a master that is parked leave; it keeps the sockets, on which clients wait.
#[test]
fn winch_lets_the_workers_go_and_hup_brings_them_back() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = Drover::start(&directory, &Config::new(&directory, 2).answering(&port));
    drover.signal(Signal::SIGWINCH);
    eventually("the workers have gone", || drover.workers().is_empty().then_some(()));
    let mut client = Client::to(port.address());
    client.ask("/");
    assert!(client.is_open(), "nobody answers, and nobody refuses");
    drover.signal(Signal::SIGHUP);
    assert_eq!(client.response().text(), "ok\n");
    // The first one may answer before the second one has begun.
    eventually("both are there", || (drover.workers().len() == 2).then_some(()));
}

/// As after nohup, or from a script without job control. With CHLD ignored, the kernel would not even say that
/// a worker has ended.
#[test]
fn what_the_starter_ignores_is_not_ignored() {
    let (directory, port) = (Directory::new(), Port::new());
    let wrapper =
        ["sh", "-c", "trap '' HUP INT QUIT TERM USR1 CHLD; exec \"$@\"", "sh"].map(Into::into).to_vec();
    let config = Config::new(&directory, 2).answering(&port);
    let surroundings = Surroundings { wrapper, ..Surroundings::default() };
    let mut drover = Drover::try_start(&directory, &config, &surroundings)
        .unwrap_or_else(|failure| panic!("{}", failure.stderr));
    let victim = drover.workers()[0];
    process::send(victim, Signal::SIGKILL);
    drover.log_line(&[&victim.to_string(), "SIGKILL"]);
    eventually("it is replaced", || {
        let workers = drover.workers();
        (workers.len() == 2 && !workers.contains(&victim)).then_some(())
    });
    drover.reload();
    drover.signal(Signal::SIGUSR1);
    drover.log_line(&["master", "reopen"]);
    let worker = drover.workers()[0];
    process::send(worker, Signal::SIGQUIT);
    eventually("a worker obeys too", || (!process::alive(worker)).then_some(()));
    drover.signal(Signal::SIGTERM);
    assert!(drover.wait(drover_tests::wait::SOON).success());
}
