//! What can stand to the right of a key: the trait, and the plain kinds of values.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use crate::node::{Kind, Node};
use crate::output::{Output, quoted};
use crate::place::Located;
use crate::reader::Reader;
use crate::schema::Shape;

/// A value that a key can have.
pub trait Value: Sized {
    /// What the reference calls it, and what a finding says was expected: `duration`, `list of strings`.
    fn type_name() -> String;

    /// Which tables, if any, stand inside.
    fn shape() -> Shape {
        Shape::Leaf
    }

    /// Reads the value, or adds findings and returns `None`.
    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self>;

    /// The value as TOML that reads back as the same value.
    fn write(&self) -> Output;
}

/// A value that is written as one string of its own form, such as a size.
pub trait Leaf: Sized {
    /// What it is called.
    const TYPE: &'static str;
    /// One sentence that teaches how to write one.
    const HELP: &'static str;

    /// Reads the text, or says what is wrong with it in a few words.
    fn parse(text: &str) -> Result<Self, String>;

    /// The text that reads back as the same value.
    fn text(&self) -> String;
}

impl<T: Leaf> Value for T {
    fn type_name() -> String {
        T::TYPE.into()
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<T> {
        let Kind::String(text) = &node.kind else {
            reader.wrong_type(node, T::TYPE).help(T::HELP);
            return None;
        };
        T::parse(text).map_err(|wrong| reader.wrong_text(node, T::TYPE, wrong).help(T::HELP)).ok()
    }

    fn write(&self) -> Output {
        Output::Inline(quoted(&self.text()))
    }
}

impl Value for String {
    fn type_name() -> String {
        "string".into()
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<String> {
        match &node.kind {
            Kind::String(text) => Some(text.clone()),
            _ => reader.expected(node, "string"),
        }
    }

    fn write(&self) -> Output {
        Output::Inline(quoted(self))
    }
}

impl Value for bool {
    fn type_name() -> String {
        "boolean".into()
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<bool> {
        if let Kind::Boolean(value) = node.kind {
            return Some(value);
        }
        reader.wrong_type(node, "boolean").help("write true or false, without quotes");
        None
    }

    fn write(&self) -> Output {
        Output::Inline(self.to_string())
    }
}

macro_rules! integer {
    ($($type:ty),+) => {$(
        impl Value for $type {
            fn type_name() -> String {
                "integer".into()
            }

            fn read(node: &Node, reader: &mut Reader<'_>) -> Option<$type> {
                let Kind::Integer(value) = node.kind else {
                    return reader.expected(node, "integer");
                };
                let fits = value.and_then(|value| <$type>::try_from(value).ok());
                if fits.is_none() {
                    reader.out_of_range(node, || format!("{} to {}", <$type>::MIN, <$type>::MAX));
                }
                fits
            }

            fn write(&self) -> Output {
                Output::Inline(self.to_string())
            }
        }

        impl Ranged for $type {
            type Bound = $type;

            fn bounded(&self) -> Option<&$type> {
                Some(self)
            }
        }
    )+};
}

integer!(u16, u32, u64, i32);

/// A path; a relative one starts at the directory of the file it stands in.
impl Value for PathBuf {
    fn type_name() -> String {
        "path".into()
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<PathBuf> {
        let Kind::String(text) = &node.kind else {
            return reader.expected(node, "path");
        };
        if text.is_empty() || text.contains('\0') {
            reader.wrong_text(node, "path", "a path is not empty and has no NUL in it");
            return None;
        }
        Some(reader.resolve(node, text))
    }

    fn write(&self) -> Output {
        Output::Inline(quoted(&self.to_string_lossy()))
    }
}

impl<T: Value> Value for Option<T> {
    fn type_name() -> String {
        T::type_name()
    }

    fn shape() -> Shape {
        T::shape()
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Option<T>> {
        T::read(node, reader).map(Some)
    }

    fn write(&self) -> Output {
        self.as_ref().map_or(Output::Nothing, T::write)
    }
}

impl<T: Value> Value for Located<T> {
    fn type_name() -> String {
        T::type_name()
    }

    fn shape() -> Shape {
        T::shape()
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Located<T>> {
        T::read(node, reader).map(|value| Located::new(value, node.place))
    }

    fn write(&self) -> Output {
        T::write(self)
    }
}

/// A list; elements that do not read are left out, so that the rest is checked too.
impl<T: Value> Value for Vec<T> {
    fn type_name() -> String {
        format!("list of {}", plural(&T::type_name()))
    }

    fn shape() -> Shape {
        Shape::List(Box::new(T::shape()))
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Vec<T>> {
        let Kind::Array(nodes) = &node.kind else {
            let one = reader.text_of(node).map_or("[...]".to_owned(), |text| format!("[{text}]"));
            reader
                .wrong_type(node, &Self::type_name())
                .help(format!("a list stands in square brackets, also if it has one element: {one}"));
            return None;
        };
        Some(nodes.iter().filter_map(|node| T::read(node, reader)).collect())
    }

    fn write(&self) -> Output {
        Output::list(self.iter().map(T::write))
    }
}

/// A table whose keys are free.
impl<T: Value> Value for BTreeMap<String, T> {
    fn type_name() -> String {
        format!("table of {}", plural(&T::type_name()))
    }

    fn shape() -> Shape {
        Shape::Map(Box::new(T::shape()))
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let Kind::Table(entries) = &node.kind else {
            return reader.expected(node, &Self::type_name());
        };
        let mut map = BTreeMap::new();
        for (key, entry) in entries {
            if let Some(value) = reader.inside(key, None, |reader| T::read(&entry.value, reader)) {
                map.insert(key.clone(), value);
            }
        }
        Some(map)
    }

    fn write(&self) -> Output {
        Output::Section(self.iter().map(|(key, value)| (key.clone(), value.write())).collect())
    }
}

/// A value, or what wraps one, that can be held to a range.
pub trait Ranged {
    /// What the ends of the range are.
    type Bound: PartialOrd + Value;

    /// The part of the value the range speaks of, if it has one.
    fn bounded(&self) -> Option<&Self::Bound>;
}

impl Ranged for std::time::Duration {
    type Bound = Self;

    fn bounded(&self) -> Option<&Self> {
        Some(self)
    }
}

impl Ranged for crate::Size {
    type Bound = Self;

    fn bounded(&self) -> Option<&Self> {
        Some(self)
    }
}

impl<T: Ranged> Ranged for Option<T> {
    type Bound = T::Bound;

    fn bounded(&self) -> Option<&T::Bound> {
        self.as_ref().and_then(T::bounded)
    }
}

impl<T: Ranged> Ranged for Located<T> {
    type Bound = T::Bound;

    fn bounded(&self) -> Option<&T::Bound> {
        T::bounded(self)
    }
}

/// A range as findings and the reference show it: `1 to 65536`.
pub(crate) fn range_text<T: Value>(range: &RangeInclusive<T>) -> String {
    let text = |bound: &T| match bound.write() {
        Output::Inline(text) => text,
        _ => String::new(),
    };
    format!("{} to {}", text(range.start()), text(range.end()))
}

/// `address or table` → `addresses or tables`.
fn plural(name: &str) -> String {
    let word = |word: &str| match word {
        "address" => "addresses".to_owned(),
        "list" => "lists".to_owned(),
        _ => format!("{word}s"),
    };
    name.split(" or ").map(word).collect::<Vec<_>>().join(" or ")
}
