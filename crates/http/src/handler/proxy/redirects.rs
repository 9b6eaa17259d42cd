//! Where servers send clients: addresses that only drover knows become its own.

use std::collections::BTreeMap;

/// Beginnings of the field Location, and what stands in their place, the longest first.
#[derive(Debug)]
pub(super) struct Redirects(Vec<Redirect>);

#[derive(Debug)]
struct Redirect {
    from: Box<[u8]>,
    to: Box<[u8]>,
}

const NAME: &[u8] = b"location:";

impl Redirects {
    pub(super) fn new(config: &BTreeMap<String, String>) -> Redirects {
        let redirect = |(from, to): (&String, &String)| Redirect {
            from: from.as_bytes().into(),
            to: to.as_bytes().into(),
        };
        let mut redirects: Vec<Redirect> = config.iter().map(redirect).collect();
        redirects.sort_by_key(|redirect| usize::MAX - redirect.from.len());
        Redirects(redirects)
    }

    /// Changes the head that `out` holds from `start` to its end.
    #[inline]
    pub(super) fn apply(&self, out: &mut Vec<u8>, start: usize) {
        if !self.0.is_empty() {
            self.change(out, start);
        }
    }

    #[cold]
    fn change(&self, out: &mut Vec<u8>, start: usize) {
        let mut at = start;
        while at < out.len() {
            let length = memchr::memchr(b'\n', &out[at..]).map_or(out.len() - at, |end| end + 1);
            let line = &out[at..at + length];
            if line.len() > NAME.len() && line[..NAME.len()].eq_ignore_ascii_case(NAME) {
                let spaces = line[NAME.len()..].iter().take_while(|byte| **byte == b' ').count();
                let value = at + NAME.len() + spaces;
                let line = &out[value..at + length];
                if let Some(Redirect { from, to }) = self.0.iter().find(|one| line.starts_with(&one.from)) {
                    out.splice(value..value + from.len(), to.iter().copied());
                }
                return;
            }
            at += length;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_beginning_counts() {
        let config = [("http://a/", "/"), ("http://a/b/", "/c/")];
        let config = config.map(|(from, to)| (from.to_owned(), to.to_owned()));
        let redirects = Redirects::new(&config.into());
        for (location, want) in [
            ("http://a/x", "/x"),
            ("http://a/b/x", "/c/x"),
            ("http://b/", "http://b/"),
            ("/x", "/x"),
            ("", ""),
        ] {
            let head = |value: &str| format!("HTTP/1.1 301\r\nX: http://a/\r\nLOCATION: {value}\r\n\r\n");
            let mut out = head(location).into_bytes();
            redirects.apply(&mut out, 0);
            assert_eq!(String::from_utf8(out).expect("text"), head(want));
        }
    }
}
