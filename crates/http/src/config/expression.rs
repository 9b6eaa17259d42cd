//! Regular expressions as values of the config.

use drover_config::Leaf;
use regex::bytes::{Regex, RegexBuilder};

/// A regular expression that compiles. It is matched against bytes, in time linear in their number.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Expression(String);

impl Expression {
    /// The expression written so.
    ///
    /// # Errors
    /// What is wrong with it, in a few words.
    pub fn new(text: &str) -> Result<Expression, String> {
        compile(text).map(|_| Expression(text.to_owned()))
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The names of its named groups.
    pub(crate) fn group_names(&self) -> Vec<String> {
        compile(&self.0)
            .map_or_else(|_| Vec::new(), |regex| regex.capture_names().flatten().map(str::to_owned).collect())
    }

    pub(crate) fn compile(&self) -> Result<Regex, String> {
        compile(&self.0)
    }
}

fn compile(text: &str) -> Result<Regex, String> {
    // What is matched is bytes of no certain encoding.
    let regex = RegexBuilder::new(text).unicode(false).build();
    regex.map_err(|fault| {
        // A fault of the syntax is drawn over several lines, the last of which says what it is.
        let text = fault.to_string();
        let last = text.lines().last().unwrap_or_default();
        last.strip_prefix("error: ").unwrap_or(last).to_owned()
    })
}

impl Leaf for Expression {
    const TYPE: &'static str = "regular expression";
    const HELP: &'static str = r"such as '^/users/([0-9]+)$'; (?i) in front of it ignores case";

    fn parse(text: &str) -> Result<Expression, String> {
        Expression::new(text)
    }

    fn text(&self) -> String {
        self.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_in_one_line() {
        assert_eq!(Expression::new("a(b").expect_err("a group is open"), "unclosed group");
        assert_eq!(Expression::new(r"(?=a)").expect_err("not regular").lines().count(), 1);
        assert!(Expression::new(r"^/(?<year>\d{4})/(?i)[^/]+\.PHP$").is_ok());
    }

    #[test]
    fn bytes_are_matched_whatever_they_are() {
        let regex = Expression::new("^/a.c$").and_then(|own| own.compile()).expect("it compiles");
        assert!(regex.is_match(b"/a\xffc"));
    }

    #[test]
    fn named_groups_are_known() {
        let expression = Expression::new(r"^(?<sub>.+)\.(?<name>[a-z]+)\.(org|net)$").expect("it compiles");
        assert_eq!(expression.group_names(), ["sub", "name"]);
    }
}
