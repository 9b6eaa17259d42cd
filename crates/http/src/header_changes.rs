//! Changes to the fields of answers, compiled.

use crate::config;
use crate::own::OwnVariables;
use crate::rules::{Condition, RuleError};
use crate::variables::{Template, Variable};

/// The changes that a location makes, in their order.
#[derive(Debug)]
pub(crate) struct HeaderChanges {
    changes: Vec<HeaderChange>,
    /// Some text has a variable for a field of the answer.
    reads_fields: bool,
}

#[derive(Debug)]
struct HeaderChange {
    /// What has to be true of the request.
    when: Option<Condition>,
    /// Of answers that are changed; none for all.
    statuses: Option<Box<[u16]>>,
    /// Fields that go, by name.
    remove: Vec<Box<[u8]>>,
    /// Fields that come, behind the others.
    add: Vec<(Box<[u8]>, Template)>,
}

impl HeaderChanges {
    pub(crate) fn new(config: &config::Headers, own: &OwnVariables) -> Result<HeaderChanges, RuleError> {
        let change = |config: &config::HeaderChange| {
            let removed = config.remove.iter().map(|name| name.as_str());
            let remove = removed.chain(config.set.keys().map(String::as_str));
            let add = config.set.iter().chain(&config.add);
            let add = add.map(|(name, text)| Ok((name.as_bytes().into(), own.template(text)?)));
            let when = config.when.as_ref().map(|when| Condition::new(when, own)).transpose()?;
            Ok(HeaderChange {
                when,
                statuses: config.statuses.as_ref().map(|statuses| statuses.as_slice().into()),
                remove: remove.map(|name| name.as_bytes().into()).collect(),
                add: add.collect::<Result<_, RuleError>>()?,
            })
        };
        let changes = config.0.iter().map(change).collect::<Result<Vec<HeaderChange>, RuleError>>()?;
        let mut texts = changes.iter().flat_map(|change| change.add.iter().map(|(_, text)| text));
        let mut conditions = changes.iter().filter_map(|change| change.when.as_ref());
        let reads_fields = texts.any(|text| text.uses(Variable::is_sent_field))
            || conditions.any(|condition| condition.uses(Variable::is_sent_field));
        Ok(HeaderChanges { changes, reads_fields })
    }

    /// Whether the head as it was has to be known.
    pub(crate) fn reads_fields(&self) -> bool {
        self.reads_fields
    }

    /// Changes the head that `out` holds from `start` to `end`, of an answer with `status`. `render` appends a text.
    /// Gives the head's new end.
    pub(crate) fn apply(
        &self,
        out: &mut Vec<u8>,
        (start, end): (usize, usize),
        status: u16,
        render: impl Fn(&Template, &mut Vec<u8>),
    ) -> usize {
        // The head without the empty line that ends it.
        let mut head = out[start..end - 2].to_vec();
        for change in &self.changes {
            if change.statuses.as_ref().is_some_and(|statuses| !statuses.contains(&status)) {
                continue;
            }
            if change.when.as_ref().is_some_and(|when| !when.holds_by(&render)) {
                continue;
            }
            change.remove.iter().for_each(|name| remove_field(&mut head, name));
            for (name, text) in &change.add {
                let before = head.len();
                head.extend_from_slice(name);
                head.extend_from_slice(b": ");
                let value = head.len();
                render(text, &mut head);
                if head.len() == value {
                    // A field whose text is empty is not there, as in nginx.
                    head.truncate(before);
                    continue;
                }
                spaces_for_controls(&mut head[value..]);
                head.extend_from_slice(b"\r\n");
            }
        }
        head.extend_from_slice(b"\r\n");
        let length = head.len();
        out.splice(start..end, head);
        start + length
    }
}

/// Takes the fields of this name out of a head.
pub(crate) fn remove_field(head: &mut Vec<u8>, name: &[u8]) {
    let mut at = 0;
    while at < head.len() {
        let length = memchr::memchr(b'\n', &head[at..]).map_or(head.len() - at, |end| end + 1);
        let line = &head[at..at + length];
        let is_it = line.get(name.len()) == Some(&b':') && line[..name.len()].eq_ignore_ascii_case(name);
        if is_it {
            head.drain(at..at + length);
        } else {
            at += length;
        }
    }
}

/// RFC 9110, 5.5: what no value may hold is replaced by spaces, so that no variable can begin another field.
fn spaces_for_controls(value: &mut [u8]) {
    for byte in value {
        if byte.is_ascii_control() && *byte != b'\t' {
            *byte = b' ';
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{HeaderChange as Config, Headers};

    const HEAD: &[u8] =
        b"before HTTP/1.1 200 OK\r\nServer: drover\r\nX-A: 1\r\nx-a: 2\r\nConnection: close\r\n\r\nbody";

    fn changed(status: u16, changes: &[Config]) -> String {
        let changes =
            HeaderChanges::new(&Headers(changes.to_vec()), &OwnVariables::default()).expect("templates");
        let mut out = HEAD.to_vec();
        let end = HEAD.len() - 4;
        let new_end =
            changes.apply(&mut out, (7, end), status, |template, out| match template.as_literal() {
                Some(text) => out.extend_from_slice(text),
                None => out.extend_from_slice(b"v\r\nEvil: x\0"),
            });
        assert_eq!(&out[new_end..], b"body");
        let text = String::from_utf8(out).expect("text");
        text.strip_prefix("before HTTP/1.1 200 OK\r\n").expect("nothing before it is changed").to_owned()
    }

    fn change(set: &[(&str, &str)], add: &[(&str, &str)], remove: &[&str]) -> Config {
        let table = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned().into())).collect()
        };
        let remove = remove.iter().map(|name| (*name).to_owned().into()).collect();
        Config { when: None, set: table(set), add: table(add), remove, statuses: None }
    }

    #[test]
    fn fields_are_set_added_and_removed() {
        assert_eq!(
            changed(200, &[change(&[("X-A", "3")], &[("Server", "other")], &[])]),
            "Server: drover\r\nConnection: close\r\nX-A: 3\r\nServer: other\r\n\r\nbody"
        );
        assert_eq!(changed(200, &[change(&[], &[], &["x-A", "server"])]), "Connection: close\r\n\r\nbody");
        assert_eq!(
            changed(200, &[change(&[("X-A", "3")], &[], &[]), change(&[], &[("X-A", "4")], &["Server"])]),
            "Connection: close\r\nX-A: 3\r\nX-A: 4\r\n\r\nbody"
        );
    }

    #[test]
    fn only_chosen_statuses_are_changed() {
        let only = Config { statuses: Some(vec![404]), ..change(&[], &[("X-B", "1")], &["X-A", "Server"]) };
        assert!(!changed(200, std::slice::from_ref(&only)).contains("X-B"));
        assert_eq!(changed(404, &[only]), "Connection: close\r\nX-B: 1\r\n\r\nbody");
    }

    #[test]
    fn no_value_begins_another_field_and_an_empty_one_makes_none() {
        let text = changed(200, &[change(&[("X-A", "$uri")], &[("X-B", "")], &["Server"])]);
        assert_eq!(text, "Connection: close\r\nX-A: v  Evil: x \r\n\r\nbody");
    }
}
