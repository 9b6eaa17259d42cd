//! `ppoll(2)` over a list that is kept between waits, which nix's borrowing type cannot be.

use std::io;
use std::os::fd::RawFd;
use std::ptr;

use nix::sys::signal::SigSet;

/// Readable.
pub const IN: i16 = libc::POLLIN;
/// Writable.
pub const OUT: i16 = libc::POLLOUT;
/// Urgent data are there.
pub const PRI: i16 = libc::POLLPRI;
/// An error is pending.
pub const ERR: i16 = libc::POLLERR;
/// Both directions are shut.
pub const HUP: i16 = libc::POLLHUP;
/// The peer shut its sending side.
pub const RDHUP: i16 = libc::POLLRDHUP;
/// The descriptor is not open.
pub const INVALID: i16 = libc::POLLNVAL;

/// A list of descriptors and what is wanted of each.
#[derive(Default)]
pub struct PollList(Vec<libc::pollfd>);

impl PollList {
    /// Appends a descriptor.
    pub fn push(&mut self, descriptor: RawFd, wanted: i16) {
        self.0.push(libc::pollfd { fd: descriptor, events: wanted, revents: 0 });
    }

    /// Removes the entry at `index`, into whose place the last one moves.
    ///
    /// # Panics
    /// If there is no such entry.
    pub fn swap_remove(&mut self, index: usize) {
        self.0.swap_remove(index);
    }

    /// Changes what is wanted of the entry at `index`.
    ///
    /// # Panics
    /// If there is no such entry.
    pub fn set(&mut self, index: usize, wanted: i16) {
        self.0[index].events = wanted;
    }

    /// What is wanted, and what the last wait reported, of the entry at `index`.
    ///
    /// # Panics
    /// If there is no such entry.
    pub fn entry(&self, index: usize) -> (i16, i16) {
        (self.0[index].events, self.0[index].revents)
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sleeps until something is ready or `timeout_ms` (-1: no limit) has passed, with `mask` as
    /// the signal mask meanwhile. Returns how many entries have something to report.
    ///
    /// # Errors
    /// What `ppoll(2)` reports; `Interrupted` when a signal that `mask` lets through came.
    pub fn wait(&mut self, timeout_ms: i32, mask: Option<&SigSet>) -> io::Result<usize> {
        let limit = super::time::timespec(timeout_ms);
        let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
        let mask = mask.map_or(ptr::null(), |mask| ptr::from_ref::<libc::sigset_t>(mask.as_ref()));
        // SAFETY: the kernel reads and writes the entries of the list and no more; `limit` and
        // `mask` are null or point to values that outlive the call.
        let count = unsafe { libc::ppoll(self.0.as_mut_ptr(), self.0.len() as libc::nfds_t, limit, mask) };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }
}
