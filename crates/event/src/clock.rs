//! The cached clock: every handler of a turn sees the same "now".
//!
//! The monotonic clock drives timers and is read once a turn, on waking. The wall clock is for
//! people: it is read when somebody asks, at most once a turn, and its date string is made at most
//! once a second. A step of the wall clock moves no timer.

use std::cell::{Cell, Ref, RefCell};
use std::time::{Duration, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};

/// Milliseconds of the monotonic clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Millis(u64);

impl Millis {
    /// This many milliseconds after the clock's unspecified start.
    pub const fn new(milliseconds: u64) -> Self {
        Self(milliseconds)
    }

    /// Milliseconds since the clock's unspecified start.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The whole milliseconds of a time in nanoseconds.
    pub(crate) const fn from_nanos(nanos: u64) -> Self {
        Self(nanos / NANOS_PER_MILLI)
    }

    /// Milliseconds from `earlier` to this; zero if that is not earlier.
    pub const fn since(self, earlier: Millis) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The key of a timer that is due `delay_ms` from now.
    pub(crate) const fn key_after(self, delay_ms: u32) -> u32 {
        (self.0 as u32).wrapping_add(delay_ms)
    }
}

const NANOS_PER_MILLI: u64 = 1_000_000;

/// Where time comes from. Tests of the loop use a clock that stands still until told otherwise.
pub(crate) enum Source {
    /// `CLOCK_MONOTONIC`.
    System,
    /// A number that a test sets.
    Scripted(std::rc::Rc<Cell<u64>>),
}

/// The clock of one worker.
pub(crate) struct Clock {
    source: Source,
    now: Cell<Millis>,
    /// The turn in which the wall clock was last read.
    turn: Cell<u64>,
    wall_turn: Cell<u64>,
    wall: RefCell<WallClock>,
}

impl Clock {
    /// A clock that has been read once.
    pub(crate) fn new(source: Source) -> Self {
        let clock = Self {
            source,
            now: Cell::default(),
            turn: Cell::new(1),
            wall_turn: Cell::new(0),
            wall: RefCell::new(WallClock::default()),
        };
        clock.refresh(Millis::from_nanos(clock.read_nanos()));
        clock
    }

    /// The cached time.
    pub(crate) fn now(&self) -> Millis {
        self.now.get()
    }

    /// Reads the clock without changing what handlers see, for accounting: in nanoseconds.
    pub(crate) fn read_nanos(&self) -> u64 {
        match &self.source {
            Source::System => {
                // The monotonic clock exists on every Linux; an error would be a broken kernel,
                // and then time stands still rather than the worker ending.
                clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(self.now.get().0 * NANOS_PER_MILLI, |time| {
                    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
                })
            }
            Source::Scripted(now) => now.get() * NANOS_PER_MILLI,
        }
    }

    /// Sets the time that the turn which begins sees.
    pub(crate) fn refresh(&self, now: Millis) {
        self.now.set(now);
        self.turn.set(self.turn.get().wrapping_add(1));
    }

    /// The wall clock as of this turn.
    pub(crate) fn wall(&self) -> Ref<'_, WallClock> {
        if self.wall_turn.get() != self.turn.get() {
            self.wall_turn.set(self.turn.get());
            // Whoever still looks at the last turn's time keeps it, and so does everybody else.
            if let (Ok(time), Ok(mut wall)) =
                (clock_gettime(ClockId::CLOCK_REALTIME_COARSE), self.wall.try_borrow_mut())
            {
                wall.update(time.tv_sec(), time.tv_nsec() as u32 / 1_000_000);
            }
        }
        self.wall.borrow()
    }
}

/// The wall clock with its date as text.
#[derive(Debug)]
pub struct WallClock {
    seconds: i64,
    milliseconds: u32,
    http_date: [u8; HTTP_DATE_LENGTH],
}

/// The length of an IMF-fixdate (RFC 9110, section 5.6.7).
pub const HTTP_DATE_LENGTH: usize = 29;

impl Default for WallClock {
    fn default() -> Self {
        Self { seconds: 0, milliseconds: 0, http_date: http_date(0) }
    }
}

impl WallClock {
    fn update(&mut self, seconds: i64, milliseconds: u32) {
        self.milliseconds = milliseconds;
        if self.seconds != seconds {
            self.seconds = seconds;
            self.http_date = http_date(seconds);
        }
    }

    /// Seconds since the epoch.
    pub fn unix_seconds(&self) -> i64 {
        self.seconds
    }

    /// Milliseconds since the epoch.
    pub fn unix_millis(&self) -> i64 {
        self.seconds * 1000 + i64::from(self.milliseconds)
    }

    /// The date as HTTP writes it, such as `Sun, 06 Nov 1994 08:49:37 GMT`.
    pub fn http_date(&self) -> &[u8; HTTP_DATE_LENGTH] {
        &self.http_date
    }
}

/// `seconds` since the epoch as an IMF-fixdate.
fn http_date(seconds: i64) -> [u8; HTTP_DATE_LENGTH] {
    // Seconds since the epoch, and no others: httpdate knows the years 1970 to 9999.
    let time = UNIX_EPOCH + Duration::from_secs(seconds.clamp(0, LAST_SECOND) as u64);
    let mut text = [b' '; HTTP_DATE_LENGTH];
    text.copy_from_slice(httpdate::fmt_http_date(time).as_bytes());
    text
}

/// The last second of the year 9999, the last year that an IMF-fixdate can name.
const LAST_SECOND: i64 = 253_402_300_799;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_has_one_length_whatever_the_second() {
        assert_eq!(&http_date(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(http_date(i64::MIN), http_date(0));
        assert_eq!(http_date(i64::MAX), http_date(LAST_SECOND));
    }

    #[test]
    fn now_stands_still_until_the_clock_is_refreshed() {
        let time = std::rc::Rc::new(Cell::new(5));
        let clock = Clock::new(Source::Scripted(time.clone()));
        time.set(9);
        assert_eq!(clock.now(), Millis(5));
        clock.refresh(Millis::from_nanos(clock.read_nanos()));
        assert_eq!(clock.now(), Millis(9));
        assert_eq!(clock.now().since(Millis(5)), 4);
        assert_eq!(Millis(5).since(clock.now()), 0);
    }
}
