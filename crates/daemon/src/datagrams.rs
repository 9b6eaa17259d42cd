//! What workers share so that a client's datagrams reach the worker that has its session.
//!
//! Made by the master for each place of a worker, before the fork, if anything listens for datagrams. Whoever
//! is forked later knows of all workers that live, of its own generation and of those before.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::OnceLock;

use drover_event::{Neighbour, Neighbourhood, SessionTable};

/// A worker's place among those that share datagram sockets.
#[derive(Debug)]
pub(crate) struct DatagramSeat {
    /// The sessions it has.
    pub(crate) table: SessionTable,
    receiving: OwnedFd,
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
        Ok(DatagramSeat { table: SessionTable::anonymous(slots)?, receiving, sending })
    }

    /// What the worker of this place is told.
    ///
    /// # Errors
    /// What the system refuses.
    pub(crate) fn neighbourhood(&self, known: &KnownSeats) -> io::Result<Neighbourhood> {
        let beside = known.beside.iter().map(|seat| seat.neighbour(false));
        let before = known.before.iter().map(|seat| seat.neighbour(true));
        Ok(Neighbourhood {
            table: self.table.clone(),
            inbox: self.receiving.try_clone()?,
            others: beside.chain(before).collect::<io::Result<_>>()?,
            seed: seed(),
        })
    }

    fn neighbour(&self, before: bool) -> io::Result<Neighbour> {
        Ok(Neighbour { table: self.table.clone(), inbox: self.sending.try_clone()?, before })
    }
}

/// What fingerprints of flows are made with, as long as the master lives.
fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| RandomState::new().hash_one("datagrams"))
}
