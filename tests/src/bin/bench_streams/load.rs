//! Both ends of the connections: one thread on core 1 plays all clients, and the servers behind the proxies.
//!
//! It never sleeps. Waking it would cost more than anything else here, it would be charged to the proxy, and a proxy that
//! does its work in few steps would pay most.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{MsgFlags, recv, setsockopt, sockopt};
use nix::unistd::Pid;

use crate::datagrams;
use crate::proxies::Proxy;
use crate::rows::{Row, Traffic};

/// Bytes of a message.
pub(crate) const MESSAGE: usize = 100;
/// Bytes that are sent or received at once in bulk.
const PIECE: usize = 1 << 18;
/// Bytes that the kernel holds at each end of a stream in bulk. Left to itself it would hold so many that each is out of
/// the caches, and out of memory for TCP, before it is passed on.
const BUFFER: usize = 1 << 22;
/// The number of the listener among what is watched.
const LISTENER: u64 = u64::MAX;
/// A run in which nothing passes for as long has failed.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where the servers behind the proxies are.
#[derive(Debug)]
pub(crate) struct Servers {
    listener: TcpListener,
    pub(crate) socket: UdpSocket,
}

impl Servers {
    pub(crate) fn new() -> Servers {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        listener.set_nonblocking(true).expect("set");
        socket.set_nonblocking(true).expect("set");
        Servers { listener, socket }
    }

    pub(crate) fn tcp(&self) -> SocketAddr {
        self.listener.local_addr().expect("it is bound")
    }

    pub(crate) fn udp(&self) -> SocketAddr {
        self.socket.local_addr().expect("it is bound")
    }
}

/// What one run passed, as the row counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outcome {
    pub passed: f64,
    pub seconds: f64,
}

/// Loads a proxy for some seconds.
pub(crate) fn run(row: &Row, servers: &Servers, proxy: &Proxy, seconds: u32) -> Result<Outcome, String> {
    let time = Duration::from_secs(seconds.into());
    let on_core_1 = || {
        let mut core = CpuSet::new();
        core.set(1).and_then(|()| sched_setaffinity(Pid::from_raw(0), &core))?;
        match row.traffic {
            Traffic::Datagrams => datagrams::run(row, servers, proxy.datagrams.address(), time),
            _ => Load::new(row.traffic, servers, proxy.connections.address())?.run(row.clients, time),
        }
    };
    let outcome = thread::scope(|scope| scope.spawn(on_core_1).join());
    let outcome = outcome.map_err(|_| "the load panicked".to_owned())?;
    outcome.map_err(|error| format!("{} {}: {error}", proxy.kind, row.name))
}

/// One end of a connection.
struct End {
    stream: TcpStream,
    is_client: bool,
    /// Bytes received of a message.
    received: usize,
}

struct Load<'a> {
    traffic: Traffic,
    servers: &'a Servers,
    proxy: SocketAddrV4,
    epoll: Epoll,
    /// By the number that each is watched by.
    ends: Vec<Option<End>>,
    free: Vec<usize>,
    buffer: Vec<u8>,
    /// Messages, or bytes in bulk.
    passed: u64,
}

impl<'a> Load<'a> {
    fn new(traffic: Traffic, servers: &'a Servers, proxy: SocketAddrV4) -> io::Result<Load<'a>> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(&servers.listener, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))?;
        let (ends, free, buffer) = (Vec::new(), Vec::new(), vec![0; PIECE]);
        Ok(Load { traffic, servers, proxy, epoll, ends, free, buffer, passed: 0 })
    }

    fn run(mut self, clients: usize, time: Duration) -> io::Result<Outcome> {
        for _ in 0..clients {
            self.connect()?;
        }
        // The time begins with what passes first: on a busy machine a proxy may be slow to begin.
        let mut begun = Instant::now();
        let mut last = begun;
        let mut events = [EpollEvent::empty(); 128];
        loop {
            let count = self.epoll.wait(&mut events, EpollTimeout::ZERO)?;
            let before = self.passed;
            for event in &events[..count] {
                match event.data() {
                    LISTENER => self.accept()?,
                    number => self.serve(number as usize)?,
                }
            }
            let now = Instant::now();
            if before == 0 {
                begun = now;
            }
            if now - begun > time {
                break;
            }
            if self.passed > before {
                last = now;
            } else if now - last > PATIENCE {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        let passed = match self.traffic {
            Traffic::Bulk => self.passed as f64 / (1 << 20) as f64,
            _ => self.passed as f64,
        };
        Ok(Outcome { passed, seconds: begun.elapsed().as_secs_f64() })
    }

    fn connect(&mut self) -> io::Result<()> {
        let mut stream = TcpStream::connect(self.proxy)?;
        if self.traffic != Traffic::Bulk {
            stream.write_all(&[b'x'; MESSAGE])?;
        }
        self.watch(stream, true)
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            match self.servers.listener.accept() {
                Ok((stream, _)) => self.watch(stream, false)?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn watch(&mut self, stream: TcpStream, is_client: bool) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        if self.traffic == Traffic::Bulk {
            if is_client {
                setsockopt(&stream, sockopt::RcvBufForce, &BUFFER)?;
            } else {
                setsockopt(&stream, sockopt::SndBufForce, &BUFFER)?;
            }
        }
        let number = self.free.pop().unwrap_or(self.ends.len());
        let sends = self.traffic == Traffic::Bulk && !is_client;
        let flags = if sends { EpollFlags::EPOLLOUT } else { EpollFlags::EPOLLIN };
        self.epoll.add(&stream, EpollEvent::new(flags, number as u64))?;
        let end = Some(End { stream, is_client, received: 0 });
        match self.ends.get_mut(number) {
            Some(place) => *place = end,
            None => self.ends.push(end),
        }
        Ok(())
    }

    /// Does what there is to do at one end.
    fn serve(&mut self, number: usize) -> io::Result<()> {
        // It may have been closed by an event before this one.
        let Some(end) = self.ends[number].as_mut() else { return Ok(()) };
        let more = match (self.traffic, end.is_client) {
            (Traffic::Bulk, true) => {
                self.passed += discard(end, &mut self.buffer)?;
                More::Stay
            }
            (Traffic::Bulk, false) => send_bulk(end, &self.buffer)?,
            (traffic, true) => {
                let more = receive(end, &mut self.buffer, traffic == Traffic::Messages)?;
                self.passed += u64::from(more != More::Stay);
                more
            }
            (traffic, false) => match receive(end, &mut self.buffer, true)? {
                More::Whole if traffic == Traffic::Connections => More::End,
                more => more,
            },
        };
        if more != More::End {
            return Ok(());
        }
        let was_client = end.is_client;
        self.ends[number] = None;
        self.free.push(number);
        // Connections that a proxy ends of itself in other rows are missed by the count of what passes.
        if was_client && self.traffic == Traffic::Connections { self.connect() } else { Ok(()) }
    }
}

/// What becomes of an end.
#[derive(PartialEq, Eq)]
enum More {
    /// It waits for more.
    Stay,
    /// A message was received and answered.
    Whole,
    /// It is to be closed.
    End,
}

/// Receives once; a whole message is sent back where it `answers`.
fn receive(end: &mut End, buffer: &mut [u8], answers: bool) -> io::Result<More> {
    match end.stream.read(buffer) {
        Ok(0) => return Ok(More::End),
        Ok(count) => end.received += count,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        Err(error) => return Err(error),
    }
    if !answers || end.received < MESSAGE {
        return Ok(More::Stay);
    }
    end.received -= MESSAGE;
    end.stream.write_all(&buffer[..MESSAGE])?;
    Ok(More::Whole)
}

/// Receives without looking at it: the kernel drops it (tcp(7), `MSG_TRUNC`).
fn discard(end: &End, buffer: &mut [u8]) -> io::Result<u64> {
    match recv(end.stream.as_raw_fd(), buffer, MsgFlags::MSG_TRUNC) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(count) => Ok(count as u64),
        Err(nix::errno::Errno::EAGAIN) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

/// Sends what is in memory, as a server does that makes its answers.
fn send_bulk(end: &mut End, buffer: &[u8]) -> io::Result<More> {
    match end.stream.write(buffer) {
        Ok(count) if count > 0 => Ok(More::Stay),
        Ok(_) => Err(io::ErrorKind::WriteZero.into()),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock => Ok(More::Stay),
            // Of the run before: its client is gone.
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Ok(More::End),
            _ => Err(error),
        },
    }
}
