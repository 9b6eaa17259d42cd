//! Field lines that are passed on: as they were received, without those that are not.

use super::framing::options;
use super::head::{Field, Span};
use super::name::{Name, Names};

/// Fields that are meant for one connection alone, and never passed on
/// ([RFC 9110, 7.6.1](https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1)).
pub(crate) const HOP_BY_HOP: Names = Names::of(&[
    Name::Connection,
    Name::KeepAlive,
    Name::ProxyConnection,
    Name::Te,
    Name::TransferEncoding,
    Name::Upgrade,
]);

/// Fields that stay though Connection names them: without them the message would be another one.
const NEEDED: Names = Names::of(&[Name::ContentLength, Name::Host]);

/// Which fields are not passed on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dropped<'a> {
    /// Those that have a number.
    pub(crate) names: Names,
    /// Others, in lower case.
    pub(crate) others: &'a [Box<[u8]>],
}

impl Dropped<'_> {
    #[inline]
    fn has(&self, field: &Field, head: &[u8]) -> bool {
        self.names.has(field.id)
            || field.id == Name::Other
                && !self.others.is_empty()
                && is_among(field.name.of(head), self.others)
    }
}

/// Adds the names of `more`, in any case, to those that have a number and those that have none.
pub(crate) fn add_names<'a>(
    more: impl IntoIterator<Item = &'a str>,
    names: &mut Names,
    others: &mut Vec<Box<[u8]>>,
) {
    for name in more {
        match Name::of(name.as_bytes()) {
            Name::Other => others.push(name.to_ascii_lowercase().into_bytes().into()),
            known => *names = names.with(known),
        }
    }
}

fn is_among(name: &[u8], others: &[Box<[u8]>]) -> bool {
    others.iter().any(|other| name.eq_ignore_ascii_case(other))
}

/// Appends the lines of `fields`, which stand in `head`, that are passed on. `named`: Connection names others.
#[inline]
pub(crate) fn push_lines(
    fields: &[Field],
    head: &[u8],
    dropped: Dropped<'_>,
    named: bool,
    out: &mut Vec<u8>,
) {
    // Lines that follow each other are copied together.
    let mut run = 0..0;
    for field in fields {
        if dropped.has(field, head) || named && is_named(field, fields, head) {
            continue;
        }
        let start = field.name.start as usize;
        if start != run.end {
            out.extend_from_slice(&head[run]);
            run = start..start;
        }
        run.end = line_end(head, field.value);
    }
    out.extend_from_slice(&head[run]);
}

/// Whether a field called Connection names this one.
#[cold]
fn is_named(field: &Field, fields: &[Field], head: &[u8]) -> bool {
    let name = field.name.of(head);
    let lists = fields.iter().filter(|field| field.id == Name::Connection);
    !NEEDED.has(field.id)
        && lists.flat_map(|list| options(list.value.of(head))).any(|option| option.eq_ignore_ascii_case(name))
}

/// The end of the line with this value: behind its space and CR LF.
#[inline]
fn line_end(head: &[u8], value: Span) -> usize {
    let mut at = value.end as usize;
    while let Some(b' ' | b'\t') = head.get(at) {
        at += 1;
    }
    (at + 2).min(head.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h1::head::Limits;
    use crate::h1::response_head::ResponseHead;

    #[test]
    fn lines_are_kept_as_they_came() {
        let text =
            b"HTTP/1.1 200 OK\r\nA:1\r\nX-b:  2 \r\nConnection: a-c, Content-Length\r\nContent-Length: 3\r\n\
            A-C: 4\r\nE:\r\nKeep-Alive: 5\r\nX-D: 6\t\r\n\r\n";
        let mut head = ResponseHead::default();
        let limits = Limits { size: 1000, max_headers: 20, keep_odd_names: true };
        head.parse(text, &limits).expect("a head");
        let mut out = Vec::new();
        let (mut names, mut others) = (HOP_BY_HOP, Vec::new());
        add_names(["x-B", "Cookie"], &mut names, &mut others);
        assert!(names.has(Name::Cookie) && others.len() == 1);
        let dropped = Dropped { names, others: &others };
        push_lines(&head.fields, text, dropped, head.connection.names_fields, &mut out);
        assert_eq!(out.escape_ascii().to_string(), r"A:1\r\nContent-Length: 3\r\nE:\r\nX-D: 6\t\r\n");
        out.clear();
        let nothing = Dropped { names: Names::default(), others: &[] };
        push_lines(&head.fields, text, nothing, false, &mut out);
        assert_eq!(out, text[17..text.len() - 2]);
    }
}
