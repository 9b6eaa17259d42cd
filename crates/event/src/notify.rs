//! The notifier: how another thread or process wakes a worker that sleeps.
//!
//! An eventfd that the backend watches edge-triggered with a token of its own; it takes no slot and
//! is never read, as each write is a new edge. Wakes of tasks from other threads leave the token
//! in the inbox first.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::unistd;

use crate::token::Token;

/// Wakes one worker. Cheap to clone, and free to go to other threads.
#[derive(Clone, Debug)]
pub struct Notifier {
    descriptor: Arc<OwnedFd>,
    inbox: Arc<Mutex<Vec<Token>>>,
}

/// The worker that wakes from threads without one go to: the one made last in this process, and a
/// worker is a process.
static FOREIGN: Mutex<Option<Notifier>> = Mutex::new(None);

impl Notifier {
    /// An eventfd fit for a notifier.
    ///
    /// # Errors
    /// What `eventfd(2)` reports.
    pub fn descriptor() -> io::Result<OwnedFd> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(EventFd::from_flags(flags)?.into())
    }

    pub(crate) fn install(descriptor: OwnedFd) -> Self {
        let notifier = Self { descriptor: Arc::new(descriptor), inbox: Arc::default() };
        *FOREIGN.lock().unwrap_or_else(PoisonError::into_inner) = Some(notifier.clone());
        notifier
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Ends the worker's sleep, or keeps it from falling asleep once.
    pub fn notify(&self) {
        // A full counter (EAGAIN) means that the worker has been notified already.
        let _ = unistd::write(&self.descriptor, &1u64.to_ne_bytes());
    }

    /// Takes the notification back, for backends that would report it until then.
    pub(crate) fn reset(&self) {
        let mut counter = [0; size_of::<u64>()];
        // An empty counter (EAGAIN) means that there is nothing to take back.
        let _ = unistd::read(&self.descriptor, &mut counter);
    }

    /// Has the worker resume the task of `token`.
    pub(crate) fn wake(&self, token: Token) {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner).push(token);
        self.notify();
    }

    /// Wakes a task of the worker that this process runs, from a thread that is not the worker's.
    pub(crate) fn wake_from_elsewhere(token: Token) {
        let notifier = FOREIGN.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(notifier) = notifier {
            notifier.wake(token);
        }
    }

    /// The tasks woken since this was last asked.
    pub(crate) fn take_woken(&self) -> Vec<Token> {
        std::mem::take(&mut *self.inbox.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
