//! Arming, moving and cancelling timers, with 1k, 100k and 1M of them live.
//!
//! Two loads. *Time-outs*: connections that set one of two fixed delays as a clock moves on, which is
//! what servers do. *Random*: any delay up to two minutes, which no server does.
//!
//! What is cancelled or moved stays in the heap until it comes due: the rows of single operations do
//! not show that work. The row of a *steady* load does: moves, four out of five, and cancels with an
//! arm, after a warm-up in which all that was ever set has come due once. Tokio's wheel is not driven
//! by its clock there, which spares it the expiry that the others pay for.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use drover_event::bench::Timers;
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

use super::table::{Column, Numbers, Table, per_operation};

trait TimerQueue {
    /// Sets or moves a timer.
    fn set(&mut self, id: u32, delay_ms: u32);
    fn cancel(&mut self, id: u32);
    fn advance(&mut self, milliseconds: u32);
    fn expire(&mut self);
}

impl TimerQueue for Timers {
    fn set(&mut self, id: u32, delay_ms: u32) {
        Timers::set(self, id, Duration::from_millis(delay_ms.into()));
    }
    fn cancel(&mut self, id: u32) {
        Timers::cancel(self, id);
    }
    fn advance(&mut self, milliseconds: u32) {
        Timers::advance(self, milliseconds.into());
    }
    fn expire(&mut self) {
        Timers::expire(self);
    }
}

/// A sorted map from deadline and order to id, and where each id is in it.
struct Map {
    now: u64,
    order: u64,
    timers: BTreeMap<(u64, u64), u32>,
    places: Vec<Option<(u64, u64)>>,
}

impl TimerQueue for Map {
    fn set(&mut self, id: u32, delay_ms: u32) {
        self.cancel(id);
        self.order += 1;
        let place = (self.now + u64::from(delay_ms), self.order);
        self.timers.insert(place, id);
        self.places[id as usize] = Some(place);
    }
    fn cancel(&mut self, id: u32) {
        if let Some(place) = self.places[id as usize].take() {
            self.timers.remove(&place);
        }
    }
    fn advance(&mut self, milliseconds: u32) {
        self.now += u64::from(milliseconds);
    }
    fn expire(&mut self) {
        while let Some(entry) = self.timers.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            self.places[entry.remove() as usize] = None;
        }
    }
}

/// A heap in which what was cancelled or moved stays until it comes due.
struct Heap {
    now: u64,
    order: u64,
    timers: BinaryHeap<Reverse<(u64, u64, u32)>>,
    /// The order of the timer that counts; zero for none.
    live: Vec<u64>,
}

impl TimerQueue for Heap {
    fn set(&mut self, id: u32, delay_ms: u32) {
        self.order += 1;
        self.timers.push(Reverse((self.now + u64::from(delay_ms), self.order, id)));
        self.live[id as usize] = self.order;
    }
    fn cancel(&mut self, id: u32) {
        self.live[id as usize] = 0;
    }
    fn advance(&mut self, milliseconds: u32) {
        self.now += u64::from(milliseconds);
    }
    fn expire(&mut self) {
        while let Some(Reverse((deadline, order, id))) = self.timers.peek() {
            if *deadline > self.now {
                break;
            }
            let live = &mut self.live[*id as usize];
            *live = if *live == *order { 0 } else { *live };
            self.timers.pop();
        }
    }
}

/// Tokio's hashed wheel; deadlines are counted from its start.
struct Wheel {
    now: tokio::time::Instant,
    timers: DelayQueue<u32>,
    keys: Vec<Option<Key>>,
}

impl TimerQueue for Wheel {
    fn set(&mut self, id: u32, delay_ms: u32) {
        let deadline = self.now + Duration::from_millis(delay_ms.into());
        match &self.keys[id as usize] {
            Some(key) => self.timers.reset_at(key, deadline),
            None => self.keys[id as usize] = Some(self.timers.insert_at(id, deadline)),
        }
    }
    fn cancel(&mut self, id: u32) {
        if let Some(key) = self.keys[id as usize].take() {
            self.timers.remove(&key);
        }
    }
    fn advance(&mut self, milliseconds: u32) {
        self.now += Duration::from_millis(milliseconds.into());
    }
    fn expire(&mut self) {}
}

const NAMES: [&str; 4] = ["drover", "BTreeMap", "heap", "tokio"];

fn make(which: usize, slots: u32) -> Box<dyn TimerQueue> {
    let count = slots as usize;
    match which {
        0 => Box::new(Timers::new(slots).expect("a worker")),
        1 => Box::new(Map { now: 0, order: 0, timers: BTreeMap::new(), places: vec![None; count] }),
        2 => Box::new(Heap { now: 0, order: 0, timers: BinaryHeap::new(), live: vec![0; count] }),
        _ => Box::new(Wheel {
            now: tokio::time::Instant::now(),
            timers: DelayQueue::new(),
            keys: (0..slots).map(|_| None).collect(),
        }),
    }
}

/// Which delays there are and how fast the clock moves.
#[derive(Clone, Copy)]
struct Load {
    random: bool,
    /// Operations in a millisecond: as many as renew all live timers in half a minute.
    rate: f64,
}

/// A contender under a load.
struct Running {
    queue: Box<dyn TimerQueue>,
    load: Load,
    numbers: Numbers,
    live: u32,
    batch: u32,
    /// Milliseconds that have to pass.
    due: f64,
}

impl Running {
    /// One with `live` timers set, as they are when all that was ever set has come due once.
    fn new(which: usize, live: u32, batch: u32, load: Load) -> Self {
        let queue = make(which, live + batch);
        let mut running = Self { queue, load, numbers: Numbers::new(7), live, batch, due: 0.0 };
        (0..live).for_each(|id| running.set(id));
        let longest = if load.random { 121_000.0 } else { 75_000.0 };
        running.steady((longest * load.rate) as u32);
        running
    }

    fn set(&mut self, id: u32) {
        self.due += 1.0 / self.load.rate;
        if self.due >= 1.0 {
            self.queue.advance(self.due as u32);
            self.due = self.due.fract();
        }
        let delay = match self.load.random {
            true => 1000 + self.numbers.below(120_000),
            false => 60_000 + 15_000 * self.numbers.below(2),
        };
        self.queue.set(id, delay);
    }

    fn arm(&mut self) {
        (self.live..self.live + self.batch).for_each(|id| self.set(id));
    }

    fn cancel(&mut self) {
        (self.live..self.live + self.batch).for_each(|id| self.queue.cancel(id));
    }

    fn shift(&mut self, ids: &[u32]) {
        ids.iter().for_each(|&id| self.set(id));
    }

    /// Moves timers on that were just moved, as a request that follows at once does.
    fn shift_within_300_ms(&mut self) {
        (0..self.batch).for_each(|id| self.queue.set(id % 64, 60_000 + id % 2));
    }

    fn steady(&mut self, operations: u32) {
        for operation in 0..operations {
            let id = self.numbers.below(self.live);
            if operation % 5 == 0 {
                self.queue.cancel(id);
            }
            self.set(id);
            if operation % 8 == 0 {
                self.queue.expire();
            }
        }
    }
}

const ROUNDS: usize = 7;

pub(crate) fn run(table: &mut Table) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let _entered = runtime.enter();
    for random in [false, true] {
        for live in [1_000, 100_000, 1_000_000] {
            measure(table, live, Load { random, rate: f64::from(live) / 30_000.0 });
        }
    }
    table.remark(
        "a heap's arm is a push and its cancel a mark: the work comes when the entry is due, see \"steady\"",
    );
    table.remark("a wheel's arm finds a slot, not an order: the work comes when timers go down a level");
}

fn measure(table: &mut Table, live: u32, load: Load) {
    let batch = (live / 2).min(50_000);
    let repeats = 50_000 / batch;
    let operations = u64::from(batch * repeats);
    let mut contenders: Vec<Running> =
        (0..NAMES.len()).map(|which| Running::new(which, live, batch, load)).collect();
    let mut rows: [[Column; 4]; 5] = std::array::from_fn(|_| NAMES.map(Column::new));
    for _ in 0..ROUNDS {
        for (which, running) in contenders.iter_mut().enumerate() {
            let mut sums = [0.0; 5];
            for _ in 0..repeats {
                let victims: Vec<u32> = (0..batch).map(|_| running.numbers.below(live)).collect();
                sums[0] += per_operation(1, || running.arm());
                sums[1] += per_operation(1, || running.shift(&victims));
                sums[2] += per_operation(1, || running.shift_within_300_ms());
                sums[3] += per_operation(1, || running.cancel());
                sums[4] += per_operation(1, || running.steady(batch));
            }
            for (columns, sum) in rows.iter_mut().zip(sums) {
                columns[which].note(sum / operations as f64);
            }
        }
    }
    let kind = if load.random { "random" } else { "time-outs" };
    let live = if live < 1_000_000 { format!("{}k", live / 1000) } else { format!("{}M", live / 1_000_000) };
    let figures = ["arm", "move beyond 300 ms", "move within 300 ms", "cancel", "steady"];
    for (figure, columns) in figures.into_iter().zip(rows) {
        table.row(&format!("timer, {kind}, {live} live: {figure}"), "ns", &columns);
    }
}
