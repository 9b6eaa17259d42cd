//! What each directive becomes: the conversion's table, from which its reference is written too.

use std::fmt::Write as _;

use crate::convert::Scope;
use crate::tree::Directive;
use crate::{contexts, values};

/// Where a directive stands, or a key of drover.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Level {
    Main,
    Http,
    Server,
    Location,
    Upstream,
    Stream,
    StreamServer,
    StreamUpstream,
}

impl Level {
    pub(crate) fn is_of_streams(self) -> bool {
        matches!(self, Level::Stream | Level::StreamServer | Level::StreamUpstream)
    }
}

/// How it went: a difference that can be seen, if there is one; or why it was not carried over.
pub(crate) type Verdict = Result<Option<String>, String>;

/// What a directive becomes.
pub(crate) struct Row {
    pub(crate) directive: &'static str,
    /// The keys it becomes, for the reference; with [`How::Nothing`] and [`How::Unsupported`] why it is left out.
    pub(crate) becomes: &'static str,
    /// Levels at which drover has such a key. A directive further out is handed to the levels inside.
    pub(crate) levels: &'static [Level],
    pub(crate) how: How,
}

/// How its arguments become a value.
pub(crate) enum How {
    Duration,
    Size,
    Flag,
    Integer,
    /// A path that starts at the prefix.
    Path,
    /// A time, a number: a key of the upstream that is passed on to.
    UpstreamDuration,
    UpstreamInteger,
    By(fn(&mut Scope, &Directive) -> Verdict),
    /// A block, which the walk over the tree takes care of.
    Block,
    /// It has no effect in drover and needs none.
    Nothing,
    Unsupported,
    /// drover has nothing for it, and without it somebody would be let in: what it guards is closed.
    Guard,
}

/// The row of a directive that stands at `level`.
pub(crate) fn find(name: &str, level: Level) -> Option<&'static Row> {
    let fits = |row: &&Row| {
        row.directive == name
            && (row.levels.is_empty() || row.levels.iter().any(|known| is_related(*known, level)))
    };
    contexts::ROWS.iter().flat_map(|rows| rows.iter()).find(fits)
}

/// Whether what stands at one level may be about the other.
fn is_related(one: Level, other: Level) -> bool {
    let family = |level| match level {
        Level::Main => 0,
        Level::Http | Level::Server | Level::Location => 1,
        Level::Upstream => 2,
        Level::Stream | Level::StreamServer => 3,
        Level::StreamUpstream => 4,
    };
    family(one) == family(other)
}

impl Row {
    /// Sets the key, for rows whose value goes over as it is.
    pub(crate) fn apply(&self, scope: &mut Scope, directive: &Directive) -> Verdict {
        let value = |convert: fn(&str) -> Option<String>, kind: &str| match directive.arguments.as_slice() {
            [text] => convert(text).ok_or_else(|| format!("`{text}` is not {kind}")),
            _ => Err("one value is expected".to_owned()),
        };
        let value = match self.how {
            How::By(convert) => return convert(scope, directive),
            How::UpstreamDuration => {
                let value = value(values::duration_text, "a time")?;
                return Ok(scope.ask_upstream(self.becomes, value));
            }
            How::UpstreamInteger => {
                let value = value(number, "a number")?;
                return Ok(scope.ask_upstream(self.becomes, value));
            }
            How::Duration => value(values::duration_text, "a time")?,
            How::Size => value(values::size_text, "a size")?,
            How::Flag => value(|text| values::flag(text).map(|flag| flag.to_string()), "on or off")?,
            How::Integer => value(number, "a number")?,
            How::Path => {
                let [path] = contexts::exactly(&directive.arguments)?;
                let (path, remark) = scope.facts.directories.at_prefix(path);
                scope.set(self.becomes, crate::document::string(&path));
                return Ok(remark);
            }
            How::Block | How::Nothing | How::Unsupported | How::Guard => return Ok(None),
        };
        scope.set(self.becomes, value);
        Ok(None)
    }
}

fn number(text: &str) -> Option<String> {
    text.parse::<i64>().ok().map(|number| number.to_string())
}

/// The reference: every directive that is known and what becomes of it, as tables in Markdown.
pub fn reference() -> String {
    let contexts: [(&str, &[Level]); 4] = [
        ("The main level and `events`", &[Level::Main]),
        ("`http`, `server` and `location`", &[Level::Http, Level::Server, Level::Location]),
        ("`upstream`", &[Level::Upstream, Level::StreamUpstream]),
        ("`stream` and its `server`", &[Level::Stream, Level::StreamServer]),
    ];
    let mut text = String::new();
    for (heading, levels) in contexts {
        let all = contexts::ROWS.iter().flat_map(|rows| rows.iter());
        let mut rows: Vec<&Row> =
            all.filter(|row| row.levels.iter().any(|level| levels.contains(level))).collect();
        rows.sort_by_key(|row| row.directive);
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "{}{heading}\n\n| nginx | drover |\n|---|---|\n",
            if text.is_empty() { "" } else { "\n" }
        );
        for row in rows {
            let _ = writeln!(text, "| `{}` | {} |", row.directive, row.told());
        }
    }
    text
}

impl Row {
    /// What becomes of the directive, in words.
    fn told(&self) -> String {
        match self.how {
            How::Nothing => format!("no effect: {}", self.becomes),
            How::Unsupported => format!("not supported: {}", self.becomes),
            How::Guard => format!("not supported, what it guards is closed: {}", self.becomes),
            How::Block => self.becomes.to_owned(),
            // Some are keys, and some say how drover does it anyway.
            _ if self.becomes.split(", ").all(|key| !key.contains(' ')) => keys(self.becomes),
            _ => self.becomes.to_owned(),
        }
    }
}

/// `a`, `b`
fn keys(becomes: &str) -> String {
    becomes.split(", ").map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")
}
