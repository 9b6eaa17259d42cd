//! A post and its drain, beside a queue of boxed closures.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use drover_event::bench::Posts;

use super::table::{Column, Table, per_operation};

const REPEATS: u32 = 2000;

pub(crate) fn run(table: &mut Table) {
    for at_once in [1, 64, 1024] {
        let mut columns = [Column::new("drover"), Column::new("VecDeque<Box<dyn FnOnce()>>")];
        let posts = Posts::new(at_once).expect("a worker");
        let mut queue: VecDeque<Box<dyn FnOnce()>> = VecDeque::new();
        let handled = Rc::new(Cell::new(0u64));
        let repeats = REPEATS * 64 / at_once.clamp(1, 64);
        for _ in 0..15 {
            columns[0].note(per_operation(u64::from(repeats * at_once), || {
                for _ in 0..repeats {
                    (0..at_once).for_each(|slot| posts.post(slot));
                    posts.drain();
                }
            }));
            columns[1].note(per_operation(u64::from(repeats * at_once), || {
                for _ in 0..repeats {
                    for slot in 0..at_once {
                        let handled = Rc::clone(&handled);
                        queue.push_back(Box::new(move || handled.set(handled.get() + u64::from(slot))));
                    }
                    while let Some(job) = queue.pop_front() {
                        job();
                    }
                }
            }));
        }
        table.row(&format!("post and drain, {at_once} at once"), "ns", &columns);
    }
}
