//! Which server and which location answers.

use rustc_hash::FxHashMap;

/// Finds a server by the host that was asked for: an exact name, then the longest `*.name`, then the longest
/// `name.*`, then the default.
#[derive(Debug, Default)]
pub(crate) struct Names {
    exact: FxHashMap<Box<[u8]>, usize>,
    /// Without the star, with the dot: `.example.org`.
    leading: Vec<(Box<[u8]>, usize)>,
    /// `example.`.
    trailing: Vec<(Box<[u8]>, usize)>,
    default: usize,
}

impl Names {
    /// `servers` are numbers with their names, in the order of the config; of two with one name the first
    /// has it.
    pub(crate) fn new<'a>(servers: impl IntoIterator<Item = (usize, &'a [String])>, default: usize) -> Names {
        let mut names = Names { default, ..Names::default() };
        for (server, own) in servers {
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

    /// The server for a Host as received, which may carry a port.
    #[inline]
    pub(crate) fn find(&self, host: Option<&[u8]>) -> usize {
        match host {
            Some(host) if !(self.exact.is_empty() && self.leading.is_empty() && self.trailing.is_empty()) => {
                self.find_named(host)
            }
            _ => self.default,
        }
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
    exact: FxHashMap<Box<[u8]>, usize>,
    /// The longest first.
    prefixes: Vec<(Box<[u8]>, usize)>,
}

impl Paths {
    pub(crate) fn new(matches: impl IntoIterator<Item = (Match, usize)>) -> Paths {
        let mut paths = Paths::default();
        for (how, location) in matches {
            match how {
                Match::Exact(path) => {
                    paths.exact.entry(path).or_insert(location);
                }
                Match::Prefix(path) => paths.prefixes.push((path, location)),
            }
        }
        paths.prefixes.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        paths
    }

    #[inline]
    pub(crate) fn find(&self, path: &[u8]) -> Option<usize> {
        if !self.exact.is_empty()
            && let Some(location) = self.exact.get(path)
        {
            return Some(*location);
        }
        self.prefixes.iter().find(|(prefix, _)| path.starts_with(prefix)).map(|(_, location)| *location)
    }
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
            assert_eq!(names.find(Some(host.as_bytes())), want, "{host}");
        }
        assert_eq!(names.find(None), 9);
        assert_eq!(names.find(Some(&[b'x'; 300])), 9);
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
    }
}
