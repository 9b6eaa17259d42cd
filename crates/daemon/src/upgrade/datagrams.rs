//! Sessions of datagrams while two masters have the same sockets: their workers know of each other's, and only those
//! of one master read.
//!
//! Those that read go on until their master asks them to leave, or is gone: then those of the other master follow
//! them, as one generation follows another.

use std::os::fd::OwnedFd;
use std::rc::Rc;

use drover_event::Ports;
use tracing::warn;

use crate::datagrams::{self, DatagramSeat};
use crate::master::Master;
use crate::sockets::datagram_ports;

/// The places that came with a message.
pub(super) fn taken_over(with: Vec<OwnedFd>) -> Vec<Rc<DatagramSeat>> {
    let (mut with, mut seats) = (with.into_iter(), Vec::new());
    while let (Some(memory), Some(sending)) = (with.next(), with.next()) {
        match DatagramSeat::taken_over([memory, sending]) {
            Ok(seat) => seats.push(Rc::new(seat)),
            Err(error) => warn!("sessions of the other master cannot be found: {error}"),
        }
    }
    seats
}

impl Master {
    /// Tells the other master of the workers that share datagram sockets.
    pub(super) fn tell_seats(&self) {
        let Some(other) = self.upgrade.other.as_ref().filter(|other| other.open) else { return };
        if let Err(error) = other.link.send_seats(&self.own_seats()) {
            warn!("the other master does not hear of sessions of datagrams: {error}");
        }
    }

    /// The other master has told of its workers.
    pub(super) fn know_seats(&mut self, seed: u64, with: Vec<OwnedFd>) {
        if seed == datagrams::seed() {
            self.upgrade.seats.extend(taken_over(with));
        }
    }

    /// The places of this master's workers.
    pub(super) fn own_seats(&self) -> Vec<Rc<DatagramSeat>> {
        self.workers.iter().filter_map(|process| process.datagrams.clone()).collect()
    }

    /// The places of another master's workers, as far as there is anything to be known of them.
    pub(crate) fn seats_elsewhere(&self) -> impl Iterator<Item = Rc<DatagramSeat>> {
        self.upgrade.seats.iter().filter(|seat| !seat.table.is_idle()).cloned()
    }

    /// The ports that another master goes on with if this one's workers are left alone; while it is open which ones it
    /// has, all of them.
    pub(crate) fn heirs(&self) -> Ports {
        match self.upgrade.other.as_ref().filter(|other| other.open && !other.leaving) {
            None => Ports::default(),
            Some(other) if other.holds.is_empty() => self.generation.sockets.datagram_ports(),
            Some(other) => datagram_ports(&other.holds),
        }
    }

    /// Has the workers know which sockets others would take over.
    pub(crate) fn name_heirs(&self) {
        let heirs = self.heirs();
        self.own_seats().iter().for_each(|seat| seat.table.set_heirs(heirs));
    }

    /// This master's workers are asked to leave while another one serves: its workers follow.
    pub(crate) fn leave_datagrams(&self) {
        self.name_heirs();
        let Some(other) = self.upgrade.other.as_ref().filter(|_| self.upgrade.shares_sockets()) else {
            return;
        };
        let ports = datagram_ports(&other.holds);
        self.own_seats().iter().for_each(|seat| seat.table.set_followed(ports));
    }

    /// The other master leaves, or is gone: this one's workers follow.
    pub(super) fn follow_datagrams(&mut self) {
        self.name_heirs();
        self.generation.sockets.join_datagrams();
        let ports = self.generation.sockets.datagram_ports();
        self.upgrade.seats.retain(|seat| !seat.table.is_idle());
        self.upgrade.seats.iter().for_each(|seat| seat.table.set_followed(ports));
    }
}
