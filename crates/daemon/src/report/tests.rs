//! What is said about scoreboards that are made up for it.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;

use drover_event::backend::scripted::Script;
use drover_event::{
    Direction, Gauge, ListenerOptions, Phase, Service, Settings, Shared, Stats, Strategy, Stream, Worker,
};
use nix::unistd::Pid;
use serde_json::Value;

use super::*;
use crate::scoreboard::{Block, Exit, Listed, MasterState, Scoreboard, Transport, path_in, unlocked};

/// A daemon with two workers, changed by `change`, and what is seen of it.
fn seen(name: &str, change: impl FnOnce(&Scoreboard, &[Block])) -> Snapshot {
    let directory = std::env::temp_dir().join(format!("drover-report-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("directory");
    let board = Scoreboard::create(&directory).expect("scoreboard");
    board.set_generation(1, 2);
    board.set_state(MasterState::Serving);
    let blocks: Vec<Block> = (0..2).map(|number| board.lend(1, number, 512).expect("block")).collect();
    for block in &blocks {
        block.set_state(WorkerState::Serving);
        block.stats().set(Gauge::FreeSlots, 500);
    }
    change(&board, &blocks);
    let snapshot = unlocked(&path_in(&directory)).snapshot_as(Pid::this());
    std::fs::remove_dir_all(directory).expect("removed");
    snapshot
}

const NOW: Now = Now { unix_ms: 0, monotonic_ms: 5_000 };

fn sentences(snapshot: &Snapshot) -> String {
    findings(snapshot, NOW).into_iter().map(|finding| finding.text + "\n").collect()
}

fn list(board: &Scoreboard, address: &str, strategy: Strategy, sockets: Vec<u64>) {
    board.number_listeners([address].into_iter(), 1);
    let transport = if address.starts_with("udp:") { Transport::Udp } else { Transport::Tcp };
    let listed = Listed { address: address.into(), transport, strategy, backlog: 4096, sockets };
    board.show_listeners(&[listed], std::iter::empty::<std::os::fd::OwnedFd>(), 1);
}

#[test]
fn the_table_fits_eighty_columns_with_large_figures() {
    let snapshot = seen("wide", |board, blocks| {
        blocks[0].stats().add(Counter::Requests, 123_456_789_012);
        blocks[0].stats().add(Counter::Accepts, 12_345_678_901);
        blocks[0].stats().set(Gauge::OpenConnections, 4_194_304);
        blocks[0].set_pid(Pid::from_raw(4_194_304));
        board.reload_begins();
        board.reload_ends(false, "error");
        list(board, &format!("unix:/{}", "long/".repeat(20)), Strategy::Exclusive, vec![1]);
    });
    let now = Now { unix_ms: snapshot.master.started_ms + 400 * 86_400_000, monotonic_ms: 0 };
    let text = table(&snapshot, now);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(
        text.contains(" 123.4G ") && text.contains("400d 0h") && text.contains("long/ exclusive"),
        "{text}"
    );
}

#[test]
fn nothing_is_said_where_nothing_is_off() {
    assert_eq!(sentences(&seen("well", |_, _| {})), "");
}

#[test]
fn a_worker_that_holds_most_connections_is_said() {
    let uneven = seen("uneven", |board, blocks| {
        blocks[1].stats().set(Gauge::OpenConnections, 81);
        blocks[0].stats().set(Gauge::OpenConnections, 19);
        list(board, "127.0.0.1:80", Strategy::Exclusive, vec![1]);
    });
    let text = sentences(&uneven);
    let wanted = "worker 1 holds 81 % of 100 connections; accept = \"balanced\" would even this out";
    assert!(text.contains(wanted), "{text}");
}

#[test]
fn a_full_worker_beside_an_empty_one_is_said_however_few_its_connections_are() {
    let full = |free: u64| {
        seen(&format!("full-{free}"), |board, blocks| {
            blocks[1].stats().set(Gauge::OpenConnections, 40);
            blocks[1].stats().set(Gauge::FreeSlots, free);
            list(board, "127.0.0.1:80", Strategy::Exclusive, vec![1]);
        })
    };
    assert!(sentences(&full(2)).contains("worker 1 holds 100 % of 40 connections; accept = \"balanced\""));
    assert_eq!(sentences(&full(400)), "");
}

#[test]
fn a_hanging_worker_is_said_with_its_connection_and_phase() {
    let hanging = seen("hanging", |_, blocks| {
        blocks[0].stats().set(Gauge::TurnStarted, 2_000);
        blocks[0].stats().set(Gauge::RunningConnection, 17);
        blocks[0].stats().set(Gauge::RunningPhase, Phase::ReadingBody as u64);
    });
    let text = sentences(&hanging);
    assert!(text.contains("inside one turn for 3.0 s, with connection 17 (reading body)"), "{text}");
}

#[test]
fn shortages_are_said_with_what_to_raise() {
    let short = seen("short", |_, blocks| {
        let stats = blocks[0].stats();
        stats.set(Gauge::Descriptors, 900);
        stats.set(Gauge::FreeSlotsThen, 30);
        stats.set(Gauge::FreeSlots, 0);
        stats.set(Gauge::DescriptorLimit, 1000);
        stats.add(Counter::Dropped, 4);
        blocks[1].stats().add(Counter::AcceptNoDescriptors, 2);
    });
    let text = sentences(&short);
    for sentence in [
        "worker 0 has 0 of 512 slots free: raise [events] worker_connections",
        "worker 0 has 930 of 1000 descriptors open: raise [process] rlimit_nofile",
        "4 connections were dropped",
        "accepting paused 2 times for want of descriptors",
    ] {
        assert!(text.contains(sentence), "{sentence}:\n{text}");
    }
}

#[test]
fn refused_reloads_crash_loops_and_panics_are_said() {
    let broken = seen("broken", |board, blocks| {
        board.reload_begins();
        board.reload_ends(false, "error: unknown key\n --> x");
        board.count_exit(Exit::Failed);
        board.count_exit(Exit::Killed);
        blocks[1].set_state(WorkerState::Waiting);
        blocks[0].stats().add(Counter::TaskPanics, 1);
    });
    let text = sentences(&broken);
    for sentence in [
        "was refused (error: unknown key); generation 1 goes on",
        "1 of 2 workers serve (a crash loop: 1 will be started again after a pause); 1 worker ended by a failure and 1 by a signal",
        "1 task panicked",
    ] {
        assert!(text.contains(sentence), "{sentence}:\n{text}");
    }
}

#[test]
fn workers_that_were_replaced_are_said() {
    let replaced = seen("replaced", |board, _| {
        board.count_exit(Exit::Killed);
        board.count_exit(Exit::Asked);
    });
    let wanted = "1 worker ended by a signal since the start, and others took their place";
    assert!(sentences(&replaced).contains(wanted), "{}", sentences(&replaced));
}

#[test]
fn queues_and_backlogs_are_said_by_the_kernels_word() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    drover_sys::listen::listen(std::os::fd::AsFd::as_fd(&listener), 1).expect("a backlog");
    let inode = crate::scoreboard::inode(std::os::fd::AsFd::as_fd(&listener)).expect("an inode");
    let _waiting: Vec<_> = (0..2).map(|_| std::net::TcpStream::connect(address).expect("queued")).collect();
    let full = seen("queue", |board, _| {
        list(board, &address.to_string(), Strategy::Exclusive, vec![inode]);
    });
    let text = sentences(&full);
    assert!(text.contains(&format!("2 of 1 connections wait at {address}")), "{text}");
    assert!(text.contains(&format!("cut the backlog of {address} from 4096 to 1")), "{text}");
    assert!(table(&full, NOW).contains(" 2/1 "), "{}", table(&full, NOW));
}

#[test]
fn datagrams_have_no_backlog_that_could_be_cut() {
    let socket = std::net::UdpSocket::bind("[::1]:0").expect("a socket");
    let address = format!("udp:{}", socket.local_addr().expect("an address"));
    let inode = crate::scoreboard::inode(std::os::fd::AsFd::as_fd(&socket)).expect("an inode");
    let listening = seen("datagrams", |board, blocks| {
        list(board, &address, Strategy::ReusePort, vec![inode]);
        blocks[0].stats().add(Counter::DatagramsDropped, 3);
    });
    assert!(table(&listening, NOW).contains(" 0B "), "{}", table(&listening, NOW));
    let text = sentences(&listening);
    assert!(text.contains("3 datagrams given up since the start") && !text.contains("backlog"), "{text}");
}

#[test]
fn what_would_not_help_is_not_advised() {
    let holds = |board: &Scoreboard, blocks: &[Block], strategy, accepts| {
        list(board, "127.0.0.1:80", strategy, vec![1]);
        let number = blocks[0].listener("127.0.0.1:80").expect("it has a number");
        (0..accepts).for_each(|_| blocks[0].stats().count_accept(number));
    };
    let reuseport = seen("reuseport", |board, blocks| holds(board, blocks, Strategy::ReusePort, 300));
    let text = sentences(&reuseport);
    assert!(text.contains("worker 0 took 100 %") && !text.contains("or \"reuseport\""), "{text}");
    let balanced = seen("balanced", |board, blocks| {
        holds(board, blocks, Strategy::Balanced, 300);
        blocks[0].stats().set(Gauge::OpenConnections, 100);
    });
    let text = sentences(&balanced);
    assert!(text.contains("worker 0 holds 100 % of 100 connections") && !text.contains("accept ="), "{text}");
}

/// Connections of which each takes the script's clock as long as `takes` says.
struct Slow(Script, Rc<Cell<u64>>);

impl Service for Slow {
    fn connection(&self, _: Stream) -> Pin<Box<dyn Future<Output = ()>>> {
        self.0.pass(self.1.get());
        Box::pin(async {})
    }
}

/// Has a worker count in `stats`: 10 connections, one ready after the other, that take 300 ms each.
fn lag(stats: Stats) {
    let script = Script::new();
    let shared = Shared::alone(stats);
    let mut worker = Worker::scripted(Settings::default(), shared, &script).expect("a worker");
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
    socket.set_nonblocking(true).expect("non-blocking");
    let (address, descriptor) =
        (socket.local_addr().expect("an address"), std::os::fd::AsRawFd::as_raw_fd(&socket));
    let options = ListenerOptions {
        address: address.to_string(),
        strategy: Strategy::Shared,
        deferred: false,
        client_first: true,
    };
    let service = Slow(script.clone(), Rc::new(Cell::new(300)));
    worker.core().listen(socket.into(), options, Rc::new(service)).expect("listening");
    let _clients: Vec<_> = (0..10)
        .map(|_| {
            let client = std::net::TcpStream::connect(address).expect("connecting");
            script.ready(descriptor, Direction::Read);
            worker.turn().expect("a turn");
            client
        })
        .collect();
    worker.turn().expect("a turn");
    assert_eq!(script.now(), 4000, "the script's clock starts at 1 s");
}

#[test]
fn lag_is_said_and_shown() {
    let lagging = seen("lag", |_, blocks| lag(blocks[1].stats()));
    let text = sentences(&lagging);
    assert!(text.contains("what becomes ready waits up to 300.0ms for worker 1"), "{text}");
    assert!(table(&lagging, NOW).contains(" 300.0ms\n"), "{}", table(&lagging, NOW));
    let value = json(&lagging, NOW);
    assert_eq!(value["workers"][1]["lag"]["last_10s"]["lag"]["max_us"], 300_000);
    assert_eq!(value["workers"][1]["lag"]["last_10s"]["turn"]["p99_us"], 300_000);
    assert_eq!(value["workers"][0]["lag"]["last_60s"]["lag"]["max_us"], 0);
}

#[test]
fn accepts_that_one_worker_takes_are_said_by_listener() {
    let skewed = seen("skew", |board, blocks| {
        list(board, "127.0.0.1:80", Strategy::Mutex, vec![1]);
        for (block, accepts) in blocks.iter().zip([290, 10]) {
            let number = block.listener("127.0.0.1:80").expect("it has a number");
            block.stats().add(Counter::Accepts, accepts);
            (0..accepts).for_each(|_| block.stats().count_accept(number));
        }
    });
    let text = sentences(&skewed);
    assert!(text.contains("worker 0 took 97 % of 300 connections at 127.0.0.1:80 (mutex)"), "{text}");
    assert_eq!(json(&skewed, NOW)["listeners"][0]["accepts"], 300);
}

#[test]
fn json_has_what_the_table_has() {
    let snapshot = seen("json", |_, blocks| {
        blocks[0].stats().add(Counter::Accepts, 30);
        blocks[1].stats().add(Counter::Accepts, 10);
    });
    let value = json(&snapshot, NOW);
    assert_eq!(value["workers"][0]["accepts"], 30);
    assert_eq!(value["workers"][1]["free_slots"], 500);
    assert_eq!(value["workers"][1]["state"], "serving");
    assert_eq!(value["totals"]["accepts"], 40);
    assert_eq!(value["accept_skew"], 1.5);
    assert_eq!(value["master"]["last_reload"], Value::Null);
}

/// An upstream with a server of each state.
fn upstreams(board: &Scoreboard, name: &str) {
    let server = |text: &str| {
        let address = drover_config::ServerAddress::parse(text).expect("an address");
        drover_upstream::config::Server::new(address)
    };
    let mut servers: Vec<_> =
        ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80", "app.example:80"].map(server).into_iter().collect();
    (servers[0].backup, servers[1].down) = (true, true);
    let config = drover_upstream::config::Upstream::new(servers);
    let plan = drover_upstream::Plan::new(name, &config, 2).expect("memory");
    let room = board.place_servers(1, [("http", &plan)].into_iter());
    board.show_servers(room);
}

#[test]
fn servers_are_shown_and_those_that_are_not_used_are_said() {
    let snapshot = seen("servers", |board, _| upstreams(board, "app"));
    let text = table(&snapshot, NOW);
    assert!(text.contains("http app\n  10.0.0.1:80 (backup)               up "), "{text}");
    assert!(text.contains("  10.0.0.2:80                        out of use "), "{text}");
    assert!(text.contains("  app.example:80                     no address"), "{text}");
    let text = sentences(&snapshot);
    let wanted = "upstream \"app\" (http): app.example:80 without an address; 2 of 3 serve: the log says why";
    assert!(text.contains(wanted), "{text}");
    let value = json(&snapshot, NOW);
    assert_eq!(value["upstreams"][0]["servers"][1]["addresses"][0]["state"], "out_of_use");
    assert_eq!(value["upstreams"][0]["servers"][3]["addresses"], Value::Array(Vec::new()));
}

#[test]
fn long_names_of_upstreams_fit_eighty_columns() {
    let snapshot = seen("long", |board, _| upstreams(board, &"long/".repeat(40)));
    let text = table(&snapshot, NOW);
    let rows = text.lines().filter(|line| !line.starts_with(['!', ' ']));
    assert!(rows.into_iter().all(|line| line.chars().count() <= 80), "{text}");
}
