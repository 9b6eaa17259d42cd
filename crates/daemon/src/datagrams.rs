//! What workers share so that a client's datagrams reach the worker that has its session.
//!
//! Made by the master for each place of a worker, before the fork, if anything listens for datagrams. Whoever
//! is forked later knows of all workers that live, of its own generation and of those before; during an upgrade of
//! those of the other master too.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::OnceLock;

use drover_event::{Neighbour, Neighbourhood, SessionTable};
use drover_sys::memory::anonymous_file;

/// A worker's place among those that share datagram sockets.
#[derive(Debug)]
pub(crate) struct DatagramSeat {
    /// The sessions it has.
    pub(crate) table: SessionTable,
    /// What the table is in.
    memory: File,
    /// Whoever has the place receives here; another master's workers do elsewhere.
    receiving: Option<OwnedFd>,
    sending: OwnedFd,
}

/// What a worker that is forked knows of others.
#[derive(Debug, Default)]
pub(crate) struct KnownSeats {
    /// Those of its own generation.
    pub(crate) beside: Vec<Rc<DatagramSeat>>,
    /// Those of generations before.
    pub(crate) before: Vec<Rc<DatagramSeat>>,
}

impl DatagramSeat {
    /// A place for a worker with this many slots.
    ///
    /// # Errors
    /// What the system refuses.
    pub(crate) fn new(slots: u32) -> io::Result<DatagramSeat> {
        // Drawn here, in the master, where all workers get it from.
        let _ = seed();
        let (receiving, sending) = Neighbourhood::inbox()?;
        let memory = anonymous_file(c"drover-sessions")?;
        let table = SessionTable::create(&memory, slots)?;
        Ok(DatagramSeat { table, memory, receiving: Some(receiving), sending })
    }

    /// The place of another master's worker, from what that one [hands over](DatagramSeat::to_hand_over).
    ///
    /// # Errors
    /// When it is none.
    pub(crate) fn taken_over([memory, sending]: [OwnedFd; DESCRIPTORS]) -> io::Result<DatagramSeat> {
        let memory = File::from(memory);
        Ok(DatagramSeat { table: SessionTable::open(&memory)?, memory, receiving: None, sending })
    }

    /// What another master needs for its workers to know of this place.
    pub(crate) fn to_hand_over(&self) -> [BorrowedFd<'_>; DESCRIPTORS] {
        [self.memory.as_fd(), self.sending.as_fd()]
    }

    /// What the worker of this place is told.
    ///
    /// # Errors
    /// What the system refuses.
    pub(crate) fn neighbourhood(&self, known: &KnownSeats) -> io::Result<Neighbourhood> {
        let beside = known.beside.iter().map(|seat| seat.neighbour(false));
        let before = known.before.iter().map(|seat| seat.neighbour(true));
        let inbox = self.receiving.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        Ok(Neighbourhood {
            table: self.table.clone(),
            inbox: inbox.try_clone()?,
            others: beside.chain(before).collect::<io::Result<_>>()?,
            seed: seed(),
        })
    }

    fn neighbour(&self, before: bool) -> io::Result<Neighbour> {
        Ok(Neighbour { table: self.table.clone(), inbox: self.sending.try_clone()?, before })
    }
}

/// How many descriptors another master needs of a place.
pub(crate) const DESCRIPTORS: usize = 2;

static SEED: OnceLock<u64> = OnceLock::new();

/// What fingerprints of flows are made with, as long as the master and those that follow it live.
pub(crate) fn seed() -> u64 {
    *SEED.get_or_init(|| RandomState::new().hash_one("datagrams"))
}

/// Makes fingerprints as the master before this one. To be called before anything is made with another seed.
pub(crate) fn adopt_seed(seed: u64) {
    let _ = SEED.set(seed);
}
