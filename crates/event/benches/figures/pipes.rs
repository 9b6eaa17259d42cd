//! The adaptive pipe beside plain copying: processor time of the worker that carries.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use drover_event::{Carrying, ListenerOptions, Notifier, PipeTerms, Service, Strategy, Stream, Target, pipe};
use nix::sys::resource::{UsageWho, getrusage};

use super::table::{Column, Table};
use super::tasks::worker;

const LIMIT: Duration = Duration::from_secs(60);
const MESSAGES: usize = 10_000;
const MEGABYTES: usize = 128;

struct Forward {
    target: SocketAddr,
    carrying: Carrying,
}

impl Service for Forward {
    fn connection(&self, client: Stream) -> Pin<Box<dyn Future<Output = ()>>> {
        let (target, carrying) = (Target::Internet(self.target), self.carrying);
        Box::pin(async move {
            if let Ok(server) = client.core().connect(&target, None, LIMIT).await {
                pipe(&client, &server, PipeTerms { carrying, ..PipeTerms::new(LIMIT) }).await;
            }
        })
    }
}

/// A worker on a thread of its own; tells at its end how many nanoseconds it was running.
struct Proxy {
    address: SocketAddr,
    notifier: Notifier,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<f64>,
}

fn processor_time() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).expect("usage");
    let nanoseconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 * 1e9 + time.tv_usec() as f64 * 1e3;
    nanoseconds(usage.user_time()) + nanoseconds(usage.system_time())
}

impl Proxy {
    fn start(target: SocketAddr, carrying: Carrying) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").expect("a listener");
        socket.set_nonblocking(true).expect("non-blocking");
        let address = socket.local_addr().expect("an address");
        let stop = Arc::new(AtomicBool::new(false));
        let (told, tell) = channel();
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut worker = worker(16);
            let options = ListenerOptions {
                address: address.to_string(),
                strategy: Strategy::Shared,
                deferred: false,
                client_first: false,
            };
            worker
                .core()
                .listen(socket.into(), options, Rc::new(Forward { target, carrying }))
                .expect("listening");
            told.send(worker.core().notifier().clone()).expect("telling");
            let begun = processor_time();
            while !stopped.load(Ordering::Acquire) {
                worker.turn().expect("a turn");
            }
            processor_time() - begun
        });
        let notifier = tell.recv().expect("a notifier");
        Self { address, notifier, stop, thread }
    }

    fn end(self) -> f64 {
        self.stop.store(true, Ordering::Release);
        self.notifier.notify();
        self.thread.join().expect("the worker")
    }
}

/// Runs a client and a server around a proxy; tells the processor time of the worker between.
fn carry(carrying: Carrying, client: fn(&mut TcpStream), server: fn(&mut TcpStream)) -> f64 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let proxy = Proxy::start(listener.local_addr().expect("an address"), carrying);
    let served = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("accepting");
        stream.set_nodelay(true).expect("no delay");
        server(&mut stream);
    });
    let mut stream = TcpStream::connect(proxy.address).expect("connecting");
    stream.set_nodelay(true).expect("no delay");
    client(&mut stream);
    drop(stream);
    served.join().expect("the server");
    proxy.end()
}

fn ask(stream: &mut TcpStream) {
    let mut message = [7; 100];
    for _ in 0..MESSAGES / 2 {
        stream.write_all(&message).expect("sending");
        stream.read_exact(&mut message).expect("receiving");
    }
}

fn answer(stream: &mut TcpStream) {
    let mut message = [0; 100];
    while stream.read_exact(&mut message).is_ok() {
        stream.write_all(&message).expect("sending");
    }
}

fn send_bulk(stream: &mut TcpStream) {
    let bytes = vec![7; 1 << 20];
    (0..MEGABYTES).for_each(|_| stream.write_all(&bytes).expect("sending"));
}

fn take_bulk(stream: &mut TcpStream) {
    let mut bytes = vec![0; 1 << 20];
    while stream.read(&mut bytes).is_ok_and(|count| count > 0) {}
}

pub(crate) fn run(table: &mut Table) {
    let mut messages = [Column::new("drover"), Column::new("copying only")];
    let mut bulk = [Column::new("drover"), Column::new("copying only")];
    for round in 0..14 {
        // Who goes first takes turns too.
        for which in [round % 2, 1 - round % 2] {
            let (index, carrying) = [(0, Carrying::Adaptive), (1, Carrying::Copy)][which];
            messages[index].note(carry(carrying, ask, answer) / MESSAGES as f64);
            bulk[index].note(carry(carrying, send_bulk, take_bulk) / MEGABYTES as f64 / 1000.0);
        }
    }
    table.row("pipe, processor time of a 100-byte message", "ns", &messages);
    table.row("pipe, processor time of a megabyte in bulk", "us", &bulk);
}
