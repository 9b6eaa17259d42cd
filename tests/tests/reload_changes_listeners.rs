//! Listeners that come, go, or change their address or options with a reload: nobody who connects meanwhile notices.

use drover_tests::http::get;
use drover_tests::{Client, Config, Directory, Drover, Load, Port, eventually, process};
use nix::sys::signal::Signal;

const THREADS: u8 = 4;

/// Two workers that listen as `listen` says.
fn config(directory: &Directory, listen: &str) -> Config {
    Config::new(directory, 2)
        .http("access_log = \"off\"")
        .server_with(&format!("listen = [{listen}]"))
        .location("/", "return = { status = 200, body = \"ok\\n\" }")
}

/// Reloads from one listen directive to the next under load.
fn tour(port: &Port, listens: &[String]) {
    let directory = Directory::new();
    tour_of_configs(&directory, port, listens.iter().map(|listen| config(&directory, listen)).collect());
}

/// Reloads from one config to the next under load.
fn tour_of_configs(directory: &Directory, port: &Port, configs: Vec<Config>) {
    let drover = Drover::start(directory, &configs[0]);
    let load = Load::start(THREADS, port.address(), "/");
    load.wait_for(100);
    for config in &configs[1..] {
        config.write(directory);
        drover.reload();
        load.wait_for(200);
        load.assert_no_loss(&format!("the reload to\n{}", config.text()));
    }
    let tally = load.stop();
    assert!(tally.failures.is_empty(), "{tally}");
}

#[test]
fn an_address_becomes_wider_and_narrower() {
    let port = Port::new();
    let (narrow, wide) = (format!("\"127.0.0.1:{port}\""), format!("\"0.0.0.0:{port}\""));
    let own = |address: &str| format!("{{ address = {address}, accept = \"reuseport\" }}");
    tour(&port, &[narrow.clone(), wide.clone(), own(&narrow), own(&wide), narrow, own(&wide)]);
}

#[test]
fn ipv4_and_both_protocols_on_one_port() {
    let port = Port::new();
    if std::net::TcpListener::bind(("::1", port.number())).is_err() {
        drover_tests::packages::skip("this machine has no IPv6");
        return;
    }
    let both = format!("{{ address = \"[::]:{port}\", ipv6_only = false }}");
    let one_each = format!("\"0.0.0.0:{port}\", \"[::]:{port}\"");
    let ipv4 = format!("\"127.0.0.1:{port}\"");
    tour(&port, &[ipv4.clone(), both.clone(), one_each.clone(), ipv4, one_each, both]);
}

#[test]
fn options_change_in_place() {
    let port = Port::new();
    let address = format!("address = \"{}\"", port.address());
    let with = |options: &str| format!("{{ {address}{options} }}");
    let listens = [
        with(""),
        with(", backlog = 2000"),
        with(", deferred = true"),
        with(", deferred = true, accept = \"reuseport\""),
        with(", backlog = 16, accept = \"mutex\""),
        with(", backlog = 4096, accept = \"balanced\""),
        with(", deferred = true, accept = \"reuseport\", backlog = 64"),
        with(""),
    ];
    tour(&port, &listens);
}

/// The socket stays; what is queued on it when the new workers come is served as the new config says.
#[test]
fn an_address_changes_its_service() {
    let (directory, port, behind) = (Directory::new(), Port::new(), Port::new());
    let (front, back) = (format!("\"{}\"", port.address()), format!("\"{}\"", behind.address()));
    let served = config(&directory, &format!("{front}, {back}"));
    let passed_on = config(&directory, &back).proxy(&format!("listen = [{front}]\nproxy_pass = {back}"));
    let configs = [&served, &passed_on, &served, &passed_on, &served].map(Config::clone);
    tour_of_configs(&directory, &port, configs.into());
}

#[test]
fn listeners_come_and_go_beside_one_that_stays() {
    let (port, others) = (Port::new(), [Port::new(), Port::new(), Port::new()]);
    let listen = |count: usize| {
        let ports = std::iter::once(&port).chain(&others[..count]);
        let addresses: Vec<String> = ports.map(|port| format!("\"{}\"", port.address())).collect();
        addresses.join(", ")
    };
    tour(&port, &[0, 3, 1, 2, 0, 1].map(listen));
}

/// Clients that the kernel has let in by the time a listener goes are served, however late the worker is; those
/// that come after it are refused.
fn goes(strategy: &str) {
    let (directory, stays, port) = (Directory::new(), Port::new(), Port::new());
    let listen =
        |address: &Port| format!("{{ address = \"{}\", accept = \"{strategy}\" }}", address.address());
    let both = format!("{}, {}", listen(&stays), listen(&port));
    let drover = Drover::start(&directory, &config(&directory, &both));
    let workers = drover.workers();
    for worker in &workers {
        process::send(*worker, Signal::SIGSTOP);
    }
    let mut queued: Vec<Client> = (0..40).map(|_| Client::to(port.address())).collect();
    for client in &mut queued {
        client.ask("/");
    }
    config(&directory, &listen(&stays)).write(&directory);
    drover.reload_begun();
    assert!(
        Client::connect(port.address()).is_err(),
        "refused, although the old workers still have the socket"
    );
    for worker in &workers {
        process::send(*worker, Signal::SIGCONT);
    }
    for client in &mut queued {
        assert_eq!(client.response().text(), "ok\n");
    }
    drop(queued);
    eventually("the port is free", || port.is_free().then_some(()));
}

/// However late the old workers are: those that were let in before are theirs, the others the new workers'.
#[test]
fn a_listener_may_come_back_before_the_old_workers_have_left_it() {
    let (directory, stays, port) = (Directory::new(), Port::new(), Port::new());
    let one = format!("\"{}\"", stays.address());
    let both = format!("{one}, \"{}\"", port.address());
    let drover = Drover::start(&directory, &config(&directory, &both));
    let workers = drover.workers();
    for worker in &workers {
        process::send(*worker, Signal::SIGSTOP);
    }
    let mut early = Client::to(port.address());
    early.ask("/");
    for listen in [&one, &both] {
        config(&directory, listen).write(&directory);
        drover.reload_begun();
    }
    assert_eq!(get(port.address(), "/").text(), "ok\n");
    for worker in &workers {
        process::send(*worker, Signal::SIGCONT);
    }
    assert_eq!(early.response().text(), "ok\n");
    drop(early);
    eventually("the old workers have gone", || workers.iter().all(|pid| !process::alive(*pid)).then_some(()));
    assert_eq!(get(port.address(), "/").text(), "ok\n");
}

#[test]
fn what_is_queued_on_a_shared_listener_that_goes_is_served() {
    goes("exclusive");
}

#[test]
fn what_is_queued_on_listeners_of_each_worker_that_go_is_served() {
    goes("reuseport");
}
