//! When the master dies its workers finish what they have, exit, and nothing keeps the port.

use drover_tests::wait::SOON;
use drover_tests::{Client, Config, Directory, Drover, Port, eventually};

fn orphaned(strategy: &str) {
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, 2)
        .events(&format!("accept = \"{strategy}\""))
        .answering(&port)
        .location("/slow", "return = { status = 200, body = \"slow\\n\", delay = \"1s\" }");
    let drover = Drover::start(&directory, &config);
    let mut idle = Client::to(port.address());
    assert_eq!(idle.get("/").status, 200);
    let mut slow = Client::to(port.address());
    slow.ask("/slow");
    eventually("the slow request is under way", || {
        (drover.status().workers.iter().map(|worker| worker.connections).sum::<u64>() == 2).then_some(())
    });

    drover.kill_master();
    assert!(idle.is_closed_within(SOON), "idle connections are closed");
    assert_eq!(slow.response().text(), "slow\n");
    drop(slow);
    eventually("every worker exits", || drover.processes().is_empty().then_some(()));
    assert!(port.is_free());
}

#[test]
fn workers_drain_with_exclusive() {
    orphaned("exclusive");
}

#[test]
fn workers_drain_with_mutex() {
    orphaned("mutex");
}

#[test]
fn workers_drain_with_reuseport() {
    orphaned("reuseport");
}
