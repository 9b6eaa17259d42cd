//! `rules`: steps that a request goes through before its location answers.

use std::collections::BTreeMap;

use drover_config::{Located, Node, Output, Reader, Shorthand, Value};

use super::{Expression, Return};

drover_config::table! {
    /// A step: what is done, and when.
    pub struct Rule {
        /// Only for requests of which this is true.
        #[example = "{ text = \"$scheme\", equals = \"http\" }"]
        pub when: Option<Located<Condition>> = None,
        /// Variables by name, without `$`, and the texts that become their values.
        #[example = "version = \"$arg_v\""]
        pub set: BTreeMap<String, Located<String>> = BTreeMap::new(),
        /// An expression; where it matches the path, `to` takes the path's place.
        #[example = "'^/users/(.*)$'"]
        pub rewrite: Option<Located<Expression>> = None,
        /// The new path of `rewrite`, with variables; a query before the old one if it has `?`, instead if it ends so.
        #[example = "\"/show?user=$1\""]
        pub to: Option<Located<String>> = None,
        /// What follows a rewrite: the next rule, another search for a location, the location at hand, or a redirect.
        pub then: Located<Then> = Then::Next.into(),
        /// A fixed answer, which ends the rules.
        #[key = "return"]
        #[example = "{ status = 403 }"]
        pub return_: Option<Located<Return>> = None,
    }
}

drover_config::choice! {
    /// What follows a rewrite.
    pub enum Then {
        /// The next rule; after the last, another search for a location.
        Next = "next",
        /// No further rule; another search for a location.
        Last = "last",
        /// No further rule; the location at hand answers.
        Break = "break",
        /// The client is sent there with 302.
        Redirect = "redirect",
        /// The client is sent there with 301.
        Permanent = "permanent",
    }
}

drover_config::table! {
    /// What has to be true of a request.
    #[table(inline, shorthand)]
    pub struct Condition {
        /// A text with variables; alone, it must be neither empty nor "0".
        pub text: Located<String>,
        /// What the text must be.
        #[example = "\"http\""]
        pub equals: Option<Located<String>> = None,
        /// An expression that must match the text.
        #[example = "'(?i)bot'"]
        pub matches: Option<Located<Expression>> = None,
        /// Whether the opposite must be true.
        pub not: bool = false,
    }
}

/// `when = "$variable"`: a text that must be neither empty nor "0".
impl Shorthand for Condition {
    const TYPE: &'static str = "string";

    fn from_value(node: &Node, reader: &mut Reader<'_>) -> Option<Condition> {
        let text = Located::read(node, reader)?;
        Some(Condition { text, equals: None, matches: None, not: false })
    }

    fn to_value(&self) -> Option<Output> {
        let alone = self.equals.is_none() && self.matches.is_none() && !self.not;
        alone.then(|| self.text.write())
    }
}
