//! Locations by path.
//!
//! The order is nginx's: an exact path; else the longest prefix, and among the locations inside of it the same
//! search again; unless that ended at an exact path or an expression, the first expression beside the prefix that
//! matches; unless the prefix keeps expressions away; else the prefix.

use crate::pattern::Pattern;
use crate::router::tree::{Ends, Tree};
use crate::values::Values;

/// How a location matches a path.
#[derive(Debug)]
pub(crate) enum Match {
    Exact(Box<[u8]>),
    Prefix { path: Box<[u8]>, before_expressions: bool },
    Expression(Box<Pattern>),
}

/// A location to be found, by number, and those inside of it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) how: Match,
    pub(crate) location: usize,
    pub(crate) inside: Vec<Entry>,
}

/// Finds a location by a normal path.
#[derive(Debug)]
pub(crate) struct Paths {
    /// Exact paths lead to locations, prefixes to `prefixes`.
    tree: Tree,
    prefixes: Vec<Prefix>,
    /// In the order of the config.
    expressions: Vec<(Box<Pattern>, usize, Paths)>,
}

#[derive(Debug)]
struct Prefix {
    location: usize,
    before_expressions: bool,
    inside: Option<Box<Paths>>,
}

/// A location, and whether nothing outside of where it was found can come before it.
type Found = (usize, bool);

impl Paths {
    /// Of two that match in the same way the first counts.
    pub(crate) fn new(entries: Vec<Entry>) -> Paths {
        let (mut ends, mut prefixes, mut expressions) = (Vec::new(), Vec::new(), Vec::new());
        for Entry { how, location, inside } in entries {
            match how {
                Match::Exact(path) => ends.push((path, Ends { exact: Some(location), prefix: None })),
                Match::Prefix { path, before_expressions } => {
                    ends.push((path, Ends { exact: None, prefix: Some(prefixes.len()) }));
                    let inside = (!inside.is_empty()).then(|| Box::new(Paths::new(inside)));
                    prefixes.push(Prefix { location, before_expressions, inside });
                }
                Match::Expression(pattern) => expressions.push((pattern, location, Paths::new(inside))),
            }
        }
        let tree = Tree::new(ends.iter().map(|(path, ends)| (&**path, *ends)).collect());
        Paths { tree, prefixes, expressions }
    }

    /// The location for `path`; the groups of an expression that decided go into `values`.
    #[inline]
    pub(crate) fn find(&self, path: &[u8], values: &mut Values) -> Option<usize> {
        let found = self.tree.find(path);
        if found.exact.is_some() {
            return found.exact;
        }
        let prefix = self.prefix(found);
        if self.expressions.is_empty() && prefix.is_none_or(|prefix| prefix.inside.is_none()) {
            return prefix.map(|prefix| prefix.location);
        }
        self.beyond(prefix, path, values.use_them()).map(|(location, _)| location)
    }

    #[inline]
    fn prefix(&self, found: Ends) -> Option<&Prefix> {
        found.prefix.map(|at| &self.prefixes[at])
    }

    fn search(&self, path: &[u8], values: &mut Values) -> Option<Found> {
        let found = self.tree.find(path);
        match found.exact {
            Some(location) => Some((location, true)),
            None => self.beyond(self.prefix(found), path, values),
        }
    }

    /// What comes before a prefix, or the prefix itself.
    fn beyond(&self, prefix: Option<&Prefix>, path: &[u8], values: &mut Values) -> Option<Found> {
        let mut best = prefix.map(|prefix| (prefix.location, false));
        if let Some(inside) = prefix.and_then(|prefix| prefix.inside.as_ref())
            && let Some(found) = inside.search(path, values)
        {
            if found.1 {
                return Some(found);
            }
            best = Some(found);
        }
        if prefix.is_some_and(|prefix| prefix.before_expressions) {
            return best;
        }
        for (pattern, location, inside) in &self.expressions {
            if pattern.find(path, values) {
                let inner = inside.search(path, values).map(|(location, _)| location);
                return Some((inner.unwrap_or(*location), true));
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Expression;
    use crate::own::OwnVariables;
    use proptest::prelude::*;

    fn exact(path: &str, location: usize) -> Entry {
        Entry { how: Match::Exact(path.as_bytes().into()), location, inside: Vec::new() }
    }

    fn prefix(path: &str, location: usize) -> Entry {
        let how = Match::Prefix { path: path.as_bytes().into(), before_expressions: false };
        Entry { how, location, inside: Vec::new() }
    }

    fn last(path: &str, location: usize) -> Entry {
        let how = Match::Prefix { path: path.as_bytes().into(), before_expressions: true };
        Entry { how, location, inside: Vec::new() }
    }

    fn expression(text: &str, location: usize) -> Entry {
        let expression = Expression::new(text).expect("an expression");
        let pattern = Pattern::new(&expression, &OwnVariables::named(&[])).expect("it compiles");
        Entry { how: Match::Expression(Box::new(pattern)), location, inside: Vec::new() }
    }

    fn with(entry: Entry, inside: Vec<Entry>) -> Entry {
        Entry { inside, ..entry }
    }

    #[track_caller]
    fn finds(paths: &Paths, cases: &[(&str, Option<usize>)]) {
        for (path, want) in cases {
            assert_eq!(paths.find(path.as_bytes(), &mut Values::default()), *want, "{path}");
        }
    }

    #[test]
    fn exact_paths_come_before_the_longest_prefix() {
        let paths = Paths::new(vec![prefix("/", 0), prefix("/a/", 1), exact("/a/b", 2), prefix("/a/b", 3)]);
        let cases = [("/", 0), ("/x", 0), ("/a", 0), ("/a/", 1), ("/a/b", 2), ("/a/bc", 3)]
            .map(|(p, n)| (p, Some(n)));
        finds(&paths, &cases);
        finds(&Paths::new(vec![prefix("/a", 0)]), &[("/b", None), ("/ab", Some(0))]);
        let paths = Paths::new(vec![exact("/b", 0), exact("/a", 1), exact("/b", 2), exact("/ab", 3)]);
        let cases = [("/a", Some(1)), ("/b", Some(0)), ("/ab", Some(3)), ("/", None), ("/c", None)];
        finds(&paths, &cases);
    }

    #[test]
    fn expressions_come_before_prefixes_in_their_order() {
        let paths = Paths::new(vec![
            prefix("/", 0),
            expression(r"\.php$", 1),
            last("/static/", 2),
            expression(r"^/a", 3),
            prefix("/a/long/prefix/", 4),
            exact("/a.php", 5),
        ]);
        finds(
            &paths,
            &[
                ("/x.php", Some(1)),
                ("/a/x.php", Some(1)),
                ("/a/x", Some(3)),
                ("/a/long/prefix/x", Some(3)),
                ("/static/x.php", Some(2)),
                ("/static", Some(0)),
                ("/a.php", Some(5)),
                ("/b", Some(0)),
            ],
        );
    }

    #[test]
    fn locations_inside_are_searched_first() {
        let inner = vec![exact("/app/x", 2), expression(r"\.png$", 3), prefix("/app/deep/", 4)];
        let quiet = vec![expression(r"\.gif$", 7)];
        let paths = Paths::new(vec![
            prefix("/", 0),
            with(prefix("/app/", 1), inner),
            with(last("/quiet/", 6), quiet),
            with(expression(r"\.(png|html)$", 5), vec![expression("special", 8)]),
        ]);
        finds(
            &paths,
            &[
                ("/app/x", Some(2)),
                ("/app/a.png", Some(3)),
                // Nothing certain inside: the expression beside it comes before both prefixes.
                ("/app/deep/a.html", Some(5)),
                ("/app/deep/a", Some(4)),
                ("/app/b", Some(1)),
                ("/quiet/a.gif", Some(7)),
                ("/quiet/a.png", Some(6)),
                ("/special.png", Some(8)),
                ("/a.png", Some(5)),
            ],
        );
    }

    proptest! {
        #[test]
        fn the_longest_prefix_is_found(
            prefixes in proptest::collection::vec("/[ab/]{0,6}", 0..12),
            path in "/[ab/]{0,8}",
        ) {
            let entries = prefixes.iter().enumerate().map(|(at, path)| prefix(path, at)).collect();
            let found = Paths::new(entries).find(path.as_bytes(), &mut Values::default());
            let fits = prefixes.iter().filter(|prefix| path.starts_with(prefix.as_str()));
            let longest = fits.max_by_key(|prefix| prefix.len());
            prop_assert_eq!(found.map(|at| &prefixes[at]), longest);
        }
    }
}
