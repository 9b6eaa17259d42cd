//! What workers agree on through one shared word: who holds the accept mutex, and whether a worker
//! that was handed a connection has answered.
//!
//! The steps are written over any word, so that `loom` can run them in every order that the memory
//! model allows; see the tests.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// The value of a mutex that is free, and of a hand-over that was answered.
pub(crate) const NOBODY: u64 = 0;

/// A word that others read and write at the same time.
pub(crate) trait Word {
    fn read(&self) -> u64;
    fn write(&self, value: u64);
    /// Puts `new` where `current` is; tells whether it was.
    fn exchange(&self, current: u64, new: u64) -> bool;
}

/// One way of reading and writing for the kernel's shared memory and for loom's.
macro_rules! implement_word {
    ($atomic:ty) => {
        impl Word for $atomic {
            fn read(&self) -> u64 {
                self.load(Acquire)
            }

            fn write(&self, value: u64) {
                self.store(value, Release);
            }

            fn exchange(&self, current: u64, new: u64) -> bool {
                self.compare_exchange(current, new, AcqRel, Acquire).is_ok()
            }
        }
    };
}

implement_word!(AtomicU64);

/// Takes a mutex in the name of `pid` if it is free.
pub(crate) fn try_lock(mutex: &impl Word, pid: u64) -> bool {
    mutex.exchange(NOBODY, pid)
}

/// Releases a mutex if `pid` holds it.
pub(crate) fn release(mutex: &impl Word, pid: u64) -> bool {
    mutex.exchange(pid, NOBODY)
}

/// Notes in a worker's word that it was handed a connection at `moment`, unless one that was handed
/// over earlier waits for its answer. The worker has to be woken afterwards, in either case.
pub(crate) fn hand_over(woken_at: &impl Word, moment: u64) {
    if woken_at.read() == NOBODY {
        woken_at.write(moment);
    }
}

/// Answers what was handed over to this worker; tells whether anything was. The worker has to look
/// at what is queued afterwards: whoever found its word set counts on that look.
pub(crate) fn answer(woken_at: &impl Word) -> bool {
    let handed_over = woken_at.read() != NOBODY;
    if handed_over {
        woken_at.write(NOBODY);
    }
    handed_over
}

#[cfg(test)]
mod tests {
    use super::{AcqRel, Acquire, NOBODY, Release, Word, answer, hand_over, release, try_lock};
    use loom::sync::atomic::AtomicU64;
    use loom::sync::atomic::Ordering::Relaxed;
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    implement_word!(AtomicU64);

    /// The mutex and what it guards: a count without any ordering of its own, so that an increment
    /// gets lost where two are inside at once, or where one does not see what the last one did.
    struct Guarded {
        mutex: AtomicU64,
        count: AtomicU64,
    }

    impl Guarded {
        fn new() -> Arc<Self> {
            Arc::new(Self { mutex: AtomicU64::new(NOBODY), count: AtomicU64::new(0) })
        }

        fn increment(&self) {
            self.count.store(self.count.load(Relaxed) + 1, Relaxed);
        }

        /// What a worker does in a turn; tells how often it was inside.
        fn turn(&self, pid: u64) -> u64 {
            if !try_lock(&self.mutex, pid) {
                return 0;
            }
            self.increment();
            assert!(release(&self.mutex, pid), "its own");
            1
        }
    }

    #[test]
    fn one_worker_at_a_time_holds_the_mutex_and_sees_what_the_last_one_did() {
        loom::model(|| {
            let guarded = Guarded::new();
            let workers: Vec<_> = [11, 22]
                .map(|pid| {
                    let guarded = Arc::clone(&guarded);
                    thread::spawn(move || guarded.turn(pid))
                })
                .into();
            let inside = guarded.turn(33) + guarded.turn(33);
            let inside =
                workers.into_iter().fold(inside, |sum, worker| sum + worker.join().expect("a worker"));
            assert_eq!(guarded.count.load(Relaxed), inside);
            assert_eq!(guarded.mutex.read(), NOBODY);
        });
    }

    #[test]
    fn a_mutex_whose_holder_died_is_released_once_and_by_nobody_else() {
        loom::model(|| {
            let guarded = Guarded::new();
            let dying = {
                let guarded = Arc::clone(&guarded);
                thread::spawn(move || {
                    // Killed inside, if it got there.
                    let inside = try_lock(&guarded.mutex, 11);
                    if inside {
                        guarded.increment();
                    }
                    u64::from(inside)
                })
            };
            let living = {
                let guarded = Arc::clone(&guarded);
                thread::spawn(move || {
                    assert!(!release(&guarded.mutex, 22), "another's");
                    guarded.turn(22) + guarded.turn(22)
                })
            };
            // The master learns of a death when the process has ended.
            let died_inside = dying.join().expect("the dying");
            assert_eq!(release(&guarded.mutex, 11), died_inside == 1);
            let inside = died_inside + living.join().expect("the living");
            assert_eq!(guarded.count.load(Relaxed), inside);
            assert_eq!(guarded.turn(33), 1, "free for the next");
        });
    }

    /// A listening socket's queue and a notifier; their locks stand for the kernel's.
    struct Handing {
        woken_at: AtomicU64,
        queued: Mutex<u64>,
        notified: Mutex<bool>,
    }

    impl Handing {
        /// A worker with a closed gate: a connection has come, and it hands it over.
        fn leave_one(&self, moment: u64) {
            *self.queued.lock().expect("the queue") += 1;
            hand_over(&self.woken_at, moment);
            *self.notified.lock().expect("the notifier") = true;
        }

        /// The turn of the worker that was handed to; tells how many connections it saw, if it looked.
        fn turn(&self) -> u64 {
            if answer(&self.woken_at) { *self.queued.lock().expect("the queue") } else { 0 }
        }
    }

    #[test]
    fn whatever_was_handed_over_is_looked_for_before_the_worker_sleeps_for_good() {
        loom::model(|| {
            let handing = Arc::new(Handing {
                woken_at: AtomicU64::new(NOBODY),
                queued: Mutex::new(0),
                notified: Mutex::new(false),
            });
            let others: Vec<_> = [100, 101]
                .map(|moment| {
                    let handing = Arc::clone(&handing);
                    thread::spawn(move || handing.leave_one(moment))
                })
                .into();
            // A turn for whatever other reason, at any point in between.
            let mut seen = handing.turn();
            for other in others {
                other.join().expect("another worker");
            }
            while std::mem::take(&mut *handing.notified.lock().expect("the notifier")) {
                seen = seen.max(handing.turn());
            }
            assert_eq!(seen, 2);
            assert_eq!(handing.woken_at.read(), NOBODY, "it counts again");
        });
    }
}
