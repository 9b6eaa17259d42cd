//! Waiting for something to become true, with a deadline.

use std::thread;
use std::time::{Duration, Instant};

/// Ample for anything that should happen at once, on a busy machine too.
pub const SOON: Duration = Duration::from_secs(15);

const PAUSE: Duration = Duration::from_millis(5);

/// What passes at most between two looks of somebody who is not held up.
const MOMENT: Duration = Duration::from_millis(500);

/// Asks `probe` until it has an answer, at most [`SOON`] long.
///
/// # Panics
///
/// When the deadline passes: `what` did not happen.
#[track_caller]
pub fn eventually<T>(what: &str, probe: impl FnMut() -> Option<T>) -> T {
    eventually_within(SOON, what, probe)
}

/// Asks `probe` until it has an answer, at most `deadline` long.
///
/// # Panics
///
/// When the deadline passes: `what` did not happen.
#[track_caller]
pub fn eventually_within<T>(deadline: Duration, what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let mut patience = Patience::new(deadline);
    loop {
        let lasts = patience.lasts();
        if let Some(answer) = probe() {
            return answer;
        }
        assert!(lasts, "within {deadline:?} this did not happen: {what}");
        thread::sleep(PAUSE);
    }
}

/// How long something is waited for. While the machine itself stands still nothing can happen, and nothing counts.
#[derive(Debug)]
pub struct Patience {
    left: Duration,
    looked: Instant,
}

impl Patience {
    /// Lasts for so long.
    pub fn new(time: Duration) -> Patience {
        Patience { left: time, looked: Instant::now() }
    }

    /// Whether there is some left. To be asked again and again.
    pub fn lasts(&mut self) -> bool {
        let passed = self.looked.elapsed().min(MOMENT);
        self.looked = Instant::now();
        self.left = self.left.saturating_sub(passed);
        !self.left.is_zero()
    }
}

/// True when `probe` stays true for `time`.
pub fn stays(time: Duration, mut probe: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < time {
        if !probe() {
            return false;
        }
        thread::sleep(PAUSE);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_as_soon_as_there_is_one() {
        let mut left = 3;
        let answer = eventually("three tries", || {
            left -= 1;
            (left == 0).then_some("done")
        });
        assert_eq!(answer, "done");
    }

    #[test]
    #[should_panic(expected = "this did not happen: the impossible")]
    fn names_what_did_not_happen() {
        eventually_within(Duration::from_millis(20), "the impossible", || None::<()>);
    }
}
