//! The alarm behind `timer_resolution`: a periodic timer that ends the wait.
//!
//! Handlers see a clock that moves once in this period, and no wait has a limit of its own, at the
//! price of timers that are late by up to the resolution.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::unistd;

pub(crate) struct Alarm(TimerFd);

impl Alarm {
    /// An alarm that rings every `period`.
    pub(crate) fn every(period: Duration) -> io::Result<Self> {
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        timer.set(Expiration::Interval(TimeSpec::from_duration(period)), TimerSetTimeFlags::empty())?;
        Ok(Self(timer))
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Takes the ringing back, for backends that would report it until then.
    pub(crate) fn reset(&self) {
        let mut count = [0; size_of::<u64>()];
        // Nothing to read (EAGAIN) means that it has not rung again.
        let _ = unistd::read(&self.0, &mut count);
    }
}
