//! Complaints about servers in the daemon's log: at most one a second, with the number of those held back.

use std::cell::Cell;
use std::fmt;

use drover_event::{Core, Millis};
use tracing::warn;

/// The least time between two complaints.
const INTERVAL_MS: u64 = 1000;

/// What is wrong with one proxy.
#[derive(Debug, Default)]
pub(crate) struct Complaints {
    last: Cell<Option<Millis>>,
    held_back: Cell<u64>,
}

impl Complaints {
    /// Logs that clients of the proxy at `address` could not be passed on, unless that was said just now.
    pub(crate) fn complain(&self, core: &Core, address: &str, why: impl fmt::Display) {
        let now = core.now();
        if self.last.get().is_some_and(|last| now.since(last) < INTERVAL_MS) {
            self.held_back.set(self.held_back.get() + 1);
            return;
        }
        self.last.set(Some(now));
        match self.held_back.take() {
            0 => warn!("stream on {address}: {why}"),
            held_back => warn!("stream on {address}: {why} ({held_back} like it were not logged)"),
        }
    }
}
