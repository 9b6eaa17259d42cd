//! Reading values out of the tree: where the reader is, and the findings that every kind of value shares.

use std::path::{Path, PathBuf};

use crate::finding::{Finding, Findings};
use crate::node::Node;
use crate::schema::Index;

/// Passed down while a config is read: collects findings and knows the key that is being read.
pub struct Reader<'a> {
    findings: &'a mut Findings,
    index: &'a Index,
    path: Vec<String>,
    /// The range of the key being read, as text, if its schema gives one.
    range: Option<String>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(findings: &'a mut Findings, index: &'a Index) -> Reader<'a> {
        Reader { findings, index, path: Vec::new(), range: None }
    }

    /// Where findings go.
    pub fn findings(&mut self) -> &mut Findings {
        self.findings
    }

    pub(crate) fn index(&self) -> &'a Index {
        self.index
    }

    /// The keys from the root to the table that is being read.
    pub(crate) fn path(&self) -> &[String] {
        &self.path
    }

    /// Reads what is inside a key.
    pub(crate) fn inside<T>(
        &mut self,
        key: &str,
        range: Option<String>,
        read: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let outer = std::mem::replace(&mut self.range, range);
        self.path.push(key.to_owned());
        let value = read(self);
        self.path.pop();
        self.range = outer;
        value
    }

    /// The key whose value is being read.
    pub fn key(&self) -> &str {
        self.path.last().map_or("", String::as_str)
    }

    /// Adds "expected this type, found that", and nothing is read.
    pub fn expected<T>(&mut self, node: &Node, type_name: &str) -> Option<T> {
        self.wrong_type(node, type_name);
        None
    }

    /// Adds "expected this type, found that", to be completed with help.
    pub fn wrong_type(&mut self, node: &Node, type_name: &str) -> &mut Finding {
        let message = format!("`{}` has the wrong type", self.key());
        let label = format!("expected {}, found {}", with_article(type_name), node.describe());
        self.findings.error(node.place, message).label(label)
    }

    /// Adds "this string is not one of that type", to be completed with help.
    pub fn wrong_text(&mut self, node: &Node, type_name: &str, wrong: impl Into<String>) -> &mut Finding {
        let message = format!("`{}` is not {}", self.key(), with_article(type_name));
        self.findings.error(node.place, message).label(wrong)
    }

    /// Adds "out of range" with the key's range, or else with that of its type.
    pub(crate) fn out_of_range(&mut self, node: &Node, of_type: impl FnOnce() -> String) {
        let message = format!("`{}` is out of range", self.key());
        let range = self.range.clone().unwrap_or_else(of_type);
        self.findings.error(node.place, message).label(format!("must be {range}"));
    }

    /// The text of a value, if it is short enough to repeat.
    pub(crate) fn text_of(&self, node: &Node) -> Option<&str> {
        let text = self.findings.sources().text(node.place);
        (text.len() <= 60 && !text.contains('\n')).then_some(text)
    }

    /// A path as the program can use it: a relative one starts at the directory of the node's file.
    pub fn resolve(&self, node: &Node, path: &str) -> PathBuf {
        self.findings.sources().directory(node.place).join(Path::new(path))
    }
}

/// `an address`, `a size`; words that stand in quotes have no article.
fn with_article(name: &str) -> String {
    if name.starts_with('"') {
        return name.to_owned();
    }
    let vowel = name.starts_with(['a', 'e', 'i', 'o', 'u', 'A', 'E', 'I', 'O']);
    format!("{} {name}", if vowel { "an" } else { "a" })
}
