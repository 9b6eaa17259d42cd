//! A token names one life of a slot or a task.
//!
//! Slots and task numbers are lent again and again; the generation tells which life is meant. What
//! the kernel reports, what a waker carries and what a channel to another thread carries is a
//! token, and whoever receives one compares the generation before believing the index.

/// An index and the generation it was lent in, 32 bits each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Token(u64);

impl Token {
    /// The token of the worker's notifier, which takes no slot.
    pub const NOTIFIER: Token = Token::new(u32::MAX, 0);
    /// The token of the worker's alarm (`timer_resolution`), which takes no slot either.
    pub const ALARM: Token = Token::new(u32::MAX, 1);

    /// The token of the worker's inbox for datagrams, which takes none either.
    pub const INBOX: Token = Token::new(u32::MAX, 2);

    /// The token of `index` in `generation`.
    pub const fn new(index: u32, generation: u32) -> Self {
        Self((generation as u64) << 32 | index as u64)
    }

    /// The token that [`Token::as_u64`] gave.
    pub const fn from_u64(word: u64) -> Self {
        Self(word)
    }

    /// The slot or task number.
    pub const fn index(self) -> u32 {
        self.0 as u32
    }

    /// Which life of it.
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// As one word, for the kernel and for wakers.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}
