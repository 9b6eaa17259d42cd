//! The tree of values of all files of a config, each value with its place.
//!
//! `toml` gives spans but knows one text only; here the trees of several files become one.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::finding::Findings;
use crate::place::Place;

/// A value with its place.
#[derive(Clone, Debug)]
pub struct Node {
    /// The value's own text, without its key; for a table its header.
    pub place: Place,
    /// What stands there.
    pub kind: Kind,
}

/// What stands at a place.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A string, escapes resolved.
    String(String),
    /// An integer; `None` if it does not even fit in 128 bits.
    Integer(Option<i128>),
    /// A floating-point number, which no key takes.
    Float,
    /// `true` or `false`.
    Boolean(bool),
    /// A date or time, which no key takes.
    Datetime,
    /// An array.
    Array(Vec<Node>),
    /// A table.
    Table(Entries),
}

/// The keys of a table with their values.
pub type Entries = BTreeMap<String, Entry>;

/// A key and its value.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The place of the key.
    pub key: Place,
    /// The value.
    pub value: Node,
}

impl Node {
    /// The tree of one file.
    pub(crate) fn from_table(file: u32, table: &Spanned<DeTable<'_>>) -> Node {
        Node { place: Place::new(file, table.span()), kind: Kind::Table(entries(file, table.get_ref())) }
    }

    fn from_value(file: u32, value: &Spanned<DeValue<'_>>) -> Node {
        let kind = match value.get_ref() {
            DeValue::String(text) => Kind::String(text.clone().into_owned()),
            DeValue::Integer(digits) => {
                Kind::Integer(i128::from_str_radix(digits.as_str(), digits.radix()).ok())
            }
            DeValue::Float(_) => Kind::Float,
            DeValue::Boolean(value) => Kind::Boolean(*value),
            DeValue::Datetime(_) => Kind::Datetime,
            DeValue::Array(values) => {
                Kind::Array(values.iter().map(|value| Node::from_value(file, value)).collect())
            }
            DeValue::Table(table) => Kind::Table(entries(file, table)),
        };
        Node { place: Place::new(file, value.span()), kind }
    }

    /// The string that stands here, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match &self.kind {
            Kind::String(text) => Some(text),
            _ => None,
        }
    }

    /// What this is, for "found ...".
    pub fn describe(&self) -> String {
        match &self.kind {
            Kind::String(text) if text.chars().count() <= 40 => format!("the string {text:?}"),
            Kind::String(_) => "a string".into(),
            Kind::Integer(Some(value)) => format!("the integer {value}"),
            Kind::Integer(None) => "an integer".into(),
            Kind::Float => "a floating-point number".into(),
            Kind::Boolean(value) => format!("the boolean {value}"),
            Kind::Datetime => "a date or time".into(),
            Kind::Array(_) => "an array".into(),
            Kind::Table(_) => "a table".into(),
        }
    }

    fn is_array_of_tables(&self) -> bool {
        match &self.kind {
            Kind::Array(values) => values.iter().all(|value| matches!(value.kind, Kind::Table(_))),
            _ => false,
        }
    }
}

fn entries(file: u32, table: &DeTable<'_>) -> Entries {
    let entry = |(key, value): (&Spanned<std::borrow::Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
        let entry = Entry { key: Place::new(file, key.span()), value: Node::from_value(file, value) };
        (key.get_ref().clone().into_owned(), entry)
    };
    table.iter().map(entry).collect()
}

/// Adds the keys of a further file: tables grow together, arrays of tables are appended, and anything else
/// may be set in one file only.
pub(crate) fn merge(into: &mut Entries, from: Entries, findings: &mut Findings) {
    for (name, entry) in from {
        let Some(first) = into.get_mut(&name) else {
            into.insert(name, entry);
            continue;
        };
        let both_lists = first.value.is_array_of_tables() && entry.value.is_array_of_tables();
        match (&mut first.value.kind, entry.value.kind) {
            (Kind::Table(into), Kind::Table(from)) => merge(into, from, findings),
            (Kind::Array(into), Kind::Array(from)) if both_lists => into.extend(from),
            _ => {
                findings
                    .error(entry.key, format!("`{name}` is set twice"))
                    .label("set again here")
                    .related(first.key, "set first here")
                    .help("a key can be set in one of the included files only; remove one of the two");
            }
        }
    }
}
