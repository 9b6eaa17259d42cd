//! Values that are one of a few words: what [`choice!`](crate::choice!) expands to calls.

use crate::node::{Kind, Node};
use crate::reader::Reader;
use crate::suggest::nearest;

/// `"text"`, `"json"`: the words as the reference shows them.
pub fn choice_type<T>(words: &[(&str, T)]) -> String {
    words.iter().map(|(word, _)| format!("\"{word}\"")).collect::<Vec<_>>().join(" or ")
}

/// Reads one of the words, or adds a finding that names them all.
pub fn read_choice<T: Copy>(words: &[(&str, T)], node: &Node, reader: &mut Reader<'_>) -> Option<T> {
    let expected = choice_type(words);
    let Kind::String(text) = &node.kind else {
        let message = format!("`{}` has the wrong type", reader.key());
        let label = format!("expected {expected}, found {}", node.describe());
        reader.findings().error(node.place, message).label(label);
        return None;
    };
    if let Some((_, value)) = words.iter().find(|(word, _)| word == text) {
        return Some(*value);
    }
    let message = format!("`{}` cannot be {text:?}", reader.key());
    let finding = reader.findings().error(node.place, message).label(format!("must be {expected}"));
    if let Some(near) = nearest(text, words.iter().map(|(word, _)| *word)) {
        finding.help(format!("did you mean \"{near}\"?"));
    }
    None
}
