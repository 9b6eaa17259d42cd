//! A waker that carries one number and owns nothing.
//!
//! `std::task::Wake` would need an `Arc` for each task. Here the data pointer of the waker *is* the
//! token: cloning copies it, dropping does nothing, and a waker that outlives its task is merely a
//! number that no longer fits, which whoever receives it can tell by the generation inside.

use std::marker::PhantomData;
use std::ptr;
use std::task::{RawWaker, RawWakerVTable, Waker};

/// Who is told when a waker is woken.
pub trait WakeByToken: 'static {
    /// Called once for every wake, from whichever thread woke it.
    fn wake(token: u64);

    /// Called whenever a waker is cloned, that is, kept by somebody for later.
    fn kept(token: u64);
}

struct Table<T>(PhantomData<T>);

impl<T: WakeByToken> Table<T> {
    const VTABLE: RawWakerVTable = RawWakerVTable::new(Self::clone, Self::wake, Self::wake, Self::drop);

    fn clone(data: *const ()) -> RawWaker {
        T::kept(data.addr() as u64);
        RawWaker::new(data, &Self::VTABLE)
    }

    fn wake(data: *const ()) {
        T::wake(data.addr() as u64);
    }

    fn drop(_: *const ()) {}
}

/// A waker that tells `T` about `token`.
#[cfg(target_pointer_width = "64")]
pub fn waker<T: WakeByToken>(token: u64) -> Waker {
    let data = ptr::without_provenance(token as usize);
    // SAFETY: the contract of `RawWakerVTable` holds trivially: the data is a number that is never
    // dereferenced, all four functions are callable from any thread, and nothing is owned.
    unsafe { Waker::from_raw(RawWaker::new(data, &Table::<T>::VTABLE)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    static WOKEN: AtomicU64 = AtomicU64::new(0);
    static KEPT: AtomicU64 = AtomicU64::new(0);

    struct Sum;

    impl WakeByToken for Sum {
        fn wake(token: u64) {
            WOKEN.fetch_add(token, Ordering::SeqCst);
        }

        fn kept(_: u64) {
            KEPT.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn every_wake_carries_the_token_also_from_a_clone_on_another_thread() {
        let waker = waker::<Sum>(1 << 40);
        waker.wake_by_ref();
        let clone = waker.clone();
        std::thread::spawn(move || clone.wake()).join().expect("thread");
        waker.wake();
        assert_eq!(WOKEN.load(Ordering::SeqCst), 3 << 40);
        assert_eq!(KEPT.load(Ordering::SeqCst), 1);
    }
}
