//! Futures whose memory is used again and again.
//!
//! What a connection does where it must wait is too large to lie in the connection's own future, which is small
//! because most connections are idle. Boxed anew for each request it would cost an allocation; here the box stays
//! and each future is put where the last one was.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// How many unused boxes are kept.
const KEPT: usize = 64;

/// Room for one future that is made of an `A` and gives a `T`, without its type.
trait Room<A, T> {
    fn begin(&mut self, argument: A);
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<T>;
    /// Drops the future.
    fn end(&mut self);
}

struct Place<M, F> {
    make: M,
    future: Pin<Box<Option<F>>>,
}

impl<A, T, M: Fn(A) -> F, F: Future<Output = T>> Room<A, T> for Place<M, F> {
    fn begin(&mut self, argument: A) {
        self.future.set(Some((self.make)(argument)));
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<T> {
        match self.future.as_mut().as_pin_mut() {
            Some(future) => future.poll(context),
            None => Poll::Pending,
        }
    }

    fn end(&mut self) {
        self.future.set(None);
    }
}

type Shelf<A, T> = RefCell<Vec<Box<dyn Room<A, T>>>>;

/// Boxes for the futures that one function makes.
pub(crate) struct ReusedFutures<A, T> {
    shelf: Rc<Shelf<A, T>>,
    new_place: Box<dyn Fn() -> Box<dyn Room<A, T>>>,
}

impl<A: 'static, T: 'static> ReusedFutures<A, T> {
    /// Boxes for the futures that `make` makes.
    pub(crate) fn new<M, F>(make: M) -> ReusedFutures<A, T>
    where
        M: Fn(A) -> F + Copy + 'static,
        F: Future<Output = T> + 'static,
    {
        let new_place = move || -> Box<dyn Room<A, T>> { Box::new(Place { make, future: Box::pin(None) }) };
        ReusedFutures { shelf: Rc::default(), new_place: Box::new(new_place) }
    }

    /// The future of `argument`.
    pub(crate) fn start(&self, argument: A) -> ReusedFuture<A, T> {
        let place = self.shelf.borrow_mut().pop();
        let mut place = place.unwrap_or_else(|| (self.new_place)());
        place.begin(argument);
        ReusedFuture { place: Some(place), shelf: Rc::clone(&self.shelf) }
    }
}

/// A future in a box that is used again once it is dropped.
pub(crate) struct ReusedFuture<A, T> {
    place: Option<Box<dyn Room<A, T>>>,
    shelf: Rc<Shelf<A, T>>,
}

impl<A, T> Future for ReusedFuture<A, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        match &mut self.place {
            Some(place) => place.poll(context),
            None => Poll::Pending,
        }
    }
}

impl<A, T> Drop for ReusedFuture<A, T> {
    fn drop(&mut self) {
        let Some(mut place) = self.place.take() else { return };
        // Before the shelf is borrowed: what the future drops may start another one.
        place.end();
        let mut shelf = self.shelf.borrow_mut();
        if shelf.len() < KEPT {
            shelf.push(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::task::Waker;

    /// Gives the argument at its second poll.
    async fn late(argument: Rc<Cell<u32>>) -> u32 {
        let mut polled = false;
        poll_fn(|_| match std::mem::replace(&mut polled, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
        argument.get()
    }

    fn poll<A, T>(future: &mut ReusedFuture<A, T>) -> Poll<T> {
        Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_box_is_used_again_and_what_was_in_it_is_dropped() {
        let futures = ReusedFutures::new(late);
        let value = Rc::new(Cell::new(7));
        let mut first = futures.start(Rc::clone(&value));
        assert_eq!(poll(&mut first), Poll::Pending);
        assert_eq!(poll(&mut first), Poll::Ready(7));
        drop(first);
        assert_eq!((futures.shelf.borrow().len(), Rc::strong_count(&value)), (1, 1));

        let mut dropped = futures.start(Rc::clone(&value));
        assert_eq!(futures.shelf.borrow().len(), 0);
        assert_eq!(poll(&mut dropped), Poll::Pending);
        drop(dropped);
        assert_eq!((futures.shelf.borrow().len(), Rc::strong_count(&value)), (1, 1));

        let many: Vec<_> = (0..KEPT + 5).map(|_| futures.start(Rc::clone(&value))).collect();
        drop(many);
        assert_eq!(futures.shelf.borrow().len(), KEPT);
    }
}
