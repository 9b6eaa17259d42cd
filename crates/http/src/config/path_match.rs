//! `path`: which requests a location is for.

use std::fmt;

use drover_config::{Kind, Located, Node, Output, Reader, Shape, Value};

use super::expression::Expression;

/// Which request paths a location is for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PathMatch {
    /// Paths that begin so.
    Prefix(String),
    /// Paths that begin so, and where this is the longest, no expression is tried.
    BeforeExpressions(String),
    /// This path alone.
    Exact(String),
    /// Paths that an expression matches.
    Expression(Expression),
    /// No path: what names this leads here.
    Named(String),
}

impl PathMatch {
    /// The path or its beginning, where it is one.
    pub fn path(&self) -> Option<&str> {
        match self {
            PathMatch::Prefix(path) | PathMatch::BeforeExpressions(path) | PathMatch::Exact(path) => {
                Some(path)
            }
            PathMatch::Expression(_) | PathMatch::Named(_) => None,
        }
    }

    /// Whether of two such locations only the first could be reached.
    pub fn is_same(&self, other: &PathMatch) -> bool {
        let prefix = |path: &'_ PathMatch| match path {
            PathMatch::Prefix(path) | PathMatch::BeforeExpressions(path) => Some(path.clone()),
            _ => None,
        };
        self == other || prefix(self).is_some_and(|own| Some(own) == prefix(other))
    }
}

impl fmt::Display for PathMatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathMatch::Prefix(path) | PathMatch::BeforeExpressions(path) => write!(out, "{path}"),
            PathMatch::Exact(path) => write!(out, "{path} (exact)"),
            PathMatch::Expression(expression) => write!(out, "~ {}", expression.as_str()),
            PathMatch::Named(name) => write!(out, "@{name}"),
        }
    }
}

drover_config::table! {
    /// The long form of a path.
    #[table(inline)]
    pub struct PathForm {
        /// This path alone, rather than all that begin so. It comes before everything else.
        #[example = "\"/path\""]
        pub exact: Option<String> = None,
        /// Paths that a regular expression matches: the first in the order of the config comes before any prefix.
        #[example = "'\\.php$'"]
        pub expression: Option<Expression> = None,
        /// Paths that begin so, as in the short form.
        #[example = "\"/path/\""]
        pub prefix: Option<String> = None,
        /// Whether no expression is tried where `prefix` is the longest; else false.
        #[example = "true"]
        pub before_expressions: Option<bool> = None,
        /// No path: `"@name"` in error_pages and elsewhere leads here.
        #[example = "\"fallback\""]
        pub name: Option<String> = None,
    }
}

/// Whether one of the forms is there, if only a wrong one.
fn is_given(node: &Node) -> bool {
    let Kind::Table(entries) = &node.kind else { return false };
    ["exact", "expression", "prefix", "name"].iter().any(|form| entries.contains_key(*form))
}

impl Value for PathMatch {
    fn type_name() -> String {
        "string or table".into()
    }

    fn shape() -> Shape {
        PathForm::shape()
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<PathMatch> {
        let Kind::Table(_) = node.kind else { return String::read(node, reader).map(PathMatch::Prefix) };
        let form = Located::<PathForm>::read(node, reader)?;
        let before = form.before_expressions == Some(true);
        let mut forms = [
            form.exact.clone().map(PathMatch::Exact),
            form.expression.clone().map(PathMatch::Expression),
            form.prefix.clone().map(if before { PathMatch::BeforeExpressions } else { PathMatch::Prefix }),
            form.name.clone().map(PathMatch::Named),
        ]
        .into_iter()
        .flatten();
        match (forms.next(), forms.next()) {
            (Some(path), None) if !before || form.prefix.is_some() => Some(path),
            (Some(_), None) => {
                reader
                    .wrong_text(node, "path", "`before_expressions` is for a `prefix`")
                    .help("write { prefix = \"/path/\", before_expressions = true }");
                None
            }
            // What is wrong with one that is there was said.
            (None, _) if is_given(node) => None,
            _ => {
                reader
                    .wrong_text(node, "path", "needs one of `exact`, `expression`, `prefix` and `name`")
                    .help("write { exact = \"/path\" }, or a string for a prefix");
                None
            }
        }
    }

    fn write(&self) -> Output {
        let mut form = PathForm::default();
        match self.clone() {
            PathMatch::Prefix(path) => return path.write(),
            PathMatch::BeforeExpressions(path) => {
                (form.prefix, form.before_expressions) = (Some(path), Some(true));
            }
            PathMatch::Exact(path) => form.exact = Some(path),
            PathMatch::Expression(expression) => form.expression = Some(expression),
            PathMatch::Named(name) => form.name = Some(name),
        }
        drover_config::write_table(&form)
    }
}
