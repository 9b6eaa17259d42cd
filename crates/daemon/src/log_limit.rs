//! How many lines a second one place in the code may log.
//!
//! A peer that can have a line logged can have many: the first ones of a second are written, the others counted.
//! The count is told once the second is over, before the next line, whoever logs it. Lines at debug level are wanted
//! all, or they would not be asked for.

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::{Level, Metadata};

/// Over what time lines are counted.
const PERIOD: Duration = Duration::from_secs(1);

/// What each place has logged lately.
#[derive(Debug)]
pub(crate) struct Limit {
    /// Lines of one place within a period; zero for no limit.
    most: u32,
    sites: HashMap<Identifier, Site>,
    /// Lines that were held back and are not told of yet.
    untold: u64,
}

#[derive(Debug)]
struct Site {
    metadata: &'static Metadata<'static>,
    since: Instant,
    lines: u32,
    held_back: u64,
}

/// Lines of one place that were held back.
#[derive(Debug)]
pub(crate) struct HeldBack {
    metadata: &'static Metadata<'static>,
    lines: u64,
}

impl Limit {
    /// At most this many lines of one place a second; zero for no limit.
    pub(crate) fn new(most: u32) -> Self {
        Self { most, sites: HashMap::new(), untold: 0 }
    }

    /// Changes how many; what was counted stays.
    pub(crate) fn set_most(&mut self, most: u32) {
        self.most = most;
    }

    /// Whether another line of that place is to be written now; counts it.
    pub(crate) fn admits(&mut self, metadata: &'static Metadata<'static>, now: Instant) -> bool {
        if self.most == 0 || *metadata.level() >= Level::DEBUG {
            return true;
        }
        let fresh = || Site { metadata, since: now, lines: 0, held_back: 0 };
        let site = self.sites.entry(metadata.callsite()).or_insert_with(fresh);
        if site.is_over(now) {
            (site.since, site.lines) = (now, 0);
        }
        site.lines = site.lines.saturating_add(1);
        let admitted = site.lines <= self.most;
        if !admitted {
            site.held_back += 1;
            self.untold += 1;
        }
        admitted
    }

    /// What was held back and can be told by now; in the end everything.
    pub(crate) fn take_held_back(&mut self, now: Instant, in_the_end: bool) -> Vec<HeldBack> {
        if self.untold == 0 {
            return Vec::new();
        }
        let due =
            self.sites.values_mut().filter(|site| site.held_back > 0 && (in_the_end || site.is_over(now)));
        let take = |site: &mut Site| HeldBack {
            metadata: site.metadata,
            lines: std::mem::take(&mut site.held_back),
        };
        let taken: Vec<HeldBack> = due.map(take).collect();
        self.untold -= taken.iter().map(|held_back| held_back.lines).sum::<u64>();
        taken
    }

    /// Forgets what was counted: it is another process's to tell.
    pub(crate) fn forget(&mut self) {
        self.sites.clear();
        self.untold = 0;
    }
}

impl Site {
    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.since) >= PERIOD
    }
}

impl HeldBack {
    /// The level of the lines.
    pub(crate) fn level(&self) -> Level {
        *self.metadata.level()
    }
}

impl fmt::Display for HeldBack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines =
            if self.lines == 1 { "1 more line".to_owned() } else { format!("{} more lines", self.lines) };
        write!(formatter, "{lines} of {}", self.metadata.target())?;
        if let (Some(file), Some(line)) = (self.metadata.file(), self.metadata.line()) {
            write!(formatter, " ({file}:{line})")?;
        }
        formatter.write_str(" held back")
    }
}
