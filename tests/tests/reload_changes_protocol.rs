//! A port whose listeners change between TCP and UDP: the new protocol serves at once, the old one finishes what it
//! has, and whoever is served beside it notices nothing.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use drover_tests::datagrams::{Flows, Tally, UdpBackend, ask, socket};
use drover_tests::http::get;
use drover_tests::{Client, Config, Directory, Drover, Load, Port, eventually};

const FLOWS: u32 = 20;
const PER_SECOND: u32 = 50;

struct Setup {
    directory: Directory,
    port: Port,
    beside: Port,
    backend: UdpBackend,
}

impl Setup {
    fn new() -> Setup {
        Setup {
            directory: Directory::new(),
            port: Port::new(),
            beside: Port::new(),
            backend: UdpBackend::echo(),
        }
    }

    /// Something that stays, and on the port what is asked for.
    fn config(&self, tcp: bool, udp: bool, strategy: &str) -> Config {
        let mut config = Config::new(&self.directory, 2)
            .http("access_log = \"off\"")
            .events(&format!("accept = \"{strategy}\""))
            .answering(&self.beside);
        if tcp {
            config = config
                .answering(&self.port)
                .location("/slow", "return = { status = 200, body = \"slow\\n\", delay = \"1s\" }");
        }
        if udp {
            config = config.proxy(&format!(
                "listen = [{{ address = \"{}\", udp = true }}]\nproxy_pass = \"{}\"",
                self.port.address(),
                self.backend.address()
            ));
        }
        config
    }

    fn address(&self) -> SocketAddr {
        self.port.address().into()
    }

    /// Whether a datagram is answered; unlike with TCP, no answer may mean that nobody listens.
    fn answers_datagrams(&self) -> bool {
        let client = socket();
        client.set_read_timeout(Some(Duration::from_millis(300))).expect("a time-out");
        client.connect(self.address()).expect("an address");
        client.send(b"?").is_ok() && client.recv(&mut [0; 8]).is_ok()
    }
}

/// From one protocol to the other and back under load, over both of them as well.
fn tour(strategy: &str) {
    let setup = Setup::new();
    let drover = Drover::start(&setup.directory, &setup.config(true, false, strategy));
    let load = Load::start(2, setup.beside.address(), "/");
    load.wait_for(20);
    for (tcp, udp) in [(false, true), (true, false), (true, true), (false, true), (true, true), (true, false)]
    {
        setup.config(tcp, udp, strategy).write(&setup.directory);
        drover.reload_begun();
        let when = format!("TCP: {tcp}, UDP: {udp}, with {strategy}");
        match tcp {
            true => assert_eq!(get(setup.port.address(), "/").text(), "ok\n", "{when}"),
            false => assert!(TcpStream::connect(setup.address()).is_err(), "{when}"),
        }
        // A worker of before answers until it has heard that it is to drain.
        eventually(&format!("datagrams are answered or not: {when}"), || {
            (setup.answers_datagrams() == udp).then_some(())
        });
        load.wait_for(20);
        load.assert_no_loss(&when);
    }
    let tally = load.stop();
    assert!(tally.failures.is_empty(), "{strategy}: {tally}");
}

#[test]
fn there_and_back_with_one_socket() {
    tour("exclusive");
    tour("balanced");
}

#[test]
fn there_and_back_with_a_socket_each() {
    tour("reuseport");
}

#[test]
fn connections_finish_while_datagrams_are_served_on_their_port() {
    let setup = Setup::new();
    let drover = Drover::start(&setup.directory, &setup.config(true, false, "exclusive"));
    let mut slow = Client::to(setup.port.address());
    slow.ask("/slow");
    eventually("the request is under way", || {
        (drover.status().workers.iter().map(|worker| worker.connections).sum::<u64>() == 1).then_some(())
    });
    setup.config(false, true, "exclusive").write(&setup.directory);
    drover.reload_begun();
    assert_eq!(ask(&socket(), setup.address(), b"here").0, b"here");
    assert_eq!(slow.response().text(), "slow\n");
}

/// Where datagrams are received changes, and all the while clients of before go on, and others come.
#[test]
fn datagrams_reach_an_address_that_becomes_wider_and_narrower() {
    let setup = Setup::new();
    let with = |ip: &str| {
        Config::new(&setup.directory, 2).proxy(&format!(
            "listen = [{{ address = \"{ip}:{}\", udp = true }}]\nproxy_pass = \"{}\"",
            setup.port,
            setup.backend.address()
        ))
    };
    let drover = Drover::start(&setup.directory, &with("127.0.0.1"));
    let old = Flows::new(0, FLOWS);
    let run = |flows: &Flows| {
        let tally = flows.run(setup.address(), PER_SECOND, Duration::from_secs(1));
        let expected = u64::from(FLOWS * PER_SECOND);
        assert_eq!(tally, Tally { sent: expected, answered: expected });
    };
    run(&old);
    for (step, ip) in [(1, "0.0.0.0"), (2, "127.0.0.1"), (3, "0.0.0.0"), (4, "0.0.0.0"), (5, "127.0.0.1")] {
        with(ip).write(&setup.directory);
        std::thread::scope(|scope| {
            let old = scope.spawn(|| run(&old));
            let new = scope.spawn(|| run(&Flows::new(step * FLOWS, FLOWS)));
            drover.reload_begun();
            old.join().and_then(|()| new.join()).unwrap_or_else(|_| panic!("lost at step {step}, to {ip}"));
        });
        run(&Flows::new((5 + step) * FLOWS, FLOWS));
    }
    let split: Vec<_> = setup.backend.sessions().into_iter().filter(|(_, sessions)| *sessions != 1).collect();
    assert!(split.is_empty(), "flows with more than one session: {split:?}");
}

/// One of two ports goes: its sessions go on all the same, and the other one begins new ones.
#[test]
fn sessions_go_on_at_a_port_that_goes_beside_another() {
    let (directory, goes, backend) = (Directory::new(), Port::new(), UdpBackend::echo());
    // Workers tell each other of ports in a word, where these two are to have a bit each.
    let is_apart = |port: &Port| port.number() % 64 != goes.number() % 64;
    let stays = std::iter::repeat_with(Port::new).find(is_apart).expect("there are many");
    let with = |ports: &[&Port]| {
        let listen = |port: &&Port| format!("{{ address = \"{}\", udp = true }}", port.address());
        let listen: Vec<String> = ports.iter().map(listen).collect();
        let keys = format!("listen = [{}]\nproxy_pass = \"{}\"", listen.join(", "), backend.address());
        Config::new(&directory, 2).proxy(&keys)
    };
    let drover = Drover::start(&directory, &with(&[&goes, &stays]));
    let (lasting, staying) = (Flows::new(0, FLOWS), Flows::new(FLOWS, FLOWS));
    let run = |flows: &Flows, port: &Port| {
        let tally = flows.run(port.address().into(), PER_SECOND, Duration::from_secs(1));
        let expected = u64::from(FLOWS * PER_SECOND);
        assert_eq!(tally, Tally { sent: expected, answered: expected });
    };
    run(&lasting, &goes);
    run(&staying, &stays);
    with(&[&stays]).write(&directory);
    drover.reload_begun();
    run(&lasting, &goes);
    run(&staying, &stays);
    run(&Flows::new(2 * FLOWS, FLOWS), &stays);
    let split: Vec<_> = backend.sessions().into_iter().filter(|(_, sessions)| *sessions != 1).collect();
    assert!(split.is_empty(), "flows with more than one session: {split:?}");
}
