//! Load that finds losses: threads that open a new connection for every request and count each
//! failure with its reason.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use crate::http::{Client, Failure, request};

/// Threads that ask a server for the same thing over and over, until they are stopped.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    first_failure: Arc<Mutex<Option<String>>>,
    threads: Vec<JoinHandle<Tally>>,
}

/// What became of the requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests answered as expected.
    pub answered: u64,
    /// The other ones, by reason.
    pub failures: BTreeMap<String, u64>,
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.answered += other.answered;
        for (reason, count) in &other.failures {
            *self.failures.entry(reason.clone()).or_default() += count;
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failed: u64 = self.failures.values().sum();
        write!(f, "{} answered, {failed} failed {:?}", self.answered, self.failures)
    }
}

impl Load {
    /// Starts this many threads, each asking for `target`; an answer is one with status 200.
    pub fn start(threads: u8, address: SocketAddrV4, target: &str) -> Load {
        let mut load = Load {
            stop: Arc::default(),
            answered: Arc::default(),
            first_failure: Arc::default(),
            threads: Vec::new(),
        };
        for number in 0..threads {
            let asker = Asker {
                // Each has the outgoing ports of an address of its own: ports in TIME_WAIT run out later.
                source: Ipv4Addr::new(127, 0, 77, number + 1),
                address,
                request: request("GET", target, "Connection: close\r\n"),
                stop: Arc::clone(&load.stop),
                answered: Arc::clone(&load.answered),
                first_failure: Arc::clone(&load.first_failure),
            };
            load.threads.push(thread::spawn(move || asker.run()));
        }
        load
    }

    /// Requests answered so far.
    pub fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Waits until this many more requests were answered.
    #[track_caller]
    pub fn wait_for(&self, more: u64) {
        let goal = self.answered() + more;
        crate::eventually("the load is answered", || (self.answered() >= goal).then_some(()));
    }

    /// Why the first request failed, if one did.
    ///
    /// # Panics
    ///
    /// When a thread has.
    pub fn first_failure(&self) -> Option<String> {
        self.first_failure.lock().expect("load threads do not panic").clone()
    }

    /// Fails when a request has failed so far.
    ///
    /// # Panics
    ///
    /// Then: with the first reason, and `when` it was.
    #[track_caller]
    pub fn assert_no_loss(&self, when: &str) {
        let first = self.first_failure();
        assert!(first.is_none(), "lost a request at {when}: {}", first.unwrap_or_default());
    }

    /// Stops the threads and adds up what they saw.
    pub fn stop(self) -> Tally {
        self.stop.store(true, Ordering::Relaxed);
        let mut sum = Tally::default();
        for thread in self.threads {
            sum.add(&thread.join().expect("a load thread does not panic"));
        }
        sum
    }
}

/// One thread.
struct Asker {
    source: Ipv4Addr,
    address: SocketAddrV4,
    request: String,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    first_failure: Arc<Mutex<Option<String>>>,
}

impl Asker {
    fn run(&self) -> Tally {
        let mut tally = Tally::default();
        while !self.stop.load(Ordering::Relaxed) {
            match once(self.source, self.address, &self.request) {
                Ok(()) => {
                    tally.answered += 1;
                    self.answered.fetch_add(1, Ordering::Relaxed);
                }
                Err(reason) => {
                    self.first_failure.lock().expect("nobody panics").get_or_insert_with(|| reason.clone());
                    *tally.failures.entry(reason).or_default() += 1;
                }
            }
        }
        tally
    }
}

fn once(source: Ipv4Addr, address: SocketAddrV4, request: &str) -> Result<(), String> {
    let step = |name: &str, failure: Failure| format!("{name}: {failure}");
    let mut client = Client::connect_from(source, address).map_err(|error| step("connect", error.into()))?;
    client.try_send(request).map_err(|error| step("send", error.into()))?;
    let response = client.receive(true).map_err(|failure| step("receive", failure))?;
    match response.status {
        200 => Ok(()),
        status => Err(format!("status {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener};

    #[test]
    fn counts_answers_and_losses() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let Ok(SocketAddr::V4(address)) = listener.local_addr() else { panic!("an IPv4 socket") };
        let load = Load::start(2, address, "/");
        // Of four connections one is closed without an answer; then nobody listens.
        for number in 0..40 {
            let (mut stream, _) = listener.accept().expect("a client");
            let _ = stream.read(&mut [0; 1024]);
            if number % 4 != 0 {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            }
        }
        drop(listener);
        let tally = load.stop();
        assert_eq!(tally.answered, 30);
        assert_eq!(tally.failures.get("receive: closed without an answer"), Some(&10), "{tally}");
    }
}
