//! A real worker that runs one future, and tiny servers for it to talk to.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part of this module")]

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use drover_config::{Located, ServerAddress};
use drover_event::{BackendKind, Core, Counter, Settings, Shared, Stats, Worker};
use drover_upstream::config::{self, Server};
use drover_upstream::{Connection, Failure, Lease, Plan, Upstream};

pub const LONG: Duration = Duration::from_secs(20);
/// The first of them is the reference; the others follow it in everything.
pub const BACKENDS: [BackendKind; 3] = [BackendKind::Epoll, BackendKind::Poll, BackendKind::Select];

pub fn worker(settings: Settings) -> Worker {
    let shared = Shared::alone(Stats::private().expect("memory"));
    Worker::new(settings, shared).expect("a worker")
}

/// Runs `test` as a task of a worker until it ends.
pub fn run<T: 'static, F: Future<Output = T> + 'static>(
    settings: Settings,
    test: impl FnOnce(Core) -> F,
) -> T {
    let mut worker = worker(settings);
    let core = worker.core().clone();
    let outcome = Rc::new(RefCell::new(None));
    let (future, place) = (test(core.clone()), Rc::clone(&outcome));
    core.spawn(async move {
        let result = future.await;
        *place.borrow_mut() = Some(result);
    });
    let ticking = core.clone();
    // So that no turn sleeps past the deadline.
    core.spawn(async move {
        loop {
            ticking.sleep(Duration::from_millis(500)).await;
        }
    });
    let started = Instant::now();
    loop {
        worker.turn().expect("a turn");
        if let Some(result) = outcome.borrow_mut().take() {
            return result;
        }
        assert_eq!(core.stats().counter(Counter::TaskPanics), 0, "the test failed as said above");
        assert!(started.elapsed() < 2 * LONG, "the test hangs");
    }
}

/// Waits, without holding the worker up, until `condition` holds.
pub async fn until(core: &Core, what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < LONG, "never: {what}");
        core.sleep(Duration::from_millis(2)).await;
    }
}

pub fn server(address: impl ToString) -> Server {
    Server::new(ServerAddress::parse(&address.to_string()).expect("an address"))
}

pub fn upstream(servers: Vec<Server>) -> config::Upstream {
    config::Upstream::new(servers)
}

pub fn set_servers(upstream: &mut config::Upstream, servers: Vec<Server>) {
    upstream.servers = servers.into_iter().map(Located::from).collect::<Vec<_>>().into();
}

pub fn start(core: &Core, config: &config::Upstream) -> Rc<Upstream> {
    let plan = Plan::new("app", config, core.settings().workers).expect("a plan");
    Upstream::start(core, &plan).expect("started")
}

/// A server that answers each line with its own name, on as many connections as come.
pub struct Backend {
    pub address: SocketAddr,
    /// Connections accepted so far.
    pub accepted: Arc<AtomicUsize>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
    stopped: Arc<AtomicBool>,
}

impl Backend {
    pub fn start(name: &'static str) -> Backend {
        Backend::on(TcpListener::bind("127.0.0.1:0").expect("a listener"), name)
    }

    pub fn on(listener: TcpListener, name: &'static str) -> Backend {
        let address = listener.local_addr().expect("an address");
        let backend =
            Backend { address, accepted: Arc::default(), streams: Arc::default(), stopped: Arc::default() };
        let (accepted, streams) = (Arc::clone(&backend.accepted), Arc::clone(&backend.streams));
        let stopped = Arc::clone(&backend.stopped);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                if stopped.load(Ordering::Acquire) {
                    return;
                }
                streams.lock().expect("no panic").push(stream.try_clone().expect("a duplicate"));
                accepted.fetch_add(1, Ordering::AcqRel);
                std::thread::spawn(move || {
                    let mut byte = [0];
                    while matches!(stream.read(&mut byte), Ok(1)) {
                        if byte == *b"\n" && stream.write_all(format!("{name}\n").as_bytes()).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        backend
    }

    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Acquire)
    }

    /// Does something to all connections there are.
    pub fn each(&self, act: impl Fn(&mut TcpStream)) {
        self.streams.lock().expect("no panic").iter_mut().for_each(act);
    }

    /// Closes all connections there are.
    pub fn close_all(&self) {
        self.each(|stream| {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        });
        self.streams.lock().expect("no panic").clear();
    }

    /// Accepts no more: connecting is refused.
    pub fn stop(self) {
        self.stopped.store(true, Ordering::Release);
        // Ends the accept that the thread waits in.
        drop(TcpStream::connect(self.address));
        let started = Instant::now();
        while TcpStream::connect(self.address).is_ok() {
            assert!(started.elapsed() < LONG, "still listening");
        }
        self.close_all();
    }
}

/// Sends a line and receives one, on any connection to any server.
pub async fn ask(core: &Core, upstream: &Rc<Upstream>) -> Result<(String, Lease), Failure> {
    let lease = upstream.begin(0).next(core, Connection::Any, LONG).await?;
    let answer = talk(&lease).await;
    Ok((answer, lease))
}

/// Sends a line and receives one.
pub async fn talk(lease: &Lease) -> String {
    lease.stream().send_all(b"who?\n", false).await.expect("sent");
    let mut buffer = [0; 64];
    let mut length = 0;
    while !buffer[..length].ends_with(b"\n") {
        match lease.stream().receive(&mut buffer[length..]).await.expect("received") {
            0 => break,
            count => length += count,
        }
    }
    String::from_utf8_lossy(&buffer[..length]).trim_end().to_owned()
}
