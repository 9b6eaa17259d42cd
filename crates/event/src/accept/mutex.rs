//! The accept mutex: one word in shared memory that holds its owner's pid.
//!
//! It is only ever tried, never waited for. Whoever finds that the owner has died (the master)
//! releases it in the owner's name.

use std::rc::Rc;
use std::sync::atomic::AtomicU64;

use drover_sys::memory::SharedWords;

use crate::accept::word::{self, NOBODY, Word};

/// One process' view of the accept mutex.
#[derive(Clone, Debug)]
pub struct AcceptMutex {
    words: Rc<SharedWords>,
    index: usize,
    pid: u64,
}

impl AcceptMutex {
    /// The mutex in word `index` of `words`, to be taken in the name of `pid`.
    ///
    /// # Panics
    /// If there is no such word.
    pub fn new(words: Rc<SharedWords>, index: usize, pid: u32) -> Self {
        assert!(index < words.len(), "there is no word {index} for the accept mutex");
        Self { words, index, pid: u64::from(pid) }
    }

    /// Takes the mutex if it is free.
    pub fn try_lock(&self) -> bool {
        word::try_lock(self.word(), self.pid)
    }

    /// Releases the mutex if this process holds it, and tells whether it did.
    pub fn unlock(&self) -> bool {
        self.release_for(self.pid as u32)
    }

    /// Releases the mutex if `pid` holds it, and tells whether it did: for a process that died.
    pub fn release_for(&self, pid: u32) -> bool {
        word::release(self.word(), u64::from(pid))
    }

    /// The pid of the owner, if the mutex is taken.
    pub fn owner(&self) -> Option<u32> {
        match self.word().read() {
            NOBODY => None,
            pid => Some(pid as u32),
        }
    }

    fn word(&self) -> &AtomicU64 {
        &self.words[self.index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holds_it_and_only_in_its_name_is_it_released() {
        let words = Rc::new(SharedWords::anonymous(1).expect("memory"));
        let first = AcceptMutex::new(Rc::clone(&words), 0, 11);
        let second = AcceptMutex::new(words, 0, 22);
        assert!(first.try_lock());
        assert!(!first.try_lock(), "it is not recursive");
        assert!(!second.try_lock());
        assert!(!second.unlock(), "not its own");
        assert_eq!(second.owner(), Some(11));
        assert!(second.release_for(11));
        assert!(second.try_lock());
        assert!(second.unlock());
        assert_eq!(first.owner(), None);
    }
}
