//! Names of servers: exact ones and ones with a star, as in `server_names`.

use foldhash::HashMap;

/// Finds what a name stands for: an exact name, then the longest `*.name`, then the longest `name.*`.
#[derive(Debug, Default)]
pub struct Names {
    exact: HashMap<Box<[u8]>, usize>,
    /// Without the star, with the dot: `.example.org`.
    leading: Vec<(Box<[u8]>, usize)>,
    /// `example.`.
    trailing: Vec<(Box<[u8]>, usize)>,
}

impl Names {
    /// `pairs` are names with the number that each stands for, in the order of the config; of two with one
    /// name the first has it.
    pub fn new<'a>(pairs: impl IntoIterator<Item = (&'a str, usize)>) -> Names {
        let mut names = Names::default();
        for (name, number) in pairs {
            let name = name.to_ascii_lowercase();
            if let Some(suffix) = name.strip_prefix('*') {
                names.leading.push((suffix.as_bytes().into(), number));
            } else if let Some(prefix) = name.strip_suffix('*') {
                names.trailing.push((prefix.as_bytes().into(), number));
            } else {
                names.exact.entry(name.into_bytes().into()).or_insert(number);
            }
        }
        // A stable sort: of equally long ones the first stays first.
        names.leading.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        names.trailing.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        names
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.leading.is_empty() && self.trailing.is_empty()
    }

    /// The number that `name`, as received and without a port, stands for.
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        // "example.org." is the same name, written absolutely.
        let name = name.strip_suffix(b".").unwrap_or(name);
        let mut lower = [0; 255];
        let lower = lower.get_mut(..name.len())?;
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        let lower = &*lower;
        if let Some(number) = self.exact.get(lower) {
            return Some(*number);
        }
        let ends = |(name, _): &&(Box<[u8]>, usize)| lower.len() > name.len() && lower.ends_with(name);
        let starts = |(name, _): &&(Box<[u8]>, usize)| lower.len() > name.len() && lower.starts_with(name);
        let found = self.leading.iter().find(ends).or_else(|| self.trailing.iter().find(starts));
        found.map(|(_, number)| *number)
    }
}

/// What is wrong with a name in a config, if anything is: it would match nothing.
pub fn wrong_name(name: &str) -> Option<&'static str> {
    let inner = name.strip_prefix("*.").or_else(|| name.strip_suffix(".*")).unwrap_or(name);
    if inner.is_empty() {
        return Some("empty");
    }
    if name.starts_with('~') {
        return Some("regular expressions are not supported");
    }
    if inner.contains('*') {
        return Some("`*` stands for the first or the last part, and only once");
    }
    if inner.contains("://") || inner.contains('/') {
        return Some("a name alone, without scheme or path");
    }
    if inner.contains(':') && !inner.starts_with('[') {
        return Some("a name alone, without port");
    }
    if inner.split('.').any(str::is_empty) {
        return Some("a part between dots is empty");
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-._[]:".contains(c);
    match inner.chars().all(allowed) {
        true => None,
        false if !inner.is_ascii() => Some("write names of other scripts in their \"xn--\" form"),
        false => Some("only letters, digits, `-`, `_` and `.`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_names_come_before_those_with_a_star() {
        let names = Names::new([
            ("example.org", 0),
            ("www.Example.org", 0),
            ("*.example.org", 1),
            ("*.deep.example.org", 2),
            ("example.org", 2),
            ("example.*", 3),
        ]);
        for (name, want) in [
            ("example.org", Some(0)),
            ("EXAMPLE.org", Some(0)),
            ("www.example.org", Some(0)),
            ("example.org.", Some(0)),
            ("x.example.org", Some(1)),
            ("x.y.example.org", Some(1)),
            ("x.deep.example.org", Some(2)),
            (".example.org", None),
            ("example.com", Some(3)),
            ("other.com", None),
            ("", None),
        ] {
            assert_eq!(names.find(name.as_bytes()), want, "{name}");
        }
        assert_eq!(names.find(&[b'x'; 300]), None);
        assert!(Names::new([]).is_empty() && !names.is_empty());
    }

    #[test]
    fn names_have_a_form() {
        for name in ["example.org", "*.example.org", "www.example.*", "_", "a-b", "[::1]"] {
            assert_eq!(wrong_name(name), None, "{name}");
        }
        for name in ["", "*", "a.*.b", "*a.org", "a b", "a:80", "http://a", "~^a", "a..b", "b\u{fc}cher.de"] {
            assert!(wrong_name(name).is_some(), "{name}");
        }
    }
}
