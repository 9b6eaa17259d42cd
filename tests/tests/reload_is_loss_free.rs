//! A client that opens a new connection for every request sees no failure, whatever is reloaded.

use drover_tests::{Config, Directory, Drover, Load, Port, binary};

const THREADS: u8 = 4;

fn config(directory: &Directory, port: &Port, strategy: &str) -> Config {
    Config::new(directory, 2)
        .http("access_log = \"off\"")
        .events(&format!("accept = \"{strategy}\""))
        .answering(port)
}

/// Twenty times HUP, each as soon as the generation before serves.
fn twenty_reloads(strategy: &str) {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = Drover::start(&directory, &config(&directory, &port, strategy));
    let load = Load::start(THREADS, port.address(), "/");
    load.wait_for(100);
    for number in 1..=20 {
        drover.reload_begun();
        load.wait_for(50);
        load.assert_no_loss(&format!("reload {number} with {strategy}"));
    }
    let tally = load.stop();
    assert!(tally.failures.is_empty(), "{strategy}: {tally}");
    assert_eq!(drover.status().generation(), 21);
}

#[test]
fn twenty_reloads_with_exclusive() {
    twenty_reloads("exclusive");
}

#[test]
fn twenty_reloads_with_shared() {
    twenty_reloads("shared");
}

#[test]
fn twenty_reloads_with_mutex() {
    twenty_reloads("mutex");
}

#[test]
fn twenty_reloads_with_reuseport() {
    twenty_reloads("reuseport");
}

#[test]
fn twenty_reloads_with_balanced() {
    twenty_reloads("balanced");
}

#[test]
fn every_switch_of_strategy() {
    // A round trip that goes from each to each other once.
    const TOUR: [&str; 21] = [
        "exclusive",
        "shared",
        "exclusive",
        "mutex",
        "exclusive",
        "reuseport",
        "exclusive",
        "balanced",
        "shared",
        "mutex",
        "shared",
        "reuseport",
        "shared",
        "balanced",
        "mutex",
        "reuseport",
        "mutex",
        "balanced",
        "reuseport",
        "balanced",
        "exclusive",
    ];
    let (directory, port) = (Directory::new(), Port::new());
    let drover = Drover::start(&directory, &config(&directory, &port, TOUR[0]));
    let load = Load::start(THREADS, port.address(), "/");
    load.wait_for(100);
    for step in TOUR.windows(2) {
        config(&directory, &port, step[1]).write(&directory);
        drover.reload();
        load.wait_for(200);
        load.assert_no_loss(&format!("from {} to {}", step[0], step[1]));
    }
    let tally = load.stop();
    assert!(tally.failures.is_empty(), "{tally}");
}

/// Four workers, one, four again and so on.
fn more_and_fewer_workers(strategy: &str) {
    let (directory, port) = (Directory::new(), Port::new());
    let with = |workers: u32| config(&directory, &port, strategy).process(&format!("workers = {workers}"));
    let drover = Drover::start(&directory, &with(4));
    let load = Load::start(THREADS, port.address(), "/");
    load.wait_for(100);
    for workers in [1, 4, 2, 3, 1, 4] {
        with(workers).write(&directory);
        drover.reload();
        load.wait_for(200);
        load.assert_no_loss(&format!("to {workers} workers"));
    }
    let tally = load.stop();
    assert!(tally.failures.is_empty(), "{tally}");
    assert_eq!(drover.workers().len(), 4);
}

#[test]
fn more_and_fewer_workers_with_one_socket() {
    for strategy in ["exclusive", "shared", "mutex", "balanced"] {
        more_and_fewer_workers(strategy);
    }
}

#[test]
fn more_and_fewer_workers_with_a_socket_each() {
    more_and_fewer_workers("reuseport");
}

#[test]
fn configs_that_are_refused_in_between_change_nothing() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = Drover::start(&directory, &config(&directory, &port, "exclusive"));
    let load = Load::start(THREADS, port.address(), "/");
    load.wait_for(100);
    let reload = || binary::run(["reload".as_ref(), "-c".as_ref(), drover.config().as_os_str()]);
    for number in 1..=6 {
        let next = config(&directory, &port, if number % 2 == 0 { "reuseport" } else { "exclusive" });
        next.clone().events("epoll_events = 0").write(&directory);
        let refused = reload();
        let words = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && words.contains("epoll_events"), "{words}");
        assert!(words.contains(&format!("generation {number} goes on")), "{words}");
        next.write(&directory);
        let accepted = reload();
        assert!(accepted.status.success(), "{}", String::from_utf8_lossy(&accepted.stderr));
        let words = String::from_utf8_lossy(&accepted.stdout).into_owned();
        assert!(words.contains(&format!("generation {} serves", number + 1)), "{words}");
        load.assert_no_loss(&format!("pair {number}"));
    }
    let tally = load.stop();
    assert!(tally.failures.is_empty(), "{tally}");
}

/// A lone socket that was to become one of many has given nothing away when another address is taken.
#[test]
fn refused_configs_with_more_sockets_cost_no_connection() {
    // It can happen only with the first one that is refused.
    for start in 0..5 {
        let (directory, port, taken) = (Directory::new(), Port::new(), Port::new());
        let _somebody = std::net::TcpListener::bind(taken.address()).expect("the port is ours");
        let drover = Drover::start(&directory, &config(&directory, &port, "exclusive"));
        let load = Load::start(THREADS, port.address(), "/");
        load.wait_for(100);
        config(&directory, &port, "reuseport").process("workers = 4").answering(&taken).write(&directory);
        let refused = binary::run(["reload".as_ref(), "-c".as_ref(), drover.config().as_os_str()]);
        assert!(String::from_utf8_lossy(&refused.stderr).contains("in use"), "{refused:?}");
        load.wait_for(100);
        let tally = load.stop();
        assert!(tally.failures.is_empty(), "start {start}: {tally}");
    }
}
