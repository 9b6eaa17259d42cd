//! The clocks that the scoreboard is stamped with.

use std::time::SystemTime;

use nix::time::{ClockId, clock_gettime};

/// Unix time, in milliseconds.
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

/// The monotonic clock, in milliseconds: what workers stamp their turns with.
pub(crate) fn monotonic_ms() -> u64 {
    // It exists on every Linux.
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |time| (time.tv_sec() * 1000 + time.tv_nsec() / 1_000_000) as u64)
}
