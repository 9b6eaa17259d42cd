//! The schema: what keys there are, described once by the types they are read into.
//!
//! A struct declared with [`table!`](crate::table!) is a table of the config, each field a key with its type,
//! default, range and line of documentation. From that one declaration come the reading with all its findings,
//! `Default`, the way back to TOML, and the reference.

use crate::output::{Fields, Output};
use crate::value::{Value, range_text};

/// A struct that is a table of the config. Implemented by [`table!`](crate::table!).
pub trait Table: Sized {
    /// The keys.
    fn table_schema() -> TableSchema;

    /// Reads every key, or adds findings. `None` if a required key cannot be had.
    fn read_table(table: &mut crate::TableReader<'_, '_, '_>) -> Option<Self>;

    /// The keys with their values, in the order of the schema.
    fn write_table(&self) -> Fields;
}

/// A table that can also be written as a single value, such as a listen address without options.
pub trait Shorthand: Table {
    /// What the single value is called.
    const TYPE: &'static str;

    /// Reads the single value, or adds findings.
    fn from_value(node: &crate::Node, reader: &mut crate::Reader<'_>) -> Option<Self>;

    /// The single value, where it says all that this table does.
    fn to_value(&self) -> Option<Output>;
}

/// What stands inside a value.
#[derive(Clone, PartialEq, Debug)]
pub enum Shape {
    /// No table.
    Leaf,
    /// A table with these keys.
    Table(TableSchema),
    /// A list of such.
    List(Box<Shape>),
    /// A table with free keys and such values.
    Map(Box<Shape>),
}

impl Shape {
    /// The schema of the table that the value, or each element of it, is.
    pub fn table(&self) -> Option<&TableSchema> {
        match self {
            Shape::Table(schema) => Some(schema),
            Shape::List(shape) | Shape::Map(shape) => shape.table(),
            Shape::Leaf => None,
        }
    }
}

/// The keys of a table.
#[derive(Clone, PartialEq, Debug)]
pub struct TableSchema {
    /// What the table is about.
    pub doc: String,
    /// Whether it is written on its key's line, `key = { ... }`, rather than under a header of its own.
    pub inline: bool,
    /// In the order of their declaration.
    pub keys: Vec<Key>,
}

/// One key.
#[derive(Clone, PartialEq, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// Its documentation.
    pub doc: String,
    /// What its value is called.
    pub type_name: String,
    /// The tables inside its value.
    pub shape: Shape,
    /// The value if it is left out; `None` if it must not be.
    pub default: Option<Output>,
    /// The least and the greatest value, as text.
    pub range: Option<String>,
    /// A value to show where the default is to have none.
    pub example: Option<&'static str>,
}

impl Key {
    /// A required key of a type; what else it is follows by the methods below.
    pub fn new<T: Value>(name: &'static str, doc: &[&str]) -> Key {
        Key {
            name,
            doc: doc_text(doc),
            type_name: T::type_name(),
            shape: T::shape(),
            default: None,
            range: None,
            example: None,
        }
    }

    /// The value if the key is left out.
    pub fn default<T: Value>(mut self, value: T) -> Key {
        self.default = Some(value.write());
        self
    }

    /// The least and the greatest value.
    pub fn range<T: Value>(mut self, range: std::ops::RangeInclusive<T>) -> Key {
        self.range = Some(range_text(&range));
        self
    }

    /// A value to show where the default is to have none, as TOML.
    pub fn example(mut self, text: &'static str) -> Key {
        self.example = Some(text);
        self
    }
}

/// Lines of documentation as one.
pub fn doc_text(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ").trim_end_matches('.').to_owned()
}

/// All tables of a schema, to tell which one a misplaced key belongs to.
#[derive(Debug)]
pub(crate) struct Index {
    tables: Vec<IndexedTable>,
}

#[derive(Debug)]
struct IndexedTable {
    path: String,
    title: String,
    keys: Vec<&'static str>,
}

impl Index {
    pub(crate) fn new(root: &TableSchema) -> Index {
        let mut index = Index { tables: Vec::new() };
        index.add("", "the top level".into(), root);
        index
    }

    fn add(&mut self, path: &str, title: String, table: &TableSchema) {
        let keys = table.keys.iter().map(|key| key.name).collect();
        self.tables.push(IndexedTable { path: path.to_owned(), title, keys });
        for key in &table.keys {
            let Some(table) = key.shape.table() else { continue };
            let path = if path.is_empty() { key.name.to_owned() } else { format!("{path}.{}", key.name) };
            let title = match &key.shape {
                _ if table.inline => format!("`{}`", key.name),
                Shape::List(_) => format!("[[{path}]]"),
                Shape::Map(_) => format!("[{path}.NAME]"),
                _ => format!("[{path}]"),
            };
            self.add(&path, title, table);
        }
    }

    /// How a table is called in findings: `[http]`, `[[http.servers]]`, `` `listen` ``.
    pub(crate) fn title(&self, path: &[String]) -> String {
        let path = path.join(".");
        let table = self.tables.iter().find(|table| table.path == path);
        table.map_or_else(|| format!("[{path}]"), |table| table.title.clone())
    }

    /// The tables that have such a key, by title.
    pub(crate) fn having(&self, key: &str) -> Vec<&str> {
        let has = |table: &&IndexedTable| table.keys.contains(&key);
        self.tables.iter().filter(has).map(|table| table.title.as_str()).collect()
    }

    /// All keys there are.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'static str> {
        self.tables.iter().flat_map(|table| table.keys.iter().copied())
    }
}
