//! The `epoll` backend: connections edge-triggered and registered once, listeners level-triggered.
//!
//! The first direction of a connection adds the descriptor, the second modifies it, removing one of
//! two modifies again, and closing needs no call: the kernel forgets a registration with the last
//! descriptor of its socket. `EPOLLEXCLUSIVE` forbids `EPOLLRDHUP` and `EPOLL_CTL_MOD`
//! (epoll_ctl(2)), so exclusive listeners are only ever added and deleted.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use drover_sys::epoll::{EDGE, ERR, EXCLUSIVE, Epoll, HUP, IN, OUT, Operation, PRI, RDHUP};
use nix::sys::signal::SigSet;
use tracing::debug;

use super::{Backend, Kind, Mode, Registration, Report, as_timeout};
use crate::event::Direction;
use crate::token::Token;

const READ_MASK: u32 = IN | PRI | RDHUP;

/// One worker's epoll instance.
pub struct EpollBackend {
    epoll: Epoll,
}

impl EpollBackend {
    /// An instance whose waits return at most `events` reports.
    ///
    /// # Errors
    /// What `epoll_create1(2)` reports.
    pub fn new(events: u32) -> io::Result<Self> {
        Ok(Self { epoll: Epoll::new(events as usize)? })
    }

    fn control(&self, operation: Operation, target: Registration, mask: u32) -> io::Result<()> {
        debug!(fd = target.descriptor, op = ?operation, "epoll control: mask {mask:08x}");
        self.epoll.control(operation, target.descriptor, mask, target.token.as_u64())
    }
}

impl Backend for EpollBackend {
    fn name(&self) -> &'static str {
        "epoll"
    }

    fn kind(&self) -> Kind {
        Kind { edge: true, reports_end: true, exclusive: true }
    }

    fn add(&mut self, target: Registration, direction: Direction, mode: Mode) -> io::Result<()> {
        let mask = match mode {
            Mode::Listener => return self.control(Operation::Add, target, IN),
            Mode::ExclusiveListener => return self.control(Operation::Add, target, IN | EXCLUSIVE),
            Mode::Connection => match direction {
                Direction::Read => READ_MASK | if target.writing { OUT } else { 0 },
                Direction::Write => OUT | if target.reading { READ_MASK } else { 0 },
            },
        };
        let operation = if target.reading || target.writing { Operation::Modify } else { Operation::Add };
        self.control(operation, target, mask | EDGE)
    }

    fn del(&mut self, target: Registration, direction: Direction) -> io::Result<()> {
        let rest = match direction {
            Direction::Read if target.writing => OUT,
            Direction::Write if target.reading => READ_MASK,
            _ => return self.control(Operation::Delete, target, 0),
        };
        self.control(Operation::Modify, target, rest | EDGE)
    }

    fn add_connection(&mut self, target: Registration) -> io::Result<()> {
        self.control(Operation::Add, target, READ_MASK | OUT | EDGE)
    }

    fn del_connection(&mut self, target: Registration, closing: bool) -> io::Result<()> {
        if closing { Ok(()) } else { self.control(Operation::Delete, target, 0) }
    }

    fn notify(&mut self, descriptor: BorrowedFd<'_>, token: Token) -> io::Result<()> {
        self.epoll.control(Operation::Add, descriptor.as_raw_fd(), IN | EDGE, token.as_u64())
    }

    fn process_events(
        &mut self,
        timeout_ms: Option<u32>,
        signals: Option<&SigSet>,
        reports: &mut Vec<Report>,
    ) -> io::Result<()> {
        let timeout = as_timeout(timeout_ms);
        debug!("epoll timer: {timeout}");
        let count = match self.epoll.wait(timeout, signals) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(error),
        };
        for index in 0..count {
            let (mask, data) = self.epoll.report(index);
            reports.push(report(mask, Token::from_u64(data)));
        }
        Ok(())
    }
}

/// An error or hang-up wakes both directions, since whoever waits in either must learn of it by
/// trying.
fn report(mask: u32, token: Token) -> Report {
    let broken = mask & (ERR | HUP) != 0;
    Report {
        token,
        readable: broken || mask & (IN | PRI | RDHUP) != 0,
        writable: broken || mask & OUT != 0,
        ended: broken || mask & RDHUP != 0,
        broken,
        urgent: mask & PRI != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_and_hang_ups_wake_both_directions() {
        let token = Token::new(1, 1);
        let both = Report { token, readable: true, writable: true, ended: true, broken: true, urgent: false };
        assert_eq!(report(ERR, token), both);
        assert_eq!(report(HUP, token), both);
        let read = Report { writable: false, ended: false, broken: false, ..both };
        assert_eq!(report(IN, token), read);
        assert_eq!(report(PRI, token), Report { urgent: true, ..read });
        assert_eq!(report(IN | RDHUP, token), Report { ended: true, ..read });
        assert_eq!(report(OUT | ERR, token), both);
    }
}
