//! The timer tree against a sorted map.

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

/// All timers of a run, checking its links on the way.
fn run(nodes: &[Node], head: u32) -> Vec<u32> {
    let mut run = vec![head];
    loop {
        let at = run[run.len() - 1];
        let next = nodes[at as usize].next;
        assert_eq!(nodes[next as usize].previous, at);
        if next == head {
            return run;
        }
        assert_eq!(nodes[next as usize].role(), Role::Follower);
        run.push(next);
    }
}

/// The black height of the subtree, checking colours and parents on the way; gathers the runs in
/// their order.
fn check(nodes: &Vec<Node>, index: u32, parent: u32, runs: &mut Vec<Vec<u32>>) -> u32 {
    if index == NIL {
        return 1;
    }
    let node = nodes[index as usize];
    assert_eq!(node.parent.index(), parent);
    assert!(node.is_head(), "a follower in the tree");
    for below in [node.left, node.right] {
        assert!(!(node.role() == Role::Red && is_red(nodes, below)), "two red nodes in a row");
    }
    let height = check(nodes, node.left, index, runs);
    runs.push(run(nodes, index));
    assert_eq!(height, check(nodes, node.right, index, runs), "black heights differ");
    height + u32::from(node.role() == Role::Black)
}

/// Checks the whole tree and tells its timers in their order.
fn timers(tree: &TimerTree, nodes: &Vec<Node>) -> Vec<u32> {
    let mut runs = Vec::new();
    check(nodes, tree.root, NIL, &mut runs);
    assert!(!is_red(nodes, tree.root));
    let span = |index: u32| tree.span(nodes[index as usize].key);
    let heads: Vec<u32> = runs.iter().map(|run| run[0]).collect();
    for run in &runs {
        assert!(run.iter().all(|&timer| span(timer) == span(run[0])), "a run over two spans");
    }
    for &known in tree.guide.iter().filter(|known| **known != NIL) {
        let place = heads.iter().position(|head| *head == known).expect("the guide knows heads only");
        assert!(place == 0 || span(heads[place - 1]) != span(known), "not the first in its span");
        assert_eq!(tree.guide[tree.in_guide(nodes[known as usize].key)], known);
    }
    assert_eq!(
        (tree.first, tree.last),
        (heads.first().copied().unwrap_or(NIL), heads.last().copied().unwrap_or(NIL))
    );
    runs.concat()
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
    let delay =
        prop_oneof![Just(0u32), Just(20), Just(1000), Just(1004), Just(140_000), 0u32..2000, 0u32..300_000];
    prop_oneof![
        6 => (any::<u8>(), delay, 0u32..4).prop_map(|(index, delay, advance)| Step::Set { index, delay, advance }),
        2 => any::<u8>().prop_map(Step::Cancel),
        1 => Just(Step::Expire),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.min(80),
        ..ProptestConfig::default()
    })]

    /// Random operations, starting just before the key wraps, against a sorted map.
    #[test]
    fn behaves_as_a_sorted_map(slots in prop_oneof![2 => Just(1u32), 1 => Just(20_000), 1 => Just(300_000)], steps in proptest::collection::vec(step(), 1..600)) {
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
            prop_assert_eq!(timers(&tree, &nodes), model.values().copied().collect::<Vec<_>>());
        }
        while let Some((_, index)) = model.pop_first() {
            prop_assert_eq!(tree.first(), Some(index));
            tree.remove(&mut nodes, index);
        }
        prop_assert_eq!(tree.root, NIL);
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
