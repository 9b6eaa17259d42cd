//! The timer tree: a red-black tree of deadlines, linked by index inside the events.
//!
//! Each event embeds a [`Node`]; the tree holds the index of the root and of its two ends and is
//! handed the nodes with every call, so setting, moving and cancelling a timer allocate nothing.
//!
//! Keys are milliseconds of the monotonic clock cut to 32 bits and compared by signed difference,
//! so that they may wrap (every 49.7 days) as long as no two live timers are more than 24.8 days
//! apart. Equal keys keep the order of insertion.
//!
//! Two habits of time-outs make it fast (measured in `benches/figures.rs`):
//!
//! * Many timers share a deadline, so a deadline is in the tree once. The timer that was set first
//!   is its *head*; the others are *followers*, in a ring that begins and ends at the head. A
//!   follower joins and leaves without touching the tree, and when a head leaves, the next in the
//!   ring takes its place.
//! * Deadlines lie within a few minutes of each other. A *guide* cuts two minutes into as many spans as
//!   there are slots, and knows for each span one head in it. A new deadline starts from the nearest of
//!   those before it, and only where its place is not within a few steps is it searched for from the
//!   root.
//!
//! How the tree stays balanced is told in [`balance`].

mod balance;

use balance::{child, set_child};

use crate::tagged::{NIL, Tagged};

/// The longest time a timer may be set for: half the range of a key, less a day of slack.
pub const MAX_DELAY_MS: u32 = (u32::MAX / 2) - 86_400_000;

/// How far the guide reaches, as a power of two of milliseconds.
const REACH_BITS: u32 = 17;
/// How many spans the guide has at least; at most it has one for each millisecond.
const SPANS_LEAST: u32 = 2048;
/// How many spans before that of a new deadline are looked at.
const SPANS_BACK: u32 = 32;
/// How many heads are looked at from that which the guide knows.
const STEPS: u32 = 8;

/// What a node is, as the tag beside its parent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Role {
    Unset,
    Red,
    Black,
    Follower,
}

/// The part of an event that the timer tree uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    left: u32,
    right: u32,
    /// With the role beside it.
    parent: Tagged,
    /// The ring of timers with this deadline; a node alone is its own neighbour.
    next: u32,
    previous: u32,
    key: u32,
}

impl Default for Node {
    fn default() -> Self {
        Self { left: NIL, right: NIL, parent: tagged(NIL, Role::Unset), next: NIL, previous: NIL, key: 0 }
    }
}

impl Node {
    /// Whether the timer is set.
    pub(crate) fn is_set(&self) -> bool {
        self.role() != Role::Unset
    }

    /// The deadline; without meaning while the timer is not set.
    pub(crate) fn key(&self) -> u32 {
        self.key
    }

    fn role(&self) -> Role {
        match self.parent.tag() {
            0 => Role::Unset,
            1 => Role::Red,
            2 => Role::Black,
            _ => Role::Follower,
        }
    }

    fn set_role(&mut self, role: Role) {
        self.parent.set_tag(role as u8);
    }

    fn is_head(&self) -> bool {
        matches!(self.role(), Role::Red | Role::Black)
    }
}

fn tagged(parent: u32, role: Role) -> Tagged {
    Tagged::new(parent, role as u8)
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

/// Where a key belongs.
#[derive(Clone, Copy)]
enum Place {
    /// With the timers of this head.
    With(u32),
    /// Below a node, on its left or not; below `NIL` in an empty tree.
    Below(u32, bool),
}

/// The tree of one worker.
#[derive(Debug)]
pub(crate) struct TimerTree {
    root: u32,
    /// The heads of the earliest and the latest deadline.
    first: u32,
    last: u32,
    /// For each span of time the head that was hung there last, or `NIL`. Times that are a whole
    /// guide apart share a place.
    guide: Box<[u32]>,
    /// How long a span is, as a power of two of milliseconds.
    span_bits: u32,
}

impl TimerTree {
    /// An empty tree with a guide for the timers of `slots` slots.
    pub(crate) fn for_slots(slots: u32) -> Self {
        let spans = slots.clamp(SPANS_LEAST, 1 << REACH_BITS).next_power_of_two();
        Self {
            root: NIL,
            first: NIL,
            last: NIL,
            guide: vec![NIL; spans as usize].into_boxed_slice(),
            span_bits: REACH_BITS - spans.ilog2(),
        }
    }

    /// The earliest timer; among equal deadlines the one inserted first.
    pub(crate) fn first(&self) -> Option<u32> {
        (self.first != NIL).then_some(self.first)
    }

    /// Sets the timer of `index`, which must not be set.
    pub(crate) fn insert(&mut self, nodes: &mut impl Nodes, index: u32, key: u32) {
        debug_assert!(!nodes.node(index).is_set(), "timer {index} is set twice");
        match self.place_by_guide(nodes, key).unwrap_or_else(|| self.place_from_root(nodes, key)) {
            Place::With(head) => follow(nodes, head, index, key),
            Place::Below(parent, on_left) => self.hang(nodes, index, key, parent, on_left),
        }
    }

    fn place_by_guide(&self, nodes: &impl Nodes, key: u32) -> Option<Place> {
        for back in 0..SPANS_BACK {
            let within = key.wrapping_sub(back << self.span_bits);
            let head = self.guide[self.in_guide(within)];
            if head == NIL {
                continue;
            }
            let known = nodes.node(head).key;
            if known == key {
                return Some(Place::With(head));
            }
            if known >> self.span_bits == within >> self.span_bits && before(known, key) {
                return self.place_after(nodes, head, key);
            }
        }
        None
    }

    /// Looks for the place of `key` among the next few after the head `at`.
    fn place_after(&self, nodes: &impl Nodes, mut at: u32, key: u32) -> Option<Place> {
        for _ in 0..STEPS {
            let next = self.successor(nodes, at);
            if next == NIL || before(key, nodes.node(next).key) {
                // Of two neighbours one has no child on the side of the other.
                let below = if nodes.node(at).right == NIL { (at, false) } else { (next, true) };
                return Some(Place::Below(below.0, below.1));
            }
            if nodes.node(next).key == key {
                return Some(Place::With(next));
            }
            at = next;
        }
        None
    }

    /// Where the guide keeps what it knows of the span of `key`.
    fn in_guide(&self, key: u32) -> usize {
        (key >> self.span_bits) as usize & (self.guide.len() - 1)
    }

    fn place_from_root(&self, nodes: &impl Nodes, key: u32) -> Place {
        let (mut parent, mut on_left, mut at) = (NIL, false, self.root);
        while at != NIL {
            let node = nodes.node(at);
            if node.key == key {
                return Place::With(at);
            }
            parent = at;
            on_left = before(key, node.key);
            at = if on_left { node.left } else { node.right };
        }
        Place::Below(parent, on_left)
    }

    /// Makes `index` a head below `parent`.
    fn hang(&mut self, nodes: &mut impl Nodes, index: u32, key: u32, parent: u32, on_left: bool) {
        *nodes.node_mut(index) = Node {
            left: NIL,
            right: NIL,
            parent: tagged(parent, Role::Red),
            next: index,
            previous: index,
            key,
        };
        if parent == NIL {
            (self.root, self.first, self.last) = (index, index, index);
        } else {
            set_child(nodes, parent, on_left, index);
            if on_left && parent == self.first {
                self.first = index;
            }
            if !on_left && parent == self.last {
                self.last = index;
            }
        }
        let known = self.in_guide(key);
        self.guide[known] = index;
        self.rebalance_after_insert(nodes, index);
    }

    /// Cancels the timer of `index`, which must be set.
    pub(crate) fn remove(&mut self, nodes: &mut impl Nodes, index: u32) {
        let node = *nodes.node(index);
        debug_assert!(node.is_set(), "timer {index} is not set");
        if node.next != index {
            nodes.node_mut(node.previous).next = node.next;
            nodes.node_mut(node.next).previous = node.previous;
            if node.is_head() {
                self.succeed(nodes, index, &node);
            }
        } else {
            self.take_down(nodes, index, &node);
        }
        nodes.node_mut(index).set_role(Role::Unset);
    }

    /// Puts the next timer of the ring where the head `index` was.
    fn succeed(&mut self, nodes: &mut impl Nodes, index: u32, head: &Node) {
        let heir = nodes.node_mut(head.next);
        (heir.left, heir.right, heir.parent) = (head.left, head.right, head.parent);
        self.replace(nodes, index, head.parent.index(), head.next);
        for below in [head.left, head.right] {
            if below != NIL {
                nodes.node_mut(below).parent.set_index(head.next);
            }
        }
        let known = self.in_guide(head.key);
        let Self { first, last, guide, .. } = self;
        for place in [first, last, &mut guide[known]] {
            if *place == index {
                *place = head.next;
            }
        }
    }

    /// Takes a head without followers out of the tree.
    fn take_down(&mut self, nodes: &mut impl Nodes, index: u32, removed: &Node) {
        if self.first == index {
            self.first = self.successor(nodes, index);
        }
        if self.last == index {
            self.last = neighbour(nodes, index, true);
        }
        let known = self.in_guide(removed.key);
        if self.guide[known] == index {
            self.guide[known] = NIL;
        }
        // What takes the place of the node that leaves the tree's structure, whose parent that is,
        // and the colour that is lost there.
        let (child, child_parent, lost);
        if removed.left == NIL || removed.right == NIL {
            child = if removed.left == NIL { removed.right } else { removed.left };
            child_parent = removed.parent.index();
            lost = removed.role();
            self.replace(nodes, index, child_parent, child);
        } else {
            let next = outermost(nodes, removed.right, true);
            let successor = *nodes.node(next);
            lost = successor.role();
            child = successor.right;
            if successor.parent.index() == index {
                child_parent = next;
            } else {
                child_parent = successor.parent.index();
                self.replace(nodes, next, child_parent, child);
                nodes.node_mut(next).right = removed.right;
                nodes.node_mut(removed.right).parent.set_index(next);
            }
            self.replace(nodes, index, removed.parent.index(), next);
            let node = nodes.node_mut(next);
            node.left = removed.left;
            node.set_role(removed.role());
            nodes.node_mut(removed.left).parent.set_index(next);
        }
        if lost == Role::Black {
            self.rebalance_after_remove(nodes, child, child_parent);
        }
    }

    /// The head of the next deadline, or `NIL`.
    fn successor(&self, nodes: &impl Nodes, index: u32) -> u32 {
        if index == self.last { NIL } else { neighbour(nodes, index, false) }
    }
}

/// Adds `index` at the end of the ring of `head`.
fn follow(nodes: &mut impl Nodes, head: u32, index: u32, key: u32) {
    let previous = nodes.node(head).previous;
    nodes.node_mut(head).previous = index;
    nodes.node_mut(previous).next = index;
    let node = nodes.node_mut(index);
    node.parent = tagged(NIL, Role::Follower);
    (node.next, node.previous, node.key) = (head, previous, key);
}

/// The leftmost or rightmost node of the subtree `index`.
fn outermost(nodes: &impl Nodes, mut index: u32, left: bool) -> u32 {
    loop {
        match child(nodes, index, left) {
            NIL => return index,
            below => index = below,
        }
    }
}

/// The node before (`left`) or after `index` in the order of keys, or `NIL`.
fn neighbour(nodes: &impl Nodes, mut index: u32, left: bool) -> u32 {
    let below = child(nodes, index, left);
    if below != NIL {
        return outermost(nodes, below, !left);
    }
    loop {
        let parent = nodes.node(index).parent.index();
        if parent == NIL || child(nodes, parent, !left) == index {
            return parent;
        }
        index = parent;
    }
}

#[cfg(test)]
mod tests {
    use super::balance::is_red;
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

    fn check_ring(nodes: &[Node], head: u32) {
        let mut at = head;
        loop {
            let next = nodes[at as usize].next;
            assert_eq!(nodes[next as usize].previous, at);
            assert_eq!(nodes[next as usize].key, nodes[head as usize].key);
            if next == head {
                break;
            }
            assert_eq!(nodes[next as usize].role(), Role::Follower);
            at = next;
        }
    }

    /// The black height of the subtree, checking colours, parents and order on the way.
    fn check(nodes: &Vec<Node>, index: u32, parent: u32) -> u32 {
        if index == NIL {
            return 1;
        }
        let node = nodes[index as usize];
        assert_eq!(node.parent.index(), parent);
        assert!(node.is_head(), "a follower in the tree");
        check_ring(nodes, index);
        for below in [node.left, node.right] {
            assert!(!(node.role() == Role::Red && is_red(nodes, below)), "two red nodes in a row");
        }
        if node.left != NIL {
            assert!(before(nodes[node.left as usize].key, node.key));
        }
        if node.right != NIL {
            assert!(before(node.key, nodes[node.right as usize].key));
        }
        let height = check(nodes, node.left, index);
        assert_eq!(height, check(nodes, node.right, index), "black heights differ");
        height + u32::from(node.role() == Role::Black)
    }

    #[derive(Debug, Clone)]
    enum Step {
        /// Sets a timer for a delay after the clock has moved.
        Set {
            index: u8,
            delay: u32,
            advance: u32,
        },
        Cancel(u8),
        Expire,
    }

    fn step() -> impl Strategy<Value = Step> {
        // Few delays and small steps of the clock, so that deadlines collide, besides any delay.
        let delay = prop_oneof![
            Just(0u32),
            Just(20),
            Just(1000),
            Just(1004),
            Just(140_000),
            0u32..2000,
            0u32..300_000
        ];
        prop_oneof![
            6 => (any::<u8>(), delay, 0u32..4).prop_map(|(index, delay, advance)| Step::Set { index, delay, advance }),
            2 => any::<u8>().prop_map(Step::Cancel),
            1 => Just(Step::Expire),
        ]
    }

    proptest! {
        /// Random operations, starting just before the key wraps, against a sorted map.
        #[test]
        fn behaves_as_a_sorted_map(slots in prop_oneof![Just(1u32), Just(20_000), Just(1 << 20)], steps in proptest::collection::vec(step(), 1..600)) {
            let start = u32::MAX - 1500;
            let mut now = 0u32;
            let mut nodes = vec![Node::default(); 256];
            let mut tree = TimerTree::for_slots(slots);
            let mut model: BTreeMap<(u32, u32), u32> = BTreeMap::new();
            let mut places: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
            let mut order = 0;
            for step in steps {
                match step {
                    Step::Set { index, delay, advance } => {
                        now += advance;
                        let index = u32::from(index);
                        if let Some(place) = places.remove(&index) {
                            model.remove(&place);
                            tree.remove(&mut nodes, index);
                        }
                        order += 1;
                        model.insert((now + delay, order), index);
                        places.insert(index, (now + delay, order));
                        tree.insert(&mut nodes, index, start.wrapping_add(now + delay));
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
                prop_assert_eq!(
                    (tree.last != NIL).then(|| nodes[tree.last as usize].key),
                    model.keys().next_back().map(|(key, _)| start.wrapping_add(*key))
                );
                check(&nodes, tree.root, NIL);
                prop_assert!(!is_red(&nodes, tree.root));
            }
            for (place, &head) in tree.guide.iter().enumerate().filter(|(_, head)| **head != NIL) {
                let node = &nodes[head as usize];
                prop_assert!(node.is_head() && tree.in_guide(node.key) == place);
            }
            while let Some((_, index)) = model.pop_first() {
                prop_assert_eq!(tree.first(), Some(index));
                tree.remove(&mut nodes, index);
            }
            prop_assert_eq!((tree.root, tree.first, tree.last), (NIL, NIL, NIL));
            prop_assert!(tree.guide.iter().all(|&head| head == NIL));
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
