//! So many lines a second about what clients do wrong, and no more: they cost a client nothing.

use std::cell::Cell;

use drover_event::Millis;

/// Lines a second of one worker.
const LINES: u32 = 10;

/// What may still be logged in this second.
#[derive(Debug, Default)]
pub(crate) struct LogBudget {
    second: Cell<u64>,
    lines: Cell<u32>,
    kept_back: Cell<u64>,
}

impl LogBudget {
    /// Whether a line may be logged now: if so, how many were kept back before it.
    pub(crate) fn line(&self, now: Millis) -> Option<u64> {
        let second = now.as_u64() / 1000;
        if self.second.replace(second) != second {
            self.lines.set(0);
        }
        if self.lines.get() == LINES {
            self.kept_back.set(self.kept_back.get() + 1);
            return None;
        }
        self.lines.set(self.lines.get() + 1);
        Some(self.kept_back.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_told_by_its_number() {
        let budget = LogBudget::default();
        let lines = |millis: u64, times: u32| -> Vec<u64> {
            (0..times).filter_map(|_| budget.line(Millis::new(millis))).collect()
        };
        assert_eq!(lines(1000, 1000), [0; 10]);
        assert_eq!(lines(1999, 5), []);
        assert_eq!(lines(2000, 2), [995, 0]);
    }
}
