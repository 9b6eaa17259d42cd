//! Keep-alives for systemd's watchdog: from a master that goes round, unless every worker hangs.

use std::time::{Duration, Instant};

use drover_tests::daemon::Surroundings;
use drover_tests::masters::{quit, upgrade};
use drover_tests::systemd::NotifySocket;
use drover_tests::wait::stays;
use drover_tests::{Config, Directory, Drover, Port};

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
