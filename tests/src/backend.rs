//! Servers behind a proxy, played by threads of the test.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A TCP server on a port of 127.0.0.1 that the kernel chose. Each connection has a thread.
#[derive(Debug)]
pub struct Backend {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stopped: AtomicBool,
    accepted: AtomicUsize,
}

impl Backend {
    /// A server whose connections `serve` has.
    ///
    /// # Panics
    ///
    /// When there is no port to be had.
    pub fn new(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Backend {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let shared = Arc::new(Shared::default());
        let (own, serve) = (Arc::clone(&shared), Arc::new(serve));
        let accepting = thread::spawn(move || {
            for stream in listener.incoming() {
                if own.stopped.load(Ordering::Relaxed) {
                    break;
                }
                let Ok(stream) = stream else { continue };
                own.accepted.fetch_add(1, Ordering::Relaxed);
                let serve = Arc::clone(&serve);
                thread::spawn(move || serve(stream));
            }
        });
        Backend { address, shared, accepting: Some(accepting) }
    }

    /// A server that sends everything back, and ends its stream when the client has ended its own.
    pub fn echo() -> Backend {
        Backend::new(|stream| {
            let _ = echo(&stream);
        })
    }

    /// A server that says its name and closes.
    pub fn named(name: &'static str) -> Backend {
        Backend::new(move |mut stream| {
            let _ = stream.write_all(name.as_bytes());
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections it has had.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::Relaxed)
    }
}

/// Sends back what comes, until the other side ends its stream; then ends this one.
///
/// # Errors
///
/// As the system calls.
pub fn echo(mut stream: &TcpStream) -> io::Result<()> {
    let mut buffer = [0; 65536];
    loop {
        match stream.read(&mut buffer)? {
            0 => return stream.shutdown(Shutdown::Write),
            count => stream.write_all(&buffer[..count])?,
        }
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}
