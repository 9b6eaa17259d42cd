//! The timer tree: a red-black tree of deadlines, linked by index inside the events.
//!
//! Each event embeds a [`Node`]; the tree holds the index of the root and of its two ends and is
//! handed the nodes with every call, so setting, moving and cancelling a timer allocate nothing.
//!
//! Keys are milliseconds of the monotonic clock cut to 32 bits and compared by signed difference,
//! so that they may wrap (every 49.7 days) as long as no two live timers are more than 24.8 days
//! apart. Equal keys keep the order of insertion.
//!
//! Two habits of time-outs make it fast (measured in `benches/figures`):
//!
//! * Timers come in *runs*: a head, which is in the tree, and its followers, whose deadlines are next
//!   after the head's, in a ring that begins and ends at the head. Followers join and leave without
//!   touching the tree; when a head leaves, the next in its run takes its place. A run stays within one
//!   span of time, of which there are as many as make a run a handful of timers.
//! * Deadlines lie within a few minutes of each other. A *guide* knows for each span of two minutes the
//!   first head in it, so that hardly ever a run has to be searched for from the root.
//!
//! Most timers that join are the latest of their run. One that is not looks for its place from the
//! run's end on; where that is far, the run is split on the way, so that the next one finds it near.
//!
//! How the tree stays balanced is told in [`balance`].

mod balance;

use balance::{neighbour, outermost, set_child};

use crate::tagged::{NIL, Tagged};

/// The longest time a timer may be set for: half the range of a key, less a day of slack.
pub const MAX_DELAY_MS: u32 = (u32::MAX / 2) - 86_400_000;

/// How far the guide reaches, as a power of two of milliseconds.
const REACH_BITS: u32 = 17;
/// How many slots there are for each span of the guide.
const SLOTS_A_SPAN: u32 = 8;
/// How many spans the guide has at least; at most it has one for each millisecond.
const SPANS_LEAST: u32 = 64;
/// How many spans before that of a new deadline are looked at.
const SPANS_BACK: u32 = 32;
/// How many heads are looked at from that which the guide knows.
const STEPS: u32 = 8;
/// After how many steps back in a run it is split.
const STEPS_BACK: u32 = 16;

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
    /// The ring of the run; a node alone is its own neighbour.
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

/// The tree of one worker.
#[derive(Debug)]
pub(crate) struct TimerTree {
    root: u32,
    /// The heads of the earliest and the latest run.
    first: u32,
    last: u32,
    /// For each span of time the first head in it, or `NIL`. Spans that are a whole guide apart share a
    /// place; the one that came last has it.
    guide: Box<[u32]>,
    /// How long a span is, as a power of two of milliseconds.
    span_bits: u32,
}

impl TimerTree {
    /// An empty tree with a guide for the timers of `slots` slots.
    pub(crate) fn for_slots(slots: u32) -> Self {
        let spans = (slots / SLOTS_A_SPAN).clamp(SPANS_LEAST, 1 << REACH_BITS).next_power_of_two();
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
        let alone = Node { next: index, previous: index, key, ..Node::default() };
        *nodes.node_mut(index) = alone;
        let first_in_span = self.guide[self.in_guide(key)];
        if first_in_span != NIL {
            let known = nodes.node(first_in_span).key;
            if before(key, known) && self.span(key) == self.span(known) {
                return self.lead(nodes, first_in_span, index);
            }
        }
        match self.head_by_guide(nodes, key).or_else(|| self.head_from_root(nodes, key)) {
            Some(head) if self.span(nodes.node(head).key) == self.span(key) => {
                self.follow(nodes, head, index, key);
            }
            found => {
                match found {
                    Some(head) => self.hang_after(nodes, head, index),
                    None => self.hang(nodes, index, self.first, true),
                }
                let place = self.in_guide(key);
                self.guide[place] = index;
            }
        }
    }

    /// The last head that is not after `key`, if the guide leads to it.
    fn head_by_guide(&self, nodes: &impl Nodes, key: u32) -> Option<u32> {
        let known = |back: u32| {
            let within = key.wrapping_sub(back << self.span_bits);
            let head = self.guide[self.in_guide(within)];
            let fits = |head: u32| {
                let known = nodes.node(head).key;
                self.span(known) == self.span(within) && !before(key, known)
            };
            (head != NIL && fits(head)).then_some(head)
        };
        let mut at = (0..SPANS_BACK).find_map(known)?;
        for _ in 0..STEPS {
            let next = self.successor(nodes, at);
            if next == NIL || before(key, nodes.node(next).key) {
                return Some(at);
            }
            at = next;
        }
        None
    }

    fn head_from_root(&self, nodes: &impl Nodes, key: u32) -> Option<u32> {
        let (mut found, mut at) = (None, self.root);
        while at != NIL {
            let node = nodes.node(at);
            if before(key, node.key) {
                at = node.left;
            } else {
                found = Some(at);
                at = node.right;
            }
        }
        found
    }

    /// The number of the span in which `key` lies.
    fn span(&self, key: u32) -> u32 {
        key >> self.span_bits
    }

    /// Where the guide keeps what it knows of the span of `key`.
    fn in_guide(&self, key: u32) -> usize {
        self.span(key) as usize & (self.guide.len() - 1)
    }

    /// Has `index` join the run of `head`, behind all that are not later than `key`.
    fn follow(&mut self, nodes: &mut impl Nodes, head: u32, index: u32, key: u32) {
        let mut at = nodes.node(head).previous;
        let mut steps = 0;
        // The head is not later, so this ends there at the latest.
        while before(key, nodes.node(at).key) {
            let previous = nodes.node(at).previous;
            steps += 1;
            if steps % STEPS_BACK == 0 {
                self.split(nodes, head, at);
            }
            at = previous;
        }
        link_behind(nodes, at, index);
        nodes.node_mut(index).set_role(Role::Follower);
    }

    /// Makes `index` the head of the run of `head`, which is later and follows it.
    fn lead(&mut self, nodes: &mut impl Nodes, head: u32, index: u32) {
        let (led, last) = (*nodes.node(head), nodes.node(head).previous);
        link_behind(nodes, last, index);
        self.succeed(nodes, head, &led, index);
        nodes.node_mut(head).set_role(Role::Follower);
    }

    /// Makes the part of the run of `head` that begins at `from` a run of its own. It is not the first
    /// in its span, so the guide is not concerned.
    fn split(&mut self, nodes: &mut impl Nodes, head: u32, from: u32) {
        let (last, before) = (nodes.node(head).previous, nodes.node(from).previous);
        nodes.node_mut(before).next = head;
        nodes.node_mut(head).previous = before;
        nodes.node_mut(last).next = from;
        nodes.node_mut(from).previous = last;
        self.hang_after(nodes, head, from);
    }

    /// Makes `index` the head of the run after that of `head`.
    fn hang_after(&mut self, nodes: &mut impl Nodes, head: u32, index: u32) {
        // Of two neighbours one has no child on the side of the other.
        if nodes.node(head).right == NIL {
            self.hang(nodes, index, head, false);
        } else {
            let next = self.successor(nodes, head);
            self.hang(nodes, index, next, true);
        }
    }

    /// Makes `index` a head below `parent`, or the only one.
    fn hang(&mut self, nodes: &mut impl Nodes, index: u32, parent: u32, on_left: bool) {
        let node = nodes.node_mut(index);
        (node.left, node.right, node.parent) = (NIL, NIL, tagged(parent, Role::Red));
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
                self.succeed(nodes, index, &node, node.next);
            }
        } else {
            self.take_down(nodes, index, &node);
        }
        nodes.node_mut(index).set_role(Role::Unset);
    }

    /// Puts `heir` where the head `index` was, which was as `head` says.
    fn succeed(&mut self, nodes: &mut impl Nodes, index: u32, head: &Node, heir: u32) {
        let node = nodes.node_mut(heir);
        (node.left, node.right, node.parent) = (head.left, head.right, head.parent);
        self.replace(nodes, index, head.parent.index(), heir);
        for below in [head.left, head.right] {
            if below != NIL {
                nodes.node_mut(below).parent.set_index(heir);
            }
        }
        let known = self.in_guide(head.key);
        let Self { first, last, guide, .. } = self;
        for place in [first, last, &mut guide[known]] {
            if *place == index {
                *place = heir;
            }
        }
    }

    /// Takes a head without followers out of the tree.
    fn take_down(&mut self, nodes: &mut impl Nodes, index: u32, removed: &Node) {
        let known = self.in_guide(removed.key);
        if self.first == index || self.guide[known] == index {
            let next = self.successor(nodes, index);
            if self.first == index {
                self.first = next;
            }
            if self.guide[known] == index {
                let in_span = next != NIL && self.span(nodes.node(next).key) == self.span(removed.key);
                self.guide[known] = if in_span { next } else { NIL };
            }
        }
        if self.last == index {
            self.last = neighbour(nodes, index, true);
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

    /// The head of the next run, or `NIL`.
    fn successor(&self, nodes: &impl Nodes, index: u32) -> u32 {
        if index == self.last { NIL } else { neighbour(nodes, index, false) }
    }
}

/// Links `index` into a ring behind `at`.
fn link_behind(nodes: &mut impl Nodes, at: u32, index: u32) {
    let next = nodes.node(at).next;
    let node = nodes.node_mut(index);
    (node.previous, node.next) = (at, next);
    nodes.node_mut(at).next = index;
    nodes.node_mut(next).previous = index;
}

#[cfg(test)]
mod tests;
