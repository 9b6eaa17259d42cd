//! The `poll` backend: level-triggered, with a list that is kept between waits.
//!
//! Adding and removing are stores in that list and cost no system call. The engine takes a
//! direction out when it is reported and puts it back when a task waits for it again.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use drover_sys::poll::{ERR, HUP, IN, INVALID, OUT, PRI, PollList, RDHUP};
use nix::sys::signal::SigSet;
use tracing::debug;

use super::{Backend, Kind, Mode, Registration, Report, as_timeout};
use crate::event::Direction;
use crate::token::Token;

const ABSENT: u32 = u32::MAX;

/// One worker's list of descriptors.
#[derive(Default)]
pub struct PollBackend {
    list: PollList,
    /// The token of each entry of the list.
    tokens: Vec<Token>,
    descriptors: Vec<RawFd>,
    /// The place in the list by descriptor.
    places: Vec<u32>,
}

impl PollBackend {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    fn place(&self, descriptor: RawFd) -> Option<usize> {
        let place = *self.places.get(usize::try_from(descriptor).ok()?)?;
        (place != ABSENT).then_some(place as usize)
    }

    fn want(&mut self, descriptor: RawFd, token: Token, wanted: i16) -> io::Result<()> {
        debug!(fd = descriptor, "poll wants: mask {wanted:04x}");
        if let Some(place) = self.place(descriptor) {
            self.list.set(place, wanted);
            self.tokens[place] = token;
            return Ok(());
        }
        let index = usize::try_from(descriptor).map_err(io::Error::other)?;
        if self.places.len() <= index {
            self.places.resize(index + 1, ABSENT);
        }
        self.places[index] = self.list.len() as u32;
        self.list.push(descriptor, wanted);
        self.tokens.push(token);
        self.descriptors.push(descriptor);
        Ok(())
    }

    fn forget(&mut self, descriptor: RawFd) {
        let Some(place) = self.place(descriptor) else { return };
        debug!(fd = descriptor, "poll forgets");
        self.list.swap_remove(place);
        self.tokens.swap_remove(place);
        self.descriptors.swap_remove(place);
        if let Some(&moved) = self.descriptors.get(place) {
            self.places[moved as usize] = place as u32;
        }
        self.places[descriptor as usize] = ABSENT;
    }
}

fn mask(reading: bool, writing: bool) -> i16 {
    let read = if reading { IN | PRI | RDHUP } else { 0 };
    read | if writing { OUT } else { 0 }
}

impl Backend for PollBackend {
    fn name(&self) -> &'static str {
        "poll"
    }

    fn kind(&self) -> Kind {
        Kind { edge: false, reports_end: true, exclusive: false }
    }

    fn add(&mut self, target: Registration, direction: Direction, _: Mode) -> io::Result<()> {
        let reading = target.reading || direction == Direction::Read;
        let writing = target.writing || direction == Direction::Write;
        self.want(target.descriptor, target.token, mask(reading, writing))
    }

    fn del(&mut self, target: Registration, direction: Direction) -> io::Result<()> {
        let reading = target.reading && direction != Direction::Read;
        let writing = target.writing && direction != Direction::Write;
        if reading || writing {
            return self.want(target.descriptor, target.token, mask(reading, writing));
        }
        self.forget(target.descriptor);
        Ok(())
    }

    fn add_connection(&mut self, target: Registration) -> io::Result<()> {
        self.want(target.descriptor, target.token, mask(true, true))
    }

    fn del_connection(&mut self, target: Registration, _: bool) -> io::Result<()> {
        self.forget(target.descriptor);
        Ok(())
    }

    fn notify(&mut self, descriptor: BorrowedFd<'_>, token: Token) -> io::Result<()> {
        self.want(descriptor.as_raw_fd(), token, IN)
    }

    fn process_events(
        &mut self,
        timeout_ms: Option<u32>,
        signals: Option<&SigSet>,
        reports: &mut Vec<Report>,
    ) -> io::Result<()> {
        let timeout = as_timeout(timeout_ms);
        debug!("poll timer: {timeout}");
        let mut left = match self.list.wait(timeout, signals) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(error),
        };
        for (place, &token) in self.tokens.iter().enumerate() {
            if left == 0 {
                break;
            }
            let (wanted, found) = self.list.entry(place);
            if found == 0 {
                continue;
            }
            left -= 1;
            let broken = found & (ERR | HUP | INVALID) != 0;
            reports.push(Report {
                token,
                readable: wanted & IN != 0 && (broken || found & (IN | PRI | RDHUP) != 0),
                writable: wanted & OUT != 0 && (broken || found & OUT != 0),
                ended: broken || found & RDHUP != 0,
                broken,
                urgent: found & PRI != 0,
            });
        }
        Ok(())
    }
}
