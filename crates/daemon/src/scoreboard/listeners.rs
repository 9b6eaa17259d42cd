//! The listeners on the scoreboard: which there are, which sockets they have, and what the kernel says of these.
//!
//! A listener has a number under which all workers count its accepts; it keeps the number over reloads. The master
//! also writes down the inodes of its sockets. By them a reader finds in the kernel's list how many connections
//! wait and how many were turned away: no worker and no master has to be asked. What was turned away at a socket
//! is added to the listener's sum when the socket closes.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering::{Relaxed, Release};

use drover_event::{Stats, Strategy};
use drover_sys::sock_diag::{self, Family, Queue};

use super::layout::{
    ADDRESS_BYTES, LISTENERS, Listener, Master, SOCKETS, SOCKETS_AT, TOTALS_AT, address_at, listener_at,
};
use super::readout::Readout;
use super::snapshot::Snapshot;
use super::{Block, Scoreboard};

/// What a listener takes connections from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// A unix socket.
    Unix,
}

impl Transport {
    const ALL: [Transport; 3] = [Transport::Tcp, Transport::Udp, Transport::Unix];

    /// The word for it in `drover status --json`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Unix => "unix",
        }
    }
}

/// A listener as the master knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    /// Where it listens.
    pub(crate) address: String,
    /// What it takes connections from.
    pub(crate) transport: Transport,
    /// Its accept strategy.
    pub(crate) strategy: Strategy,
    /// The backlog that is configured.
    pub(crate) backlog: u32,
    /// The inodes of its sockets.
    pub(crate) sockets: Vec<u64>,
}

/// The inode of a socket; none where the system does not tell, and then nobody finds its queue.
pub(crate) fn inode(socket: BorrowedFd<'_>) -> Option<u64> {
    sock_diag::of_socket(socket).ok().map(|(inode, _)| inode)
}

impl Scoreboard {
    /// Gives each of `addresses` a number, before workers are forked that count its accepts.
    pub(crate) fn number_listeners<'a>(&self, addresses: impl Iterator<Item = &'a str>, generation: u64) {
        for address in addresses {
            let number = self.listener(address).or_else(|| self.free_listener(generation));
            let Some(number) = number else { continue };
            if self.listener(address).is_none() {
                self.write_address(number, address);
            }
            self.words[listener_at(number, Listener::Generation)].store(generation, Relaxed);
        }
    }

    /// Shows the listeners of the generation that serves. Sockets that are about to close are `closing`: what the
    /// kernel turned away there goes into the sums.
    pub(crate) fn show_listeners<'a>(
        &self,
        listed: &[Listed],
        closing: impl Iterator<Item = impl AsFd + 'a>,
        generation: u64,
    ) {
        let closing: BTreeMap<u64, u32> =
            closing.filter_map(|socket| sock_diag::of_socket(socket.as_fd()).ok()).collect();
        self.bump(Master::FoldSequence);
        for entry in 0..SOCKETS {
            let word = &self.words[SOCKETS_AT + entry];
            let Some((number, inode)) = unpacked(word.load(Relaxed)) else { continue };
            let sum = &self.words[listener_at(number, Listener::Overflows)];
            let turned_away = closing.get(&inode).copied().unwrap_or(0);
            sum.store(sum.load(Relaxed).wrapping_add(u64::from(turned_away)), Relaxed);
            word.store(0, Relaxed);
        }
        let mut free = SOCKETS_AT..SOCKETS_AT + SOCKETS;
        for listed in listed {
            let Some(number) = self.listener(&listed.address) else { continue };
            let set = |word, value| self.words[listener_at(number, word)].store(value, Relaxed);
            set(Listener::Transport, listed.transport as u64);
            let strategy = Strategy::ALL.iter().position(|strategy| *strategy == listed.strategy);
            set(Listener::Strategy, strategy.unwrap_or(0) as u64);
            set(Listener::Backlog, u64::from(listed.backlog));
            set(Listener::Generation, generation);
            for (inode, word) in listed.sockets.iter().zip(&mut free) {
                self.words[word].store(packed(number, *inode), Relaxed);
            }
        }
        self.bump(Master::FoldSequence);
    }

    /// The listeners that have a number.
    pub(super) fn numbered_listeners(&self) -> impl Iterator<Item = (usize, String)> + '_ {
        (0..LISTENERS).filter_map(|number| Some((number, self.read_address(number)?)))
    }

    fn listener(&self, address: &str) -> Option<usize> {
        (0..LISTENERS).find(|number| self.read_address(*number).as_deref() == Some(address))
    }

    /// A number that none has, else that of the listener which has been gone for longest.
    fn free_listener(&self, generation: u64) -> Option<usize> {
        let last = |number: &usize| self.words[listener_at(*number, Listener::Generation)].load(Relaxed);
        let unused = (0..LISTENERS).find(|number| self.read_address(*number).is_none());
        // Workers of the generation before may still count.
        let gone = (0..LISTENERS).filter(|number| last(number) + 1 < generation).min_by_key(last);
        unused.or_else(|| {
            let number = gone?;
            self.bump(Master::FoldSequence);
            self.words[TOTALS_AT + Stats::accepts_word(number)].store(0, Relaxed);
            self.words[listener_at(number, Listener::Overflows)].store(0, Relaxed);
            self.bump(Master::FoldSequence);
            Some(number)
        })
    }

    fn write_address(&self, number: usize, address: &str) {
        let bytes = &address.as_bytes()[..address.len().min(ADDRESS_BYTES)];
        for (index, bytes) in bytes.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            self.words[address_at(number) + index].store(u64::from_ne_bytes(word), Relaxed);
        }
        self.words[listener_at(number, Listener::AddressLength)].store(bytes.len() as u64, Release);
    }

    fn read_address(&self, number: usize) -> Option<String> {
        address(|word| self.words[word].load(Relaxed), number)
    }
}

impl Block {
    /// The number under which accepts at `address` are counted.
    pub(crate) fn listener(&self, wanted: &str) -> Option<u32> {
        let load = |word: usize| self.words[word].load(Relaxed);
        (0..LISTENERS)
            .find(|number| address(load, *number).as_deref() == Some(wanted))
            .map(|number| number as u32)
    }
}

fn address(load: impl Fn(usize) -> u64, number: usize) -> Option<String> {
    let length = load(listener_at(number, Listener::AddressLength)) as usize;
    if length == 0 || length > ADDRESS_BYTES {
        return None;
    }
    let words = (0..length.div_ceil(8)).flat_map(|index| load(address_at(number) + index).to_ne_bytes());
    let bytes: Vec<u8> = words.take(length).collect();
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Inodes of sockets have 32 bits.
fn packed(number: usize, inode: u64) -> u64 {
    (number as u64 + 1) << 32 | u64::from(inode as u32)
}

fn unpacked(word: u64) -> Option<(usize, u64)> {
    let number = (word >> 32).checked_sub(1)? as usize;
    (number < LISTENERS).then_some((number, u64::from(word as u32)))
}

/// A listener as a reader sees it.
#[derive(Debug, Clone)]
pub(crate) struct ListenerView {
    /// The number by which workers count its accepts.
    pub(crate) number: usize,
    /// Where it listens.
    pub(crate) address: String,
    /// What it takes connections from.
    pub(crate) transport: Transport,
    /// Its accept strategy.
    pub(crate) strategy: Strategy,
    backlog: u64,
    /// Connections turned away at sockets that are closed.
    turned_away_before: u64,
    sockets: Vec<u64>,
    queues: Vec<Queue>,
}

/// What waits at the sockets of a listener, by the kernel's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitingAt {
    /// Connections that wait to be accepted.
    Connections {
        /// How many.
        waiting: u64,
        /// How many may wait at each socket.
        granted: u64,
        /// How many may wait at all of them.
        room: u64,
    },
    /// Datagrams that wait to be received.
    Datagrams {
        /// The memory they take, with what the kernel adds to each.
        bytes: u64,
    },
}

impl ListenerView {
    /// How many sockets it has: one, or one for each worker.
    pub(crate) fn sockets(&self) -> usize {
        self.sockets.len()
    }

    /// What waits at its sockets; none where the kernel did not tell.
    pub(crate) fn queue(&self) -> Option<WaitingAt> {
        if self.queues.is_empty() {
            return None;
        }
        let waiting = self.queues.iter().map(|queue| u64::from(queue.waiting)).sum();
        let granted = self.queues.iter().map(|queue| u64::from(queue.backlog)).min().unwrap_or(0);
        Some(match self.transport {
            Transport::Udp => WaitingAt::Datagrams { bytes: waiting },
            Transport::Tcp | Transport::Unix => {
                WaitingAt::Connections { waiting, granted, room: granted * self.sockets() as u64 }
            }
        })
    }

    /// The backlog that is configured; datagrams have none.
    pub(crate) fn backlog(&self) -> Option<u64> {
        (self.transport != Transport::Udp).then_some(self.backlog)
    }

    /// Connections or datagrams that the kernel turned away, nearly always because a queue was full.
    pub(crate) fn overflows(&self) -> u64 {
        self.turned_away_before + self.queues.iter().map(|queue| u64::from(queue.overflows)).sum::<u64>()
    }
}

impl Readout {
    /// The listeners with their sockets, without what the kernel knows.
    pub(super) fn listeners(&self) -> Vec<ListenerView> {
        let sockets: Vec<(usize, u64)> =
            (0..SOCKETS).filter_map(|entry| unpacked(self.word(SOCKETS_AT + entry))).collect();
        (0..LISTENERS).filter_map(|number| self.listener(number, &sockets)).collect()
    }

    fn listener(&self, number: usize, sockets: &[(usize, u64)]) -> Option<ListenerView> {
        let word = |word: Listener| self.word(listener_at(number, word));
        let list = |word: u64| usize::try_from(word).unwrap_or(usize::MAX);
        Some(ListenerView {
            number,
            address: address(|word| self.word(word), number)?,
            transport: *Transport::ALL.get(list(word(Listener::Transport)))?,
            strategy: *Strategy::ALL.get(list(word(Listener::Strategy)))?,
            backlog: word(Listener::Backlog),
            turned_away_before: word(Listener::Overflows),
            sockets: sockets.iter().filter(|(owner, _)| *owner == number).map(|(_, inode)| *inode).collect(),
            queues: Vec::new(),
        })
    }
}

impl Snapshot {
    /// Adds what the kernel says about the queues of the listeners; where it does not say anything (a network
    /// namespace of another daemon, netlink forbidden) they stay unknown.
    pub(super) fn look_at_queues(&mut self) {
        let mut asked: BTreeMap<Family, io::Result<Vec<Queue>>> = BTreeMap::new();
        for listener in self.listeners.iter_mut().filter(|listener| !listener.sockets.is_empty()) {
            let families = match listener.transport {
                Transport::Tcp => &[Family::Tcp4, Family::Tcp6][..],
                Transport::Udp => &[Family::Udp4, Family::Udp6],
                Transport::Unix => &[Family::Unix],
            };
            for family in families {
                let queues = asked.entry(*family).or_insert_with(|| sock_diag::listening(*family));
                let own = queues.iter().flatten().filter(|queue| listener.sockets.contains(&queue.inode));
                listener.queues.extend(own);
            }
        }
    }
}
