//! Waking and resuming tasks, beside tokio's current-thread runtime.
//!
//! Both turn their real loops; what a turn costs is spread over the tasks that it resumes.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use drover_event::{Settings, Shared, Stats, Worker};

use super::table::{Column, Table, per_operation};

type Wakers = Rc<RefCell<Vec<Waker>>>;

/// A task that keeps its waker where it can be found and counts how often it runs.
async fn sleeper(wakers: Wakers, resumed: Rc<Cell<u64>>) {
    let mut kept = false;
    poll_fn(|context| {
        resumed.set(resumed.get() + 1);
        if !std::mem::replace(&mut kept, true) {
            wakers.borrow_mut().push(context.waker().clone());
        }
        Poll::<()>::Pending
    })
    .await;
}

pub(crate) fn worker(connections: u32) -> Worker {
    let stats = Stats::private().expect("memory");
    let shared = Shared::alone(stats);
    Worker::new(Settings { connections, ..Settings::default() }, shared).expect("a worker")
}

struct Drover {
    worker: Worker,
    wakers: Wakers,
    resumed: Rc<Cell<u64>>,
}

impl Drover {
    fn new(tasks: u32) -> Self {
        let (worker, wakers, resumed) = (worker(16), Wakers::default(), Rc::default());
        for _ in 0..tasks {
            worker.core().spawn(sleeper(Rc::clone(&wakers), Rc::clone(&resumed)));
        }
        let mut made = Self { worker, wakers, resumed };
        made.worker.turn().expect("a turn");
        made
    }

    fn round(&mut self, repeats: u32) -> u64 {
        for _ in 0..repeats {
            self.wakers.borrow().iter().for_each(Waker::wake_by_ref);
            self.worker.turn().expect("a turn");
        }
        self.resumed.get()
    }
}

struct Tokio {
    runtime: tokio::runtime::Runtime,
    local: tokio::task::LocalSet,
    wakers: Wakers,
    resumed: Rc<Cell<u64>>,
}

impl Tokio {
    fn new(tasks: u32) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let local = tokio::task::LocalSet::new();
        let (wakers, resumed) = (Wakers::default(), Rc::<Cell<u64>>::default());
        for _ in 0..tasks {
            local.spawn_local(sleeper(Rc::clone(&wakers), Rc::clone(&resumed)));
        }
        let made = Self { runtime, local, wakers, resumed };
        made.until(u64::from(tasks));
        made
    }

    /// Runs until so many resumptions were counted in all.
    fn until(&self, wanted: u64) {
        self.runtime.block_on(self.local.run_until(async {
            while self.resumed.get() < wanted {
                tokio::task::yield_now().await;
            }
        }));
    }

    fn round(&self, repeats: u32) -> u64 {
        self.runtime.block_on(self.local.run_until(async {
            for _ in 0..repeats {
                let wanted = self.resumed.get() + self.wakers.borrow().len() as u64;
                self.wakers.borrow().iter().for_each(Waker::wake_by_ref);
                while self.resumed.get() < wanted {
                    tokio::task::yield_now().await;
                }
            }
        }));
        self.resumed.get()
    }
}

pub(crate) fn run(table: &mut Table) {
    for tasks in [1, 10, 1000] {
        let mut columns = [Column::new("drover"), Column::new("tokio")];
        let (mut drover, tokio) = (Drover::new(tasks), Tokio::new(tasks));
        let repeats = 200_000 / tasks;
        let operations = u64::from(repeats * tasks);
        for _ in 0..15 {
            columns[0].note(per_operation(operations, || drover.round(repeats)));
            columns[1].note(per_operation(operations, || tokio.round(repeats)));
        }
        table.row(&format!("wake and resume a task, {tasks} in a turn"), "ns", &columns);
    }
    let mut columns = [Column::new("drover"), Column::new("tokio")];
    for _ in 0..15 {
        columns[0].note(drover_chain());
        columns[1].note(tokio_chain());
    }
    table.row("two tasks that wake each other, each step", "ns", &columns);
    table.remark("drover asks the kernel what is ready in every turn, this runtime never: \"1 in a turn\" is what that costs");
}

const STEPS: u64 = 200_000;

/// Two tasks: each wakes the other and waits.
async fn chain(wakers: Wakers, own: usize, steps: Rc<Cell<u64>>) {
    poll_fn(|context| {
        let kept = wakers.borrow().len();
        if kept == own {
            wakers.borrow_mut().push(context.waker().clone());
        }
        steps.set(steps.get() + 1);
        if let Some(other) = wakers.borrow().get(1 - own) {
            other.wake_by_ref();
        }
        if steps.get() >= STEPS { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

fn drover_chain() -> f64 {
    let (mut worker, wakers, steps) = (worker(16), Wakers::default(), Rc::<Cell<u64>>::default());
    (0..2).for_each(|own| worker.core().spawn(chain(Rc::clone(&wakers), own, Rc::clone(&steps))));
    per_operation(STEPS, || worker.turn().expect("a turn"))
}

fn tokio_chain() -> f64 {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let local = tokio::task::LocalSet::new();
    let (wakers, steps) = (Wakers::default(), Rc::<Cell<u64>>::default());
    let tasks: Vec<_> =
        (0..2).map(|own| local.spawn_local(chain(Rc::clone(&wakers), own, Rc::clone(&steps)))).collect();
    per_operation(STEPS, || {
        runtime.block_on(local.run_until(async {
            for task in tasks {
                task.await.expect("a task");
            }
        }));
    })
}
