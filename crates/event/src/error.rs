//! What can go wrong in the engine, said with what was being done to what.

use std::io;

use crate::connection::Asked;

/// A failure that the worker as a whole has to deal with.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The backend could not be made.
    #[error("installing the {backend} backend")]
    Install {
        /// Its name.
        backend: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The backend's wait failed.
    #[error("waiting for events with {backend}")]
    Wait {
        /// The backend's name.
        backend: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The backend refused a descriptor.
    #[error("watching {what}")]
    Watch {
        /// The descriptor's meaning.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// No slot is left for something that the worker cannot do without.
    #[error("no slot is left for {what}: worker_connections is {connections}")]
    NoSlot {
        /// What needed it.
        what: String,
        /// How many slots there are in all.
        connections: u32,
    },
}

/// Why an operation on a stream did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The time-out set on this direction passed.
    #[error("timed out")]
    TimedOut,
    /// The engine wants the connection closed.
    #[error("asked to close: {0:?}")]
    Asked(Asked),
    /// The system call failed: the peer reset the connection, or worse.
    #[error(transparent)]
    Io(#[from] io::Error),
}
