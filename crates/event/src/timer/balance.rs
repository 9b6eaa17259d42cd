//! Ways through the tree, and keeping it balanced: what restores the colours and the heights after a
//! head came or went.
//!
//! The balancing follows Cormen, Leiserson, Rivest, Stein, *Introduction to Algorithms*, chapter 13,
//! with an explicit parent in place of the sentinel's.

use super::{Node, Nodes, Role, TimerTree};
use crate::tagged::NIL;

impl TimerTree {
    /// Puts `new` (perhaps none) where `old` hangs below `parent`.
    pub(super) fn replace(&mut self, nodes: &mut impl Nodes, old: u32, parent: u32, new: u32) {
        if parent == NIL {
            self.root = new;
        } else if nodes.node(parent).left == old {
            nodes.node_mut(parent).left = new;
        } else {
            nodes.node_mut(parent).right = new;
        }
        if new != NIL {
            nodes.node_mut(new).parent.set_index(parent);
        }
    }

    pub(super) fn rebalance_after_insert(&mut self, nodes: &mut impl Nodes, mut index: u32) {
        loop {
            let parent = nodes.node(index).parent.index();
            if parent == NIL {
                break;
            }
            if nodes.node(parent).role() == Role::Black {
                return;
            }
            // A red node is never the root, so there is a grandparent.
            let grandparent = nodes.node(parent).parent.index();
            let on_left = nodes.node(grandparent).left == parent;
            let uncle = child(nodes, grandparent, !on_left);
            if uncle != NIL && nodes.node(uncle).role() == Role::Red {
                nodes.node_mut(parent).set_role(Role::Black);
                nodes.node_mut(uncle).set_role(Role::Black);
                nodes.node_mut(grandparent).set_role(Role::Red);
                index = grandparent;
                continue;
            }
            let mut top = parent;
            if child(nodes, parent, !on_left) == index {
                self.rotate(nodes, parent, on_left);
                top = index;
            }
            nodes.node_mut(top).set_role(Role::Black);
            nodes.node_mut(grandparent).set_role(Role::Red);
            self.rotate(nodes, grandparent, !on_left);
            break;
        }
        let root = self.root;
        nodes.node_mut(root).set_role(Role::Black);
    }

    /// Restores equal black heights where the subtree `index` (perhaps none) below `parent` lacks
    /// one.
    pub(super) fn rebalance_after_remove(&mut self, nodes: &mut impl Nodes, mut index: u32, mut parent: u32) {
        while parent != NIL && !is_red(nodes, index) {
            let on_left = nodes.node(parent).left == index;
            let mut sibling = child(nodes, parent, !on_left);
            if is_red(nodes, sibling) {
                nodes.node_mut(sibling).set_role(Role::Black);
                nodes.node_mut(parent).set_role(Role::Red);
                self.rotate(nodes, parent, on_left);
                sibling = child(nodes, parent, !on_left);
            }
            let (near, far) = (child(nodes, sibling, on_left), child(nodes, sibling, !on_left));
            if !is_red(nodes, near) && !is_red(nodes, far) {
                nodes.node_mut(sibling).set_role(Role::Red);
                index = parent;
                parent = nodes.node(index).parent.index();
                continue;
            }
            if !is_red(nodes, far) {
                nodes.node_mut(near).set_role(Role::Black);
                nodes.node_mut(sibling).set_role(Role::Red);
                self.rotate(nodes, sibling, !on_left);
                sibling = child(nodes, parent, !on_left);
            }
            let far = child(nodes, sibling, !on_left);
            let role = nodes.node(parent).role();
            nodes.node_mut(sibling).set_role(role);
            nodes.node_mut(parent).set_role(Role::Black);
            nodes.node_mut(far).set_role(Role::Black);
            self.rotate(nodes, parent, on_left);
            index = self.root;
            break;
        }
        if index != NIL {
            nodes.node_mut(index).set_role(Role::Black);
        }
    }

    /// Turns the edge between `index` and its right child (`to_left`) or left child (not
    /// `to_left`), so that the child comes up.
    fn rotate(&mut self, nodes: &mut impl Nodes, index: u32, to_left: bool) {
        let Node { parent, left, right, .. } = *nodes.node(index);
        let parent = parent.index();
        let riser = if to_left { right } else { left };
        let middle = child(nodes, riser, to_left);
        self.replace(nodes, index, parent, riser);
        set_child(nodes, riser, to_left, index);
        nodes.node_mut(index).parent.set_index(riser);
        set_child(nodes, index, !to_left, middle);
        if middle != NIL {
            nodes.node_mut(middle).parent.set_index(index);
        }
    }
}

pub(super) fn child(nodes: &impl Nodes, index: u32, left: bool) -> u32 {
    let node = nodes.node(index);
    if left { node.left } else { node.right }
}

pub(super) fn set_child(nodes: &mut impl Nodes, index: u32, left: bool, child: u32) {
    let node = nodes.node_mut(index);
    *if left { &mut node.left } else { &mut node.right } = child;
}

pub(super) fn is_red(nodes: &impl Nodes, index: u32) -> bool {
    index != NIL && nodes.node(index).role() == Role::Red
}

/// The leftmost or rightmost node of the subtree `index`.
pub(super) fn outermost(nodes: &impl Nodes, mut index: u32, left: bool) -> u32 {
    loop {
        match child(nodes, index, left) {
            NIL => return index,
            below => index = below,
        }
    }
}

/// The node before (`left`) or after `index` in the order of keys, or `NIL`.
pub(super) fn neighbour(nodes: &impl Nodes, mut index: u32, left: bool) -> u32 {
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
