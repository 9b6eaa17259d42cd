//! A small blocking HTTP/1.1 client over one connection, which does what it is told: pipelines, splits
//! bytes anywhere, half-closes, and sees how the other side ends it.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpStream};
use std::time::Duration;

use crate::chunked;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, socket};
use std::os::fd::AsRawFd;

/// How long a client waits for bytes before it says that none came.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// One connection to a server.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    received: Vec<u8>,
}

/// One response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The version as sent, such as `HTTP/1.1`.
    pub version: String,
    /// The status.
    pub status: u16,
    /// The reason phrase.
    pub reason: String,
    /// Names as sent, and values, in their order.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// The fields of the body's trailer section.
    pub trailers: Vec<(String, String)>,
}

/// Why there is no response.
#[derive(Debug)]
pub enum Failure {
    /// The connection was closed before the first byte of a response.
    Closed,
    /// The connection was closed in the middle of one.
    Cut,
    /// No byte came for [`PATIENCE`].
    Silent,
    /// It was reset, refused or failed otherwise.
    Io(io::Error),
    /// What came is not a response.
    Malformed(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Closed => f.write_str("closed without an answer"),
            Failure::Cut => f.write_str("closed in the middle of an answer"),
            Failure::Silent => f.write_str("no answer in time"),
            Failure::Io(error) => write!(f, "{:?}", error.kind()),
            Failure::Malformed(what) => write!(f, "malformed: {what}"),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Failure::Silent,
            _ => Failure::Io(error),
        }
    }
}

impl Response {
    /// The value of the first header of that name, in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// True when the server says that it will close the connection.
    pub fn closes(&self) -> bool {
        self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

impl Client {
    /// Connects.
    pub fn connect(address: SocketAddrV4) -> io::Result<Client> {
        Client::over(TcpStream::connect_timeout(&address.into(), PATIENCE)?)
    }

    /// Connects from a given address of this machine, which has its own outgoing ports.
    pub fn connect_from(source: Ipv4Addr, address: SocketAddrV4) -> io::Result<Client> {
        let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
        bind(socket.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(source, 0)))?;
        connect(socket.as_raw_fd(), &SockaddrIn::from(address))?;
        Client::over(TcpStream::from(socket))
    }

    fn over(stream: TcpStream) -> io::Result<Client> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Client { stream, received: Vec::new() })
    }

    /// Connects; for tests in which that must succeed.
    ///
    /// # Panics
    ///
    /// When it does not.
    #[track_caller]
    pub fn to(address: SocketAddrV4) -> Client {
        Client::connect(address).unwrap_or_else(|error| panic!("cannot connect to {address}: {error}"))
    }

    /// The port this side has, as the server sees it.
    pub fn port(&self) -> u16 {
        self.stream.local_addr().expect("a connected socket has an address").port()
    }

    /// Sends bytes as they are, in one segment where they fit into one.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    /// Sends bytes as they are; for tests in which that must succeed.
    ///
    /// # Panics
    ///
    /// When it does not.
    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).expect("the connection takes the bytes");
    }

    /// Sends `GET target` as HTTP/1.1 with a Host.
    #[track_caller]
    pub fn ask(&mut self, target: &str) {
        self.send(request("GET", target, ""));
    }

    /// Sends `GET target` and receives the answer.
    ///
    /// # Panics
    ///
    /// When there is none.
    #[track_caller]
    pub fn get(&mut self, target: &str) -> Response {
        self.ask(target);
        self.response()
    }

    /// Receives the answer to anything but HEAD.
    ///
    /// # Panics
    ///
    /// When there is none.
    #[track_caller]
    pub fn response(&mut self) -> Response {
        self.receive(true).unwrap_or_else(|failure| panic!("no response: {failure}"))
    }

    /// Receives the answer to HEAD.
    ///
    /// # Panics
    ///
    /// When there is none.
    #[track_caller]
    pub fn head_response(&mut self) -> Response {
        self.receive(false).unwrap_or_else(|failure| panic!("no response: {failure}"))
    }

    /// Receives an answer, with its body unless it answers HEAD.
    pub fn receive(&mut self, with_body: bool) -> Result<Response, Failure> {
        let end = loop {
            if let Some(at) = find(&self.received, b"\r\n\r\n") {
                break at + 4;
            }
            if self.fill()? == 0 {
                return Err(if self.received.is_empty() { Failure::Closed } else { Failure::Cut });
            }
        };
        let head: Vec<u8> = self.received.drain(..end).collect();
        let mut response = parse_head(&String::from_utf8_lossy(&head))?;
        if with_body && !matches!(response.status, 100..=199 | 204 | 304) {
            self.receive_body(&mut response)?;
        }
        Ok(response)
    }

    fn receive_body(&mut self, response: &mut Response) -> Result<(), Failure> {
        let length = response.header("content-length").map(str::parse::<usize>);
        match length {
            Some(Ok(length)) => {
                while self.received.len() < length {
                    if self.fill()? == 0 {
                        return Err(Failure::Cut);
                    }
                }
                response.body = self.received.drain(..length).collect();
            }
            Some(Err(_)) => return Err(Failure::Malformed("Content-Length".to_owned())),
            None if response.header("transfer-encoding").is_some() => {
                let whole = loop {
                    match chunked::parse(&self.received).map_err(Failure::Malformed)? {
                        Some(whole) => break whole,
                        None if self.fill()? == 0 => return Err(Failure::Cut),
                        None => {}
                    }
                };
                self.received.drain(..whole.length);
                (response.body, response.trailers) = (whole.data, whole.trailers);
            }
            None => {
                while self.fill()? > 0 {}
                response.body = std::mem::take(&mut self.received);
            }
        }
        Ok(())
    }

    fn fill(&mut self) -> Result<usize, Failure> {
        let mut buffer = [0; 65_536];
        let count = self.read(&mut buffer)?;
        self.received.extend_from_slice(&buffer[..count]);
        Ok(count)
    }

    /// Receives what comes next, past whatever was received and not asked for. A stop of this process does not
    /// count as a failure, although it interrupts waits that have a limit (signal(7)).
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.stream.read(buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    /// Ends the sending half.
    #[track_caller]
    pub fn half_close(&mut self) {
        self.stream.shutdown(Shutdown::Write).expect("the connection is open");
    }

    /// Waits at most this long for bytes from now on.
    pub fn set_patience(&mut self, patience: Duration) {
        self.stream.set_read_timeout(Some(patience)).expect("more than zero");
    }

    /// Reads to the end: all bytes, and how it ended.
    pub fn rest(&mut self) -> (Vec<u8>, Result<(), Failure>) {
        let end = loop {
            match self.fill() {
                Ok(0) => break Ok(()),
                Ok(_) => {}
                Err(failure) => break Err(failure),
            }
        };
        (std::mem::take(&mut self.received), end)
    }

    /// True when the server closed or reset the connection without sending another byte; false when it is
    /// silent for `time` instead.
    ///
    /// # Panics
    ///
    /// When it sends something.
    #[track_caller]
    pub fn is_closed_within(&mut self, time: Duration) -> bool {
        assert_eq!(String::from_utf8_lossy(&self.received), "", "bytes left over");
        self.set_patience(time.max(Duration::from_millis(1)));
        let answer = self.fill();
        self.set_patience(PATIENCE);
        match answer {
            Ok(0) => true,
            Ok(_) => panic!("instead of closing: {}", String::from_utf8_lossy(&self.received)),
            Err(Failure::Io(error)) if error.kind() == ErrorKind::ConnectionReset => true,
            Err(Failure::Silent) => false,
            Err(failure) => panic!("instead of closing: {failure}"),
        }
    }

    /// True when the connection is open and silent now.
    #[track_caller]
    pub fn is_open(&mut self) -> bool {
        !self.is_closed_within(Duration::from_millis(1))
    }

    /// Takes the bytes behind the last response that were received with it.
    pub fn buffered(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.received)
    }

    /// Bytes the kernel holds for this side, received or not.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }
}

/// A request's bytes; `headers` are whole lines, each ended by CRLF.
pub fn request(method: &str, target: &str, headers: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n")
}

/// One GET over a connection of its own.
///
/// # Panics
///
/// When there is no answer.
#[track_caller]
pub fn get(address: SocketAddrV4, target: &str) -> Response {
    Client::to(address).get(target)
}

/// Sends bytes over a connection of their own, and receives an answer if there is one.
pub fn exchange(address: SocketAddrV4, bytes: impl AsRef<[u8]>) -> Result<Response, Failure> {
    let mut client = Client::connect(address)?;
    client.try_send(bytes)?;
    client.receive(true)
}

fn parse_head(head: &str) -> Result<Response, Failure> {
    let malformed = |line: &str| Failure::Malformed(line.to_owned());
    let mut lines = head.split("\r\n");
    let status_line = lines.next().unwrap_or_default();
    let mut words = status_line.splitn(3, ' ');
    let (version, status, reason) = (words.next(), words.next(), words.next());
    let version = version.filter(|v| v.starts_with("HTTP/1.")).ok_or_else(|| malformed(status_line))?;
    let status = status.and_then(|s| s.parse().ok()).ok_or_else(|| malformed(status_line))?;
    let headers = lines
        .take_while(|line| !line.is_empty())
        .map(|line| {
            let (name, value) = line.split_once(':').ok_or_else(|| malformed(line))?;
            Ok((name.to_owned(), value.trim().to_owned()))
        })
        .collect::<Result<_, Failure>>()?;
    let (version, reason) = (version.to_owned(), reason.unwrap_or_default().to_owned());
    Ok(Response { version, status, reason, headers, body: Vec::new(), trailers: Vec::new() })
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{SocketAddr, TcpListener};
    use std::thread;

    /// A server that sends these bytes to whoever comes, and closes.
    fn sending(bytes: &'static [u8]) -> SocketAddrV4 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let Ok(SocketAddr::V4(address)) = listener.local_addr() else { panic!("an IPv4 socket") };
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(bytes);
        });
        address
    }

    #[test]
    fn separates_pipelined_answers() {
        let address = sending(
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: y\r\n\r\nokHTTP/1.1 404 Not Found\r\n\r\nrest",
        );
        let mut client = Client::to(address);
        let first = client.get("/");
        assert_eq!((first.status, first.text().as_str(), first.header("x")), (200, "ok", Some("y")));
        let second = client.response();
        assert_eq!(
            (second.status, second.reason.as_str(), second.text().as_str()),
            (404, "Not Found", "rest")
        );
    }

    #[test]
    fn tells_the_failures_apart() {
        let ask = |bytes| exchange(sending(bytes), request("GET", "/", "")).map(|r| r.status);
        assert!(matches!(ask(b""), Err(Failure::Closed)));
        assert!(matches!(ask(b"HTTP/1.1 20"), Err(Failure::Cut)));
        assert!(matches!(ask(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok"), Err(Failure::Cut)));
        assert!(matches!(ask(b"hello\r\n\r\n"), Err(Failure::Malformed(_))));
        assert!(matches!(ask(b"HTTP/1.1 204 No Content\r\n\r\n"), Ok(204)));
    }

    #[test]
    fn sees_a_close_and_silence() {
        let mut client = Client::to(sending(b""));
        assert!(client.is_open());
        client.send("x");
        assert!(client.is_closed_within(PATIENCE));
    }
}
