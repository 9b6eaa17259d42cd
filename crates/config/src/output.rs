//! Values on their way back to TOML.
//!
//! A type decides whether it stands on its key's line or as a section of its own; this module lays the
//! sections out so that the whole reads back as what it was.

use crate::schema::{Key, Shape, Table, TableSchema};

/// A value as TOML.
#[derive(Clone, PartialEq, Debug)]
pub enum Output {
    /// No value: the key is left out.
    Nothing,
    /// Text that stands behind `key = `.
    Inline(String),
    /// A table under a `[header]` of its own.
    Section(Fields),
    /// Tables under one `[[header]]` each.
    Sections(Vec<Fields>),
}

/// The keys of a table with their values, in the order of the schema.
pub type Fields = Vec<(String, Output)>;

impl Output {
    /// A list of values: sections if its elements are, else on one line.
    pub(crate) fn list(values: impl Iterator<Item = Output>) -> Output {
        let mut inline = Vec::new();
        let mut sections = Vec::new();
        for value in values {
            match value {
                Output::Inline(text) => inline.push(text),
                Output::Section(fields) => sections.push(fields),
                Output::Nothing | Output::Sections(_) => {}
            }
        }
        match sections.is_empty() {
            true => Output::Inline(format!("[{}]", inline.join(", "))),
            false => Output::Sections(sections),
        }
    }

    /// A table on one line.
    pub(crate) fn inline_table(fields: Fields) -> Output {
        let field = |(key, value): (String, Output)| match value {
            Output::Nothing => None,
            Output::Inline(text) => Some(format!("{} = {text}", key_text(&key))),
            Output::Section(fields) => {
                let Output::Inline(text) = Output::inline_table(fields) else { return None };
                Some(format!("{} = {text}", key_text(&key)))
            }
            Output::Sections(_) => None,
        };
        let fields: Vec<String> = fields.into_iter().filter_map(field).collect();
        match fields.is_empty() {
            true => Output::Inline("{}".into()),
            false => Output::Inline(format!("{{ {} }}", fields.join(", "))),
        }
    }
}

/// A string in quotes, escaped, always on one line: it may stand in an inline table.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

fn key_text(key: &str) -> String {
    let bare = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if bare { key.to_owned() } else { quoted(key) }
}

/// The fields of a root table as a TOML file.
pub(crate) fn document(fields: &Fields) -> String {
    let mut text = String::new();
    write_fields(&mut text, &mut Vec::new(), fields, None);
    text
}

/// The same with each key's line of documentation above it, and the keys that have no value as examples,
/// commented out.
pub(crate) fn commented_document(fields: &Fields, schema: &TableSchema) -> String {
    let mut text = String::new();
    write_fields(&mut text, &mut Vec::new(), fields, Some(schema));
    text
}

/// Keys on a line of their own come before the sections: behind a header they would belong to it.
fn write_fields(text: &mut String, path: &mut Vec<String>, fields: &Fields, schema: Option<&TableSchema>) {
    let key_of = |name: &str| schema.and_then(|schema| schema.keys.iter().find(|key| key.name == name));
    for (name, value) in fields {
        match (value, key_of(name)) {
            (Output::Inline(value), key) => {
                if let Some(key) = key {
                    write_comment(text, key);
                }
                text.push_str(&format!("{} = {value}\n", key_text(name)));
            }
            (Output::Nothing, Some(key)) => {
                write_comment(text, key);
                text.push_str(&format!("# {} = {}\n", key_text(name), key.example.unwrap_or("")));
            }
            _ => {}
        }
    }
    for (name, value) in fields {
        let key = key_of(name);
        path.push(key_text(name));
        match value {
            // A section for each of the free names, all with the same keys.
            Output::Section(named) if !named.is_empty() && key.is_some_and(is_map_of_tables) => {
                for (name, value) in named {
                    let Output::Section(fields) = value else { continue };
                    path.push(key_text(name));
                    let header = format!("[{}]", path.join("."));
                    write_section(text, path, &header, fields, key, key.and_then(|key| key.shape.table()));
                    path.pop();
                }
            }
            Output::Section(fields) => {
                let header = format!("[{}]", path.join("."));
                write_section(text, path, &header, fields, key, key.and_then(|key| key.shape.table()));
            }
            Output::Sections(list) => {
                let header = format!("[[{}]]", path.join("."));
                for fields in list {
                    write_section(text, path, &header, fields, key, key.and_then(|key| key.shape.table()));
                }
            }
            Output::Nothing | Output::Inline(_) => {}
        }
        path.pop();
    }
}

fn is_map_of_tables(key: &Key) -> bool {
    matches!(&key.shape, Shape::Map(inner) if inner.table().is_some_and(|table| !table.inline))
}

fn write_section(
    text: &mut String,
    path: &mut Vec<String>,
    header: &str,
    fields: &Fields,
    key: Option<&Key>,
    schema: Option<&TableSchema>,
) {
    if !text.is_empty() {
        text.push('\n');
    }
    if let Some(key) = key {
        text.push_str(&format!("# {}\n", key.doc));
    }
    text.push_str(header);
    text.push('\n');
    if let (Some(key), true) = (key, fields.is_empty())
        && let (Shape::Map(_), Some(example)) = (&key.shape, key.example)
    {
        text.push_str(&format!("# {example}\n"));
    }
    write_fields(text, path, fields, schema);
}

/// The key's line of documentation and, where a table stands on the key's line, those of its keys.
fn write_comment(text: &mut String, key: &Key) {
    text.push_str(&format!("\n# {}\n", key.doc));
    let Some(table) = key.shape.table() else { return };
    write_inner_comments(text, "#   ", table);
}

fn write_inner_comments(text: &mut String, indent: &str, table: &TableSchema) {
    for key in &table.keys {
        text.push_str(&format!("{indent}{}: {}\n", key.name, key.doc));
        if let Some(inner) = key.shape.table() {
            write_inner_comments(text, &format!("{indent}  "), inner);
        }
    }
}

/// A table as its schema has it written.
pub fn write_table<T: Table>(table: &T) -> Output {
    match T::table_schema().inline {
        true => Output::inline_table(table.write_table()),
        false => Output::Section(table.write_table()),
    }
}
