//! The clients: threads of a few kinds, each of which asks again and again until it is told to stop.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use drover_tests::http::{Failure, request};
use drover_tests::variants::{LARGE, Variants};
use drover_tests::{Client, Random, Response};

use crate::ledger::{Ledger, Way};

/// How long a client waits for something to come.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long one waits for a datagram: longer than workers are stopped.
const DATAGRAM_PATIENCE: Duration = Duration::from_secs(10);

/// A kind of client: its name, how many there are, and one request of it.
type Kind = (&'static str, usize, fn(&mut Visitor));

const KINDS: [Kind; 10] = [
    ("new", 3, Visitor::new_connection),
    ("kept", 4, Visitor::kept_connection),
    ("slow", 2, Visitor::slow_request),
    ("body", 1, Visitor::request_with_body),
    ("delayed", 2, Visitor::delayed_answer),
    ("download", 2, Visitor::download),
    ("unix", 1, Visitor::unix_socket),
    ("stream", 2, Visitor::stream),
    ("proxied", 2, Visitor::proxied),
    ("datagram", 3, Visitor::datagram),
];

/// All clients of a run.
pub(crate) struct Clients {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Clients {
    /// Starts them.
    pub(crate) fn start(variants: &Variants, ledger: &Arc<Ledger>, seed: u64) -> Clients {
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for (kind, count, ask) in KINDS {
            for _ in 0..count {
                let number = threads.len() as u64;
                let mut visitor = Visitor {
                    kind,
                    // The outgoing ports of an address of its own, so that they do not run out.
                    source: Ipv4Addr::new(127, 0, 78, number as u8 + 1),
                    address: if kind == "stream" { &variants.stream } else { &variants.port }.address(),
                    unix: variants.unix_path(),
                    datagrams: variants.datagrams.address(),
                    flow: None,
                    random: Random::new(seed.wrapping_add(number)),
                    ledger: Arc::clone(ledger),
                    kept: None,
                };
                let stop = Arc::clone(&stop);
                threads.push(thread::spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        ask(&mut visitor);
                        thread::sleep(visitor.random.millis(1, 30));
                    }
                }));
            }
        }
        Clients { stop, threads }
    }

    /// Lets each finish what it is at; how many did not end well.
    pub(crate) fn stop(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().map(JoinHandle::join).filter(Result::is_err).count()
    }
}

/// One client.
struct Visitor {
    kind: &'static str,
    source: Ipv4Addr,
    address: SocketAddrV4,
    unix: PathBuf,
    datagrams: SocketAddrV4,
    /// The socket of datagrams that are one flow.
    flow: Option<UdpSocket>,
    random: Random,
    ledger: Arc<Ledger>,
    kept: Option<Client>,
}

impl Visitor {
    fn new_connection(&mut self) {
        self.alone(|_, client| asked(client, &request("GET", "/", "Connection: close\r\n"), "ok\n"));
    }

    /// Sends its request a few bytes at a time.
    fn slow_request(&mut self) {
        self.alone(|visitor, client| {
            let bytes = request("GET", "/", "Connection: close\r\n").into_bytes();
            for piece in bytes.chunks(12) {
                client.try_send(piece)?;
                thread::sleep(visitor.random.millis(5, 60));
            }
            answer(client, "ok\n")
        });
    }

    fn request_with_body(&mut self) {
        self.alone(|visitor, client| {
            let body = vec![b'x'; visitor.random.below(100_000)];
            let length = format!("Content-Length: {}\r\nConnection: close\r\n", body.len());
            client.try_send(request("POST", "/", &length))?;
            client.try_send(&body)?;
            answer(client, "ok\n")
        });
    }

    /// Answered by another server, with what it was sent.
    fn proxied(&mut self) {
        self.alone(|visitor, client| {
            let body = "x".repeat(visitor.random.below(50_000));
            let length = format!("Content-Length: {}\r\nConnection: close\r\n", body.len());
            client.try_send(request("POST", "/proxied", &length) + &body)?;
            answer(client, &format!("POST /proxied\n{body}"))
        });
    }

    fn delayed_answer(&mut self) {
        self.alone(|_, client| asked(client, &request("GET", "/slow", "Connection: close\r\n"), "ok\n"));
    }

    /// Reads a large file with pauses.
    fn download(&mut self) {
        self.alone(|visitor, client| {
            client.try_send(request("GET", "/large", "Connection: close\r\n"))?;
            let (mut received, mut buffer) = (0, vec![0; 256 << 10]);
            loop {
                match client.read(&mut buffer)? {
                    0 if received > LARGE => return Ok(()),
                    0 => return Err(Failure::Cut),
                    count if received == 0 && !buffer[..count].starts_with(b"HTTP/1.1 200 ") => {
                        return Err(Failure::Malformed(
                            String::from_utf8_lossy(&buffer[..count]).into_owned(),
                        ));
                    }
                    count => received += count,
                }
                if visitor.random.one_in(4) {
                    thread::sleep(visitor.random.millis(10, 60));
                }
            }
        });
    }

    /// Bytes that are passed on come back, also after the end of what is sent.
    fn stream(&mut self) {
        self.alone(|visitor, client| {
            let length = visitor.random.below(100_000);
            let bytes: Vec<u8> =
                std::iter::repeat_with(|| visitor.random.number() as u8).take(length).collect();
            for part in bytes.chunks(30_000) {
                client.try_send(part)?;
                thread::sleep(visitor.random.millis(0, 60));
            }
            client.stream().shutdown(Shutdown::Write)?;
            match client.rest() {
                (echoed, Ok(())) if echoed == bytes => Ok(()),
                (_, Ok(())) => Err(Failure::Cut),
                (_, Err(failure)) => Err(failure),
            }
        });
    }

    /// One request over a connection of its own.
    fn alone(&mut self, work: impl FnOnce(&mut Visitor, &mut Client) -> Result<(), Failure>) {
        let begun = Instant::now();
        let Some((mut client, way)) = self.connect(begun) else { return };
        match work(self, &mut client) {
            Ok(()) => self.ledger.answered(self.kind),
            Err(failure) if may_lack_descriptors(self.kind, &failure) => {
                self.ledger.turned_away(self.kind, way, begun, &failure.to_string());
            }
            Err(failure) => self.ledger.failed(self.kind, Some(way), begun, &failure.to_string()),
        }
    }

    /// A new connection; that there is none is noted.
    fn connect(&self, begun: Instant) -> Option<(Client, Way)> {
        match Client::connect_from(self.source, self.address) {
            Ok(mut client) => {
                client.set_patience(PATIENCE);
                let way = way(&client);
                Some((client, way))
            }
            Err(error) => {
                self.ledger.failed(self.kind, None, begun, &format!("connect: {error}"));
                None
            }
        }
    }

    fn kept_connection(&mut self) {
        let begun = Instant::now();
        if let Some(mut client) = self.kept.take() {
            match kept(&mut client) {
                Ok(stays) => return self.keep(client, stays),
                // The connection was on its end when the request met it: whether by a reload or a kill is the same
                // to a client, which asks again. Not even the first byte of an answer may have come.
                Err(failure) if closed_unanswered(&failure) => self.ledger.asked_again(self.kind),
                Err(failure) => {
                    return self.ledger.failed(self.kind, Some(way(&client)), begun, &failure.to_string());
                }
            }
        }
        let begun = Instant::now();
        let Some((mut client, way)) = self.connect(begun) else { return };
        match kept(&mut client) {
            Ok(stays) => self.keep(client, stays),
            Err(failure) => self.ledger.failed(self.kind, Some(way), begun, &failure.to_string()),
        }
    }

    fn keep(&mut self, client: Client, stays: bool) {
        self.ledger.answered(self.kind);
        self.kept = Some(client).filter(|_| stays && !self.random.one_in(200));
    }

    /// A datagram that comes back, mostly of a flow there is.
    fn datagram(&mut self) {
        let begun = Instant::now();
        let flow = self.flow.take().filter(|_| !self.random.one_in(20));
        let number = self.random.number().to_be_bytes();
        match flow.map_or_else(|| open_flow(self.source, self.datagrams), Ok).and_then(|flow| {
            echoed(&flow, &number)?;
            Ok(flow)
        }) {
            Ok(flow) => {
                self.ledger.answered(self.kind);
                self.flow = Some(flow);
            }
            Err(error) => self.ledger.turned_away(self.kind, Way::Unknown, begun, &error.to_string()),
        }
    }

    fn unix_socket(&mut self) {
        let begun = Instant::now();
        let reason = match over_unix_socket(&self.unix) {
            Ok(text) if text.starts_with("HTTP/1.1 200 ") && text.ends_with("ok\n") => {
                return self.ledger.answered(self.kind);
            }
            Ok(text) => format!("answered {text:?}"),
            Err(error) => error.to_string(),
        };
        self.ledger.failed(self.kind, Some(Way::Unknown), begun, &reason);
    }
}

fn open_flow(source: Ipv4Addr, to: SocketAddrV4) -> std::io::Result<UdpSocket> {
    let flow = UdpSocket::bind((source, 0))?;
    flow.set_read_timeout(Some(DATAGRAM_PATIENCE))?;
    flow.connect(to)?;
    Ok(flow)
}

/// Sends a datagram and waits until it comes back.
fn echoed(flow: &UdpSocket, bytes: &[u8]) -> std::io::Result<()> {
    flow.send(bytes)?;
    let mut buffer = [0; 64];
    while flow.recv(&mut buffer)? != bytes.len() || !buffer.starts_with(bytes) {}
    Ok(())
}

fn over_unix_socket(path: &std::path::Path) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(request("GET", "/", "Connection: close\r\n").as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// Where the connection comes from.
fn way(client: &Client) -> Way {
    match client.stream().local_addr() {
        Ok(SocketAddr::V4(local)) => Way::Tcp(local),
        _ => Way::Unknown,
    }
}

/// One request over a connection that may stay; tells whether it does.
fn kept(client: &mut Client) -> Result<bool, Failure> {
    client.try_send(request("GET", "/", ""))?;
    let response = client.receive(true)?;
    match response.status {
        200 => Ok(!response.closes()),
        status => Err(Failure::Malformed(format!("status {status}"))),
    }
}

/// Whether it may have failed for want of a descriptor: for a file, or for the server that bytes are passed on to.
fn may_lack_descriptors(kind: &str, failure: &Failure) -> bool {
    let says = |status: &str| matches!(failure, Failure::Malformed(answer) if answer.starts_with(status));
    kind == "stream" || says("HTTP/1.1 502 ") || says("HTTP/1.1 503 ")
}

fn closed_unanswered(failure: &Failure) -> bool {
    match failure {
        Failure::Closed => true,
        Failure::Io(error) => matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe),
        _ => false,
    }
}

fn asked(client: &mut Client, request: &str, body: &str) -> Result<(), Failure> {
    client.try_send(request)?;
    answer(client, body)
}

fn answer(client: &mut Client, body: &str) -> Result<(), Failure> {
    let response = client.receive(true)?;
    if response.status == 200 && response.text() == body {
        return Ok(());
    }
    let Response { status, reason, .. } = &response;
    Err(Failure::Malformed(format!("HTTP/1.1 {status} {reason}, with {} bytes", response.body.len())))
}
