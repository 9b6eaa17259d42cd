//! The thread pool: blocking work off the loop.
//!
//! Threads start with the first job and never before: a process that may still fork must have
//! none, and most workers need none. A job's result comes back through the notifier, which wakes
//! the task that waits for it.

use std::any::Any;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use crate::core::Core;
use crate::notify::Notifier;

/// How many threads serve one worker.
const THREADS: usize = 4;
/// How many jobs may wait for a thread.
const QUEUE_MOST: usize = 65_536;

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// One worker's threads.
pub(crate) struct ThreadPool(Arc<Shared>);

impl ThreadPool {
    fn start() -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let pool = Self(Arc::clone(&shared));
        for number in 0..THREADS {
            let shared = Arc::clone(&shared);
            let builder = std::thread::Builder::new().name(format!("drover-pool-{number}"));
            builder.spawn(move || serve(&shared))?;
        }
        Ok(pool)
    }

    fn submit(&self, job: Job) -> io::Result<()> {
        let mut queue = lock(&self.0.queue);
        if queue.jobs.len() >= QUEUE_MOST {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "the thread pool's queue is full"));
        }
        queue.jobs.push_back(job);
        drop(queue);
        self.0.changed.notify_one();
        Ok(())
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        lock(&self.0.queue).closed = true;
        self.0.changed.notify_all();
    }
}

/// Jobs do not panic while a lock is held, so a poisoned one is as good as any.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(shared: &Shared) {
    loop {
        let mut queue = lock(&shared.queue);
        let job = loop {
            if let Some(job) = queue.jobs.pop_front() {
                break job;
            }
            if queue.closed {
                return;
            }
            queue = shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        };
        drop(queue);
        job();
    }
}

type Outcome<T> = Result<T, Box<dyn Any + Send>>;

impl Core {
    /// Runs `job` on a thread of the pool and waits for its result. A job whose waiter is dropped
    /// still runs; a panic in it goes on in the waiting task.
    ///
    /// # Errors
    /// When no thread can be started, or too many jobs wait already.
    pub async fn run_blocking<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let result = Arc::new(Mutex::new(None::<Outcome<T>>));
        let (place, notifier, token) = (Arc::clone(&result), self.notifier().clone(), self.running_token());
        let run = move || {
            let outcome = catch_unwind(AssertUnwindSafe(job));
            *lock(&place) = Some(outcome);
            Notifier::wake(&notifier, token);
        };
        self.with_thread_pool(|pool| pool.submit(Box::new(run)))?;
        let outcome = poll_fn(|_| match lock(&result).take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                self.inner().armed.set(true);
                Poll::Pending
            }
        })
        .await;
        outcome.or_else(|panic| resume_unwind(panic))
    }

    fn with_thread_pool<T>(&self, call: impl FnOnce(&ThreadPool) -> io::Result<T>) -> io::Result<T> {
        let mut pool = self.inner().thread_pool.borrow_mut();
        match &mut *pool {
            Some(pool) => call(pool),
            none => call(none.insert(ThreadPool::start()?)),
        }
    }
}
