//! A real worker in a thread, serving a config on a loopback port, and a client that reads whole answers.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "a module of several test crates, each of which uses some of it"
)]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use drover_config::{ListenAddress, Size};
use drover_event::{BackendKind, Core, ListenerOptions, Settings, Shared, Stats, Strategy, Worker};
use drover_http::Plan;
use drover_http::config::{Http, Listen, Location, PathMatch, Return, Server as ServerConfig};
use drover_service::Logs;

/// How long a test waits for something that must come.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a test asks a worker to do.
pub enum Order {
    Drain,
    Reopen,
    Flush,
    Stop,
}

pub struct Server {
    pub address: SocketAddr,
    orders: Sender<Order>,
    thread: Option<JoinHandle<()>>,
}

/// A config of one server on a free port; `change` does the rest.
pub fn serve(change: impl FnOnce(&mut Http)) -> Server {
    serve_with(Settings::default(), change)
}

pub fn serve_with(settings: Settings, change: impl FnOnce(&mut Http)) -> Server {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = socket.local_addr().expect("a bound socket has an address");
    socket.set_nonblocking(true).expect("sockets can be non-blocking");
    let listen = Listen::new(ListenAddress::Tcp(address));
    let server = ServerConfig::on(vec![listen.into()]);
    let mut config = Http { servers: vec![server], ..Http::default() };
    change(&mut config);
    let (orders, taken) = channel();
    let thread = std::thread::spawn(move || work(settings, &config, socket, taken));
    Server { address, orders, thread: Some(thread) }
}

/// The backend that the tests are run with: `DROVER_BACKEND`, or `epoll`.
fn backend() -> BackendKind {
    let Ok(wanted) = std::env::var("DROVER_BACKEND") else { return BackendKind::Epoll };
    let named = |kind: &BackendKind| kind.name() == wanted;
    BackendKind::ALL.iter().copied().find(named).expect("DROVER_BACKEND names a backend")
}

fn work(settings: Settings, config: &Http, socket: TcpListener, orders: Receiver<Order>) {
    let plan = Plan::new(config, 1).expect("the config is right");
    let settings = Settings { buffer_size: plan.buffer_size(), backend: backend(), ..settings };
    let stats = Stats::private().expect("memory");
    let shared = Shared::alone(stats);
    let mut worker = Worker::new(settings, shared).expect("a worker can be made");
    let started = plan.start(worker.core()).expect("the plan can be started");
    let options = ListenerOptions {
        address: plan.listeners()[0].socket.address.to_string(),
        strategy: Strategy::Shared,
        deferred: false,
        client_first: true,
    };
    let service = started.services[0].clone();
    worker.core().listen(socket.into(), options, service).expect("a listener has a slot");
    let stop = std::rc::Rc::new(std::cell::Cell::new(false));
    worker.core().spawn(obey(worker.core().clone(), started.logs.clone(), orders, stop.clone()));
    while !stop.get() {
        worker.turn().expect("the loop turns");
    }
}

/// Orders come from another thread; the worker looks for them often.
async fn obey(core: Core, logs: Logs, orders: Receiver<Order>, stop: std::rc::Rc<std::cell::Cell<bool>>) {
    loop {
        core.sleep(Duration::from_millis(2)).await;
        while let Ok(order) = orders.try_recv() {
            match order {
                Order::Drain => core.drain(),
                Order::Reopen => logs.reopen(),
                Order::Flush => logs.flush(),
                Order::Stop => {
                    logs.flush();
                    stop.set(true);
                    return;
                }
            }
        }
    }
}

impl Server {
    pub fn order(&self, order: Order) {
        self.orders.send(order).expect("the worker lives");
    }

    pub fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.address).expect("the worker listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out can be set");
        stream.set_nodelay(true).expect("a socket can be told not to wait");
        Client { stream, received: Vec::new() }
    }

    /// The answer to one request on a connection of its own.
    pub fn get(&self, target: &str) -> Answer {
        self.ask(&format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"))
    }

    /// The one answer to `bytes`, after which the connection must close.
    pub fn ask(&self, bytes: &str) -> Answer {
        let mut client = self.connect();
        client.send(bytes);
        let answer = client.answer_to(!bytes.starts_with("HEAD"));
        client.expect_end();
        answer
    }

    /// Stops the worker after what it gathered for its logs is written.
    pub fn stop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.order(Order::Stop);
            thread.join().expect("the worker ended well");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stop();
        }
    }
}

pub struct Client {
    pub stream: TcpStream,
    received: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    pub status: u16,
    /// The head as it was received.
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (own, value) = line.split_once(": ")?;
            own.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a text")
    }
}

impl Client {
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("the worker receives");
    }

    pub fn get(&mut self, target: &str) -> Answer {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        self.answer()
    }

    pub fn answer(&mut self) -> Answer {
        self.answer_to(true)
    }

    pub fn answer_to(&mut self, with_body: bool) -> Answer {
        let end = loop {
            if let Some(at) = self.received.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(self.receive() > 0, "closed within a head: {}", self.received.escape_ascii());
        };
        let head: Vec<u8> = self.received.drain(..end).collect();
        let head = String::from_utf8(head).expect("a head is text");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let mut answer = Answer { status, head, body: Vec::new() };
        if with_body && !matches!(status, 100 | 204 | 304) {
            answer.body = self.body(&answer);
        }
        answer
    }

    fn body(&mut self, answer: &Answer) -> Vec<u8> {
        if answer.field("Transfer-Encoding").is_some() {
            assert_eq!(answer.field("Content-Length"), None);
            return self.chunks();
        }
        match answer.field("Content-Length") {
            Some(length) => self.exactly(length.parse().expect("a number")),
            None => {
                while self.receive() > 0 {}
                std::mem::take(&mut self.received)
            }
        }
    }

    fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let end = loop {
                match self.received.windows(2).position(|two| two == b"\r\n") {
                    Some(end) => break end,
                    None => assert!(self.receive() > 0, "closed within a chunk's size"),
                }
            };
            let line = self.exactly(end + 2);
            let size = std::str::from_utf8(&line[..end]).expect("text");
            let size = usize::from_str_radix(size, 16).expect("a chunk's size");
            body.extend(self.exactly(size));
            assert_eq!(self.exactly(2), b"\r\n");
            if size == 0 {
                return body;
            }
        }
    }

    fn exactly(&mut self, length: usize) -> Vec<u8> {
        while self.received.len() < length {
            assert!(self.receive() > 0, "closed within a body of {length}");
        }
        self.received.drain(..length).collect()
    }

    fn receive(&mut self) -> usize {
        let mut buffer = [0; 16 * 1024];
        let count = self.stream.read(&mut buffer).expect("the worker answers in time");
        self.received.extend_from_slice(&buffer[..count]);
        count
    }

    /// Nothing more comes, and the worker closes.
    pub fn expect_end(&mut self) {
        let count = self.receive();
        assert_eq!((count, self.received.len()), (0, 0), "{}", self.received.escape_ascii());
    }
}

/// A location that answers with a text.
pub fn fixed(path: &str, status: u16, body: &str) -> Location {
    returning(path, Return { body: Some(body.to_owned().into()), ..bare_return(status) })
}

pub fn bare_return(status: u16) -> Return {
    Return::with(status)
}

pub fn returning(path: &str, answer: Return) -> Location {
    Location { return_: Some(answer.into()), ..location(path) }
}

pub fn location(path: &str) -> Location {
    Location::at(PathMatch::Prefix(path.to_owned()))
}

/// A server that answers everything with "ok".
pub fn serve_ok(change: impl FnOnce(&mut Http)) -> Server {
    serve(|http| {
        http.servers[0].locations.push(fixed("/", 200, "ok\n"));
        change(http);
    })
}

/// A server whose tables are written as in a config file: `text` belongs to the one server, and `[maps...]` and the
/// like may follow.
pub fn configured(text: &str) -> Server {
    serve(|http| {
        let listen = http.servers[0].listen.clone();
        let text = format!("[[servers]]\nlisten = [\"127.0.0.1:1\"]\n{text}");
        let (read, mut findings) = drover_config::parse::<Http>("http.toml", &text);
        if let Some(read) = &read {
            read.check(&mut findings);
        }
        assert_eq!(findings.errors(), 0, "{findings}");
        *http = read.expect("a config");
        http.servers.iter_mut().for_each(|server| server.listen = listen.clone());
    })
}

/// A fresh directory, removed at the end.
pub struct Scratch(PathBuf);

static SCRATCHES: AtomicU32 = AtomicU32::new(0);

impl Scratch {
    pub fn new() -> Scratch {
        let number = SCRATCHES.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("drover-http-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory can be made");
        Scratch(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().expect("a file is in a directory"))
            .expect("a directory can be made");
        fs::write(&path, content).expect("a file can be written");
        path
    }

    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap_or_default()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Waits until `ready` gives something.
pub fn wait_for<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let begun = std::time::Instant::now();
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(begun.elapsed() < PATIENCE, "{what} did not come");
        std::thread::yield_now();
    }
}

/// A size in bytes.
pub fn bytes(count: u64) -> Size {
    Size::from_bytes(count)
}
