//! Findings: everything that is wrong or doubtful in a config, each with its place.
//!
//! Invariant: a finding says what is wrong in its message, marks the place, and says in its help what would
//! be right. Errors keep a config from being used, warnings do not.

use std::fmt;
use std::path::PathBuf;

use crate::place::{Place, Sources};
use crate::render;

/// How bad a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// The config cannot be used.
    Error,
    /// The config can be used, but hardly as it was meant.
    Warning,
}

/// One thing that is wrong or doubtful.
#[derive(Clone, Debug)]
pub struct Finding {
    pub(crate) severity: Severity,
    pub(crate) message: String,
    pub(crate) place: Option<Place>,
    pub(crate) label: String,
    pub(crate) related: Vec<(Place, String)>,
    pub(crate) help: Vec<String>,
}

impl Finding {
    /// Text beside the mark under the place.
    pub fn label(&mut self, text: impl Into<String>) -> &mut Finding {
        self.label = text.into();
        self
    }

    /// Marks a second place that belongs to the finding; nothing where there is none.
    pub fn related(&mut self, place: impl Into<Option<Place>>, text: impl Into<String>) -> &mut Finding {
        if let Some(place) = place.into() {
            self.related.push((place, text.into()));
        }
        self
    }

    /// What would be right.
    pub fn help(&mut self, text: impl Into<String>) -> &mut Finding {
        self.help.push(text.into());
        self
    }

    /// What is wrong, in one line.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// How bad it is.
    pub fn severity(&self) -> Severity {
        self.severity
    }

    /// Where it is; `None` where no text of the config is to blame.
    pub fn place(&self) -> Option<Place> {
        self.place
    }
}

/// More findings than this are counted and not kept: the file is no config at all, and who reads it may be the
/// master of a running daemon.
const MAX_KEPT: usize = 1000;

/// All findings about one config, with the texts they point into.
#[derive(Clone, Default, Debug)]
pub struct Findings {
    sources: Sources,
    list: Vec<Finding>,
    /// Errors and warnings that were found after the list was full.
    unkept: [usize; 2],
    /// The last of them, for its finder to complete in vain.
    last_unkept: Option<Finding>,
}

impl Findings {
    /// No findings about no files.
    pub fn new() -> Findings {
        Findings::default()
    }

    /// Adds an error; complete it with the methods of [`Finding`].
    pub fn error(&mut self, place: impl Into<Option<Place>>, message: impl Into<String>) -> &mut Finding {
        self.add(Severity::Error, place.into(), message.into())
    }

    /// Adds a warning; complete it with the methods of [`Finding`].
    pub fn warning(&mut self, place: impl Into<Option<Place>>, message: impl Into<String>) -> &mut Finding {
        self.add(Severity::Warning, place.into(), message.into())
    }

    fn add(&mut self, severity: Severity, place: Option<Place>, message: String) -> &mut Finding {
        let finding =
            Finding { severity, message, place, label: String::new(), related: Vec::new(), help: Vec::new() };
        if self.is_full() {
            self.unkept[severity as usize] += 1;
            return self.last_unkept.insert(finding);
        }
        self.list.push(finding);
        let last = self.list.len() - 1;
        &mut self.list[last]
    }

    /// Whether further findings are only counted, and finding out what would be right is wasted time.
    pub fn is_full(&self) -> bool {
        self.list.len() >= MAX_KEPT
    }

    /// The findings in the order in which they were found.
    pub fn iter(&self) -> impl Iterator<Item = &Finding> {
        self.list.iter()
    }

    /// Whether the config cannot be used.
    pub fn has_errors(&self) -> bool {
        self.errors() > 0
    }

    /// How many errors there are.
    pub fn errors(&self) -> usize {
        self.count(Severity::Error)
    }

    /// How many warnings there are.
    pub fn warnings(&self) -> usize {
        self.count(Severity::Warning)
    }

    fn count(&self, severity: Severity) -> usize {
        self.list.iter().filter(|finding| finding.severity == severity).count()
            + self.unkept[severity as usize]
    }

    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Draws all findings, by file and place, each with its line of source marked.
    pub fn render(&self, style: Style) -> String {
        render::render(self, style)
    }

    /// The texts the findings point into.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// The place of a part of a string, for a fault inside of it: `offset` and `length` in bytes of `text`, which
    /// stands at `place`. The whole place where escapes make the two differ.
    pub fn part_of(&self, place: Option<Place>, text: &str, offset: usize, length: usize) -> Option<Place> {
        let place = place?;
        let quoted = self.sources.text(place);
        let plain = quoted.len() == text.len() + 2 && quoted.get(1..=text.len()) == Some(text);
        Some(if plain { place.part(1 + offset, length) } else { place })
    }

    /// The place of a line, counted from 1, of a file that is not TOML and that a finding is about.
    pub fn line_of(&mut self, name: &str, text: impl FnOnce() -> String, line: usize) -> Place {
        let file = match self.sources.named(name) {
            Some(file) => file,
            None => self.sources.add(name.to_owned(), PathBuf::new(), text()),
        };
        let text = self.sources.file_text(file);
        let (start, found) = match text.split_inclusive('\n').nth(line.saturating_sub(1)) {
            Some(found) => (found.as_ptr() as usize - text.as_ptr() as usize, found),
            None => (text.len(), ""),
        };
        let indent = found.len() - found.trim_start().len();
        Place::new(file, start + indent..start + found.trim_end().len().max(indent))
    }

    pub(crate) fn sources_mut(&mut self) -> &mut Sources {
        &mut self.sources
    }

    pub(crate) fn retain(&mut self, keep: impl FnMut(&Finding) -> bool) {
        self.list.retain(keep);
    }

    pub(crate) fn sorted(&self) -> Vec<&Finding> {
        let mut list: Vec<&Finding> = self.list.iter().collect();
        list.sort_by_key(|finding| (finding.place, finding.severity));
        list
    }
}

/// Whether findings are drawn with colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// For files, logs and pipes.
    Plain,
    /// For a terminal.
    Coloured,
}

impl fmt::Display for Findings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.render(Style::Plain))
    }
}
