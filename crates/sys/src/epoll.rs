//! `epoll(7)` with a signal mask for the wait, which nix lacks.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use nix::sys::signal::SigSet;

/// Readable (`EPOLLIN`).
pub const IN: u32 = libc::EPOLLIN as u32;
/// Writable (`EPOLLOUT`).
pub const OUT: u32 = libc::EPOLLOUT as u32;
/// Urgent data are there (`EPOLLPRI`).
pub const PRI: u32 = libc::EPOLLPRI as u32;
/// An error is pending (`EPOLLERR`).
pub const ERR: u32 = libc::EPOLLERR as u32;
/// Both directions are shut (`EPOLLHUP`).
pub const HUP: u32 = libc::EPOLLHUP as u32;
/// The peer shut its sending side (`EPOLLRDHUP`).
pub const RDHUP: u32 = libc::EPOLLRDHUP as u32;
/// Report changes only (`EPOLLET`).
pub const EDGE: u32 = libc::EPOLLET as u32;
/// Wake one or a few of the epoll instances that watch the descriptor (`EPOLLEXCLUSIVE`).
pub const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;

/// What [`Epoll::control`] does with a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `EPOLL_CTL_ADD`
    Add,
    /// `EPOLL_CTL_MOD`
    Modify,
    /// `EPOLL_CTL_DEL`
    Delete,
}

/// One epoll instance and the array its waits fill.
pub struct Epoll {
    descriptor: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Epoll {
    /// Makes an instance (close-on-exec) whose waits return at most `events` reports.
    ///
    /// # Errors
    /// What `epoll_create1(2)` reports.
    pub fn new(events: usize) -> io::Result<Self> {
        // SAFETY: takes no pointer; the result is checked before it is used.
        let descriptor = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just gave this descriptor to us and nobody else owns it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Ok(Self { descriptor, events: vec![libc::epoll_event { events: 0, u64: 0 }; events.max(1)] })
    }

    /// Adds, changes or deletes the registration of `target`.
    ///
    /// # Errors
    /// What `epoll_ctl(2)` reports.
    pub fn control(&self, operation: Operation, target: RawFd, mask: u32, data: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: mask, u64: data };
        let operation = match operation {
            Operation::Add => libc::EPOLL_CTL_ADD,
            Operation::Modify => libc::EPOLL_CTL_MOD,
            Operation::Delete => libc::EPOLL_CTL_DEL,
        };
        // SAFETY: `event` lives through the call; a bad `target` makes the kernel answer EBADF.
        let result = unsafe { libc::epoll_ctl(self.descriptor.as_raw_fd(), operation, target, &mut event) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Sleeps until something is reported or `timeout_ms` (-1: no limit) has passed, with `mask`
    /// as the signal mask meanwhile, and returns how many reports there are.
    ///
    /// # Errors
    /// What `epoll_pwait(2)` reports; `Interrupted` when a signal that `mask` lets through came.
    pub fn wait(&mut self, timeout_ms: i32, mask: Option<&SigSet>) -> io::Result<usize> {
        let mask = mask.map_or(ptr::null(), |mask| ptr::from_ref::<libc::sigset_t>(mask.as_ref()));
        let capacity = i32::try_from(self.events.len()).unwrap_or(i32::MAX);
        // SAFETY: the kernel writes at most `capacity` entries into `events`, which has as many;
        // `mask` is null or points to a signal set that outlives the call.
        let count = unsafe {
            libc::epoll_pwait(
                self.descriptor.as_raw_fd(),
                self.events.as_mut_ptr(),
                capacity,
                timeout_ms,
                mask,
            )
        };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }

    /// The mask and the data of report `index` of the last wait.
    ///
    /// # Panics
    /// If `index` is not below the size given to [`Epoll::new`].
    pub fn report(&self, index: usize) -> (u32, u64) {
        let event = self.events[index];
        (event.events, event.u64)
    }
}
