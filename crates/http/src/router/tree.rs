//! Which of many paths a request's path is, and which is the longest that it begins with: both by one walk down a
//! radix tree, whose cost follows the length of the path and not how many there are.

use std::collections::VecDeque;

/// Paths that share their beginnings, each with what it stands for.
#[derive(Debug)]
pub(super) struct Tree {
    /// The root first, whose path is empty; the children of one node stand side by side.
    nodes: Vec<Node>,
}

#[derive(Debug, Default)]
struct Node {
    /// By this byte its parent knows it; the root has none.
    first_byte: u8,
    /// What its path has after its parent's and that byte.
    label: Box<[u8]>,
    ends: Ends,
    first_child: usize,
    children: usize,
}

/// What a path stands for, as a whole and as a beginning of others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) exact: Option<usize>,
    pub(super) prefix: Option<usize>,
}

/// Sorted paths of a node and what is below it, and how much of them the nodes above have.
type Below<'a> = (&'a [(&'a [u8], Ends)], usize);

impl Tree {
    /// Of several with one path, the first that says something counts.
    pub(super) fn new(mut paths: Vec<(&[u8], Ends)>) -> Tree {
        // Stable: of equal ones the first stays first.
        paths.sort_by_key(|(path, _)| *path);
        paths.dedup_by(|(later, more), (earlier, ends)| {
            let same = later == earlier;
            if same {
                *ends = Ends { exact: ends.exact.or(more.exact), prefix: ends.prefix.or(more.prefix) };
            }
            same
        });
        let mut tree = Tree { nodes: vec![Node::default()] };
        let mut below = VecDeque::new();
        tree.branch(0, (&paths, 0), &mut below);
        // In the order of the nodes.
        for at in 1.. {
            let Some((group, depth)) = below.pop_front() else { break };
            let common = common(group, depth + 1);
            tree.nodes[at].first_byte = group[0].0[depth];
            tree.nodes[at].label = group[0].0[depth + 1..common].into();
            tree.branch(at, (group, common), &mut below);
        }
        tree
    }

    /// Says what the node at `at` stands for, and makes places for its children, whose paths go to `below`.
    fn branch<'a>(&mut self, at: usize, (group, depth): Below<'a>, below: &mut VecDeque<Below<'a>>) {
        let longer = match group {
            [(path, ends), longer @ ..] if path.len() == depth => {
                self.nodes[at].ends = *ends;
                longer
            }
            _ => group,
        };
        self.nodes[at].first_child = self.nodes.len();
        for child in longer.chunk_by(|(a, _), (b, _)| a[depth] == b[depth]) {
            self.nodes.push(Node::default());
            below.push_back((child, depth));
            self.nodes[at].children += 1;
        }
    }

    /// What `path` stands for as a whole, and what its longest beginning stands for.
    #[inline(always)]
    pub(super) fn find(&self, path: &[u8]) -> Ends {
        let (mut rest, mut node) = (path, &self.nodes[0]);
        let mut prefix = node.ends.prefix;
        while let [next, behind @ ..] = rest {
            let children = &self.nodes[node.first_child..][..node.children];
            let Some(child) = children.iter().find(|child| child.first_byte == *next) else {
                return Ends { exact: None, prefix };
            };
            // Most labels near the root are one byte long.
            let behind =
                if child.label.is_empty() { Some(behind) } else { behind.strip_prefix(&*child.label) };
            let Some(behind) = behind else { return Ends { exact: None, prefix } };
            prefix = child.ends.prefix.or(prefix);
            (rest, node) = (behind, child);
        }
        Ends { exact: node.ends.exact, prefix }
    }
}

/// How far sorted paths that share `from` bytes are the same.
fn common(paths: &[(&[u8], Ends)], from: usize) -> usize {
    let ([(first, _), ..], [.., (last, _)]) = (paths, paths) else { return from };
    from + first[from..].iter().zip(&last[from..]).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_is_found_where_nothing_is() {
        assert_eq!(Tree::new(Vec::new()).find(b"/"), Ends::default());
        assert_eq!(Tree::new(Vec::new()).find(b""), Ends::default());
    }

    #[test]
    fn of_equal_paths_the_first_counts() {
        let exact = |at| Ends { exact: Some(at), prefix: None };
        let prefix = |at| Ends { exact: None, prefix: Some(at) };
        let paths = vec![(&b"/a"[..], exact(0)), (b"/a", prefix(1)), (b"/a", exact(2)), (b"/a", prefix(3))];
        assert_eq!(Tree::new(paths).find(b"/a"), Ends { exact: Some(0), prefix: Some(1) });
    }

    proptest! {
        #[test]
        fn the_same_path_and_the_longest_beginning_are_found(
            paths in proptest::collection::vec(("/[ab/\u{7f}]{0,6}|", any::<bool>()), 0..12),
            path in "/[ab/c]{0,8}",
        ) {
            let entries = paths.iter().enumerate().map(|(at, (path, exact))| {
                let ends = Ends { exact: exact.then_some(at), prefix: (!exact).then_some(at) };
                (path.as_bytes(), ends)
            });
            let found = Tree::new(entries.collect()).find(path.as_bytes());
            let of_kind = |kind| paths.iter().enumerate().filter(move |(_, (_, exact))| *exact == kind);
            let exact = of_kind(true).find(|(_, (other, _))| *other == path).map(|(at, _)| at);
            let begins = of_kind(false).filter(|(_, (other, _))| path.starts_with(other.as_str()));
            let prefix = begins.min_by_key(|(_, (other, _))| std::cmp::Reverse(other.len())).map(|(at, _)| at);
            prop_assert_eq!(found, Ends { exact, prefix });
        }
    }
}
