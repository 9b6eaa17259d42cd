//! A real worker on a thread of its own, for tests that play its peers.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use drover_event::{
    BackendKind, Core, Counter, DatagramService, Gauge, ListenerOptions, Notifier, Service, Settings, Shared,
    Stats, Strategy, Worker,
};

/// A worker that turns until this is dropped.
pub struct Running {
    pub address: SocketAddr,
    notifier: Notifier,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Counts>>,
}

/// What the worker had counted at its end.
#[derive(Debug, Clone, Copy)]
pub struct Counts {
    pub open: u64,
    pub free: u64,
    pub panics: u64,
}

impl Running {
    /// Starts a worker with one listener for connections.
    pub fn start<S: Service + 'static>(
        backend: BackendKind,
        make: impl FnOnce() -> S + Send + 'static,
    ) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").expect("listener");
        socket.set_nonblocking(true).expect("non-blocking");
        let address = socket.local_addr().expect("address");
        let settings = Settings { backend, ..Settings::default() };
        Self::run(settings, address, move |core, options| {
            core.listen(socket.into(), options, Rc::new(make())).expect("listening");
        })
    }

    /// Starts a worker with one listener for datagrams.
    pub fn start_datagrams<S: DatagramService + 'static>(
        backend: BackendKind,
        bind: &str,
        make: impl FnOnce() -> S + Send + 'static,
    ) -> Self {
        Self::start_datagrams_with(Settings { backend, ..Settings::default() }, bind, make)
    }

    /// The same with settings of its own.
    pub fn start_datagrams_with<S: DatagramService + 'static>(
        settings: Settings,
        bind: &str,
        make: impl FnOnce() -> S + Send + 'static,
    ) -> Self {
        let socket = UdpSocket::bind(bind).expect("socket");
        socket.set_nonblocking(true).expect("non-blocking");
        let address = socket.local_addr().expect("address");
        Self::run(settings, address, move |core, options| {
            core.listen_datagrams(socket.into(), address, options, Rc::new(make())).expect("listening");
        })
    }

    fn run(
        settings: Settings,
        address: SocketAddr,
        listen: impl FnOnce(&Core, ListenerOptions) + Send + 'static,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let (told, tell) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let shared = Shared {
                stats: Stats::private().expect("memory"),
                mutex: None,
                balance: None,
                notifier: None,
            };
            let mut worker = Worker::new(settings, shared).expect("worker");
            let options = ListenerOptions {
                address: address.to_string(),
                strategy: Strategy::Shared,
                deferred: false,
                client_first: false,
            };
            listen(worker.core(), options);
            told.send(worker.core().notifier().clone()).expect("telling");
            while !stopped.load(Ordering::Acquire) {
                worker.turn().expect("turn");
            }
            let stats = worker.core().stats();
            Counts {
                open: stats.gauge(Gauge::OpenConnections),
                free: stats.gauge(Gauge::FreeSlots),
                panics: stats.counter(Counter::TaskPanics),
            }
        });
        let notifier = tell.recv().expect("the worker started");
        Self { address, notifier, stop, thread: Some(thread) }
    }

    /// Ends the worker and tells what it had counted.
    pub fn stop(mut self) -> Counts {
        self.end()
    }

    fn end(&mut self) -> Counts {
        self.stop.store(true, Ordering::Release);
        self.notifier.notify();
        self.thread.take().expect("stopped once").join().expect("the worker's thread")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.end();
        }
    }
}
