//! Places: where in which file something stands.
//!
//! A [`Place`] is a number of a file and two byte offsets, so it is cheap to keep beside a value. It means
//! something only together with the [`Sources`] it came from.

use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};

/// The largest config file that is read, in bytes. Offsets of a [`Place`] fit in 32 bits because of it.
pub const MAX_FILE_SIZE: usize = 4 << 20;

/// A stretch of one of the files that make up a config.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place {
    file: u32,
    start: u32,
    end: u32,
}

impl Place {
    pub(crate) fn new(file: u32, span: Range<usize>) -> Place {
        let offset = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Place { file, start: offset(span.start), end: offset(span.end.max(span.start)) }
    }

    pub(crate) fn file(self) -> u32 {
        self.file
    }

    /// A part, given by its offset and length inside of this.
    pub(crate) fn part(self, offset: usize, length: usize) -> Place {
        let start = (self.span().start + offset).min(self.span().end);
        Place::new(self.file, start..(start + length).min(self.span().end))
    }

    pub(crate) fn span(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// The files a config was read from: their names and texts.
#[derive(Clone, Default, Debug)]
pub struct Sources {
    files: Vec<SourceFile>,
}

#[derive(Clone, Debug)]
pub(crate) struct SourceFile {
    /// As the user or the `include` named it.
    pub(crate) name: String,
    /// Absolute; relative paths inside the file start here.
    pub(crate) directory: PathBuf,
    pub(crate) text: String,
}

impl Sources {
    /// Keeps a file and returns its number.
    pub(crate) fn add(&mut self, name: String, directory: PathBuf, text: String) -> u32 {
        self.files.push(SourceFile { name, directory, text });
        (self.files.len() - 1) as u32
    }

    /// The number of a file that is there already.
    pub(crate) fn named(&self, name: &str) -> Option<u32> {
        self.files.iter().position(|file| file.name == name).map(|number| number as u32)
    }

    pub(crate) fn file_text(&self, number: u32) -> &str {
        &self.files[number as usize].text
    }

    pub(crate) fn file(&self, place: Place) -> &SourceFile {
        &self.files[place.file as usize]
    }

    /// The names of the files, in the order in which they were read.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| file.name.as_str())
    }

    /// The absolute directory of the file a place is in.
    pub fn directory(&self, place: Place) -> &Path {
        &self.file(place).directory
    }

    /// The text of a place.
    pub fn text(&self, place: Place) -> &str {
        self.file(place).text.get(place.span()).unwrap_or_default()
    }

    /// Line and column of a place's start, both counted from 1, the column in characters.
    pub fn line_and_column(&self, place: Place) -> (usize, usize) {
        let text = self.file(place).text.as_str();
        let before = &text[..char_boundary(text, place.start as usize)];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
        (line, before[line_start..].chars().count() + 1)
    }
}

/// The offset itself, or the nearest before it that does not split a character.
pub(crate) fn char_boundary(text: &str, offset: usize) -> usize {
    (0..=offset.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

/// A value that remembers the place it was read from, so that a check across keys can point at it.
///
/// A default has no place. Two are equal when their values are.
#[derive(Clone, Copy, Default, Debug)]
pub struct Located<T> {
    value: T,
    place: Option<Place>,
}

impl<T> Located<T> {
    /// A value as it was read.
    pub fn new(value: T, place: Place) -> Located<T> {
        Located { value, place: Some(place) }
    }

    /// Where the value stands; `None` for a default.
    pub fn place(&self) -> Option<Place> {
        self.place
    }

    /// The value alone.
    pub fn into_inner(self) -> T {
        self.value
    }
}

impl<T> Deref for Located<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> From<T> for Located<T> {
    /// A value that stands in no file: a default.
    fn from(value: T) -> Located<T> {
        Located { value, place: None }
    }
}

impl<T: PartialEq> PartialEq for Located<T> {
    fn eq(&self, other: &Located<T>) -> bool {
        self.value == other.value
    }
}

impl<T: Eq> Eq for Located<T> {}
