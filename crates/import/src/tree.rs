//! Directives: nginx's configuration as a tree, with the place of every node.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::lexer::{Lexer, Placed, Reason, Token};

/// Blocks in blocks deeper than this are refused: nginx's own contexts need five.
const MAX_DEPTH: usize = 32;
/// Files included by files included, at most.
const MAX_INCLUDES: usize = 16;
/// More files than this are not read: a pattern has gone wrong.
const MAX_FILES: usize = 1000;

/// A line of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The file, as it was named.
    pub file: Arc<Path>,
    /// Counted from 1.
    pub line: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.file.display(), self.line)
    }
}

/// What stands in a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Node {
    /// A directive.
    Directive(Directive),
    /// A comment.
    Comment(Comment),
}

/// A name, its arguments, and a block where it has one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Directive {
    /// Where it begins.
    pub place: Place,
    /// The first word.
    pub name: String,
    /// The other words.
    pub arguments: Vec<String>,
    /// What stands in its braces; `None` where it ends with a semicolon.
    pub block: Option<Vec<Node>>,
}

/// A comment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Comment {
    /// Without `#` and the space around it.
    pub text: String,
    /// Whether something else stands before it on its line.
    pub behind: bool,
}

impl Directive {
    /// The directive as one would write it, its block left out.
    pub fn line(&self) -> String {
        let mut line = quoted(&self.name);
        for argument in &self.arguments {
            line.push(' ');
            line.push_str(&quoted(argument));
        }
        line.push_str(if self.block.is_some() { " { ... }" } else { ";" });
        line
    }

    /// The directives in its block.
    pub fn inner(&self) -> impl Iterator<Item = &Directive> {
        let nodes = self.block.as_deref().unwrap_or_default();
        nodes
            .iter()
            .filter_map(|node| if let Node::Directive(directive) = node { Some(directive) } else { None })
    }
}

fn quoted(word: &str) -> String {
    let plain = !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || ";{}\"'#\\".contains(c));
    if plain {
        return word.to_owned();
    }
    let mut text = String::from("\"");
    for character in word.chars() {
        match character {
            '"' | '\\' => text.extend(['\\', character]),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            _ => text.push(character),
        }
    }
    text + "\""
}

/// Why a file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is not nginx's language.
    #[error("{place}: {reason}")]
    Syntax {
        /// The line that was reached.
        place: Place,
        /// In nginx's words.
        reason: String,
    },
    /// It could not be opened.
    #[error("{}cannot read {}: {source}", asked(.from), .file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The `include` that asked for it; `None` for the first file.
        from: Option<Place>,
        /// What the system says.
        source: io::Error,
    },
    /// Files include each other, or a pattern matches too many.
    #[error("{place}: too many files are included")]
    TooMany {
        /// The `include` that was one too many.
        place: Place,
    },
}

fn asked(from: &Option<Place>) -> String {
    from.as_ref().map_or(String::new(), |place| format!("{place}: "))
}

/// Reads a file and what it includes. The includes are replaced by what stands in their files.
///
/// # Errors
/// The first fault, as nginx would report it.
pub fn read(path: &Path) -> Result<Vec<Node>, ReadError> {
    let directory = path.parent().map(Path::to_path_buf).unwrap_or_default();
    let mut reader = Reader { directory, files: 0, depth: 0 };
    reader.file(path, None)
}

/// Reads a text that stands in no file. It can include nothing: an `include` stays a directive.
///
/// # Errors
/// The first fault, as nginx would report it.
pub fn parse(name: &str, text: &str) -> Result<Vec<Node>, ReadError> {
    Parser { file: Path::new(name).into(), lexer: Lexer::new(text) }.block(0)
}

struct Reader {
    /// Of the first file: relative patterns begin there.
    directory: PathBuf,
    files: usize,
    depth: usize,
}

impl Reader {
    fn file(&mut self, path: &Path, from: Option<&Place>) -> Result<Vec<Node>, ReadError> {
        self.files += 1;
        let text = std::fs::read(path).map_err(|source| ReadError::Unreadable {
            file: path.to_path_buf(),
            from: from.cloned(),
            source,
        })?;
        let text = String::from_utf8_lossy(&text);
        let nodes = parse(&path.to_string_lossy(), &text)?;
        self.with_includes(nodes)
    }

    fn with_includes(&mut self, nodes: Vec<Node>) -> Result<Vec<Node>, ReadError> {
        let mut all = Vec::with_capacity(nodes.len());
        for node in nodes {
            match node {
                Node::Directive(Directive { name, arguments, block: None, place })
                    if name == "include" && arguments.len() == 1 =>
                {
                    all.extend(self.included(&arguments[0], &place)?);
                }
                Node::Directive(mut directive) => {
                    directive.block = directive.block.map(|nodes| self.with_includes(nodes)).transpose()?;
                    all.push(Node::Directive(directive));
                }
                comment @ Node::Comment(_) => all.push(comment),
            }
        }
        Ok(all)
    }

    /// What the files that `pattern` matches contain, in the order of their names. A pattern may match none,
    /// a name may not.
    fn included(&mut self, pattern: &str, place: &Place) -> Result<Vec<Node>, ReadError> {
        let path = self.directory.join(pattern);
        if !pattern.contains(['*', '?', '[']) {
            return self.one_included(&path, place);
        }
        let mut all = Vec::new();
        for path in glob::glob(&path.to_string_lossy()).into_iter().flatten().flatten() {
            all.extend(self.one_included(&path, place)?);
        }
        Ok(all)
    }

    fn one_included(&mut self, path: &Path, place: &Place) -> Result<Vec<Node>, ReadError> {
        if self.depth == MAX_INCLUDES || self.files == MAX_FILES {
            return Err(ReadError::TooMany { place: place.clone() });
        }
        self.depth += 1;
        let nodes = self.file(path, Some(place));
        self.depth -= 1;
        nodes
    }
}

struct Parser<'a> {
    file: Arc<Path>,
    lexer: Lexer<'a>,
}

impl Parser<'_> {
    /// What stands up to the end of a block, or with `depth` 0 of the text.
    fn block(&mut self, depth: usize) -> Result<Vec<Node>, ReadError> {
        let mut nodes = Vec::new();
        let mut words: Vec<String> = Vec::new();
        let mut begun = 1;
        loop {
            let next = self.lexer.next().map_err(|fault| self.fault(fault.line, fault.reason.to_string()))?;
            let Some(Placed { token, line }) = next else {
                return if words.is_empty() && depth == 0 {
                    Ok(nodes)
                } else {
                    let expected = if words.is_empty() { "\"}\"" } else { "\";\" or \"}\"" };
                    Err(self
                        .fault(self.lexer.line(), format!("unexpected end of file, expecting {expected}")))
                };
            };
            match token {
                Token::Comment { text, behind } => nodes.push(Node::Comment(Comment { text, behind })),
                Token::Word(word) => {
                    if words.is_empty() {
                        begun = line;
                    }
                    words.push(word);
                }
                Token::Close if words.is_empty() && depth > 0 => return Ok(nodes),
                Token::Close => return Err(self.unexpected(line, '}')),
                Token::End if words.is_empty() => return Err(self.unexpected(line, ';')),
                Token::Open if words.is_empty() || depth == MAX_DEPTH => {
                    return Err(self.unexpected(line, '{'));
                }
                Token::End => nodes.push(self.directive(begun, std::mem::take(&mut words), None)),
                Token::Open => {
                    let words = std::mem::take(&mut words);
                    let inner = self.block(depth + 1)?;
                    nodes.push(self.directive(begun, words, Some(inner)));
                }
            }
        }
    }

    fn directive(&self, line: u32, mut words: Vec<String>, block: Option<Vec<Node>>) -> Node {
        let name = words.remove(0);
        let place = Place { file: Arc::clone(&self.file), line };
        Node::Directive(Directive { place, name, arguments: words, block })
    }

    fn unexpected(&self, line: u32, character: char) -> ReadError {
        self.fault(line, Reason::Unexpected(character).to_string())
    }

    fn fault(&self, line: u32, reason: String) -> ReadError {
        ReadError::Syntax { place: Place { file: Arc::clone(&self.file), line }, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directives(text: &str) -> Vec<Directive> {
        let nodes = parse("nginx.conf", text).expect("it can be read");
        let root = Node::Directive(Directive {
            place: Place { file: Path::new("").into(), line: 0 },
            name: String::new(),
            arguments: Vec::new(),
            block: Some(nodes),
        });
        let Node::Directive(root) = root else { unreachable!("made above") };
        root.inner().cloned().collect()
    }

    fn refusal(text: &str) -> String {
        parse("nginx.conf", text).expect_err("it is wrong").to_string()
    }

    #[test]
    fn directives_have_arguments_blocks_and_places() {
        let all = directives("user www;\n\nhttp {\n  server {\n    listen 80\n      deferred;\n  }\n}\n");
        let shown = |directive: &Directive| (directive.line(), directive.place.line);
        assert_eq!(
            all.iter().map(shown).collect::<Vec<_>>(),
            [("user www;".to_owned(), 1), ("http { ... }".to_owned(), 3)]
        );
        let server = all[1].inner().next().expect("a server");
        assert_eq!(shown(server.inner().next().expect("a directive")), ("listen 80 deferred;".to_owned(), 5));
    }

    #[test]
    fn faults_are_told_as_nginx_tells_them() {
        assert_eq!(refusal("http {\n server {\n"), "nginx.conf:3: unexpected end of file, expecting \"}\"");
        assert_eq!(refusal("user www"), "nginx.conf:1: unexpected end of file, expecting \";\" or \"}\"");
        assert_eq!(refusal("http {\n user a }"), "nginx.conf:2: unexpected \"}\"");
        assert_eq!(refusal("}"), "nginx.conf:1: unexpected \"}\"");
        assert_eq!(refusal("a;\n;"), "nginx.conf:2: unexpected \";\"");
        assert_eq!(refusal("{"), "nginx.conf:1: unexpected \"{\"");
        assert_eq!(refusal(&"a {".repeat(40)), "nginx.conf:1: unexpected \"{\"");
    }

    #[test]
    fn a_line_is_written_so_that_it_means_the_same() {
        for line in ["a \"b\\n c\" \"\" \"d\\\"\\\\\" e$f;", "\"a b\" c;", "if ($a ~ b) { ... }"] {
            let text = line.replace("...", "");
            assert_eq!(directives(&text)[0].line(), line);
        }
    }
}
