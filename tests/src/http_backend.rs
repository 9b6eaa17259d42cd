//! A server that drover passes requests to, which does what the test says: slow, silent, cut, broken.
//!
//! What it receives is parsed strictly and kept, so that a test can compare what was passed on with what was
//! sent. Each connection is handled by the test's function in a thread of its own; when the [`HttpBackend`] is dropped
//! it accepts no more.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::Linger;

use crate::{Port, chunked, http};

/// A request as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// Which connection it came on, from 0.
    pub connection: usize,
    /// The method.
    pub method: String,
    /// The target as sent.
    pub target: String,
    /// The version as sent.
    pub version: String,
    /// Names as sent, and values, in their order.
    pub headers: Vec<(String, String)>,
    /// The body's data.
    pub body: Vec<u8>,
    /// The fields of the body's trailer section.
    pub trailers: Vec<(String, String)>,
}

impl Received {
    /// The value of the header of that name, in any case.
    ///
    /// # Panics
    ///
    /// When there are several.
    #[track_caller]
    pub fn header(&self, name: &str) -> Option<&str> {
        let values = self.all(name);
        assert!(values.len() < 2, "several {name}: {values:?}");
        values.first().copied()
    }

    /// The values of all headers of that name.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let named = self.headers.iter().filter(|(own, _)| own.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str()).collect()
    }
}

#[derive(Debug, Default)]
struct Shared {
    requests: Mutex<Vec<Received>>,
    connections: AtomicUsize,
    stopped: AtomicBool,
}

/// A server of a test.
#[derive(Debug)]
pub struct HttpBackend {
    port: Port,
    shared: Arc<Shared>,
}

impl HttpBackend {
    /// Starts one that has each connection handled by `serve`, and then closed.
    ///
    /// # Panics
    ///
    /// When its port cannot be bound.
    pub fn new(serve: impl Fn(&mut Connection) + Send + Sync + 'static) -> HttpBackend {
        HttpBackend::on(Port::new(), serve)
    }

    /// The same on a port that was claimed before.
    pub fn on(port: Port, serve: impl Fn(&mut Connection) + Send + Sync + 'static) -> HttpBackend {
        let listener = TcpListener::bind(port.address()).expect("the port is ours");
        let shared = Arc::new(Shared::default());
        let (serve, own) = (Arc::new(serve), Arc::clone(&shared));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if own.stopped.load(Ordering::Relaxed) {
                    return;
                }
                let number = own.connections.fetch_add(1, Ordering::Relaxed);
                let mut connection = Connection::new(stream, number, Arc::clone(&own));
                let serve = Arc::clone(&serve);
                thread::spawn(move || serve(&mut connection));
            }
        });
        HttpBackend { port, shared }
    }

    /// Starts one that answers every request with these bytes.
    pub fn answering(bytes: &'static str) -> HttpBackend {
        HttpBackend::new(move |connection| {
            while connection.request().is_some() {
                connection.send(bytes);
            }
        })
    }

    /// Starts one that answers with the request as it came: its head and its body.
    pub fn echoing() -> HttpBackend {
        HttpBackend::new(|connection| {
            while let Some(request) = connection.request() {
                let text = format!("{} {}\n", request.method, request.target);
                let body = [text.as_bytes(), &request.body].concat();
                connection.send(response("200 OK", "", &body));
            }
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddrV4 {
        self.port.address()
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Received> {
        lock(&self.shared.requests).clone()
    }

    /// The one request so far.
    ///
    /// # Panics
    ///
    /// When there is none, or there are several.
    #[track_caller]
    pub fn request(&self) -> Received {
        let mut requests = self.requests();
        assert_eq!(requests.len(), 1, "one request is expected: {requests:#?}");
        requests.remove(0)
    }

    /// How many connections it has accepted.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }
}

impl Drop for HttpBackend {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        // Ends the wait for a connection.
        let _ = TcpStream::connect(SocketAddrV4::new(Ipv4Addr::LOCALHOST, self.port.number()));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection of a backend.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
    number: usize,
    shared: Arc<Shared>,
}

impl Connection {
    fn new(stream: TcpStream, number: usize, shared: Arc<Shared>) -> Connection {
        let _ = stream.set_nodelay(true);
        let _ = stream.set_read_timeout(Some(http::PATIENCE));
        let _ = stream.set_write_timeout(Some(http::PATIENCE));
        Connection { stream, received: Vec::new(), number, shared }
    }

    /// Which of the backend's connections this is, from 0.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The next request with its body; `None` when drover has closed, or sends nothing for long.
    ///
    /// # Panics
    ///
    /// When what comes is no request: nothing else may ever be passed on.
    pub fn request(&mut self) -> Option<Received> {
        let mut request = self.head()?;
        self.body(&mut request)?;
        lock(&self.shared.requests).push(request.clone());
        Some(request)
    }

    /// The head of the next request alone.
    pub fn head(&mut self) -> Option<Received> {
        let end = loop {
            if let Some(at) = self.received.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            self.fill()?;
        };
        let head: Vec<u8> = self.received.drain(..end).collect();
        Some(parse_head(&String::from_utf8(head).expect("a head is text"), self.number))
    }

    /// Receives the body that the head of a request tells of.
    pub fn body(&mut self, request: &mut Received) -> Option<()> {
        if request.header("transfer-encoding").is_some() {
            let whole = loop {
                match chunked::parse(&self.received).expect("a chunked body") {
                    Some(whole) => break whole,
                    None => self.fill()?,
                }
            };
            self.received.drain(..whole.length);
            (request.body, request.trailers) = (whole.data, whole.trailers);
            return Some(());
        }
        let length = request.header("content-length").map_or(0, |text| text.parse().expect("a length"));
        while self.received.len() < length {
            self.fill()?;
        }
        request.body = self.received.drain(..length).collect();
        Some(())
    }

    /// Receives something; all that was received and is not taken.
    pub fn receive(&mut self) -> Option<Vec<u8>> {
        if self.received.is_empty() {
            self.fill()?;
        }
        Some(std::mem::take(&mut self.received))
    }

    fn fill(&mut self) -> Option<()> {
        let mut buffer = [0; 65_536];
        let count = self.stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
        self.received.extend_from_slice(&buffer[..count]);
        Some(())
    }

    /// Sends bytes; a drover that has closed is no failure.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref());
    }

    /// Sends bytes; tells whether they were taken.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    /// Ends the sending half.
    pub fn half_close(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Has the close be a reset.
    pub fn reset(&mut self) {
        let at_once = nix::libc::linger { l_onoff: 1, l_linger: 0 };
        setsockopt(&self.stream, Linger, &at_once).expect("a socket has this option");
    }

    /// Waits until drover closes; false if it does not within `time`, or sends something.
    pub fn is_closed_within(&mut self, time: Duration) -> bool {
        let _ = self.stream.set_read_timeout(Some(time));
        let end = self.stream.read(&mut [0; 16]);
        let _ = self.stream.set_read_timeout(Some(http::PATIENCE));
        match end {
            Ok(count) => count == 0,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }
}

fn parse_head(head: &str, connection: usize) -> Received {
    let mut lines = head.strip_suffix("\r\n\r\n").expect("a whole head").split("\r\n");
    let words: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let [method, target, version] = words[..] else { panic!("no request line: {head:?}") };
    let headers = lines.map(|line| {
        assert!(!line.contains(['\r', '\n']), "a bare CR or LF: {line:?}");
        let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("no field line: {line:?}"));
        assert!(!name.is_empty() && !name.contains([' ', '\t']), "no name of a field: {name:?}");
        (name.to_owned(), value.trim().to_owned())
    });
    Received {
        connection,
        method: method.to_owned(),
        target: target.to_owned(),
        version: version.to_owned(),
        headers: headers.collect(),
        body: Vec::new(),
        trailers: Vec::new(),
    }
}

/// Bytes of which each part looks different, for a body.
pub fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8 ^ (at >> 16) as u8).collect()
}

/// A response with a length; `headers` are whole lines, each ended by CRLF.
pub fn response(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Client;

    #[test]
    fn keeps_what_it_receives() {
        let backend = HttpBackend::echoing();
        let mut client = Client::to(backend.address());
        client.send(
            "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nT: u\r\n\r\n",
        );
        assert_eq!(client.response().text(), "POST /a\nhi");
        client.send("PUT /b HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc");
        assert_eq!(client.response().text(), "PUT /b\nabc");
        let requests = backend.requests();
        assert_eq!(requests[0].trailers, [("T".to_owned(), "u".to_owned())]);
        assert_eq!((requests[0].header("HOST"), requests[1].header("host")), (Some("x"), None));
        assert_eq!(backend.connections(), 1);
    }
}
