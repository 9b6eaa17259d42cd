//! Workers that share datagram sockets: each flow stays with the worker that has its session.

mod support;

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use drover_event::{
    BackendKind, Core, DatagramService, ListenerOptions, Neighbour, Neighbourhood, Notifier, Ports, Session,
    SessionTable, Settings, Shared, Stats, Strategy, Worker,
};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, setsockopt, socket, sockopt,
};

const LIMIT: Duration = Duration::from_secs(10);

/// Answers each datagram with the worker's name, the session's number and the datagram.
struct Named(&'static str);

impl DatagramService for Named {
    fn session(&self, session: Session) -> Pin<Box<dyn Future<Output = ()>>> {
        let name = self.0;
        Box::pin(async move {
            let mut datagram = Vec::new();
            session.set_timeout(LIMIT);
            while session.receive(&mut datagram).await.is_ok() {
                let text = format!("{name}{} {}", session.number(), String::from_utf8_lossy(&datagram));
                session.send(text.as_bytes());
            }
        })
    }
}

/// What others may know of a worker.
#[derive(Clone)]
struct Known {
    table: SessionTable,
    inbox: Arc<OwnedFd>,
}

impl Known {
    fn as_neighbour(&self, before: bool) -> Neighbour {
        Neighbour { table: self.table.clone(), inbox: self.inbox.try_clone().expect("a copy"), before }
    }
}

/// A worker on a thread of its own.
struct Member {
    known: Known,
    order: Arc<AtomicU8>,
    notifier: Notifier,
    thread: Option<JoinHandle<()>>,
}

const DRAIN: u8 = 1;
const STOP: u8 = 2;

impl Member {
    fn new(name: &'static str, backend: BackendKind, socket: &UdpSocket, others: Vec<Neighbour>) -> Member {
        let bound = socket.local_addr().expect("address");
        let socket: OwnedFd = socket.try_clone().expect("a copy").into();
        let (receiving, sending) = Neighbourhood::inbox().expect("an inbox");
        let order = Arc::new(AtomicU8::new(0));
        let own_order = Arc::clone(&order);
        let (told, tell) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let memory = drover_sys::memory::anonymous_file(c"sessions").expect("memory");
            let table = SessionTable::create(&memory, 64).expect("a mapping");
            let shared = Shared {
                stats: Stats::private().expect("memory"),
                mutex: None,
                balance: None,
                notifier: None,
            };
            let mut worker =
                Worker::new(Settings { backend, ..Settings::default() }, shared).expect("worker");
            let core = worker.core().clone();
            let neighbourhood = Neighbourhood { table: table.clone(), inbox: receiving, others, seed: 7 };
            core.join_neighbourhood(neighbourhood).expect("joining");
            let options = ListenerOptions {
                address: bound.to_string(),
                strategy: Strategy::Shared,
                deferred: false,
                client_first: true,
            };
            core.listen_datagrams(socket, bound, options, Rc::new(Named(name))).expect("listening");
            told.send((core.notifier().clone(), table)).expect("telling");
            turn(&mut worker, &core, &own_order);
        });
        let (notifier, table) = tell.recv_timeout(LIMIT).expect("the worker starts");
        let known = Known { table, inbox: Arc::new(sending) };
        Member { known, order, notifier, thread: Some(thread) }
    }

    fn order(&self, order: u8) {
        self.order.store(order, Ordering::SeqCst);
        self.notifier.notify();
    }
}

fn turn(worker: &mut Worker, core: &Core, order: &AtomicU8) {
    loop {
        match order.load(Ordering::SeqCst) {
            STOP => return,
            DRAIN => core.drain(),
            _ => {}
        }
        worker.turn().expect("a turn");
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.order(STOP);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the worker panicked");
        }
        self.known.table.clear();
    }
}

fn client() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("client");
    socket.set_read_timeout(Some(LIMIT)).expect("time-out");
    socket
}

fn ask(client: &UdpSocket, server: SocketAddr, text: &str) -> String {
    client.send_to(text.as_bytes(), server).expect("sending");
    let mut answer = [0; 2000];
    let (length, from) = client.recv_from(&mut answer).expect("an answer");
    assert_eq!(from, server);
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

fn server() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("socket");
    socket.set_nonblocking(true).expect("non-blocking");
    let address = socket.local_addr().expect("address");
    (socket, address)
}

#[test]
fn a_generation_that_follows_leaves_sessions_where_they_are() {
    for &backend in BackendKind::ALL {
        let (socket, address) = server();
        let old = Member::new("old", backend, &socket, Vec::new());
        let (first, second, third) = (client(), client(), client());
        assert_eq!(ask(&first, address, "a"), "old1 a");
        let new = Member::new("new", backend, &socket, vec![old.known.as_neighbour(true)]);
        for round in 0..20 {
            assert_eq!(ask(&first, address, "b"), "old1 b", "round {round}: one of them reads");
        }
        assert_eq!(ask(&second, address, "c"), "old2 c");
        old.known.table.set_followed([address.port()].into_iter().collect());
        old.order(DRAIN);
        let stopped = Instant::now();
        while old.known.table.reading() != Ports::default() {
            assert!(stopped.elapsed() < LIMIT, "the old worker stops reading");
            std::thread::yield_now();
        }
        for _ in 0..20 {
            assert_eq!(ask(&first, address, "d"), "old1 d", "handed over");
            assert_eq!(ask(&third, address, "e"), "new1 e", "a new flow is the new worker's");
            assert_eq!(ask(&second, address, ""), "old2 ");
        }
        let largest = "x".repeat(1500);
        assert_eq!(ask(&first, address, &largest), format!("old1 {largest}"));
        drop(old);
        assert_eq!(ask(&first, address, "f"), "new2 f", "nobody has it any more");
        drop(new);
    }
}

#[test]
fn a_worker_that_nobody_follows_serves_its_sessions_to_the_end() {
    let (socket, address) = server();
    let member = Member::new("last", BackendKind::Epoll, &socket, Vec::new());
    let (first, second) = (client(), client());
    assert_eq!(ask(&first, address, "a"), "last1 a");
    member.order(DRAIN);
    for _ in 0..10 {
        assert_eq!(ask(&first, address, "b"), "last1 b");
    }
    second.set_read_timeout(Some(Duration::from_millis(200))).expect("time-out");
    second.send_to(b"c", address).expect("sending");
    assert!(second.recv(&mut [0; 16]).is_err(), "no session begins");
}

#[test]
fn a_worker_that_somebody_will_follow_begins_sessions_until_then() {
    let (socket, address) = server();
    let member = Member::new("last", BackendKind::Epoll, &socket, Vec::new());
    member.known.table.set_heirs([address.port()].into_iter().collect());
    assert_eq!(ask(&client(), address, "a"), "last1 a");
    member.order(DRAIN);
    let late = client();
    assert_eq!(ask(&late, address, "b"), "last2 b");
    assert_eq!(ask(&late, address, "c"), "last2 c");
    member.known.table.set_heirs(Ports::default());
    let unwanted = client();
    unwanted.set_read_timeout(Some(Duration::from_millis(200))).expect("time-out");
    unwanted.send_to(b"d", address).expect("sending");
    assert!(unwanted.recv(&mut [0; 16]).is_err(), "nobody will");
}

/// A socket that others can join.
fn member_of_group(address: SocketAddr) -> UdpSocket {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Inet, SockType::Datagram, flags, None).expect("socket");
    setsockopt(&socket, sockopt::ReusePort, &true).expect("option");
    bind(socket.as_raw_fd(), &SockaddrStorage::from(address)).expect("bind");
    socket.into()
}

#[test]
fn a_group_that_grows_leaves_sessions_where_they_are() {
    let first = member_of_group(SocketAddr::from(([127, 0, 0, 1], 0)));
    let address = first.local_addr().expect("address");
    let one = Member::new("one", BackendKind::Epoll, &first, Vec::new());
    let flows: Vec<UdpSocket> = (0..40).map(|_| client()).collect();
    for (number, flow) in flows.iter().enumerate() {
        assert_eq!(ask(flow, address, "a"), format!("one{} a", number + 1));
    }
    let second = member_of_group(address);
    let two = Member::new("two", BackendKind::Epoll, &second, vec![one.known.as_neighbour(false)]);
    for (number, flow) in flows.iter().enumerate() {
        assert_eq!(ask(flow, address, "b"), format!("one{} b", number + 1), "handed over or not");
    }
    let new_flows: Vec<String> = (0..40).map(|_| ask(&client(), address, "c")).collect();
    assert!(new_flows.iter().any(|answer| answer.starts_with("two")), "{new_flows:?}");
    drop((one, two));
}
