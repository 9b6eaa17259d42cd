//! Reading one table: its keys by name, and a finding for each key it should not have.

use std::ops::RangeInclusive;

use crate::node::{Entries, Kind, Node};
use crate::place::Place;
use crate::reader::Reader;
use crate::schema::{Table, TableSchema};
use crate::suggest::nearest;
use crate::value::{Ranged, Value, range_text};

/// A table with more keys than this is not listed where one of them is unknown.
const LISTED_KEYS: usize = 12;

/// A table that is being read.
pub struct TableReader<'n, 'r, 'a> {
    entries: &'n Entries,
    place: Place,
    reader: &'r mut Reader<'a>,
}

/// A key as it was found.
#[derive(Debug)]
pub enum Field<T> {
    /// Not there.
    Missing,
    /// There, but wrong; a finding says how.
    Wrong,
    /// Read.
    Read(T),
}

/// Reads a value that has to be a table.
pub fn read_table<T: Table>(node: &Node, reader: &mut Reader<'_>) -> Option<T> {
    let Kind::Table(entries) = &node.kind else {
        return reader.expected(node, "table");
    };
    let mut table = TableReader { entries, place: node.place, reader };
    table.report_unknown_keys(&T::table_schema());
    T::read_table(&mut table)
}

impl TableReader<'_, '_, '_> {
    /// Reads a key.
    pub fn key<T: Value>(&mut self, name: &str) -> Field<T> {
        self.read(name, None, |node, reader| T::read(node, reader))
    }

    /// Reads a key and holds it to a range.
    pub fn key_within<T: Value + Ranged>(&mut self, name: &str, range: RangeInclusive<T::Bound>) -> Field<T> {
        let text = range_text(&range);
        self.read(name, Some(text.clone()), |node, reader| {
            let value = T::read(node, reader)?;
            if value.bounded().is_some_and(|bound| !range.contains(bound)) {
                reader.out_of_range(node, || text);
                return None;
            }
            Some(value)
        })
    }

    fn read<T>(
        &mut self,
        name: &str,
        range: Option<String>,
        read: impl FnOnce(&Node, &mut Reader<'_>) -> Option<T>,
    ) -> Field<T> {
        let Some(entry) = self.entries.get(name) else { return Field::Missing };
        self.reader.inside(name, range, |reader| read(&entry.value, reader)).map_or(Field::Wrong, Field::Read)
    }

    /// What was read, or the default. A wrong value counts as the default, so that the rest is checked too.
    pub fn or_default<T>(&mut self, field: Field<T>, default: impl FnOnce() -> T) -> Option<T> {
        match field {
            Field::Read(value) => Some(value),
            Field::Missing | Field::Wrong => Some(default()),
        }
    }

    /// What was read; a finding if the key is not there.
    pub fn required<T>(&mut self, name: &str, field: Field<T>) -> Option<T> {
        if let Field::Missing = field {
            let message = format!("`{name}` is missing {}", self.in_table());
            self.reader.findings().error(self.place, message).label(format!("needs a key `{name}`"));
        }
        match field {
            Field::Read(value) => Some(value),
            Field::Missing | Field::Wrong => None,
        }
    }

    fn in_table(&self) -> String {
        match self.reader.path() {
            [] => "at the top level".to_owned(),
            path => format!("in {}", self.reader.index().title(path)),
        }
    }

    fn report_unknown_keys(&mut self, schema: &TableSchema) {
        for (name, entry) in self.entries {
            if schema.keys.iter().any(|key| key.name == name) {
                continue;
            }
            let message = format!("unknown key `{name}` {}", self.in_table());
            let help = match self.reader.findings().is_full() {
                true => String::new(),
                false => self.suggest(name, schema),
            };
            self.reader.findings().error(entry.key, message).label("no such key here").help(help);
        }
    }

    /// The nearest key of this table, or the tables that do have the key, or a similar one, or what there is.
    fn suggest(&self, name: &str, schema: &TableSchema) -> String {
        let index = self.reader.index();
        let elsewhere = index.having(name);
        if !elsewhere.is_empty() {
            return format!("`{name}` is a key of {}", elsewhere.join(" and of "));
        }
        if let Some(near) = nearest(name, schema.keys.iter().map(|key| key.name)) {
            return format!("did you mean `{near}`?");
        }
        if let Some(near) = nearest(name, index.keys()) {
            return format!("did you mean `{near}`, a key of {}?", index.having(near).join(" and of "));
        }
        if schema.keys.len() > LISTED_KEYS {
            return "all keys: drover config --reference".to_owned();
        }
        let names: Vec<String> = schema.keys.iter().map(|key| format!("`{}`", key.name)).collect();
        format!("the keys {} are {}", self.in_table(), names.join(", "))
    }
}
