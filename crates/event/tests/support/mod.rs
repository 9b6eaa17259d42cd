//! What the tests of the loop share: a scripted worker, services made of closures, a log.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part of this module")]

pub mod backends;
pub mod running;

use std::cell::RefCell;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use drover_event::backend::scripted::{Call, Script};
use drover_event::{
    AcceptMutex, Direction, ListenerOptions, Service, Settings, Shared, Stats, Strategy, Stream, Worker,
};
use drover_sys::memory::SharedWords;

/// What happened, in order.
#[derive(Clone, Default)]
pub struct Log(Rc<RefCell<Vec<String>>>);

impl Log {
    pub fn note(&self, what: impl Into<String>) {
        self.0.borrow_mut().push(what.into());
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.borrow_mut())
    }
}

/// A service whose connections run a closure.
pub struct Closure<F>(pub F);

impl<F, T> Service for Closure<F>
where
    F: Fn(Stream) -> T,
    T: Future<Output = ()> + 'static,
{
    fn connection(&self, stream: Stream) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin((self.0)(stream))
    }
}

/// A worker under a script.
pub struct Scripted {
    pub worker: Worker,
    pub script: Script,
    pub mutex: AcceptMutex,
}

impl Scripted {
    pub fn new(settings: Settings) -> Self {
        let words = Rc::new(SharedWords::anonymous(1).expect("memory"));
        let mutex = AcceptMutex::new(words, 0, 77);
        let script = Script::new();
        let shared = Shared {
            stats: Stats::private().expect("memory"),
            mutex: Some(mutex.clone()),
            balance: None,
            notifier: None,
        };
        let worker = Worker::scripted(settings, shared, &script).expect("worker");
        Self { worker, script, mutex }
    }

    /// Adds a listener and tells its descriptor and address.
    pub fn listen(&self, strategy: Strategy, service: impl Service + 'static) -> (RawFd, SocketAddr) {
        let socket = TcpListener::bind("127.0.0.1:0").expect("listener");
        socket.set_nonblocking(true).expect("non-blocking");
        let (descriptor, address) = (socket.as_raw_fd(), socket.local_addr().expect("address"));
        let options =
            ListenerOptions { address: address.to_string(), strategy, deferred: false, client_first: false };
        self.worker.core().listen(socket.into(), options, Rc::new(service)).expect("listening");
        (descriptor, address)
    }

    pub fn turn(&mut self) {
        self.worker.turn().expect("turn");
    }

    /// Connects a client and lets the worker accept it.
    pub fn connect(&mut self, listener: (RawFd, SocketAddr)) -> TcpStream {
        let client = TcpStream::connect(listener.1).expect("connecting");
        self.script.ready(listener.0, Direction::Read);
        self.turn();
        client
    }

    /// The descriptor that was watched last.
    pub fn watched_last(&self) -> RawFd {
        let added = self.script.take_calls().into_iter().rev().find_map(|call| match call {
            Call::Add { descriptor, .. } | Call::AddConnection { descriptor } => Some(descriptor),
            _ => None,
        });
        added.expect("something was watched")
    }
}

/// Sends `bytes` and waits until the other end of the loopback has them: it has at once.
pub fn send(client: &mut TcpStream, bytes: &[u8]) {
    client.write_all(bytes).expect("sending");
}

pub const SECOND: Duration = Duration::from_secs(1);
