//! The encoders of one worker: bounded in number, because each takes memory, and used again.
//!
//! At the default levels an encoder takes 0.3 MiB (gzip), 0.5 MiB (Zstandard) or 1.3 MiB (Brotli) as long as its
//! body is on its way, which may be long where a client reads slowly.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

use tracing::warn;

use super::{Coding, Encoder, Levels};

/// Encoders that are kept for further bodies, one of each coding that can be used again.
const KEPT: usize = 2;

/// Lends encoders.
pub(crate) struct Encoders {
    levels: Levels,
    /// How many are lent at a time at most.
    most: u32,
    lent: Cell<u32>,
    spare: RefCell<Vec<Encoder>>,
}

impl Encoders {
    pub(crate) fn new(levels: Levels, most: u32) -> Rc<Encoders> {
        Rc::new(Encoders { levels, most, lent: Cell::new(0), spare: RefCell::default() })
    }

    /// An encoder for a body of `length` bytes, where that is known. None where all are lent, or for want of
    /// memory: the body then goes without coding.
    pub(crate) fn take(self: &Rc<Self>, coding: Coding, length: Option<u64>) -> Option<Lent> {
        if self.lent.get() >= self.most {
            return None;
        }
        let spare = {
            let mut spare = self.spare.borrow_mut();
            let place = spare.iter().position(|spare| spare.coding == coding);
            place.map(|place| spare.swap_remove(place))
        };
        let again = spare.and_then(|mut spare| spare.restart(length).then_some(spare));
        let encoder = match again {
            Some(encoder) => encoder,
            None => Encoder::new(coding, &self.levels, length)
                .inspect_err(|fault| warn!("a response goes without {}: {fault}", coding.name()))
                .ok()?,
        };
        self.lent.set(self.lent.get() + 1);
        Some(Lent { encoder: Some(encoder), home: Rc::clone(self) })
    }

    /// A small body, encoded whole.
    pub(crate) fn whole(self: &Rc<Self>, coding: Coding, body: &[u8]) -> Option<Vec<u8>> {
        let mut encoder = self.take(coding, Some(body.len() as u64))?;
        let mut out = Vec::new();
        encoder.push(body, &mut out).and_then(|()| encoder.finish(&mut out)).ok()?;
        out.shrink_to_fit();
        Some(out)
    }
}

/// A lent encoder; dropping it gives it back.
pub(crate) struct Lent {
    /// Always there before the drop.
    encoder: Option<Encoder>,
    home: Rc<Encoders>,
}

impl Lent {
    /// As [`Encoder::push`].
    pub(crate) fn push(&mut self, input: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        self.with(|encoder| encoder.push(input, out))
    }

    /// As [`Encoder::flush`].
    pub(crate) fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.with(|encoder| encoder.flush(out))
    }

    /// As [`Encoder::finish`].
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.with(|encoder| encoder.finish(out))
    }

    fn with(&mut self, call: impl FnOnce(&mut Encoder) -> io::Result<()>) -> io::Result<()> {
        self.encoder.as_mut().map_or(Ok(()), call)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.home.lent.set(self.home.lent.get() - 1);
        let mut spare = self.home.spare.borrow_mut();
        if let Some(encoder) = self.encoder.take()
            && encoder.coding != Coding::Brotli
            && spare.len() < KEPT
            && spare.iter().all(|spare| spare.coding != encoder.coding)
        {
            spare.push(encoder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVELS: Levels = Levels { gzip: 5, brotli: 4, zstd: 3 };

    #[test]
    fn no_more_are_lent_than_may_be() {
        let encoders = Encoders::new(LEVELS, 2);
        let first = encoders.take(Coding::Gzip, None).expect("one of two");
        let second = encoders.take(Coding::Gzip, None).expect("the other");
        assert!(encoders.take(Coding::Brotli, None).is_none());
        drop(first);
        assert!(encoders.take(Coding::Brotli, None).is_some());
        drop(second);
        assert_eq!((encoders.lent.get(), encoders.spare.borrow().len()), (0, 1));
    }

    #[test]
    fn a_returned_encoder_begins_anew() {
        let encoders = Encoders::new(LEVELS, 2);
        for coding in [Coding::Gzip, Coding::Zstd] {
            let body = b"body body body".as_slice();
            let fresh = encoders.whole(coding, body).expect("an encoder");
            let mut left = encoders.take(coding, Some(1_000_000)).expect("an encoder");
            left.push(b"in the middle", &mut Vec::new()).expect("memory");
            drop(left);
            assert_eq!(encoders.whole(coding, body).as_ref(), Some(&fresh), "{coding}");
        }
        assert_eq!(encoders.spare.borrow().len(), 2);
    }
}
