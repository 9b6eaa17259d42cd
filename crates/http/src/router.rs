//! Which server and which location answers.

use std::cmp::Ordering;

use foldhash::HashMap;

/// Finds a server by the host that was asked for: an exact name, then the longest `*.name`, then the longest
/// `name.*`, then the default.
#[derive(Debug, Default)]
pub(crate) struct Names {
    exact: HashMap<Box<[u8]>, usize>,
    /// Without the star, with the dot: `.example.org`.
    leading: Vec<(Box<[u8]>, usize)>,
    /// `example.`.
    trailing: Vec<(Box<[u8]>, usize)>,
    /// There are names at all.
    any: bool,
    default: usize,
}

impl Names {
    /// `servers` are numbers with their names, in the order of the config; of two with one name the first
    /// has it.
    pub(crate) fn new<'a>(servers: impl IntoIterator<Item = (usize, &'a [String])>, default: usize) -> Names {
        let mut names = Names { default, ..Names::default() };
        for (server, own) in servers {
            names.any |= !own.is_empty();
            for name in own {
                let name = name.to_ascii_lowercase();
                if let Some(suffix) = name.strip_prefix('*') {
                    names.leading.push((suffix.as_bytes().into(), server));
                } else if let Some(prefix) = name.strip_suffix('*') {
                    names.trailing.push((prefix.as_bytes().into(), server));
                } else {
                    names.exact.entry(name.into_bytes().into()).or_insert(server);
                }
            }
        }
        // A stable sort: of equally long ones the first stays first.
        names.leading.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        names.trailing.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        names
    }

    /// The server for a Host as received, which may carry a port and is asked for only where names matter.
    #[inline]
    pub(crate) fn find<'a>(&self, host: impl FnOnce() -> Option<&'a [u8]>) -> usize {
        if !self.any {
            return self.default;
        }
        host().map_or(self.default, |host| self.find_named(host))
    }

    fn find_named(&self, host: &[u8]) -> usize {
        let (host, _) = crate::h1::target::split_port(host);
        // "example.org." is the same name, written absolutely.
        let host = host.strip_suffix(b".").unwrap_or(host);
        let mut lower = [0; 255];
        let Some(lower) = lower.get_mut(..host.len()) else { return self.default };
        lower.copy_from_slice(host);
        lower.make_ascii_lowercase();
        let lower = &*lower;
        if let Some(server) = self.exact.get(lower) {
            return *server;
        }
        let ends = |(name, _): &&(Box<[u8]>, usize)| lower.len() > name.len() && lower.ends_with(name);
        let starts = |(name, _): &&(Box<[u8]>, usize)| lower.len() > name.len() && lower.starts_with(name);
        let found = self.leading.iter().find(ends).or_else(|| self.trailing.iter().find(starts));
        found.map_or(self.default, |(_, server)| *server)
    }
}

/// How a location matches a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Match {
    Exact(Box<[u8]>),
    Prefix(Box<[u8]>),
}

/// Finds a location by a normal path: an exact one, else the one with the longest prefix.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    /// By length, then by bytes: of few or many, mostly the length alone tells which.
    exact: Vec<(Box<[u8]>, usize)>,
    /// The longest first.
    prefixes: Vec<(Box<[u8]>, usize)>,
}

impl Paths {
    /// Of two that match in the same way the first counts.
    pub(crate) fn new(matches: impl IntoIterator<Item = (Match, usize)>) -> Paths {
        let mut paths = Paths::default();
        for (how, location) in matches {
            match how {
                Match::Exact(path) => paths.exact.push((path, location)),
                Match::Prefix(path) => paths.prefixes.push((path, location)),
            }
        }
        // Stable sorts: of equal ones the first stays first.
        paths.exact.sort_by(|(a, _), (b, _)| by_length(a, b));
        paths.exact.dedup_by(|(a, _), (b, _)| a == b);
        paths.prefixes.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        paths
    }

    #[inline]
    pub(crate) fn find(&self, path: &[u8]) -> Option<usize> {
        if let Ok(at) = self.exact.binary_search_by(|(exact, _)| by_length(exact, path)) {
            return Some(self.exact[at].1);
        }
        self.prefixes.iter().find(|(prefix, _)| path.starts_with(prefix)).map(|(_, location)| *location)
    }
}

#[inline]
fn by_length(a: &[u8], b: &[u8]) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_by_name() {
        let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let (a, b, c, d) = (
            own(&["example.org", "www.Example.org"]),
            own(&["*.example.org"]),
            own(&["*.deep.example.org", "example.org"]),
            own(&["example.*"]),
        );
        let names = Names::new([(0, &a[..]), (1, &b), (2, &c), (3, &d)], 9);
        for (host, want) in [
            ("example.org", 0),
            ("EXAMPLE.org:8080", 0),
            ("www.example.org", 0),
            ("example.org.", 0),
            ("x.example.org", 1),
            ("x.y.example.org", 1),
            ("x.deep.example.org", 2),
            (".example.org", 9),
            ("example.com", 3),
            ("other.com", 9),
            ("", 9),
        ] {
            assert_eq!(names.find(|| Some(host.as_bytes())), want, "{host}");
        }
        assert_eq!(names.find(|| None), 9);
        assert_eq!(names.find(|| Some(&[b'x'; 300])), 9);
    }

    #[test]
    fn locations_by_path() {
        let exact = |path: &str| Match::Exact(path.as_bytes().into());
        let prefix = |path: &str| Match::Prefix(path.as_bytes().into());
        let paths =
            Paths::new([(prefix("/"), 0), (prefix("/a/"), 1), (exact("/a/b"), 2), (prefix("/a/b"), 3)]);
        for (path, want) in [("/", 0), ("/x", 0), ("/a", 0), ("/a/", 1), ("/a/b", 2), ("/a/bc", 3)] {
            assert_eq!(paths.find(path.as_bytes()), Some(want), "{path}");
        }
        assert_eq!(Paths::new([(prefix("/a"), 0)]).find(b"/b"), None);
        let paths = Paths::new([(exact("/b"), 0), (exact("/a"), 1), (exact("/b"), 2), (exact("/ab"), 3)]);
        for (path, want) in [("/a", Some(1)), ("/b", Some(0)), ("/ab", Some(3)), ("/", None), ("/c", None)] {
            assert_eq!(paths.find(path.as_bytes()), want, "{path}");
        }
    }
}
