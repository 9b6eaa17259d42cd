//! Texts with variables, compiled when the config is read: to literal text and variables.
//!
//! Which variables there are, and their values, is the business of each service: it implements [`Variable`].

use std::fmt;

use crate::text::push_escaped;

/// The variables that a service's texts may have.
pub trait Variable: Clone + PartialEq + fmt::Debug {
    /// What is known where a text is rendered.
    type Facts<'a>;

    /// The variable of this name, without `$`.
    fn named(name: &str) -> Option<Self>;

    /// All names, for help texts.
    fn names() -> impl Iterator<Item = &'static str>;

    /// Whether the value is a number as JSON has it, or empty.
    fn is_number(&self) -> bool {
        false
    }

    /// Appends the value through `text`, which may escape, or as it is where it needs no escaping.
    fn push(&self, facts: &Self::Facts<'_>, out: &mut Vec<u8>, text: fn(&mut Vec<u8>, &[u8]));
}

#[derive(Clone, PartialEq, Debug)]
enum Part<V> {
    Text(Box<[u8]>),
    Variable(V),
}

/// A text with variables, compiled.
#[derive(Clone, PartialEq, Debug)]
pub struct Template<V> {
    parts: Vec<Part<V>>,
}

/// Why a text is no template.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TemplateError {
    /// A variable that does not exist.
    #[error("unknown variable `${name}`")]
    Unknown {
        /// The name, without `$`.
        name: String,
        /// The byte at which the `$` stands.
        offset: usize,
    },
    /// `${` without its `}`.
    #[error("`${{` without `}}`")]
    Unclosed {
        /// The byte at which the `$` stands.
        offset: usize,
    },
    /// `$` that no name follows. `$$` stands for the sign itself.
    #[error("`$` without a name; write `$$` for the sign itself")]
    Nameless {
        /// The byte at which the `$` stands.
        offset: usize,
    },
}

impl TemplateError {
    /// Where in the text the fault is, in bytes.
    pub fn offset(&self) -> usize {
        match self {
            TemplateError::Unknown { offset, .. }
            | TemplateError::Unclosed { offset }
            | TemplateError::Nameless { offset } => *offset,
        }
    }

    /// How many bytes the fault takes.
    pub fn length(&self) -> usize {
        match self {
            TemplateError::Unknown { name, .. } => name.len() + 1,
            TemplateError::Unclosed { .. } => 2,
            TemplateError::Nameless { .. } => 1,
        }
    }
}

/// A variable that is wrong, and where in its text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrongVariable {
    /// What is wrong, in a few words.
    pub message: String,
    /// The first byte of the fault.
    pub offset: usize,
    /// How many bytes it takes.
    pub length: usize,
    /// What would be right, if that is known.
    pub help: Option<String>,
}

/// Checks the variables of a text: what the check of a config asks for.
///
/// # Errors
/// The first fault, with its place in the text.
pub fn check_variables<V: Variable>(text: &str) -> Result<(), WrongVariable> {
    check_variables_with(text, |name| V::named(name).is_some(), V::names())
}

/// The same where not only the service knows variables, but the config makes some too: `names` are all there are.
///
/// # Errors
/// The first fault, with its place in the text.
pub fn check_variables_with<'a>(
    text: &str,
    known: impl Fn(&str) -> bool,
    names: impl Iterator<Item = &'a str>,
) -> Result<(), WrongVariable> {
    let Err(error) = split(text, |part| match part {
        Piece::Text(_) => true,
        Piece::Variable(name) => known(name),
    }) else {
        return Ok(());
    };
    let help = match &error {
        TemplateError::Unknown { name, .. } => match drover_config::nearest(name, names) {
            Some(near) => Some(format!("did you mean `${near}`?")),
            None => Some("write `$$` for a dollar sign".to_owned()),
        },
        TemplateError::Unclosed { .. } => Some("write `${name}`".to_owned()),
        TemplateError::Nameless { .. } => None,
    };
    Err(WrongVariable { message: error.to_string(), offset: error.offset(), length: error.length(), help })
}

impl<V: Variable> Template<V> {
    /// Compiles `text`: `$name` or `${name}` is a variable, `$$` a dollar sign. A name that begins with a digit is
    /// that digit alone.
    ///
    /// # Errors
    /// The first fault, with its place in the text.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        Self::parse_with(text, V::named)
    }

    /// The same where `named` knows the variables.
    ///
    /// # Errors
    /// The first fault, with its place in the text.
    pub fn parse_with(text: &str, named: impl Fn(&str) -> Option<V>) -> Result<Self, TemplateError> {
        let mut template = Self { parts: Vec::new() };
        let mut literal = String::new();
        split(text, |piece| match piece {
            Piece::Text(text) => {
                literal.push_str(text);
                true
            }
            Piece::Variable(name) => {
                template.push_text(&mut literal);
                let variable = named(name);
                let is_known = variable.is_some();
                template.parts.extend(variable.map(Part::Variable));
                is_known
            }
        })?;
        template.push_text(&mut literal);
        Ok(template)
    }

    fn push_text(&mut self, literal: &mut String) {
        if !literal.is_empty() {
            self.parts.push(Part::Text(std::mem::take(literal).into_bytes().into()));
        }
    }

    /// The text, if no variable is in it.
    pub fn as_literal(&self) -> Option<&[u8]> {
        match self.parts.as_slice() {
            [] => Some(b""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The variable that the text is, if it is one and nothing else.
    pub fn single(&self) -> Option<&V> {
        match self.parts.as_slice() {
            [Part::Variable(variable)] => Some(variable),
            _ => None,
        }
    }

    /// Whether a variable of the text fulfils `test`.
    pub fn uses(&self, test: impl Fn(&V) -> bool) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Variable(variable) if test(variable)))
    }

    /// Appends the text for a log: values are escaped, and an empty one becomes `-`.
    pub fn push_for_log(&self, facts: &V::Facts<'_>, out: &mut Vec<u8>) {
        for part in &self.parts {
            match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::Variable(variable) => {
                    let start = out.len();
                    variable.push(facts, out, push_escaped);
                    if out.len() == start {
                        out.push(b'-');
                    }
                }
            }
        }
    }

    /// Appends all of it through `text`, which may escape.
    pub fn push_through(&self, facts: &V::Facts<'_>, out: &mut Vec<u8>, text: fn(&mut Vec<u8>, &[u8])) {
        for part in &self.parts {
            match part {
                Part::Text(literal) => text(out, literal),
                Part::Variable(variable) => variable.push(facts, out, text),
            }
        }
    }

    /// Appends the text with its values through `value`, which may escape.
    pub fn push_values(&self, facts: &V::Facts<'_>, out: &mut Vec<u8>, value: fn(&mut Vec<u8>, &[u8])) {
        for part in &self.parts {
            match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::Variable(variable) => variable.push(facts, out, value),
            }
        }
    }

    /// Appends the text with all values as they are.
    pub fn push_plain(&self, facts: &V::Facts<'_>, out: &mut Vec<u8>) {
        self.push_values(facts, out, |out, text| out.extend_from_slice(text));
    }
}

/// A piece of a text.
enum Piece<'a> {
    Text(&'a str),
    /// The name of a variable.
    Variable(&'a str),
}

/// Shows `take` the pieces of a text in their order; false from it stands for a variable that does not exist.
fn split<'a>(text: &'a str, mut take: impl FnMut(Piece<'a>) -> bool) -> Result<(), TemplateError> {
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        take(Piece::Text(&rest[..at]));
        let offset = text.len() - rest.len() + at;
        let after = &rest[at + 1..];
        if let Some(next) = after.strip_prefix('$') {
            take(Piece::Text("$"));
            rest = next;
            continue;
        }
        let (name, next) = name(after, offset)?;
        if !take(Piece::Variable(name)) {
            return Err(TemplateError::Unknown { name: name.to_owned(), offset });
        }
        rest = next;
    }
    take(Piece::Text(rest));
    Ok(())
}

/// The names of the variables in a text, up to its first fault.
pub fn variables_in(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let _ = split(text, |piece| {
        if let Piece::Variable(name) = piece {
            names.push(name);
        }
        true
    });
    names
}

/// The name that `after`, which follows a `$`, begins with, and what follows the name.
fn name(after: &str, offset: usize) -> Result<(&str, &str), TemplateError> {
    if let Some(braced) = after.strip_prefix('{') {
        return braced.split_once('}').ok_or(TemplateError::Unclosed { offset });
    }
    let end = match after.starts_with(|c: char| c.is_ascii_digit()) {
        true => 1,
        false => after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len()),
    };
    if end == 0 { Err(TemplateError::Nameless { offset }) } else { Ok(after.split_at(end)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One variable, `$name`, with the text that the test gives it.
    #[derive(Clone, PartialEq, Debug)]
    struct Name;

    impl Variable for Name {
        type Facts<'a> = &'a [u8];

        fn named(name: &str) -> Option<Name> {
            (name == "name").then_some(Name)
        }

        fn names() -> impl Iterator<Item = &'static str> {
            ["name"].into_iter()
        }

        fn push(&self, facts: &&[u8], out: &mut Vec<u8>, text: fn(&mut Vec<u8>, &[u8])) {
            text(out, facts);
        }
    }

    #[test]
    fn variables_stand_for_their_values() {
        let template = Template::<Name>::parse("a$name ${name}b $$5 %").expect("a template");
        let (mut logged, mut plain, mut empty) = (Vec::new(), Vec::new(), Vec::new());
        template.push_for_log(&b"x\"y".as_slice(), &mut logged);
        template.push_plain(&b"x\"y".as_slice(), &mut plain);
        template.push_for_log(&b"".as_slice(), &mut empty);
        assert_eq!(logged, br"ax\x22y x\x22yb $5 %");
        assert_eq!(plain, b"ax\"y x\"yb $5 %");
        assert_eq!(empty, b"a- -b $5 %");
    }

    #[test]
    fn a_text_without_variables_is_known_as_such() {
        let literal =
            |text| Template::<Name>::parse(text).expect("a template").as_literal().map(<[u8]>::to_vec);
        assert_eq!(literal("$$ only"), Some(b"$ only".to_vec()));
        assert_eq!(literal(""), Some(Vec::new()));
        assert_eq!(literal("a $name"), None);
        assert!(Template::<Name>::parse("$name").expect("a template").uses(|variable| *variable == Name));
        assert_eq!(variables_in("$$a $1b ${c}d$e"), ["1", "c", "e"]);
    }

    #[test]
    fn faults_say_where() {
        for (text, message, offset, length) in [
            ("a $nope", "unknown variable `$nope`", 2, 5),
            ("é ${name", "`${` without `}`", 3, 2),
            ("$name $", "`$` without a name; write `$$` for the sign itself", 6, 1),
        ] {
            let error = Template::<Name>::parse(text).expect_err(text);
            assert_eq!(
                (error.to_string().as_str(), error.offset(), error.length()),
                (message, offset, length)
            );
        }
    }

    #[test]
    fn a_check_says_what_would_be_right() {
        assert_eq!(check_variables::<Name>("$name"), Ok(()));
        let wrong = check_variables::<Name>("x $nmae").expect_err("no such variable");
        assert_eq!((wrong.offset, wrong.length), (2, 5));
        assert_eq!(wrong.help.as_deref(), Some("did you mean `$name`?"));
    }
}
