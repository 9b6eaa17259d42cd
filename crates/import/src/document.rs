//! The drover config that is written: tables with their keys, and comments where they stood.

use std::fmt;

use drover_config::{Output, Value};

/// A key's value as TOML.
pub(crate) fn toml<V: Value>(value: &V) -> String {
    match value.write() {
        Output::Inline(text) => text,
        Output::Nothing | Output::Section(_) | Output::Sections(_) => String::new(),
    }
}

/// A string as TOML.
pub(crate) fn string(text: &str) -> String {
    toml(&text.to_owned())
}

/// A key as TOML.
pub(crate) fn key(name: &str) -> String {
    let bare =
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    if bare { name.to_owned() } else { string(name) }
}

/// A list of values that are TOML already.
pub(crate) fn list(values: &[String]) -> String {
    format!("[{}]", values.join(", "))
}

/// A table on one line; the values are TOML already.
pub(crate) fn inline_table(fields: &[(&str, String)]) -> String {
    let field = |(name, value): &(&str, String)| format!("{} = {value}", key(name));
    let fields: Vec<String> = fields.iter().map(field).collect();
    format!("{{ {} }}", fields.join(", "))
}

/// A table under its header.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Table {
    header: String,
    lines: Vec<Line>,
}

#[derive(Clone, PartialEq, Debug)]
enum Line {
    Comment(String),
    Entry { key: String, value: String, behind: Option<String> },
}

impl Table {
    /// An empty table; `header` with its brackets.
    pub(crate) fn new(header: &str) -> Self {
        Self { header: header.to_owned(), lines: Vec::new() }
    }

    pub(crate) fn header(&self) -> &str {
        &self.header
    }

    /// The lines under another header.
    pub(crate) fn under(mut self, header: &str) -> Self {
        header.clone_into(&mut self.header);
        self
    }

    /// The lines alone.
    pub(crate) fn without_header(mut self) -> Self {
        self.header.clear();
        self
    }

    /// A comment on a line of its own.
    pub(crate) fn comment(&mut self, text: &str) {
        self.lines.push(Line::Comment(text.to_owned()));
    }

    /// A comment behind what was written last.
    pub(crate) fn comment_behind(&mut self, text: &str) {
        match self.lines.last_mut() {
            Some(Line::Entry { behind: behind @ None, .. }) => *behind = Some(text.to_owned()),
            _ => self.comment(text),
        }
    }

    /// Sets a key; the value it has already, if any, is replaced where it stands.
    pub(crate) fn set(&mut self, key: &str, value: String) {
        for line in &mut self.lines {
            if let Line::Entry { key: present, value: old, .. } = line
                && present == key
            {
                *old = value;
                return;
            }
        }
        self.lines.push(Line::Entry { key: key.to_owned(), value, behind: None });
    }

    /// Takes a key out again.
    pub(crate) fn unset(&mut self, key: &str) {
        self.lines.retain(|line| !matches!(line, Line::Entry { key: present, .. } if present == key));
    }

    /// Takes all keys out that begin so.
    pub(crate) fn unset_beneath(&mut self, beginning: &str) {
        self.lines.retain(|line| !matches!(line, Line::Entry { key, .. } if key.starts_with(beginning)));
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.lines.iter().any(|line| matches!(line, Line::Entry { key: present, .. } if present == key))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.header.is_empty() {
            writeln!(formatter, "{}", self.header)?;
        }
        for line in &self.lines {
            match line {
                Line::Comment(text) if text.is_empty() => writeln!(formatter, "#")?,
                Line::Comment(text) => writeln!(formatter, "# {}", printable(text))?,
                Line::Entry { key, value, behind: None } => writeln!(formatter, "{key} = {value}")?,
                Line::Entry { key, value, behind: Some(text) } => {
                    writeln!(formatter, "{key} = {value}  # {}", printable(text))?;
                }
            }
        }
        Ok(())
    }
}

/// A comment is one line, and has no control characters but tabs (TOML 1.0, "Comment").
fn printable(text: &str) -> String {
    let shown = |c: char| match c.is_control() && c != '\t' {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_stays_a_comment() {
        let mut table = Table::new("");
        table.comment("a\nb\u{8}\tc");
        assert_eq!(table.to_string(), "# a\\nb\\u{8}\tc\n");
    }

    #[test]
    fn a_table_is_written_as_one_would() {
        let mut table = Table::new("[process]");
        table.comment("who serves");
        table.set("workers", "2".to_owned());
        table.comment_behind("two are enough");
        table.set("user", string("www\"data"));
        table.set("workers", "4".to_owned());
        assert_eq!(
            table.to_string(),
            "[process]\n# who serves\nworkers = 4  # two are enough\nuser = \"www\\\"data\"\n"
        );
    }
}
