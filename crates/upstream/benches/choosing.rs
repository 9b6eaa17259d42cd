//! User-space instructions per request that choosing a server costs, and a kept connection.
//!
//! `cargo bench -p drover-upstream` runs each case twice under callgrind, with few requests and with many,
//! so that starting cancels out, and prints a line for each. It counts and does not time, so other work on
//! the machine changes nothing. Each request is `begin`, a claim and its end; `kept` also takes a kept
//! connection and keeps it again.
#![allow(clippy::print_stdout, reason = "the table is the purpose")]

use std::net::TcpListener;
use std::process::{Command, ExitCode, Stdio};
use std::rc::Rc;
use std::time::Duration;

use drover_config::ServerAddress;
use drover_event::{Core, Settings, Shared, Stats, Worker};
use drover_upstream::config::{self, Balance, Server};
use drover_upstream::{Connection, Plan, Upstream, hash_key};

/// Name, method, servers, whether their weights differ.
const CASES: &[(&str, Balance, usize, bool)] = &[
    ("round robin of 1", Balance::RoundRobin, 1, false),
    ("round robin of 2", Balance::RoundRobin, 2, false),
    ("round robin of 10", Balance::RoundRobin, 10, true),
    ("least connections of 10", Balance::LeastConnections, 10, true),
    ("hash of 10, equal weights", Balance::Hash, 10, false),
    ("hash of 10", Balance::Hash, 10, true),
    ("random two of 10", Balance::RandomTwo, 10, true),
    ("round robin of 100", Balance::RoundRobin, 100, true),
    ("hash of 100, equal weights", Balance::Hash, 100, false),
    ("kept", Balance::RoundRobin, 2, false),
];

const FEW: u64 = 1000;
const MANY: u64 = 11_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, case, count] = &arguments[..]
        && let (Ok(case), Ok(count)) = (case.parse(), count.parse())
    {
        run(case, count);
        return ExitCode::SUCCESS;
    }
    println!("{:<32} instructions per request", "case");
    for (number, (name, ..)) in CASES.iter().enumerate() {
        match counted(&arguments[0], number, MANY)
            .and_then(|many| Ok(many - counted(&arguments[0], number, FEW)?))
        {
            Ok(spent) => println!("{name:<32} {:>10.0}", spent as f64 / (MANY - FEW) as f64),
            Err(reason) => {
                println!("{name}: {reason}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// The instructions of a whole run, as callgrind counts them.
fn counted(program: &str, case: usize, count: u64) -> Result<u64, String> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", program])
        .args([case.to_string(), count.to_string()])
        .stdout(Stdio::null())
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let collected = text.lines().find_map(|line| line.split_once("Collected : "));
    collected
        .and_then(|(_, number)| number.trim().parse().ok())
        .ok_or_else(|| format!("callgrind tells no number:\n{text}"))
}

fn run(case: usize, count: u64) {
    let (name, balance, servers, weights) = CASES[case];
    let shared = Shared::alone(Stats::private().expect("memory"));
    let mut worker = Worker::new(Settings::default(), shared).expect("a worker");
    let core = worker.core().clone();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = |number: usize| match name {
        // Both are the listener: its queue takes the connection, which nobody has to accept.
        "kept" => listener.local_addr().expect("an address").to_string(),
        _ => format!("10.0.{}.{}:80", number / 250, number % 250),
    };
    let server = |number: usize| Server {
        weight: if weights { 1 + number as u32 % 3 } else { 1 },
        ..Server::new(ServerAddress::parse(&address(number)).expect("an address"))
    };
    let mut config = config::Upstream::new((0..servers).map(server).collect());
    config.balance = balance.into();
    config.keepalive_requests = u32::MAX;
    let plan = Plan::new("bench", &config, 1).expect("memory");
    let upstream = Upstream::start(&core, &plan).expect("started");
    if name == "kept" {
        return keep(&mut worker, core, upstream, count);
    }
    for number in 0..count {
        let key = hash_key(&number.to_ne_bytes());
        let claim = upstream.begin(key).claim(core.now()).expect("a server");
        std::hint::black_box(claim.peer().name());
    }
}

/// Takes a kept connection and keeps it again, as a request does.
fn keep(worker: &mut Worker, core: Core, upstream: Rc<Upstream>, count: u64) {
    let done = Rc::new(std::cell::Cell::new(false));
    let (says, wakes) = (Rc::clone(&done), core.clone());
    core.clone().spawn(async move {
        for _ in 0..count {
            let mut attempts = upstream.begin(0);
            let lease = attempts.next(&core, Connection::Any, Duration::from_secs(60)).await;
            lease.expect("a connection").keep();
        }
        says.set(true);
    });
    while !done.get() {
        wakes.notifier().notify();
        worker.turn().expect("a turn");
    }
}
