//! Slots: the preallocated array of connections, its free list, generations and the list of those
//! that can be reclaimed.
//!
//! Invariants: a slot is free, or lent to exactly one holder; lending gives it a generation that it
//! never had before (until 2^32 lives have passed); the free list is last-in-first-out, so that the
//! memory touched is what the busiest moment needed; only lent slots are on the reusable list, each
//! at most once, the longest idle first.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use tracing::warn;

use crate::clock::Millis;
use crate::close::{CloseReason, Noted};
use crate::connect::HeldBack;
use crate::event::Direction;
pub use crate::phase::Phase;
use crate::token::Token;

/// "No slot", "no task", "no listener".
pub(crate) const NONE: u32 = u32::MAX;

/// The most idle connections that one shortage closes.
const MAX_RECLAIM: u32 = 32;

/// Who is at the other end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerAddress {
    /// An internet address and port.
    Internet(SocketAddr),
    /// A peer on a unix socket, which has no name.
    Unix,
}

impl PeerAddress {
    /// The internet address, if it has one.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Internet(address) => Some(address.ip()),
            Self::Unix => None,
        }
    }

    /// The port; zero for unix sockets.
    pub fn port(&self) -> u16 {
        match self {
            Self::Internet(address) => address.port(),
            Self::Unix => 0,
        }
    }
}

impl std::fmt::Display for PeerAddress {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Internet(address) => address.fmt(formatter),
            Self::Unix => formatter.write_str("unix:"),
        }
    }
}

/// Why the engine asks a task to close its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// Slots are short and this connection is idle.
    Reclaim,
    /// The worker drains and this connection waits for a further request.
    Drain,
}

/// What a slot is lent for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holder {
    /// Nobody.
    Free,
    /// A listening socket.
    Listener,
    /// The channel to the master.
    Channel,
    /// A connection with a peer.
    Peer,
}

/// On which terms a slot is idle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Idle {
    /// Waiting for a first request: reclaimed on shortage, but kept while draining, since the
    /// request may be under way.
    First,
    /// Waiting for a further request: reclaimed on shortage and asked to close on drain.
    Further,
}

/// One slot.
pub(crate) struct Connection {
    /// The descriptor; `None` while the slot is free.
    pub(crate) socket: Option<OwnedFd>,
    pub(crate) generation: u32,
    pub(crate) holder: Holder,
    pub(crate) phase: Phase,
    /// Set while the slot is on the reusable list.
    pub(crate) idle: Option<Idle>,
    pub(crate) asked: Option<Asked>,
    /// The first receive was tried on the listener's hope that data is there already.
    pub(crate) hopeful: bool,
    pub(crate) held_back: HeldBack,
    /// Which of the worker's listeners: the one this is, or the one that accepted it.
    pub(crate) listener: u32,
    /// Who keeps it while no task does; [`NONE`] otherwise.
    pub(crate) keeper: u32,
    /// Why it will end.
    pub(crate) end: Noted,
    /// Free list or reusable list.
    next: u32,
    previous: u32,
    pub(crate) number: u64,
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) accepted_at: Millis,
    pub(crate) peer: PeerAddress,
}

impl Connection {
    fn free() -> Self {
        Self {
            socket: None,
            generation: 0,
            holder: Holder::Free,
            phase: Phase::Accepted,
            idle: None,
            asked: None,
            hopeful: false,
            held_back: HeldBack::default(),
            listener: NONE,
            keeper: NONE,
            end: Noted::NOTHING,
            next: NONE,
            previous: NONE,
            number: 0,
            received: 0,
            sent: 0,
            accepted_at: Millis::default(),
            peer: PeerAddress::Unix,
        }
    }
}

impl Connection {
    /// Takes note that a time-out passed in one direction.
    #[cold]
    pub(crate) fn note_timeout(&mut self, direction: Direction) {
        if let Some(reason) = CloseReason::of_timeout(self.phase, direction) {
            self.end.see(reason, self.phase);
        }
    }

    /// Takes note that nothing more can be received, or nothing more be sent: `fault` says why, if it is not the
    /// end of the peer's stream.
    #[cold]
    pub(crate) fn note_end(&mut self, fault: Option<&io::Error>) {
        let reason = match fault {
            None => CloseReason::of_end(self.phase),
            Some(fault) => CloseReason::of_fault(fault),
        };
        if let (CloseReason::InternalError, Some(fault)) = (reason, fault) {
            warn!(connection = self.number, "receiving or sending failed: {fault}");
        }
        self.end.see(reason, self.phase);
    }
}

/// The array of slots.
pub(crate) struct Slots {
    connections: Vec<Connection>,
    capacity: u32,
    free: u32,
    lent: u32,
    reusable: ReusableList,
    /// The highest generation among slots that were cut off: those that follow them begin there.
    past: u32,
    /// With fewer lent slots than this it is worth to look for some to cut off.
    cut_below: u32,
}

/// Fewer slots are not cut off: they take no more than 100 KiB, their events included.
const CUT_LEAST: u32 = 256;

#[derive(Clone, Copy)]
struct ReusableList {
    head: u32,
    tail: u32,
    len: u32,
}

impl Slots {
    /// Reserves address space for `capacity` slots; memory is used as they are first lent.
    pub(crate) fn with_capacity(capacity: u32) -> Self {
        Self {
            connections: Vec::with_capacity(capacity as usize),
            capacity,
            free: NONE,
            lent: 0,
            reusable: ReusableList { head: NONE, tail: NONE, len: 0 },
            past: 0,
            cut_below: 0,
        }
    }

    /// How many slots there are.
    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// How many slots can be lent.
    pub(crate) fn free(&self) -> u32 {
        self.capacity - self.lent
    }

    /// How many lent slots can be reclaimed.
    pub(crate) fn reusable(&self) -> u32 {
        self.reusable.len
    }

    /// Lends a slot for `socket`, which is closed where no slot is free. Datagram sessions have none
    /// of their own.
    pub(crate) fn lend(&mut self, socket: Option<OwnedFd>, holder: Holder) -> Option<u32> {
        let slot = if self.free != NONE {
            let slot = self.free;
            self.free = self[slot].next;
            slot
        } else if (self.connections.len() as u32) < self.capacity {
            self.connections.push(Connection { generation: self.past, ..Connection::free() });
            self.cut_below = self.cut_below.max(self.rows().saturating_sub(CUT_LEAST) / 4);
            self.rows() - 1
        } else {
            return None;
        };
        let generation = self[slot].generation.wrapping_add(1);
        self[slot] = Connection { socket, generation, holder, ..Connection::free() };
        self.lent += 1;
        Some(slot)
    }

    /// Takes a slot back and hands out its descriptor.
    pub(crate) fn give_back(&mut self, slot: u32) -> Option<OwnedFd> {
        self.set_idle(slot, None);
        let free = self.free;
        let connection = &mut self[slot];
        debug_assert!(connection.holder != Holder::Free, "slot {slot} is given back twice");
        let socket = connection.socket.take();
        connection.holder = Holder::Free;
        connection.next = free;
        self.free = slot;
        self.lent -= 1;
        socket
    }

    /// What the slot's connection is busy with, for reports: the phase of another one where that connection
    /// closed its slot and its task goes on.
    pub(crate) fn phase_of(&self, slot: u32) -> Phase {
        self.connections.get(slot as usize).map_or(Phase::Accepted, |connection| connection.phase)
    }

    /// How many slots were lent ever since the last cut.
    pub(crate) fn rows(&self) -> u32 {
        self.connections.len() as u32
    }

    /// Whether so many slots are free that [`Slots::cut`] may find some at the end.
    #[inline]
    pub(crate) fn are_many_free(&self) -> bool {
        self.lent < self.cut_below
    }

    /// Gives back the memory of the free slots behind the last lent one, if there are many.
    pub(crate) fn cut(&mut self) {
        let is_lent = |connection: &Connection| connection.holder != Holder::Free;
        let kept = self.connections.iter().rposition(is_lent).map_or(0, |last| last + 1);
        if self.connections.len() - kept >= CUT_LEAST as usize / 4 {
            self.cut_behind(kept);
        }
        // What stands in the way may be closed next: another look once an eighth more is free.
        self.cut_below = if self.rows() < CUT_LEAST { 0 } else { self.lent - self.lent / 8 };
    }

    /// Cuts off all slots but the first `kept`. They are free.
    fn cut_behind(&mut self, kept: usize) {
        let cut = self.connections[kept..].iter().map(|connection| connection.generation);
        self.past = cut.fold(self.past, u32::max);
        self.connections.truncate(kept);
        release(&mut self.connections, self.capacity as usize);
        self.free = NONE;
        for slot in (0..self.rows()).rev() {
            if self[slot].holder == Holder::Free {
                self[slot].next = self.free;
                self.free = slot;
            }
        }
    }

    /// The token of the slot's present life.
    pub(crate) fn token(&self, slot: u32) -> Token {
        Token::new(slot, self[slot].generation)
    }

    /// The slot that `token` means, if that life is still going on.
    pub(crate) fn resolve(&self, token: Token) -> Option<u32> {
        let connection = self.connections.get(token.index() as usize)?;
        (connection.generation == token.generation() && connection.holder != Holder::Free)
            .then_some(token.index())
    }

    /// Puts the slot at the end of the reusable list, or takes it off.
    pub(crate) fn set_idle(&mut self, slot: u32, idle: Option<Idle>) {
        let was = std::mem::replace(&mut self[slot].idle, idle);
        match (was, idle) {
            (Some(_), Some(_)) | (None, None) => {}
            (None, Some(_)) => {
                let tail = self.reusable.tail;
                self[slot].previous = tail;
                self[slot].next = NONE;
                match tail {
                    NONE => self.reusable.head = slot,
                    tail => self[tail].next = slot,
                }
                self.reusable.tail = slot;
                self.reusable.len += 1;
            }
            (Some(_), None) => {
                let (previous, next) = (self[slot].previous, self[slot].next);
                match previous {
                    NONE => self.reusable.head = next,
                    previous => self[previous].next = next,
                }
                match next {
                    NONE => self.reusable.tail = previous,
                    next => self[next].previous = previous,
                }
                self.reusable.len -= 1;
            }
        }
    }

    /// Whether lending has to reclaim idle connections: at most a sixteenth of the slots is free.
    pub(crate) fn are_short(&self) -> bool {
        self.free() <= self.capacity / 16
    }

    /// How many idle connections a shortage closes.
    pub(crate) fn reclaim_wanted(&self) -> u32 {
        (self.reusable.len / 8).clamp(1, MAX_RECLAIM).min(self.reusable.len)
    }

    /// All slots on the reusable list, the longest idle first.
    pub(crate) fn idle_slots(&self) -> impl Iterator<Item = u32> + '_ {
        let mut cursor = self.reusable.head;
        std::iter::from_fn(move || {
            let slot = (cursor != NONE).then_some(cursor)?;
            cursor = self[slot].next;
            Some(slot)
        })
    }
}

/// Gives back the memory behind the rows, which keep room for `capacity`: address space alone.
pub(crate) fn release<T>(rows: &mut Vec<T>, capacity: usize) {
    rows.shrink_to_fit();
    rows.reserve_exact(capacity.saturating_sub(rows.len()));
}

impl std::ops::Index<u32> for Slots {
    type Output = Connection;

    fn index(&self, slot: u32) -> &Connection {
        &self.connections[slot as usize]
    }
}

impl std::ops::IndexMut<u32> for Slots {
    fn index_mut(&mut self, slot: u32) -> &mut Connection {
        &mut self.connections[slot as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;
    use proptest::prelude::*;
    use std::collections::{HashMap, VecDeque};
    use std::fs::File;

    fn descriptor() -> Option<OwnedFd> {
        Some(File::open("/dev/null").expect("/dev/null").into())
    }

    #[test]
    fn a_slot_with_its_two_events_fits_256_bytes() {
        let size = size_of::<Connection>() + 2 * size_of::<Event>();
        assert!(size <= 256, "{size} bytes");
    }

    #[test]
    fn the_free_list_is_last_in_first_out() {
        let mut slots = Slots::with_capacity(4);
        let lent: Vec<u32> =
            (0..4).map(|_| slots.lend(descriptor(), Holder::Peer).expect("a free slot")).collect();
        assert!(slots.lend(descriptor(), Holder::Peer).is_none());
        slots.give_back(lent[1]);
        slots.give_back(lent[3]);
        assert_eq!(slots.lend(descriptor(), Holder::Peer), Some(lent[3]));
        assert_eq!(slots.lend(descriptor(), Holder::Peer), Some(lent[1]));
    }

    #[test]
    fn reclaim_takes_an_eighth_of_the_idle_at_most_thirty_two_at_least_one() {
        let mut slots = Slots::with_capacity(600);
        let lent: Vec<u32> =
            (0..600).map(|_| slots.lend(descriptor(), Holder::Peer).expect("a free slot")).collect();
        assert!(slots.are_short());
        assert_eq!(slots.reclaim_wanted(), 0, "nothing is idle");
        slots.set_idle(lent[5], Some(Idle::First));
        assert_eq!(slots.reclaim_wanted(), 1);
        for &slot in &lent[100..180] {
            slots.set_idle(slot, Some(Idle::Further));
        }
        assert_eq!(slots.reclaim_wanted(), 10);
        for &slot in &lent[180..580] {
            slots.set_idle(slot, Some(Idle::Further));
        }
        assert_eq!(slots.reclaim_wanted(), 32);
        assert_eq!(slots.idle_slots().next(), Some(lent[5]));
        for &slot in &lent[..38] {
            slots.give_back(slot);
        }
        assert_eq!(slots.free(), 38, "more than a sixteenth of 600");
        assert!(!slots.are_short());
    }

    #[test]
    fn free_slots_at_the_end_are_cut_off() {
        let mut slots = Slots::with_capacity(10_000);
        let lent: Vec<Token> = (0..8_000)
            .map(|_| {
                let slot = slots.lend(None, Holder::Peer).expect("a free slot");
                slots.token(slot)
            })
            .collect();
        assert!(!slots.are_many_free());
        lent[..7_000].iter().for_each(|token| drop(slots.give_back(token.index())));
        assert!(slots.are_many_free());
        slots.cut();
        assert_eq!(slots.rows(), 8_000, "the last one is lent");
        assert!(!slots.are_many_free(), "nothing has changed since");
        lent[7_001..].iter().for_each(|token| drop(slots.give_back(token.index())));
        assert!(slots.are_many_free());
        slots.cut();
        assert_eq!(slots.rows(), 7_001);
        drop(slots.give_back(7_000));
        assert!(slots.are_many_free());
        slots.cut();
        assert_eq!((slots.rows(), slots.free()), (0, 10_000));
        assert!(!slots.are_many_free());
        // Nobody is taken for one of before.
        for _ in 0..8_000 {
            let slot = slots.lend(None, Holder::Peer).expect("a free slot");
            assert!(slots.resolve(slots.token(slot)).is_some());
        }
        assert!(lent.iter().all(|token| slots.resolve(*token).is_none()));
    }

    proptest! {
        /// Random lending, returning and idling against a map and a deque.
        #[test]
        fn behave_as_a_set(steps in proptest::collection::vec((0u8..5, any::<prop::sample::Index>()), 1..200)) {
            let mut slots = Slots::with_capacity(12);
            let mut lent: Vec<Token> = Vec::new();
            let mut past: Vec<Token> = Vec::new();
            let mut idle: VecDeque<u32> = VecDeque::new();
            let mut lives: HashMap<u32, u32> = HashMap::new();
            for (action, which) in steps {
                match action {
                    0 => match slots.lend(descriptor(), Holder::Peer) {
                        Some(slot) => {
                            let token = slots.token(slot);
                            prop_assert!(lives.insert(slot, token.generation()) != Some(token.generation()));
                            prop_assert!(!lent.iter().any(|other| other.index() == slot));
                            lent.push(token);
                        }
                        None => prop_assert_eq!(lent.len(), 12),
                    },
                    1 if !lent.is_empty() => {
                        let token = lent.swap_remove(which.index(lent.len()));
                        prop_assert!(slots.give_back(token.index()).is_some());
                        idle.retain(|&slot| slot != token.index());
                        past.push(token);
                    }
                    2 if !lent.is_empty() => {
                        let slot = lent[which.index(lent.len())].index();
                        slots.set_idle(slot, Some(Idle::Further));
                        if !idle.contains(&slot) {
                            idle.push_back(slot);
                        }
                    }
                    3 if !lent.is_empty() => {
                        let slot = lent[which.index(lent.len())].index();
                        slots.set_idle(slot, None);
                        idle.retain(|&other| other != slot);
                    }
                    4 => slots.cut_behind(lent.iter().map(|token| token.index() as usize + 1).max().unwrap_or(0)),
                    _ => {}
                }
                prop_assert_eq!(slots.free() as usize, 12 - lent.len());
                prop_assert_eq!(slots.idle_slots().collect::<Vec<_>>(), idle.iter().copied().collect::<Vec<_>>());
                prop_assert!(lent.iter().all(|&token| slots.resolve(token) == Some(token.index())));
                prop_assert!(past.iter().all(|&token| slots.resolve(token).is_none()));
            }
        }
    }
}
