//! Which server and which location answers.

use std::cmp::Ordering;

use drover_service::Names;

/// Finds a server by the host that was asked for, or the default.
#[derive(Debug)]
pub(crate) struct Hosts {
    names: Names,
    default: usize,
}

impl Hosts {
    /// `servers` are numbers with their names, in the order of the config; of two with one name the first
    /// has it.
    pub(crate) fn new<'a>(servers: impl IntoIterator<Item = (usize, &'a [String])>, default: usize) -> Hosts {
        let pairs = servers
            .into_iter()
            .flat_map(|(server, names)| names.iter().map(move |name| (name.as_str(), server)));
        Hosts { names: Names::new(pairs), default }
    }

    /// The server for a Host as received, which may carry a port and is asked for only where names matter.
    #[inline]
    pub(crate) fn find<'a>(&self, host: impl FnOnce() -> Option<&'a [u8]>) -> usize {
        if self.names.is_empty() {
            return self.default;
        }
        let host = host().map(|host| crate::h1::target::split_port(host).0);
        host.and_then(|host| self.names.find(host)).unwrap_or(self.default)
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
        let names = ["example.org".to_owned(), "*.example.org".to_owned()];
        let hosts = Hosts::new([(0, &names[..1]), (1, &names[1..])], 9);
        for (host, want) in
            [("example.org", 0), ("EXAMPLE.org:8080", 0), ("x.example.org:1", 1), ("other.com", 9), ("", 9)]
        {
            assert_eq!(hosts.find(|| Some(host.as_bytes())), want, "{host}");
        }
        assert_eq!(hosts.find(|| None), 9);
        assert_eq!(Hosts::new([], 9).find(|| unreachable!("no name matters")), 9);
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
