//! What is checked across the keys of `[http]`.
//!
//! Pure: nothing here asks the system.

mod compression;
mod limits;
mod listen;
mod location;
mod names;
mod proxy;
mod rules;
mod texts;
mod try_files;

use drover_config::Findings;

use super::Http;
use crate::own::KnownNames;

impl Http {
    /// Adds findings about everything that goes across keys.
    pub fn check(&self, findings: &mut Findings) {
        let known = KnownNames::of(self);
        listen::check(self, findings);
        names::check(self, findings);
        location::check(self, findings);
        compression::check(self, findings);
        try_files::check(self, &known, findings);
        texts::check(self, &known, findings);
        rules::check(self, &known, findings);
        proxy::check(self, &known, findings);
        limits::check(self, &known, findings);
    }
}
