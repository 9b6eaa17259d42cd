//! Events: one direction of a slot, or a task, with its flags, handler, timer node and queue link.
//!
//! Events live in rows of three: the read event and the write event of slot *n*, and the event of
//! task *n*. Row *n* of one is no relation of row *n* of the other; they share the array so that
//! one index type names any event and timers and queues can link all of them.
//!
//! Invariants: an event's timer is in the tree exactly while its node says so; an event is on at
//! most one posted queue; `ACTIVE` is set exactly while the backend watches that direction.

use std::ops::{Index, IndexMut};

use crate::backend::Report;
use crate::connection::{NONE, release};
use crate::core::Core;
use crate::posted::{Link, Links};
use crate::tagged::NIL;
use crate::timer::{Node, Nodes};

/// The unit of work of the loop. A handler never waits.
pub(crate) type Handler = fn(&Core, EventId);

/// What an event in a row is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Something can be received, or accepted.
    Read,
    /// Something can be sent.
    Write,
}

const ROW: u32 = 3;
const TASK: u32 = 2;

/// Names one event of a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EventId(u32);

impl EventId {
    /// The event of `slot` in `direction`.
    pub(crate) const fn of_slot(slot: u32, direction: Direction) -> Self {
        Self(slot * ROW + direction as u32)
    }

    /// The event of `task`.
    pub(crate) const fn of_task(task: u32) -> Self {
        Self(task * ROW + TASK)
    }

    /// The number of the slot or task.
    pub(crate) const fn row(self) -> u32 {
        self.0 / ROW
    }

    /// The place of the event in the array, by which timers and queues link it.
    pub(crate) const fn index(self) -> u32 {
        self.0
    }

    /// The event at this place.
    pub(crate) const fn from_index(index: u32) -> Self {
        Self(index)
    }
}

/// A set of [`Event`] flags.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Flags(u8);

impl Flags {
    /// The kernel reported readiness and nothing has contradicted it since.
    pub(crate) const READY: Flags = Flags(1);
    /// The backend watches this direction.
    pub(crate) const ACTIVE: Flags = Flags(1 << 1);
    /// A task waits for this event.
    pub(crate) const WAITING: Flags = Flags(1 << 2);
    /// The timer expired and nobody has taken note yet.
    pub(crate) const TIMED_OUT: Flags = Flags(1 << 3);
    /// The kernel reported the end of the peer's stream, or an error: receiving tells which.
    pub(crate) const END: Flags = Flags(1 << 4);
    /// This is a listener's read event: under the mutex it goes to the accept queue.
    pub(crate) const ACCEPT: Flags = Flags(1 << 5);
    /// Beside [`END`](Flags::END): it is an error, or both directions are shut.
    pub(crate) const BROKEN: Flags = Flags(1 << 6);
    /// The kernel reported urgent data, and nothing has shown since that they were passed.
    pub(crate) const URGENT: Flags = Flags(1 << 7);

    /// The flags that a report implies.
    pub(crate) fn of_report(report: &Report) -> Flags {
        let end = if report.ended { Flags::END } else { Flags::default() };
        let broken = if report.broken { Flags::BROKEN } else { Flags::default() };
        let urgent = if report.urgent { Flags::URGENT } else { Flags::default() };
        Flags::READY | end | broken | urgent
    }

    /// Whether any of `other` is set.
    pub(crate) const fn has(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// Sets all of `other`.
    pub(crate) fn set(&mut self, other: Flags) {
        self.0 |= other.0;
    }

    /// Clears all of `other`.
    pub(crate) fn clear(&mut self, other: Flags) {
        self.0 &= !other.0;
    }

    /// Clears all of `other` and tells whether any was set.
    pub(crate) fn take(&mut self, other: Flags) -> bool {
        let had = self.has(other);
        self.clear(other);
        had
    }
}

impl std::ops::BitOr for Flags {
    type Output = Flags;

    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// One event.
pub(crate) struct Event {
    pub(crate) handler: Handler,
    pub(crate) timer: Node,
    pub(crate) link: Link,
    /// The task to resume when this event is ready.
    pub(crate) task: u32,
    pub(crate) flags: Flags,
}

/// The handler of events that nobody has taken: nothing to do.
pub(crate) fn ignore(_: &Core, _: EventId) {}

impl Default for Event {
    fn default() -> Self {
        Self {
            handler: ignore,
            timer: Node::default(),
            link: Link::default(),
            task: NONE,
            flags: Flags::default(),
        }
    }
}

/// All events of a worker. Rows are touched as slots and tasks are first lent.
pub(crate) struct Events(Vec<Event>);

impl Events {
    /// Reserves address space for `rows` rows; memory is used as rows are first lent.
    ///
    /// # Panics
    /// If an index into so many rows would not leave room for its tag.
    pub(crate) fn with_capacity(rows: u32) -> Self {
        assert!(rows < NIL / ROW, "{rows} slots are more than there are indices for");
        Self(Vec::with_capacity(rows as usize * ROW as usize))
    }

    /// Makes sure that `row` exists.
    pub(crate) fn ensure_row(&mut self, row: u32) {
        let wanted = (row as usize + 1) * ROW as usize;
        while self.0.len() < wanted {
            self.0.push(Event::default());
        }
    }

    /// Gives back the memory of the rows from `row` on, none of whose events is in use, but keeps room for
    /// `capacity` rows.
    pub(crate) fn cut(&mut self, row: u32, capacity: u32) {
        self.0.truncate(row as usize * ROW as usize);
        release(&mut self.0, capacity as usize * ROW as usize);
    }
}

impl Index<EventId> for Events {
    type Output = Event;

    fn index(&self, id: EventId) -> &Event {
        &self.0[id.0 as usize]
    }
}

impl IndexMut<EventId> for Events {
    fn index_mut(&mut self, id: EventId) -> &mut Event {
        &mut self.0[id.0 as usize]
    }
}

impl Nodes for Events {
    fn node(&self, index: u32) -> &Node {
        &self.0[index as usize].timer
    }

    fn node_mut(&mut self, index: u32) -> &mut Node {
        &mut self.0[index as usize].timer
    }
}

impl Links for Events {
    fn link(&self, index: u32) -> &Link {
        &self.0[index as usize].link
    }

    fn link_mut(&mut self, index: u32) -> &mut Link {
        &mut self.0[index as usize].link
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_takes_48_bytes() {
        assert_eq!(size_of::<Event>(), 48);
    }

    #[test]
    fn ids_name_slot_directions_and_tasks_apart() {
        let read = EventId::of_slot(7, Direction::Read);
        let write = EventId::of_slot(7, Direction::Write);
        let task = EventId::of_task(7);
        assert!(read != write && write != task && task != read);
        assert!([read, write, task].iter().all(|id| id.row() == 7));
        assert!([read, write, task].iter().all(|id| EventId::from_index(id.index()) == *id));
    }
}
