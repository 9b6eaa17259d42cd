//! The timer tree: a red-black tree linked by index inside the events.
//!
//! The tree owns no memory. Each event embeds a [`Node`]; the tree holds the index of the root and
//! of the earliest node and is handed the nodes with every call, so setting, moving and cancelling
//! a timer allocate nothing.
//!
//! Keys are milliseconds of the monotonic clock cut to 32 bits and compared by signed difference,
//! so that they may wrap (every 49.7 days) as long as no two live timers are more than 24.8 days
//! apart. Equal keys keep the order of insertion.
//!
//! The balancing follows Cormen, Leiserson, Rivest, Stein, *Introduction to Algorithms*, chapter
//! 13, with an explicit parent in place of the sentinel's.

/// "No node".
const NIL: u32 = u32::MAX;

/// The longest time a timer may be set for: half the range of a key, less a day of slack.
pub const MAX_DELAY_MS: u32 = (u32::MAX / 2) - 86_400_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Colour {
    Red,
    Black,
}

/// The part of an event that the timer tree uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    left: u32,
    right: u32,
    parent: u32,
    key: u32,
    colour: Colour,
    linked: bool,
}

impl Default for Node {
    fn default() -> Self {
        Self { left: NIL, right: NIL, parent: NIL, key: 0, colour: Colour::Red, linked: false }
    }
}

impl Node {
    /// Whether the timer is set.
    pub(crate) fn is_set(&self) -> bool {
        self.linked
    }

    /// The deadline; without meaning while the timer is not set.
    pub(crate) fn key(&self) -> u32 {
        self.key
    }
}

/// Where the nodes of a tree live.
pub(crate) trait Nodes {
    fn node(&self, index: u32) -> &Node;
    fn node_mut(&mut self, index: u32) -> &mut Node;
}

/// Whether deadline `a` comes before deadline `b`, also across a wrap.
pub(crate) fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// The tree of one worker.
#[derive(Debug)]
pub(crate) struct TimerTree {
    root: u32,
    first: u32,
}

impl Default for TimerTree {
    fn default() -> Self {
        Self { root: NIL, first: NIL }
    }
}

impl TimerTree {
    /// The earliest timer; among equal deadlines the one inserted first.
    pub(crate) fn first(&self) -> Option<u32> {
        (self.first != NIL).then_some(self.first)
    }

    /// Sets the timer of `index`, which must not be set.
    pub(crate) fn insert(&mut self, nodes: &mut impl Nodes, index: u32, key: u32) {
        debug_assert!(!nodes.node(index).linked, "timer {index} is set twice");
        let mut parent = NIL;
        let mut cursor = self.root;
        let mut leftmost = true;
        let mut left = false;
        while cursor != NIL {
            parent = cursor;
            let node = nodes.node(cursor);
            left = before(key, node.key);
            if left {
                cursor = node.left;
            } else {
                cursor = node.right;
                leftmost = false;
            }
        }
        *nodes.node_mut(index) =
            Node { left: NIL, right: NIL, parent, key, colour: Colour::Red, linked: true };
        if parent == NIL {
            self.root = index;
        } else if left {
            nodes.node_mut(parent).left = index;
        } else {
            nodes.node_mut(parent).right = index;
        }
        if leftmost {
            self.first = index;
        }
        self.rebalance_after_insert(nodes, index);
    }

    /// Cancels the timer of `index`, which must be set.
    pub(crate) fn remove(&mut self, nodes: &mut impl Nodes, index: u32) {
        let removed = *nodes.node(index);
        debug_assert!(removed.linked, "timer {index} is not set");
        if self.first == index {
            self.first = successor_of_first(nodes, &removed);
        }
        // What takes the place of the node that leaves the tree's structure, whose parent that is,
        // and the colour that is lost there.
        let (child, child_parent, lost);
        if removed.left == NIL || removed.right == NIL {
            child = if removed.left == NIL { removed.right } else { removed.left };
            child_parent = removed.parent;
            lost = removed.colour;
            self.replace(nodes, index, removed.parent, child);
        } else {
            let next = leftmost(nodes, removed.right);
            let successor = *nodes.node(next);
            lost = successor.colour;
            child = successor.right;
            if successor.parent == index {
                child_parent = next;
            } else {
                child_parent = successor.parent;
                self.replace(nodes, next, successor.parent, child);
                nodes.node_mut(next).right = removed.right;
                nodes.node_mut(removed.right).parent = next;
            }
            self.replace(nodes, index, removed.parent, next);
            let node = nodes.node_mut(next);
            node.left = removed.left;
            node.colour = removed.colour;
            nodes.node_mut(removed.left).parent = next;
        }
        *nodes.node_mut(index) = Node::default();
        if lost == Colour::Black {
            self.rebalance_after_remove(nodes, child, child_parent);
        }
    }

    /// Puts `new` (perhaps none) where `old` hangs below `parent`.
    fn replace(&mut self, nodes: &mut impl Nodes, old: u32, parent: u32, new: u32) {
        if parent == NIL {
            self.root = new;
        } else if nodes.node(parent).left == old {
            nodes.node_mut(parent).left = new;
        } else {
            nodes.node_mut(parent).right = new;
        }
        if new != NIL {
            nodes.node_mut(new).parent = parent;
        }
    }

    fn rebalance_after_insert(&mut self, nodes: &mut impl Nodes, mut index: u32) {
        loop {
            let parent = nodes.node(index).parent;
            if parent == NIL {
                break;
            }
            if nodes.node(parent).colour == Colour::Black {
                return;
            }
            // A red node is never the root, so there is a grandparent.
            let grandparent = nodes.node(parent).parent;
            let on_left = nodes.node(grandparent).left == parent;
            let uncle = child(nodes, grandparent, !on_left);
            if uncle != NIL && nodes.node(uncle).colour == Colour::Red {
                nodes.node_mut(parent).colour = Colour::Black;
                nodes.node_mut(uncle).colour = Colour::Black;
                nodes.node_mut(grandparent).colour = Colour::Red;
                index = grandparent;
                continue;
            }
            let mut top = parent;
            if child(nodes, parent, !on_left) == index {
                self.rotate(nodes, parent, on_left);
                top = index;
            }
            nodes.node_mut(top).colour = Colour::Black;
            nodes.node_mut(grandparent).colour = Colour::Red;
            self.rotate(nodes, grandparent, !on_left);
            break;
        }
        let root = self.root;
        nodes.node_mut(root).colour = Colour::Black;
    }

    /// Restores equal black heights where the subtree `index` (perhaps none) below `parent` lacks
    /// one.
    fn rebalance_after_remove(&mut self, nodes: &mut impl Nodes, mut index: u32, mut parent: u32) {
        while parent != NIL && !is_red(nodes, index) {
            let on_left = nodes.node(parent).left == index;
            let mut sibling = child(nodes, parent, !on_left);
            if is_red(nodes, sibling) {
                nodes.node_mut(sibling).colour = Colour::Black;
                nodes.node_mut(parent).colour = Colour::Red;
                self.rotate(nodes, parent, on_left);
                sibling = child(nodes, parent, !on_left);
            }
            let (near, far) = (child(nodes, sibling, on_left), child(nodes, sibling, !on_left));
            if !is_red(nodes, near) && !is_red(nodes, far) {
                nodes.node_mut(sibling).colour = Colour::Red;
                index = parent;
                parent = nodes.node(index).parent;
                continue;
            }
            if !is_red(nodes, far) {
                nodes.node_mut(near).colour = Colour::Black;
                nodes.node_mut(sibling).colour = Colour::Red;
                self.rotate(nodes, sibling, !on_left);
                sibling = child(nodes, parent, !on_left);
            }
            let far = child(nodes, sibling, !on_left);
            nodes.node_mut(sibling).colour = nodes.node(parent).colour;
            nodes.node_mut(parent).colour = Colour::Black;
            nodes.node_mut(far).colour = Colour::Black;
            self.rotate(nodes, parent, on_left);
            index = self.root;
            break;
        }
        if index != NIL {
            nodes.node_mut(index).colour = Colour::Black;
        }
    }

    /// Turns the edge between `index` and its right child (`to_left`) or left child (not
    /// `to_left`), so that the child comes up.
    fn rotate(&mut self, nodes: &mut impl Nodes, index: u32, to_left: bool) {
        let Node { parent, left, right, .. } = *nodes.node(index);
        let riser = if to_left { right } else { left };
        let middle = child(nodes, riser, to_left);
        self.replace(nodes, index, parent, riser);
        set_child(nodes, riser, to_left, index);
        nodes.node_mut(index).parent = riser;
        set_child(nodes, index, !to_left, middle);
        if middle != NIL {
            nodes.node_mut(middle).parent = index;
        }
    }
}

fn child(nodes: &impl Nodes, index: u32, left: bool) -> u32 {
    let node = nodes.node(index);
    if left { node.left } else { node.right }
}

fn set_child(nodes: &mut impl Nodes, index: u32, left: bool, child: u32) {
    let node = nodes.node_mut(index);
    *if left { &mut node.left } else { &mut node.right } = child;
}

fn is_red(nodes: &impl Nodes, index: u32) -> bool {
    index != NIL && nodes.node(index).colour == Colour::Red
}

fn leftmost(nodes: &impl Nodes, mut index: u32) -> u32 {
    loop {
        match nodes.node(index).left {
            NIL => return index,
            left => index = left,
        }
    }
}

/// What follows the earliest node, which has no left child.
fn successor_of_first(nodes: &impl Nodes, first: &Node) -> u32 {
    if first.right == NIL { first.parent } else { leftmost(nodes, first.right) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    impl Nodes for Vec<Node> {
        fn node(&self, index: u32) -> &Node {
            &self[index as usize]
        }
        fn node_mut(&mut self, index: u32) -> &mut Node {
            &mut self[index as usize]
        }
    }

    /// The black height of the subtree, checking colours, parents and order on the way.
    fn check(nodes: &Vec<Node>, index: u32, parent: u32) -> u32 {
        if index == NIL {
            return 1;
        }
        let node = nodes[index as usize];
        assert_eq!(node.parent, parent);
        for below in [node.left, node.right] {
            assert!(!(node.colour == Colour::Red && is_red(nodes, below)), "two red nodes in a row");
        }
        if node.left != NIL {
            assert!(!before(node.key, nodes[node.left as usize].key));
        }
        if node.right != NIL {
            assert!(!before(nodes[node.right as usize].key, node.key));
        }
        let height = check(nodes, node.left, index);
        assert_eq!(height, check(nodes, node.right, index), "black heights differ");
        height + u32::from(node.colour == Colour::Black)
    }

    #[derive(Debug, Clone)]
    enum Step {
        Set(u8, u32),
        Cancel(u8),
        Expire,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (any::<u8>(), 0u32..2000).prop_map(|(index, delay)| Step::Set(index, delay)),
            2 => any::<u8>().prop_map(Step::Cancel),
            1 => Just(Step::Expire),
        ]
    }

    proptest! {
        /// Random operations, starting just before the key wraps, against a sorted map.
        #[test]
        fn behaves_as_a_sorted_map(steps in proptest::collection::vec(step(), 1..400)) {
            let start = u32::MAX - 1000;
            let mut nodes = vec![Node::default(); 256];
            let mut tree = TimerTree::default();
            let mut model: BTreeMap<(u32, u32), u32> = BTreeMap::new();
            let mut places: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
            let mut order = 0;
            for step in steps {
                match step {
                    Step::Set(index, delay) => {
                        let index = u32::from(index);
                        if let Some(place) = places.remove(&index) {
                            model.remove(&place);
                            tree.remove(&mut nodes, index);
                        }
                        order += 1;
                        model.insert((delay, order), index);
                        places.insert(index, (delay, order));
                        tree.insert(&mut nodes, index, start.wrapping_add(delay));
                    }
                    Step::Cancel(index) => {
                        let index = u32::from(index);
                        if let Some(place) = places.remove(&index) {
                            model.remove(&place);
                            tree.remove(&mut nodes, index);
                            prop_assert!(!nodes[index as usize].is_set());
                        }
                    }
                    Step::Expire => {
                        if let Some((_, index)) = model.pop_first() {
                            places.remove(&index);
                            prop_assert_eq!(tree.first(), Some(index));
                            tree.remove(&mut nodes, index);
                        }
                    }
                }
                prop_assert_eq!(tree.first(), model.values().next().copied());
                check(&nodes, tree.root, NIL);
                prop_assert!(!is_red(&nodes, tree.root));
            }
        }
    }

    #[test]
    fn deadlines_compare_across_the_wrap() {
        assert!(before(u32::MAX, 0));
        assert!(before(u32::MAX - 5, 5));
        assert!(!before(5, u32::MAX - 5));
        assert!(!before(7, 7));
    }
}
