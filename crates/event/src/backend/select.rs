//! The `select` backend: level-triggered, and unable to watch a descriptor of 1024 or more.
//!
//! A descriptor that it cannot represent is refused with an error that says so; the connection
//! behind it closes.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use drover_sys::select::{self, DescriptorSet, LIMIT};
use nix::sys::signal::SigSet;
use tracing::debug;

use super::{Backend, Kind, Mode, Registration, Report, as_timeout};
use crate::event::Direction;
use crate::token::Token;

/// One worker's sets.
pub struct SelectBackend {
    reading: DescriptorSet,
    writing: DescriptorSet,
    tokens: Vec<Token>,
    /// One more than the highest descriptor that was ever watched.
    end: RawFd,
}

impl Default for SelectBackend {
    fn default() -> Self {
        Self {
            reading: DescriptorSet::default(),
            writing: DescriptorSet::default(),
            tokens: vec![Token::NOTIFIER; LIMIT as usize],
            end: 0,
        }
    }
}

impl SelectBackend {
    /// Empty sets.
    pub fn new() -> Self {
        Self::default()
    }

    fn want(&mut self, descriptor: RawFd, token: Token, direction: Direction) -> io::Result<()> {
        if !DescriptorSet::can_hold(descriptor) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("select cannot watch descriptor {descriptor}: its limit is {LIMIT}"),
            ));
        }
        debug!(fd = descriptor, "select wants: {direction:?}");
        self.set_of(direction).set(descriptor, true);
        self.tokens[descriptor as usize] = token;
        self.end = self.end.max(descriptor + 1);
        Ok(())
    }

    fn unwant(&mut self, descriptor: RawFd, direction: Direction) {
        if DescriptorSet::can_hold(descriptor) {
            debug!(fd = descriptor, "select wants no longer: {direction:?}");
            self.set_of(direction).set(descriptor, false);
        }
    }

    fn set_of(&mut self, direction: Direction) -> &mut DescriptorSet {
        match direction {
            Direction::Read => &mut self.reading,
            Direction::Write => &mut self.writing,
        }
    }
}

impl Backend for SelectBackend {
    fn name(&self) -> &'static str {
        "select"
    }

    fn kind(&self) -> Kind {
        Kind { edge: false, reports_end: false, exclusive: false }
    }

    fn add(&mut self, target: Registration, direction: Direction, _: Mode) -> io::Result<()> {
        self.want(target.descriptor, target.token, direction)
    }

    fn del(&mut self, target: Registration, direction: Direction) -> io::Result<()> {
        self.unwant(target.descriptor, direction);
        Ok(())
    }

    fn add_connection(&mut self, target: Registration) -> io::Result<()> {
        self.want(target.descriptor, target.token, Direction::Read)?;
        self.want(target.descriptor, target.token, Direction::Write)
    }

    fn del_connection(&mut self, target: Registration, _: bool) -> io::Result<()> {
        self.unwant(target.descriptor, Direction::Read);
        self.unwant(target.descriptor, Direction::Write);
        Ok(())
    }

    fn notify(&mut self, descriptor: BorrowedFd<'_>, token: Token) -> io::Result<()> {
        self.want(descriptor.as_raw_fd(), token, Direction::Read)
    }

    fn process_events(
        &mut self,
        timeout_ms: Option<u32>,
        signals: Option<&SigSet>,
        reports: &mut Vec<Report>,
    ) -> io::Result<()> {
        let timeout = as_timeout(timeout_ms);
        debug!("select timer: {timeout}");
        let (mut reading, mut writing) = (self.reading, self.writing);
        let mut left = match select::wait(self.end, &mut reading, &mut writing, timeout, signals) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(error),
        };
        for descriptor in 0..self.end {
            if left == 0 {
                break;
            }
            let (readable, writable) = (reading.has(descriptor), writing.has(descriptor));
            if readable || writable {
                left -= usize::from(readable) + usize::from(writable);
                let token = self.tokens[descriptor as usize];
                reports.push(Report {
                    token,
                    readable,
                    writable,
                    ended: false,
                    broken: false,
                    urgent: false,
                });
            }
        }
        Ok(())
    }
}
