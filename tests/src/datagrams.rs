//! Datagrams: a server behind a proxy, and flows of clients that count what gets lost.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};

use crate::wait::{Patience, SOON};

/// Room for what comes while the machine is busy with something else.
const BUFFER: usize = 8 << 20;

/// A UDP socket on a port of 127.0.0.1 with a large buffer and a time-out.
///
/// # Panics
///
/// When there is none to be had.
pub fn socket() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    if setsockopt(&socket, sockopt::RcvBufForce, &BUFFER).is_err() {
        let _ = setsockopt(&socket, sockopt::RcvBuf, &BUFFER);
    }
    socket.set_read_timeout(Some(crate::wait::SOON)).expect("a time-out");
    socket
}

/// Sends a datagram and waits for the answer.
///
/// # Panics
///
/// When none comes.
#[track_caller]
pub fn ask(client: &UdpSocket, server: SocketAddr, bytes: &[u8]) -> (Vec<u8>, SocketAddr) {
    client.send_to(bytes, server).expect("sent");
    let mut answer = vec![0; 65536];
    let (length, from) = client.recv_from(&mut answer).expect("an answer");
    answer.truncate(length);
    (answer, from)
}

/// A server that sends every datagram back and remembers who sent it.
#[derive(Debug)]
pub struct UdpBackend {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// By the first four bytes of datagrams, the flow: from which addresses they came.
type Seen = BTreeMap<[u8; 4], BTreeSet<SocketAddr>>;

impl UdpBackend {
    /// Starts one.
    ///
    /// # Panics
    ///
    /// When there is no port.
    pub fn echo() -> UdpBackend {
        let socket = socket();
        socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a time-out");
        let address = socket.local_addr().expect("a bound socket has an address");
        let (seen, stopped) = (Arc::<Mutex<Seen>>::default(), Arc::new(AtomicBool::new(false)));
        let (own_seen, own_stopped) = (Arc::clone(&seen), Arc::clone(&stopped));
        let thread = thread::spawn(move || {
            let mut buffer = vec![0; 65536];
            while !own_stopped.load(Ordering::Relaxed) {
                let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
                if let Some(flow) = buffer[..length].first_chunk::<4>() {
                    let mut seen = own_seen.lock().unwrap_or_else(PoisonError::into_inner);
                    seen.entry(*flow).or_default().insert(from);
                }
                let _ = socket.send_to(&buffer[..length], from);
            }
        });
        UdpBackend { address, seen, stopped, thread: Some(thread) }
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From how many addresses each flow came: more than one means more than one session.
    pub fn sessions(&self) -> BTreeMap<u32, usize> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().map(|(flow, from)| (u32::from_be_bytes(*flow), from.len())).collect()
    }
}

impl Drop for UdpBackend {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Clients that each send numbered datagrams at a pace, and count the answers.
#[derive(Debug)]
pub struct Flows {
    clients: Vec<UdpSocket>,
    first: u32,
}

/// What became of the datagrams of some flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// Sent.
    pub sent: u64,
    /// Answered, each once.
    pub answered: u64,
}

impl Flows {
    /// This many flows, numbered from `first` on.
    pub fn new(first: u32, count: u32) -> Flows {
        let clients: Vec<UdpSocket> = (0..count).map(|_| socket()).collect();
        clients.iter().for_each(|client| client.set_nonblocking(true).expect("non-blocking"));
        Flows { clients, first }
    }

    /// Each flow sends `per_second` datagrams a second for `time`; then answers that are under way are waited
    /// for.
    pub fn run(&self, server: SocketAddr, per_second: u32, time: Duration) -> Tally {
        let rounds = (time.as_secs_f64() * f64::from(per_second)) as u32;
        let mut answers: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); self.clients.len()];
        let (begun, mut sent) = (Instant::now(), 0);
        for round in 0..rounds {
            for (client, flow) in self.clients.iter().zip(self.first..) {
                let datagram = [flow.to_be_bytes(), round.to_be_bytes()].concat();
                client.send_to(&datagram, server).expect("sent");
                sent += 1;
            }
            let due = begun + Duration::from_secs(1) * (round + 1) / per_second;
            self.receive(&mut answers);
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        let answered = |answers: &[BTreeSet<u32>]| answers.iter().map(|numbers| numbers.len() as u64).sum();
        let mut patience = Patience::new(SOON);
        while answered(&answers) < sent && patience.lasts() {
            self.receive(&mut answers);
            thread::sleep(Duration::from_millis(2));
        }
        Tally { sent, answered: answered(&answers) }
    }

    fn receive(&self, answers: &mut [BTreeSet<u32>]) {
        let mut buffer = [0; 64];
        for ((client, flow), numbers) in self.clients.iter().zip(self.first..).zip(answers) {
            while let Ok(length) = client.recv(&mut buffer) {
                let parts = (buffer.first_chunk::<4>(), buffer[4..length.max(4)].first_chunk::<4>());
                let (Some(own), Some(number)) = parts else { continue };
                assert_eq!(u32::from_be_bytes(*own), flow, "an answer to somebody else's question");
                numbers.insert(u32::from_be_bytes(*number));
            }
        }
    }
}
