//! Posted queues: first-in-first-out lists of events, linked inside the events.
//!
//! An event is on at most one queue and never on it twice; posting one that is queued leaves it
//! where it is. Taking, posting and unlinking are a handful of stores each and allocate nothing.

use crate::tagged::{NIL, Tagged};

/// Which queue an event is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum QueueName {
    /// Accept events that are handled before the mutex is released.
    Accept,
    /// Handled in this turn, after the mutex was released.
    Posted,
    /// Handled in the next turn, which then does not sleep.
    Next,
}

/// The part of an event that the queues use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    next: u32,
    /// With the queue's number plus one beside it, or zero.
    previous: Tagged,
}

impl Default for Link {
    fn default() -> Self {
        Self { next: NIL, previous: Tagged::new(NIL, 0) }
    }
}

impl Link {
    fn is_queued(&self) -> bool {
        self.previous.tag() != 0
    }
}

/// Where the links live.
pub(crate) trait Links {
    fn link(&self, index: u32) -> &Link;
    fn link_mut(&mut self, index: u32) -> &mut Link;
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    head: u32,
    tail: u32,
}

impl Default for Ends {
    fn default() -> Self {
        Self { head: NIL, tail: NIL }
    }
}

/// The three queues of one worker.
#[derive(Debug, Default)]
pub(crate) struct PostedQueues {
    ends: [Ends; 3],
}

impl PostedQueues {
    /// Whether nothing is queued on `name`.
    pub(crate) fn is_empty(&self, name: QueueName) -> bool {
        self.ends[name as usize].head == NIL
    }

    /// Appends `index` to the queue, unless it is on one already; tells whether it was appended.
    pub(crate) fn post(&mut self, links: &mut impl Links, index: u32, name: QueueName) -> bool {
        if links.link(index).is_queued() {
            return false;
        }
        let ends = &mut self.ends[name as usize];
        *links.link_mut(index) = Link { next: NIL, previous: Tagged::new(ends.tail, name as u8 + 1) };
        if ends.tail == NIL {
            ends.head = index;
        } else {
            links.link_mut(ends.tail).next = index;
        }
        ends.tail = index;
        true
    }

    /// Takes the first event off the queue.
    pub(crate) fn take(&mut self, links: &mut impl Links, name: QueueName) -> Option<u32> {
        let ends = &mut self.ends[name as usize];
        let index = ends.head;
        if index == NIL {
            return None;
        }
        let next = std::mem::take(links.link_mut(index)).next;
        ends.head = next;
        if next == NIL {
            ends.tail = NIL;
        } else {
            links.link_mut(next).previous.set_index(NIL);
        }
        Some(index)
    }

    /// Takes `index` off whichever queue it is on, if any.
    pub(crate) fn unlink(&mut self, links: &mut impl Links, index: u32) {
        let link = *links.link(index);
        if !link.is_queued() {
            return;
        }
        let ends = &mut self.ends[usize::from(link.previous.tag()) - 1];
        let previous = link.previous.index();
        if previous == NIL {
            ends.head = link.next;
        } else {
            links.link_mut(previous).next = link.next;
        }
        if link.next == NIL {
            ends.tail = previous;
        } else {
            links.link_mut(link.next).previous.set_index(previous);
        }
        *links.link_mut(index) = Link::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    impl Links for Vec<Link> {
        fn link(&self, index: u32) -> &Link {
            &self[index as usize]
        }
        fn link_mut(&mut self, index: u32) -> &mut Link {
            &mut self[index as usize]
        }
    }

    const NAMES: [QueueName; 3] = [QueueName::Accept, QueueName::Posted, QueueName::Next];

    proptest! {
        #[test]
        fn behave_as_three_deques(steps in proptest::collection::vec((0u8..3, 0usize..3, 0u32..16), 1..300)) {
            let mut links = vec![Link::default(); 16];
            let mut queues = PostedQueues::default();
            let mut model: [VecDeque<u32>; 3] = Default::default();
            for (action, which, index) in steps {
                match action {
                    0 => {
                        let fresh = !model.iter().any(|queue| queue.contains(&index));
                        prop_assert_eq!(queues.post(&mut links, index, NAMES[which]), fresh);
                        if fresh {
                            model[which].push_back(index);
                        }
                    }
                    1 => prop_assert_eq!(queues.take(&mut links, NAMES[which]), model[which].pop_front()),
                    _ => {
                        queues.unlink(&mut links, index);
                        model.iter_mut().for_each(|queue| queue.retain(|&other| other != index));
                    }
                }
                for (which, name) in NAMES.into_iter().enumerate() {
                    prop_assert_eq!(queues.is_empty(name), model[which].is_empty());
                }
            }
            for (which, name) in NAMES.into_iter().enumerate() {
                while let Some(index) = queues.take(&mut links, name) {
                    prop_assert_eq!(Some(index), model[which].pop_front());
                }
                prop_assert!(model[which].is_empty());
            }
        }
    }
}
