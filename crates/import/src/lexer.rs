//! Words of nginx's configuration language.
//!
//! The rules are those of its parser (`ngx_conf_read_token`): words are separated by space, a directive ends
//! with `;`, a block stands in braces. Quotes count only at a word's beginning, and behind the closing one a
//! word must end. A backslash keeps the next byte from meaning anything; before quotes, backslashes, `t`, `r`
//! and `n` it is replaced, and it stays before anything else. `${` begins a variable's name, so its brace opens
//! no block, and `#` begins a comment only where a word could.

use std::fmt;

/// What the text is made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Token {
    Word(String),
    /// `;`
    End,
    /// `{`
    Open,
    /// `}`
    Close,
    /// What follows `#`, and whether anything else stands before it on its line.
    Comment {
        text: String,
        behind: bool,
    },
}

/// A token and its line, counted from 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Placed {
    pub(crate) token: Token,
    pub(crate) line: u32,
}

/// Why the words could not be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    pub(crate) reason: Reason,
    pub(crate) line: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reason {
    Unexpected(char),
    /// The text ends inside of a word, or with its quotes open.
    End,
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Unexpected(character) => write!(formatter, "unexpected \"{character}\""),
            Reason::End => formatter.write_str("unexpected end of file, expecting \";\" or \"}\""),
        }
    }
}

/// Gives the tokens of `text` one after another.
pub(crate) struct Lexer<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    line: u32,
    /// Something but space stands on this line already.
    behind: bool,
    /// A quoted word was closed: space must follow, or what ends a directive.
    closed_quotes: bool,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { rest: text.chars().peekable(), line: 1, behind: false, closed_quotes: false }
    }

    /// The line that was reached.
    pub(crate) fn line(&self) -> u32 {
        self.line
    }

    /// The next token; `None` at the end of the text.
    pub(crate) fn next(&mut self) -> Result<Option<Placed>, Fault> {
        self.skip_space();
        let line = self.line;
        let Some(&first) = self.rest.peek() else { return Ok(None) };
        let closed_quotes = std::mem::take(&mut self.closed_quotes);
        if closed_quotes && !matches!(first, ';' | '{' | ')') {
            return Err(self.fault(Reason::Unexpected(first)));
        }
        let behind = std::mem::replace(&mut self.behind, true);
        let token = match first {
            ';' | '{' | '}' => {
                self.bump();
                match first {
                    ';' => Token::End,
                    '{' => Token::Open,
                    _ => Token::Close,
                }
            }
            '#' => Token::Comment { text: self.comment(), behind },
            '"' | '\'' => Token::Word(self.quoted(first)?),
            _ => Token::Word(self.plain()?),
        };
        Ok(Some(Placed { token, line }))
    }

    fn bump(&mut self) -> Option<char> {
        let character = self.rest.next()?;
        if character == '\n' {
            self.line += 1;
            self.behind = false;
        }
        Some(character)
    }

    fn fault(&self, reason: Reason) -> Fault {
        Fault { reason, line: self.line }
    }

    fn skip_space(&mut self) {
        while self.rest.peek().is_some_and(|character| is_space(*character)) {
            self.closed_quotes = false;
            self.bump();
        }
    }

    fn comment(&mut self) -> String {
        let mut text = String::new();
        while self.rest.peek().is_some_and(|character| *character != '\n') {
            text.extend(self.bump());
        }
        text.trim_start_matches('#').trim().to_owned()
    }

    /// A word in quotes; the opening ones are next.
    fn quoted(&mut self, quotes: char) -> Result<String, Fault> {
        self.bump();
        let mut word = String::new();
        loop {
            match self.bump() {
                None => return Err(self.fault(Reason::End)),
                Some('\\') => self.escaped(&mut word)?,
                Some(character) if character == quotes => break,
                Some(character) => word.push(character),
            }
        }
        self.closed_quotes = true;
        Ok(word)
    }

    fn plain(&mut self) -> Result<String, Fault> {
        let mut word = String::new();
        let mut dollar = false;
        loop {
            match self.rest.peek() {
                None => return Err(self.fault(Reason::End)),
                Some('{') if dollar => {}
                Some(character) if is_space(*character) || matches!(character, ';' | '{') => return Ok(word),
                Some(_) => {}
            }
            let Some(character) = self.bump() else { continue };
            dollar = character == '$' || (dollar && character == '{');
            match character {
                '\\' => self.escaped(&mut word)?,
                _ => word.push(character),
            }
        }
    }

    /// What a backslash, which was just taken, makes of the next character.
    fn escaped(&mut self, word: &mut String) -> Result<(), Fault> {
        match self.bump() {
            None => return Err(self.fault(Reason::End)),
            Some(character @ ('"' | '\'' | '\\')) => word.push(character),
            Some('t') => word.push('\t'),
            Some('r') => word.push('\r'),
            Some('n') => word.push('\n'),
            Some(character) => word.extend(['\\', character]),
        }
        Ok(())
    }
}

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Result<Vec<Token>, Fault> {
        let mut lexer = Lexer::new(text);
        let mut tokens = Vec::new();
        while let Some(placed) = lexer.next()? {
            tokens.push(placed.token);
        }
        Ok(tokens)
    }

    fn words(text: &str) -> Vec<String> {
        let word = |token| if let Token::Word(word) = token { Some(word) } else { None };
        tokens(text).expect("it can be read").into_iter().filter_map(word).collect()
    }

    #[test]
    fn words_are_separated_by_space_and_by_what_ends_a_directive() {
        assert_eq!(words("listen\t80;\r\nserver{root /a}b;}"), ["listen", "80", "server", "root", "/a}b"]);
    }

    #[test]
    fn quotes_count_at_the_beginning_of_a_word() {
        assert_eq!(words(r#"a "b c" 'd;{e' f"g;"#), ["a", "b c", "d;{e", "f\"g"]);
        assert_eq!(words("a \"\" '' ;"), ["a", "", ""]);
        assert_eq!(tokens("a \"b\"c;"), Err(Fault { reason: Reason::Unexpected('c'), line: 1 }));
        assert_eq!(words("if ( \"a\");"), ["if", "(", "a", ")"], "a bracket may follow");
    }

    #[test]
    fn backslashes_keep_their_place_before_what_needs_none() {
        assert_eq!(
            words(r#"a "\"\\\t\d" \;b \{ c\ d '\'';"#),
            ["a", "\"\\\t\\d", "\\;b", "\\{", "c\\ d", "'"]
        );
    }

    #[test]
    fn the_brace_of_a_variable_opens_no_block() {
        assert_eq!(words("set $a ${b}c$d{}"), ["set", "$a", "${b}c$d"]);
        assert_eq!(tokens("set ${b}{}").map(|tokens| tokens.len()), Ok(4));
    }

    #[test]
    fn comments_begin_where_words_could() {
        let comment = |text: &str, behind| Token::Comment { text: text.to_owned(), behind };
        let word = |text: &str| Token::Word(text.to_owned());
        assert_eq!(
            tokens("# one\na b#c; ## two\n"),
            Ok(vec![comment("one", false), word("a"), word("b#c"), Token::End, comment("two", true)])
        );
    }

    #[test]
    fn what_is_left_open_is_reported_where_the_text_ends() {
        let end = |line| Err(Fault { reason: Reason::End, line });
        assert_eq!(tokens("a \"b\n"), end(2));
        assert_eq!(tokens("a\n\nb"), end(3));
        assert_eq!(tokens("a \\"), end(1));
    }
}
