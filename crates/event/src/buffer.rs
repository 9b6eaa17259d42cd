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

struct Shelf {
    size: usize,
    boxes: RefCell<Vec<Box<[u8]>>>,
}

impl Shelf {
    fn lend(&self) -> Box<[u8]> {
        self.boxes.borrow_mut().pop().unwrap_or_else(|| vec![0; self.size].into_boxed_slice())
    }

    fn take_back(&self, bytes: Box<[u8]>) {
        let mut boxes = self.boxes.borrow_mut();
        if bytes.len() == self.size && boxes.len() < KEPT {
            boxes.push(bytes);
        }
    }
}

pub(crate) struct BufferPool {
    shelf: Rc<Shelf>,
}

impl BufferPool {
    pub(crate) fn new(size: usize) -> Self {
        Self { shelf: Rc::new(Shelf { size, boxes: RefCell::new(Vec::with_capacity(KEPT)) }) }
    }

    pub(crate) fn take(&self) -> Buffer {
        Buffer { bytes: self.shelf.lend(), shelf: Rc::clone(&self.shelf) }
    }
}

/// A buffer lent by the pool; dropping it gives it back.
pub struct Buffer {
    bytes: Box<[u8]>,
    shelf: Rc<Shelf>,
}

impl Buffer {
    /// Gives the memory back but for the first `used` bytes, which move to a place of just their size: for whoever
    /// has to wait and needs them later. Until [`Buffer::take_up`] they are all there is.
    pub fn set_aside(&mut self, used: usize) {
        if used < self.bytes.len() {
            let kept = self.bytes[..used].into();
            self.shelf.take_back(std::mem::replace(&mut self.bytes, kept));
        }
    }

    /// Has all of its memory again, if it was set aside, with what was kept at its beginning.
    pub fn take_up(&mut self) {
        if self.bytes.len() < self.shelf.size {
            let mut bytes = self.shelf.lend();
            bytes[..self.bytes.len()].copy_from_slice(&self.bytes);
            self.bytes = bytes;
        }
    }
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
        self.shelf.take_back(std::mem::take(&mut self.bytes));
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
        assert_eq!(pool.shelf.boxes.borrow().len(), KEPT);
    }

    #[test]
    fn what_is_set_aside_takes_no_more_than_its_size() {
        let pool = BufferPool::new(8);
        let mut buffer = pool.take();
        buffer[..3].copy_from_slice(b"abc");
        let place = buffer.as_ptr();
        buffer.set_aside(3);
        assert_eq!(&*buffer, b"abc");
        let other = pool.take();
        assert_eq!(other.as_ptr(), place, "somebody else has the memory");
        buffer.take_up();
        buffer.take_up();
        assert_eq!((buffer.len(), &buffer[..3]), (8, b"abc".as_slice()));
        drop((buffer, other));
        assert_eq!(pool.shelf.boxes.borrow().len(), 2);
        let mut buffer = pool.take();
        buffer.set_aside(0);
        drop(buffer);
        assert!(pool.shelf.boxes.borrow().iter().all(|bytes| bytes.len() == 8));
    }
}
