//! What a worker remembers of credentials that were right.
//!
//! Neither names nor passwords: a keyed hash of both, under a key that the worker drew and nobody sees. So what is
//! looked up is nothing that a client can choose, and the time that this takes tells nothing.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::io;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::credentials::Credentials;
use super::users::Users;
use crate::random;

/// So many credentials are remembered at least, and twice as many at most.
const REMEMBERED: usize = 1024;
/// Passwords of one worker that are checked or wait for a thread at once.
const MOST_UNDER_WAY: u32 = 256;

/// What credentials are known by.
pub(crate) type Mark = [u8; 32];

/// The marks of credentials that were right, in the order of their use: when there are [`REMEMBERED`] that were used
/// lately, those that were not are forgotten.
pub(crate) struct Verified {
    key: Hmac<Sha256>,
    used: RefCell<HashSet<Mark>>,
    before: RefCell<HashSet<Mark>>,
    under_way: Cell<u32>,
}

impl Verified {
    /// To be called after the fork.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub(crate) fn new() -> io::Result<Verified> {
        let key: [u8; 32] = random::bytes()?;
        let key = Hmac::new_from_slice(&key).map_err(io::Error::other)?;
        Ok(Verified { key, used: RefCell::default(), before: RefCell::default(), under_way: Cell::new(0) })
    }

    /// What these credentials are known by, where they are checked against these users.
    pub(crate) fn mark(&self, users: &Users, credentials: &Credentials) -> Mark {
        let mut hash = self.key.clone();
        hash.update(&users.number.to_ne_bytes());
        hash.update(credentials.whole());
        hash.finalize().into_bytes().into()
    }

    /// Whether they were right before.
    pub(crate) fn has(&self, mark: &Mark) -> bool {
        if self.used.borrow().contains(mark) {
            return true;
        }
        let found = self.before.borrow_mut().remove(mark);
        if found {
            self.add(*mark);
        }
        found
    }

    /// They are right.
    pub(crate) fn add(&self, mark: Mark) {
        let mut used = self.used.borrow_mut();
        if used.len() >= REMEMBERED {
            *self.before.borrow_mut() = std::mem::take(&mut used);
        }
        used.insert(mark);
    }

    /// Another password is to be checked; false where too many are.
    pub(crate) fn begin(&self) -> bool {
        let under_way = self.under_way.get();
        let begins = under_way < MOST_UNDER_WAY;
        self.under_way.set(under_way + u32::from(begins));
        begins
    }

    /// A password was checked.
    pub(crate) fn end(&self) {
        self.under_way.set(self.under_way.get().saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(number: usize) -> Mark {
        let mut mark = [0; 32];
        mark[..8].copy_from_slice(&number.to_ne_bytes());
        mark
    }

    #[test]
    fn what_was_used_lately_is_remembered_and_the_rest_is_bounded() {
        let verified = Verified::new().expect("random bytes");
        assert!(!verified.has(&mark(0)));
        for number in 0..10 * REMEMBERED {
            verified.add(mark(number));
            assert!(verified.has(&mark(0)), "after {number}");
            let kept = verified.used.borrow().len() + verified.before.borrow().len();
            assert!(kept <= 2 * REMEMBERED, "{kept}");
        }
        assert!(!verified.has(&mark(1)));
        assert!(verified.has(&mark(10 * REMEMBERED - REMEMBERED)));
    }

    #[test]
    fn checks_under_way_are_bounded() {
        let verified = Verified::new().expect("random bytes");
        assert_eq!((0..1000).filter(|_| verified.begin()).count(), MOST_UNDER_WAY as usize);
        verified.end();
        assert!(verified.begin() && !verified.begin());
    }
}
