//! What is checked across the keys of `[http]`.
//!
//! Pure: nothing here asks the system.

mod listen;
mod location;
mod names;
mod proxy;
mod texts;

use drover_config::Findings;
use drover_service::{Accept, WrongVariable};

use super::Http;

/// What a check of `[http]` has to be told.
pub struct CheckContext<'a> {
    /// The accept strategy of `[events]`.
    pub accept: Accept,
    /// Says what is wrong with the variables of a text such as a log format, if anything is.
    pub variables: &'a dyn Fn(&str) -> Result<(), WrongVariable>,
}

impl Http {
    /// Adds findings about everything that goes across keys.
    pub fn check(&self, context: &CheckContext<'_>, findings: &mut Findings) {
        listen::check(self, context.accept, findings);
        names::check(self, findings);
        location::check(self, findings);
        texts::check(self, context, findings);
        proxy::check(self, context, findings);
    }
}
