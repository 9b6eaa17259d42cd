//! What became of each directive.

use std::fmt;

use crate::tree::{Directive, Place};

/// What became of a directive, in the order in which the report groups them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Outcome {
    /// It means the same in drover.
    CarriedOver,
    /// It was carried over, with a difference that can be seen.
    Differs,
    /// It has no effect in drover, and needs none.
    NoEffect,
    /// drover has nothing for it.
    NotSupported,
}

impl Outcome {
    const ALL: [Outcome; 4] =
        [Outcome::CarriedOver, Outcome::Differs, Outcome::NoEffect, Outcome::NotSupported];

    fn heading(self) -> &'static str {
        match self {
            Outcome::CarriedOver => "carried over",
            Outcome::Differs => "carried over with a difference",
            Outcome::NoEffect => "no effect in drover",
            Outcome::NotSupported => "not supported",
        }
    }
}

/// A directive and what became of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Where it stands.
    pub place: Place,
    /// The directive, its block left out.
    pub directive: String,
    /// What became of it.
    pub outcome: Outcome,
    /// What differs, or why it was left out.
    pub remark: String,
}

/// All directives of a configuration.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    entries: Vec<Entry>,
    /// What is to be said of no directive in particular.
    remarks: Vec<String>,
}

impl Report {
    pub(crate) fn note(&mut self, directive: &Directive, outcome: Outcome, remark: impl Into<String>) {
        self.entries.push(Entry {
            place: directive.place.clone(),
            directive: directive.line(),
            outcome,
            remark: remark.into(),
        });
    }

    pub(crate) fn say(&mut self, remark: impl Into<String>) {
        self.remarks.push(remark.into());
    }

    /// What was noted, in the order of the files.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Whether everything was carried over, or has no effect.
    pub fn is_complete(&self) -> bool {
        self.entries.iter().all(|entry| entry.outcome != Outcome::NotSupported)
    }

    /// How many directives became this.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.entries.iter().filter(|entry| entry.outcome == outcome).count()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for outcome in Outcome::ALL {
            let count = self.count(outcome);
            if count == 0 {
                continue;
            }
            writeln!(formatter, "{} ({count}):", outcome.heading())?;
            // What went well needs no reading line by line.
            if outcome == Outcome::CarriedOver {
                continue;
            }
            for entry in self.entries.iter().filter(|entry| entry.outcome == outcome) {
                writeln!(formatter, "  {}: {}", entry.place, entry.directive)?;
                if !entry.remark.is_empty() {
                    writeln!(formatter, "      {}", entry.remark)?;
                }
            }
        }
        if !self.remarks.is_empty() {
            writeln!(formatter, "also different ({}):", self.remarks.len())?;
        }
        self.remarks.iter().try_for_each(|remark| writeln!(formatter, "  {remark}"))
    }
}
