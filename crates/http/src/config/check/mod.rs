//! What is checked across the keys of `[http]`.
//!
//! Pure: nothing here asks the system.

mod compression;
mod listen;
mod location;
mod names;
mod texts;

use drover_config::Findings;

use super::{Accept, Http};

/// What a check of `[http]` has to be told.
pub struct CheckContext<'a> {
    /// The accept strategy of `[events]`.
    pub accept: Accept,
    /// Says what is wrong with the variables of a text such as a log format, if anything is.
    pub variables: &'a dyn Fn(&str) -> Result<(), WrongVariable>,
}

/// A variable that is wrong, and where in its text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrongVariable {
    /// What is wrong, in a few words.
    pub message: String,
    /// The first byte of the fault.
    pub offset: usize,
    /// How many bytes it takes.
    pub length: usize,
    /// What would be right, if that is known.
    pub help: Option<String>,
}

impl Http {
    /// Adds findings about everything that goes across keys.
    pub fn check(&self, context: &CheckContext<'_>, findings: &mut Findings) {
        listen::check(self, context.accept, findings);
        names::check(self, findings);
        location::check(self, findings);
        compression::check(self, findings);
        texts::check(self, context, findings);
    }
}
