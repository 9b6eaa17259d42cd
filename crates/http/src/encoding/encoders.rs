//! The encoders of one worker: bounded by the memory that they take, and used again.
//!
//! How much an encoder takes depends on its coding and level alone, and is known before ([`Levels::memory`]). What is
//! lent and what is kept for further bodies together never take more than the config allows: where that does not
//! suffice, bodies go without coding. What is kept saves making it anew, which is mostly faults of pages; what nobody
//! has taken for [`IDLE`] is let go of, and its memory goes back to the system.

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::rc::{Rc, Weak};
use std::time::Duration;

use drover_event::Core;
use tracing::{debug, warn};

use super::{Coding, Encoder, Levels};

/// Time after which those are let go of that were not taken meanwhile; it may be twice as long.
const IDLE: Duration = Duration::from_secs(2);

/// Lends encoders.
pub(crate) struct Encoders {
    levels: Levels,
    /// Bytes that all may take.
    most: usize,
    /// Bytes that those take which are lent.
    lent: Cell<usize>,
    /// In the order in which they came back.
    spare: RefCell<Vec<Spare>>,
    /// Moves on every [`IDLE`].
    period: Cell<u64>,
    /// Who can wait until it does.
    core: OnceCell<Core>,
    /// Somebody waits.
    watched: Cell<bool>,
}

/// One that waits for the next body.
struct Spare {
    encoder: Encoder,
    /// When it came back.
    since: u64,
}

impl Encoders {
    /// Encoders that take `most` bytes, and are kept until [`Encoders::let_go`] is called often enough.
    pub(crate) fn new(levels: Levels, most: usize) -> Rc<Encoders> {
        Rc::new(Encoders {
            levels,
            most,
            lent: Cell::new(0),
            spare: RefCell::default(),
            period: Cell::new(0),
            core: OnceCell::new(),
            watched: Cell::new(false),
        })
    }

    /// The same for a worker, whose timers see to it that they are let go of.
    pub(crate) fn of_worker(core: &Core, levels: Levels, most: usize) -> Rc<Encoders> {
        let encoders = Encoders::new(levels, most);
        encoders.core.get_or_init(|| core.clone());
        encoders
    }

    /// An encoder for a body of `length` bytes, where that is known. None where it would take more memory than there
    /// may be, or is: the body then goes without coding.
    pub(crate) fn take(self: &Rc<Self>, coding: Coding, length: Option<u64>) -> Option<Lent> {
        let memory = self.levels.memory(coding);
        if self.lent.get() + memory > self.most {
            return None;
        }
        let again = self.take_spare(coding);
        let again = again.and_then(|mut spare| spare.restart(length).then_some(spare));
        let encoder = match again {
            Some(encoder) => encoder,
            None => {
                self.make_room(memory);
                Encoder::new(coding, &self.levels, length)
                    .inspect_err(|fault| warn!("a response goes without {}: {fault}", coding.name()))
                    .ok()?
            }
        };
        self.lent.set(self.lent.get() + memory);
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

    /// The one that came back last: the others may be done without.
    fn take_spare(&self, coding: Coding) -> Option<Encoder> {
        let mut spare = self.spare.borrow_mut();
        let place = spare.iter().rposition(|spare| spare.encoder.coding == coding)?;
        Some(spare.remove(place).encoder)
    }

    /// Lets go of spare ones, those that wait longest first, until one more that takes `memory` is not too much.
    fn make_room(&self, memory: usize) {
        let mut spare = self.spare.borrow_mut();
        let mut taken: usize = self.lent.get() + self.memory_of(&spare);
        let mut count = 0;
        while taken + memory > self.most && count < spare.len() {
            taken -= self.levels.memory(spare[count].encoder.coding);
            count += 1;
        }
        spare.drain(..count);
    }

    fn memory_of(&self, spare: &[Spare]) -> usize {
        spare.iter().map(|spare| self.levels.memory(spare.encoder.coding)).sum()
    }

    /// Takes one back.
    fn give_back(self: &Rc<Self>, encoder: Encoder) {
        self.lent.set(self.lent.get() - self.levels.memory(encoder.coding));
        if encoder.can_restart() {
            self.spare.borrow_mut().push(Spare { encoder, since: self.period.get() });
        }
        if let Some(core) = self.core.get().filter(|_| !self.watched.replace(true)) {
            core.spawn(watch(core.clone(), Rc::downgrade(self)));
        }
    }

    /// Lets go of those that nobody took since the last time. True where none is left.
    fn let_go(&self) -> bool {
        let mut spare = self.spare.borrow_mut();
        let period = self.period.replace(self.period.get() + 1);
        spare.retain(|spare| spare.since == period);
        if spare.is_empty() {
            spare.shrink_to_fit();
        }
        spare.is_empty()
    }
}

/// Lets go of what is spare, until nothing is.
async fn watch(core: Core, encoders: Weak<Encoders>) {
    loop {
        core.sleep(IDLE).await;
        let Some(encoders) = encoders.upgrade() else { return };
        if encoders.let_go() {
            // The next one that comes back will be watched again.
            encoders.watched.set(false);
            core.trim_memory();
            debug!("no encoder is kept");
            return;
        }
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
        if let Some(encoder) = self.encoder.take() {
            self.home.give_back(encoder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVELS: Levels = Levels { gzip: 5, brotli: 4, zstd: 3 };

    fn spare(encoders: &Encoders) -> Vec<Coding> {
        encoders.spare.borrow().iter().map(|spare| spare.encoder.coding).collect()
    }

    #[test]
    fn no_more_are_lent_than_there_may_be_memory_for() {
        let encoders = Encoders::new(LEVELS, LEVELS.memory(Coding::Gzip) + LEVELS.memory(Coding::Brotli));
        let first = encoders.take(Coding::Gzip, None).expect("one of two");
        let second = encoders.take(Coding::Brotli, None).expect("the other");
        assert!(encoders.take(Coding::Gzip, None).is_none());
        drop(first);
        assert!(encoders.take(Coding::Brotli, None).is_none());
        assert!(encoders.take(Coding::Gzip, None).is_some());
        drop(second);
        assert_eq!((encoders.lent.get(), spare(&encoders)), (0, vec![Coding::Gzip]));
    }

    #[test]
    fn what_is_kept_makes_room_for_others() {
        let encoders = Encoders::new(LEVELS, LEVELS.memory(Coding::Zstd));
        drop((encoders.take(Coding::Gzip, None), encoders.take(Coding::Gzip, None)));
        assert_eq!(spare(&encoders), [Coding::Gzip, Coding::Gzip]);
        let other = encoders.take(Coding::Zstd, None).expect("all of the memory");
        assert_eq!(spare(&encoders), []);
        drop(other);
        assert_eq!((encoders.lent.get(), spare(&encoders)), (0, vec![Coding::Zstd]));
    }

    #[test]
    fn those_in_use_are_kept_and_others_let_go_of() {
        let encoders = Encoders::new(LEVELS, 100 << 20);
        let lend = |count| -> Vec<Lent> {
            (0..count).map(|_| encoders.take(Coding::Gzip, None).expect("memory")).collect()
        };
        drop(lend(5));
        assert!(!encoders.let_go());
        assert_eq!(spare(&encoders).len(), 5);
        // Of five, no more than two were taken since.
        drop(lend(2));
        drop(lend(1));
        assert!(!encoders.let_go());
        assert_eq!(spare(&encoders).len(), 2);
        assert!(encoders.let_go());
    }

    #[test]
    fn a_returned_encoder_begins_anew() {
        let encoders = Encoders::new(LEVELS, 100 << 20);
        for coding in [Coding::Gzip, Coding::Zstd] {
            let body = b"body body body".as_slice();
            let fresh = encoders.whole(coding, body).expect("an encoder");
            let mut left = encoders.take(coding, Some(1_000_000)).expect("an encoder");
            left.push(b"in the middle", &mut Vec::new()).expect("memory");
            drop(left);
            assert_eq!(encoders.whole(coding, body).as_ref(), Some(&fresh), "{coding}");
        }
        assert_eq!(spare(&encoders), [Coding::Gzip, Coding::Zstd]);
    }
}
