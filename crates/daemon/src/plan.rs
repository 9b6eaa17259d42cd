//! What a new configuration means for the listen sockets that are open: a pure comparison.
//!
//! A socket is identified by its address. An address that stays keeps its sockets, whatever happens to
//! the accept strategy, because a queue of connections hangs on each of them: strategies that share use
//! one socket, `reuseport` one per worker. More are added behind the ones there are; fewer leave a
//! surplus at the end, which is steered away from and drained before it is closed. The kernel numbers
//! the members of a group in the order in which they joined and moves the last one into a gap, so only
//! ever the end of the list changes.

use std::collections::BTreeMap;

/// What happens to the sockets of one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// None are open yet: open that many.
    Open(usize),
    /// As many as before.
    Keep,
    /// The first `kept` stay; that many in all are needed.
    Grow {
        /// Stay as they are.
        kept: usize,
        /// Wanted in all.
        to: usize,
    },
    /// The first `kept` stay; the others are surplus.
    Shrink {
        /// Stay as they are.
        kept: usize,
    },
    /// The address is gone.
    Close,
}

/// Compares how many sockets are open with how many are wanted, per address. Numbers are at least one.
pub(crate) fn plan<A: Ord + Clone>(
    held: &BTreeMap<A, usize>,
    wanted: &BTreeMap<A, usize>,
) -> BTreeMap<A, Step> {
    let gone = held
        .keys()
        .filter(|address| !wanted.contains_key(*address))
        .map(|address| (address.clone(), Step::Close));
    let stays = wanted.iter().map(|(address, &to)| {
        let step = match held.get(address) {
            None => Step::Open(to),
            Some(&kept) if kept < to => Step::Grow { kept, to },
            Some(&kept) if kept > to => Step::Shrink { kept: to },
            Some(_) => Step::Keep,
        };
        (address.clone(), step)
    });
    gone.chain(stays).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A socket of the model: which one it is, and whether connections may be in its queue.
    type Group = Vec<u32>;

    /// Applies a plan the way `sockets.rs` does.
    fn apply(
        held: &BTreeMap<u8, Group>,
        steps: &BTreeMap<u8, Step>,
        next: &mut u32,
    ) -> BTreeMap<u8, (Group, Group)> {
        let mut fresh = |count: usize| -> Group {
            (0..count)
                .map(|_| {
                    *next += 1;
                    *next
                })
                .collect()
        };
        let mut after = BTreeMap::new();
        for (address, step) in steps {
            let old = held.get(address).cloned().unwrap_or_default();
            let (sockets, surplus) = match *step {
                Step::Open(count) => (fresh(count), Vec::new()),
                Step::Keep => (old, Vec::new()),
                Step::Grow { kept, to } => ([old, fresh(to - kept)].concat(), Vec::new()),
                Step::Shrink { kept } => (old[..kept].to_vec(), old[kept..].to_vec()),
                Step::Close => continue,
            };
            after.insert(*address, (sockets, surplus));
        }
        after
    }

    proptest! {
        /// Over any series of reloads: the right number of sockets per address; every socket of an
        /// address that stays is kept at its place or handed on as surplus, never closed at once.
        #[test]
        fn nothing_that_may_have_a_queue_is_closed(
            series in prop::collection::vec(prop::collection::btree_map(0u8..5, 1usize..6, 0..5), 1..8)
        ) {
            let mut held: BTreeMap<u8, Group> = BTreeMap::new();
            let mut next = 0;
            for wanted in series {
                let counts = held.iter().map(|(address, group)| (*address, group.len())).collect();
                let steps = plan(&counts, &wanted);
                let after = apply(&held, &steps, &mut next);
                let result: BTreeMap<u8, usize> = after.iter().map(|(address, (now, _))| (*address, now.len())).collect();
                prop_assert_eq!(&result, &wanted);
                for (address, old) in &held {
                    let Some((now, surplus)) = after.get(address) else {
                        prop_assert!(!wanted.contains_key(address));
                        prop_assert_eq!(steps[address], Step::Close);
                        continue;
                    };
                    let kept = old.len().min(now.len());
                    prop_assert_eq!(&now[..kept], &old[..kept]);
                    prop_assert_eq!(&surplus[..], &old[kept..]);
                }
                held = after.into_iter().map(|(address, (now, _))| (address, now)).collect();
            }
        }
    }
}
