//! Whether it is worth trying to receive straight after an accept.

/// Whether the first receive straight after an accept is likely to find data.
///
/// Each try that finds some adds to the credit, each that finds none takes twice as much. Without
/// credit every 32nd connection is tried all the same, so that a change of habit is noticed.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Hope {
    credit: u8,
    untried: u8,
}

impl Hope {
    const ENOUGH: u8 = 4;
    const MOST: u8 = 8;
    const PROBE_EVERY: u8 = 32;

    /// Whether to try on the connection that was just accepted.
    pub(crate) fn worth_trying(&mut self) -> bool {
        if self.credit >= Self::ENOUGH {
            return true;
        }
        self.untried += 1;
        if self.untried < Self::PROBE_EVERY {
            return false;
        }
        self.untried = 0;
        true
    }

    /// Takes note of what a try found.
    pub(crate) fn tried(&mut self, found: bool) {
        self.credit = match (found, self.credit >= Self::ENOUGH) {
            (true, true) => (self.credit + 1).min(Self::MOST),
            (true, false) => Self::ENOUGH,
            (false, _) => self.credit.saturating_sub(2),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hope_is_probed_earned_and_lost() {
        let mut hope = Hope::default();
        assert_eq!((1..=64).filter(|_| hope.worth_trying()).count(), 2, "two probes in 64 accepts");
        hope.tried(true);
        assert!(hope.worth_trying());
        (0..10).for_each(|_| hope.tried(true));
        hope.tried(false);
        hope.tried(false);
        assert!(hope.worth_trying(), "two misses among many hits");
        hope.tried(false);
        assert!(!hope.worth_trying());
    }
}
