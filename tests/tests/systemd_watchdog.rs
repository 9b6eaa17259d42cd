//! Keep-alives for systemd's watchdog: from a master that goes round, unless every worker hangs.

use std::time::{Duration, Instant};

use drover_tests::daemon::Surroundings;
use drover_tests::masters::{quit, upgrade};
use drover_tests::systemd::NotifySocket;
use drover_tests::wait::stays;
use drover_tests::{Client, Config, Directory, Drover, Port, Strace};

const WATCHDOG: Duration = Duration::from_secs(2);

fn surroundings(socket: &NotifySocket, pid: &str) -> Surroundings {
    let mut surroundings = socket.surroundings();
    let micros = WATCHDOG.as_micros().to_string();
    surroundings.environment.push(("WATCHDOG_USEC".into(), micros.into()));
    let script = format!("export WATCHDOG_PID={pid}; exec \"$@\"");
    surroundings.wrapper = ["sh", "-c", &script, "sh"].map(Into::into).to_vec();
    surroundings
}

#[test]
fn keep_alives_come_at_half_the_time() {
    let (directory, port) = (Directory::new(), Port::new());
    let socket = NotifySocket::new(&directory);
    let config = Config::new(&directory, 2).answering(&port);
    let drover = Drover::try_start(&directory, &config, &surroundings(&socket, "$$")).expect("it starts");
    socket.wait_for("WATCHDOG=1");
    let start = Instant::now();
    for _ in 0..4 {
        socket.wait_for("WATCHDOG=1");
    }
    // Not sooner; later where the machine is busy.
    assert!(start.elapsed() >= WATCHDOG * 2 - Duration::from_millis(200), "{:?}", start.elapsed());

    // The next main process sends them too.
    let new = upgrade(&directory);
    quit(drover.master());
    socket.wait_for(&format!("MAINPID={new}"));
    for _ in 0..3 {
        socket.wait_for("WATCHDOG=1");
    }
}

#[test]
fn somebody_elses_watchdog_is_left_alone() {
    let (directory, port) = (Directory::new(), Port::new());
    let socket = NotifySocket::new(&directory);
    let config = Config::new(&directory, 1).answering(&port);
    let _drover = Drover::try_start(&directory, &config, &surroundings(&socket, "1")).expect("it starts");
    socket.wait_for("READY=1");
    assert!(stays(WATCHDOG, || !socket.next().is_some_and(|heard| heard.says("WATCHDOG=1"))));
}

/// Has a worker stay in a receive, and so inside one turn; nothing where there is no strace.
fn hang(drover: &Drover, directory: &Directory, port: &Port) -> Option<(Strace, Client)> {
    let worker = *drover.workers().last().expect("a worker");
    let strace = Strace::slow_down(directory, worker, "recvfrom", Duration::from_secs(600))?;
    // Of several workers each has a socket: the one that hangs gets some of them.
    let mut clients: Vec<Client> = (0..20).map(|_| Client::to(port.address())).collect();
    clients.iter_mut().for_each(|client| client.ask("/"));
    clients.pop().map(|client| (strace, client))
}

#[test]
fn none_comes_while_every_worker_hangs() {
    let (directory, port) = (Directory::new(), Port::new());
    let socket = NotifySocket::new(&directory);
    let config = Config::new(&directory, 1).answering(&port);
    let drover = Drover::try_start(&directory, &config, &surroundings(&socket, "$$")).expect("it starts");
    socket.wait_for("WATCHDOG=1");
    let Some(hanging) = hang(&drover, &directory, &port) else { return };
    drover.log_line(&["no keep-alive for systemd", "every worker has been inside one turn for 2s"]);
    while socket.next().is_some() {}
    assert!(stays(WATCHDOG, || !socket.next().is_some_and(|heard| heard.says("WATCHDOG=1"))));
    drop(hanging);
    socket.wait_for("WATCHDOG=1");
}

#[test]
fn one_worker_that_hangs_among_others_is_no_reason_for_a_restart() {
    let (directory, port) = (Directory::new(), Port::new());
    let socket = NotifySocket::new(&directory);
    let config = Config::new(&directory, 2).events("accept = \"reuseport\"").answering(&port);
    let drover = Drover::try_start(&directory, &config, &surroundings(&socket, "$$")).expect("it starts");
    let Some(_hanging) = hang(&drover, &directory, &port) else { return };
    drover.log_line(&["has been inside one turn for"]);
    while socket.next().is_some() {}
    for _ in 0..4 {
        socket.wait_for("WATCHDOG=1");
    }
    assert!(drover.log_lines(&["no keep-alive"]).is_empty());
}
