//! Reading a config: its file, the files it includes, and the tables in them.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use crate::finding::Findings;
use crate::node::{Entries, Entry, Kind, Node, merge};
use crate::output::quoted;
use crate::place::{MAX_FILE_SIZE, Place};
use crate::reader::Reader;
use crate::schema::{Index, Table};
use crate::table_reader::read_table;

/// More files than this are not read: a pattern has gone wrong.
pub const MAX_FILES: usize = 1000;

/// Reads a file and what it includes into its tables.
///
/// With wrong values in it there are tables all the same, defaults in the place of what is wrong, so that the
/// owner's checks across keys find the rest in the same pass: whether the tables may be used is decided by
/// [`Findings::has_errors`] at the end. They are `None` where too much is missing, as with errors of syntax.
pub fn load<T: Table>(path: &Path) -> (Option<T>, Findings) {
    let mut loader =
        Loader { findings: Findings::new(), done: Vec::new(), open: Vec::new(), broken: Vec::new() };
    let root = loader.file(path, None);
    let Loader { mut findings, broken, .. } = loader;
    let table = root.and_then(|root| read::<T>(&root, &broken, &mut findings));
    (table, findings)
}

/// Reads a text that stands in no file, for tests and tools. It can include nothing.
pub fn parse<T: Table>(name: &str, text: &str) -> (Option<T>, Findings) {
    let mut findings = Findings::new();
    let mut broken = Vec::new();
    let file = findings.sources_mut().add(name.to_owned(), PathBuf::from("/"), text.to_owned());
    let root = syntax(file, text, &mut findings, &mut broken);
    let table = read::<T>(&root, &broken, &mut findings);
    (table, findings)
}

/// Reads the tables. Where the syntax was wrong, the parser went on with a guess, and what follows from the
/// guess on the same line is not reported.
fn read<T: Table>(root: &Node, broken: &[Place], findings: &mut Findings) -> Option<T> {
    let index = Index::new(&T::table_schema());
    let before = findings.iter().count();
    let table = read_table(root, &mut Reader::new(findings, &index));
    if broken.is_empty() {
        return table;
    }
    let sources = findings.sources().clone();
    let line = |place: Place| (place.file(), sources.line_and_column(place).0);
    let broken: Vec<_> = broken.iter().map(|place| line(*place)).collect();
    let mut number = 0;
    findings.retain(|finding| {
        number += 1;
        number <= before || finding.place().is_none_or(|place| !broken.contains(&line(place)))
    });
    None
}

/// Parses one text, with a finding for every line whose syntax is wrong, and returns what could be understood.
fn syntax(file: u32, text: &str, findings: &mut Findings, broken: &mut Vec<Place>) -> Node {
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut lines = Vec::new();
    for error in errors {
        let place = Place::new(file, error.span().unwrap_or(0..0));
        broken.push(place);
        // Further errors on a line mostly follow from its first.
        let (line, _) = findings.sources().line_and_column(place);
        if findings.is_full() {
            break;
        }
        if lines.contains(&line) {
            continue;
        }
        lines.push(line);
        let found = findings.sources().text(place).to_owned();
        let finding = findings.error(place, "this is not TOML");
        // The parser takes any word without quotes for a string or, by its first letter, for a boolean.
        let word = error.message().starts_with("string values must be quoted")
            || error.message().starts_with("invalid boolean");
        match error.message() {
            _ if word && found.is_empty() => finding.label("a value is missing"),
            _ if word => finding.label("strings stand in quotes").help(format!("write {}", quoted(&found))),
            "duplicate key" => {
                finding.label("stands here a second time").help("each key and table can stand once in a file")
            }
            message => finding.label(message),
        };
    }
    Node::from_table(file, &table)
}

struct Loader {
    findings: Findings,
    /// Canonical paths of the files that were read.
    done: Vec<PathBuf>,
    /// Those among them whose includes are being read: one of these again would be a cycle.
    open: Vec<PathBuf>,
    /// Places at which the syntax was wrong.
    broken: Vec<Place>,
}

impl Loader {
    /// Reads a file with all that it includes. `included` is the place that asked for it.
    fn file(&mut self, path: &Path, included: Option<Place>) -> Option<Node> {
        let canonical = match path.canonicalize() {
            Ok(canonical) => canonical,
            Err(error) => return self.unreadable(path, &error, included),
        };
        if self.open.contains(&canonical) {
            let message = format!("{} includes itself", path.display());
            self.findings.error(included, message).label("this file is being read already");
            return None;
        }
        // Two patterns may both match a file; it counts once.
        if self.done.contains(&canonical) {
            return None;
        }
        if self.done.len() == MAX_FILES {
            self.findings.error(included, format!("more than {MAX_FILES} files"));
            return None;
        }
        let text = match read_text(&canonical) {
            Ok(text) => text,
            Err(error) => return self.unreadable(path, &error, included),
        };
        // Not the canonical one: through a symbolic link, paths start where the link stands.
        let directory = std::path::absolute(path).ok()?.parent()?.to_owned();
        let file =
            self.findings.sources_mut().add(path.display().to_string(), directory.clone(), text.clone());
        let mut root = syntax(file, &text, &mut self.findings, &mut self.broken);
        self.done.push(canonical.clone());
        self.open.push(canonical);
        if let Kind::Table(entries) = &mut root.kind
            && let Some(include) = entries.remove("include")
        {
            self.includes(path.parent().unwrap_or(Path::new("")), &include, entries);
        }
        self.open.pop();
        Some(root)
    }

    fn unreadable(&mut self, path: &Path, error: &io::Error, included: Option<Place>) -> Option<Node> {
        self.findings.error(included, format!("cannot read {}: {error}", path.display()));
        None
    }

    /// Merges the files that match the patterns of one `include`.
    fn includes(&mut self, directory: &Path, include: &Entry, entries: &mut Entries) {
        let Kind::Array(patterns) = &include.value.kind else {
            return self.not_patterns(&include.value);
        };
        for pattern in patterns {
            let Some(text) = pattern.as_str() else {
                self.not_patterns(pattern);
                continue;
            };
            for path in self.matches(directory, text, pattern.place) {
                if let Some(Node { kind: Kind::Table(more), .. }) = self.file(&path, Some(pattern.place)) {
                    merge(entries, more, &mut self.findings);
                }
            }
        }
    }

    fn not_patterns(&mut self, node: &Node) {
        self.findings
            .error(node.place, "`include` has the wrong type")
            .label(format!("expected a list of paths or patterns, found {}", node.describe()))
            .help("write include = [\"conf.d/*.toml\"]");
    }

    /// The files a pattern stands for, in the order of their names. A plain path stands for itself, so that
    /// a file that is not there is an error; a pattern may match nothing, and matches no hidden files, as those
    /// are often what an editor left behind.
    fn matches(&mut self, directory: &Path, pattern: &str, place: Place) -> Vec<PathBuf> {
        if !pattern.contains(['*', '?', '[']) {
            return vec![directory.join(pattern)];
        }
        let pattern = match directory.to_str() {
            Some(directory) if !directory.is_empty() && !pattern.starts_with('/') => {
                format!("{}/{pattern}", glob::Pattern::escape(directory))
            }
            _ => pattern.to_owned(),
        };
        let options = glob::MatchOptions { require_literal_leading_dot: true, ..Default::default() };
        match glob::glob_with(&pattern, options) {
            Ok(paths) => paths.filter_map(Result::ok).filter(|path| path.is_file()).collect(),
            Err(error) => {
                self.findings.error(place, "`include` has a pattern that is wrong").label(error.msg);
                Vec::new()
            }
        }
    }
}

/// The text of a file. Bounded, and only of regular files: a pipe or device might never end.
fn read_text(path: &Path) -> io::Result<String> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_SIZE as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_FILE_SIZE {
        return Err(io::Error::other(format!("larger than {MAX_FILE_SIZE} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        io::Error::other(format!("not UTF-8 from byte {offset} on"))
    })
}
