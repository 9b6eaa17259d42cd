//! `debug_connections`: peers that are named there leave lines at debug level, others leave none, and a
//! reload that takes the key away ends it.

use std::net::Ipv4Addr;

use drover_tests::{Client, Config, Directory, Drover, Port, eventually};

const DEBUGGED: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const OTHER: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// One connection that is served and then leaves in the middle of a head. Tells its port.
fn visit(drover: &Drover, port: &Port, source: Ipv4Addr) -> u16 {
    let mut client = Client::connect_from(source, port.address()).expect("connected");
    let local = client.port();
    assert_eq!(client.get("/").text(), "ok\n");
    client.send("GET / HT");
    drop(client);
    eventually("the connection has ended", || {
        drover.status().workers.iter().all(|worker| worker.connections == 0).then_some(())
    });
    local
}

#[test]
fn the_peers_that_are_named_are_logged_at_debug_level() {
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, 1)
        .log("level = \"info\"")
        .events("debug_connections = [\"127.0.0.2\"]")
        .answering(&port);
    let drover = Drover::start(&directory, &config);
    let debug_lines = || drover.log_lines(&[" DEBUG "]);

    visit(&drover, &port, OTHER);
    assert_eq!(debug_lines(), Vec::<String>::new());

    let local = visit(&drover, &port, DEBUGGED);
    let accepted = drover.log_line(&[" DEBUG ", "accept", &format!("peer={DEBUGGED}:{local} ")]);
    let number = accepted.split_once("connection=").expect("a number").1;
    drover.log_line(&[" DEBUG ", "closed", &format!("connection={number} reason=client_gone")]);

    // The first visit is there so that the worker has written all that it writes about the debugged one.
    visit(&drover, &port, OTHER);
    let lines = debug_lines();
    visit(&drover, &port, OTHER);
    assert_eq!(debug_lines(), lines);

    config.events("debug_connections = []").write(&directory);
    drover.reload();
    for source in [DEBUGGED, OTHER] {
        visit(&drover, &port, source);
    }
    assert_eq!(debug_lines(), lines);
}
