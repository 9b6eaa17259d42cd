//! What is checked across the keys of `[http]`.

use drover_config::Findings;

use super::Http;

/// Says what is wrong with the variables of a text such as a log format, if anything is.
pub type Variables<'a> = dyn Fn(&str) -> Result<(), String> + 'a;

impl Http {
    /// Adds findings about what goes across keys. `variables` checks the texts that have variables in them.
    pub fn check(&self, _variables: &Variables<'_>, _findings: &mut Findings) {}
}
