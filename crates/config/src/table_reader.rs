//! Reading one table: its keys by name, and a finding for each key it should not have.

use std::ops::RangeInclusive;

use crate::node::{Entries, Kind, Node};
use crate::place::Place;
use crate::reader::Reader;
use crate::schema::{Table, TableSchema};
use crate::suggest::nearest;
use crate::value::{Ranged, Value, range_text};

/// A table that is being read.
pub struct TableReader<'n, 'r, 'a> {
    entries: &'n Entries,
    place: Place,
    reader: &'r mut Reader<'a>,
}

/// A key as it was found.
#[derive(Debug)]
pub enum Field<'n, T> {
    /// Not there.
    Missing,
    /// There, but wrong; a finding says how.
    Wrong,
    /// Read, and from where.
    Read(T, &'n Node),
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

impl<'n> TableReader<'n, '_, '_> {
    /// Reads a key.
    pub fn key<T: Value>(&mut self, name: &str) -> Field<'n, T> {
        let entries = self.entries;
        let Some(entry) = entries.get(name) else { return Field::Missing };
        match self.reader.inside(name, |reader| T::read(&entry.value, reader)) {
            Some(value) => Field::Read(value, &entry.value),
            None => Field::Wrong,
        }
    }

    /// Holds what was read to a range.
    pub fn within<T: Ranged>(
        &mut self,
        name: &str,
        field: Field<'n, T>,
        range: RangeInclusive<T::Bound>,
    ) -> Field<'n, T> {
        match field {
            Field::Read(value, node) if value.bounded().is_some_and(|bound| !range.contains(bound)) => {
                self.reader.inside(name, |reader| reader.out_of_range(node, &range_text(&range)));
                Field::Wrong
            }
            field => field,
        }
    }

    /// What was read, or the default. A wrong value counts as the default, so that the rest is checked too.
    pub fn or_default<T>(&mut self, field: Field<'n, T>, default: impl FnOnce() -> T) -> Option<T> {
        match field {
            Field::Read(value, _) => Some(value),
            Field::Missing | Field::Wrong => Some(default()),
        }
    }

    /// What was read; a finding if the key is not there.
    pub fn required<T>(&mut self, name: &str, field: Field<'n, T>) -> Option<T> {
        if let Field::Missing = field {
            let title = self.title();
            self.reader
                .findings()
                .error(self.place, format!("`{name}` is missing in {title}"))
                .label(format!("needs a key `{name}`"));
        }
        match field {
            Field::Read(value, _) => Some(value),
            Field::Missing | Field::Wrong => None,
        }
    }

    fn title(&self) -> String {
        self.reader.index().title(self.reader.path())
    }

    fn report_unknown_keys(&mut self, schema: &TableSchema) {
        for (name, entry) in self.entries {
            if schema.keys.iter().any(|key| key.name == name) {
                continue;
            }
            let title = self.title();
            let help = self.suggest(name, schema);
            self.reader
                .findings()
                .error(entry.key, format!("unknown key `{name}` in {title}"))
                .label("no such key here")
                .help(help);
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
        let names: Vec<String> = schema.keys.iter().map(|key| format!("`{}`", key.name)).collect();
        format!("the keys of {} are {}", self.title(), names.join(", "))
    }
}
