//! What is made from the schema: the effective config, a commented one with every key, and the reference.

use crate::output::{self, Output};
use crate::schema::{Key, Shape, Table, TableSchema};

/// A config as TOML, every default filled in. It reads back as the same config.
pub fn effective<T: Table>(config: &T) -> String {
    output::document(&config.write_table())
}

/// The same with the documentation of every key, and the keys without a value as examples, commented out.
pub fn commented<T: Table>(config: &T) -> String {
    output::commented_document(&config.write_table(), &T::table_schema())
}

const INCLUDE: &str = "\
One key stands outside a table, at the top: `include = [\"conf.d/*.toml\"]` merges further files, named by paths or
patterns relative to the file they stand in. Tables grow together and `[[...]]` are appended, in the order of the
files' names; any other key may be set in one file only. Relative paths start at the directory of the file they
stand in. The order of tables and keys does not matter.

";

/// The reference in Markdown: for each table its keys with type, default and one line.
pub fn reference<T: Table>() -> String {
    let mut text = String::from(INCLUDE);
    section(&mut text, "", &T::table_schema());
    text
}

fn section(text: &mut String, path: &str, table: &TableSchema) {
    let (sections, keys): (Vec<&Key>, Vec<&Key>) = table.keys.iter().partition(|key| has_section(key));
    if !keys.is_empty() {
        text.push_str("| key | type | default | |\n|---|---|---|---|\n");
        for key in keys {
            row(text, "", key);
        }
        text.push('\n');
    }
    for key in sections {
        let path = if path.is_empty() { key.name.to_owned() } else { format!("{path}.{}", key.name) };
        let header = match key.shape {
            Shape::List(_) => format!("[[{path}]]"),
            Shape::Map(_) => format!("[{path}.NAME]"),
            _ => format!("[{path}]"),
        };
        text.push_str(&format!("### `{header}`\n\n{}.\n\n", key.doc));
        if let Some(table) = key.shape.table() {
            section(text, &path, table);
        }
    }
}

fn has_section(key: &Key) -> bool {
    key.shape.table().is_some_and(|table| !table.inline)
}

/// The row of a key and, where its value is a table on its line, those of that table's keys.
fn row(text: &mut String, prefix: &str, key: &Key) {
    let default = match &key.default {
        None => "required".to_owned(),
        Some(Output::Inline(value)) => format!("`{value}`"),
        Some(_) => "none".to_owned(),
    };
    let doc = match &key.range {
        Some(range) => format!("{} ({})", key.doc, range.replace('"', "")),
        None => key.doc.clone(),
    };
    let cells = [format!("`{prefix}{}`", key.name), key.type_name.clone(), default, doc]
        .map(|cell| cell.replace('|', "\\|"));
    text.push_str(&format!("| {} |\n", cells.join(" | ")));
    let Some(table) = key.shape.table() else { return };
    for inner in &table.keys {
        row(text, &format!("{prefix}{}.", key.name), inner);
    }
}
