//! The worker's pool of buffers.
//!
//! Nobody holds a buffer while waiting for a peer that may stay silent: wait for readiness first,
//! then take one. So a handful serves thousands of connections, and the pool keeps as many as were
//! ever in use at once, up to a bound.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

/// How many idle buffers the pool keeps.
const KEPT: usize = 64;

type Shelf = RefCell<Vec<Box<[u8]>>>;

pub(crate) struct BufferPool {
    size: usize,
    shelf: Rc<Shelf>,
}

impl BufferPool {
    pub(crate) fn new(size: usize) -> Self {
        Self { size, shelf: Rc::new(RefCell::new(Vec::with_capacity(KEPT))) }
    }

    pub(crate) fn take(&self) -> Buffer {
        let bytes = self.shelf.borrow_mut().pop().unwrap_or_else(|| vec![0; self.size].into_boxed_slice());
        Buffer { bytes, shelf: Rc::clone(&self.shelf) }
    }
}

/// A buffer lent by the pool; dropping it gives it back.
pub struct Buffer {
    bytes: Box<[u8]>,
    shelf: Rc<Shelf>,
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut shelf = self.shelf.borrow_mut();
        if shelf.len() < KEPT {
            shelf.push(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_returned_buffer_is_lent_again() {
        let pool = BufferPool::new(8);
        let mut first = pool.take();
        first[0] = 7;
        let place = first.as_ptr();
        drop(first);
        let again = pool.take();
        assert_eq!((again.as_ptr(), again[0], again.len()), (place, 7, 8));
    }

    #[test]
    fn the_pool_keeps_a_bounded_number() {
        let pool = BufferPool::new(1);
        let lent: Vec<Buffer> = (0..KEPT + 10).map(|_| pool.take()).collect();
        drop(lent);
        assert_eq!(pool.shelf.borrow().len(), KEPT);
    }
}
