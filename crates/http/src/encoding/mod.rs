//! Content codings: gzip, Brotli and Zstandard by one interface, which bodies are pushed through.
//!
//! No input and output here: bytes are pushed into an [`Encoder`], and what comes out is appended to a buffer of
//! the caller's. Who has much to push does it in pieces of at most [`PIECE`] and gives way between them; then
//! neither the time a piece takes nor what it appends is without bound.
//!
//! ```text
//! let mut encoder = encoders.take(Coding::Gzip, Some(length))?;
//! encoder.push(piece, &mut out)?;      // any number of times; out may still be empty
//! encoder.flush(&mut out)?;            // where the peer must see now all that was pushed
//! encoder.finish(&mut out)?;           // once, at the end
//! ```
//!
//! Which coding a client wants is read in [`accept`], what is worth encoding is said by [`compression`].

pub(crate) mod accept;
mod brotli;
pub(crate) mod compression;
pub(crate) mod encoders;
mod gzip;
mod zstd;

use std::io;

use drover_config::choice;

/// So many bytes are pushed in one go at most: up to 3 ms of work at the default levels, mostly a third of one.
pub(crate) const PIECE: usize = 16 * 1024;

/// Room that a coding is given for its output at least.
const LEAST_ROOM: usize = 4 * 1024;

choice! {
    /// A content coding (RFC 9110, 8.4.1).
    pub enum Coding {
        /// RFC 1952.
        Gzip = "gzip",
        /// Brotli, RFC 7932.
        Brotli = "br",
        /// Zstandard, RFC 8878.
        Zstd = "zstd",
    }
}

impl Coding {
    /// All of them, in the order of their numbers.
    pub(crate) const ALL: [Coding; 3] = [Coding::Gzip, Coding::Brotli, Coding::Zstd];

    /// The name in the registry of content codings, which header fields have.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Coding::Gzip => "gzip",
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
        }
    }

    /// What the name of an encoded file ends with.
    pub(crate) const fn suffix(self) -> &'static str {
        match self {
            Coding::Gzip => ".gz",
            Coding::Brotli => ".br",
            Coding::Zstd => ".zst",
        }
    }
}

/// How hard each coding tries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Levels {
    /// 1 to 9.
    pub(crate) gzip: u32,
    /// 0 to 6.
    pub(crate) brotli: u32,
    /// 1 to 12.
    pub(crate) zstd: i32,
}

impl Levels {
    /// Bytes of memory that an encoder takes at most.
    pub(crate) fn memory(&self, coding: Coding) -> usize {
        match coding {
            Coding::Gzip => gzip::MEMORY,
            Coding::Brotli => brotli::memory(self.brotli),
            Coding::Zstd => zstd::memory(self.zstd),
        }
    }
}

/// What follows the bytes that are pushed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Then {
    /// Others.
    More,
    /// Others, but all that was pushed has to come out first.
    Flush,
    /// Nothing.
    End,
}

/// What one step did.
struct Step {
    /// Bytes of the input that are used up.
    taken: usize,
    /// Nothing more will come out before more is pushed.
    done: bool,
}

/// One coding of one body.
trait Encode {
    /// Takes some of `input` and appends to `out`, within its spare capacity, what comes out.
    ///
    /// # Errors
    /// When there is no memory; nothing that is pushed is wrong.
    fn step(&mut self, input: &[u8], then: Then, out: &mut Vec<u8>) -> io::Result<Step>;
}

/// A body on its way through a coding.
pub(crate) struct Encoder {
    coding: Coding,
    how: How,
}

enum How {
    Gzip(gzip::Gzip),
    Brotli(brotli::Brotli),
    Zstd(zstd::Zstd),
}

impl Encoder {
    /// Begins a body of `length` bytes, where that is known.
    ///
    /// # Errors
    /// When there is no memory.
    pub(crate) fn new(coding: Coding, levels: &Levels, length: Option<u64>) -> io::Result<Encoder> {
        let how = match coding {
            Coding::Gzip => How::Gzip(gzip::Gzip::new(levels.gzip)),
            Coding::Brotli => How::Brotli(brotli::Brotli::new(levels.brotli)),
            Coding::Zstd => How::Zstd(zstd::Zstd::new(levels.zstd, length)?),
        };
        Ok(Encoder { coding, how })
    }

    /// Whether it can begin another body.
    fn can_restart(&self) -> bool {
        !matches!(self.how, How::Brotli(_))
    }

    /// Forgets the body before and begins one of `length` bytes; false where that cannot be.
    fn restart(&mut self, length: Option<u64>) -> bool {
        match &mut self.how {
            How::Gzip(gzip) => {
                gzip.restart();
                true
            }
            How::Brotli(_) => false,
            How::Zstd(zstd) => zstd.restart(length).is_ok(),
        }
    }

    /// Pushes a piece of the body.
    ///
    /// # Errors
    /// When there is no memory.
    pub(crate) fn push(&mut self, input: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        self.run(input, Then::More, out)
    }

    /// Has all come out that was pushed, at some cost of size.
    ///
    /// # Errors
    /// When there is no memory.
    pub(crate) fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.run(b"", Then::Flush, out)
    }

    /// Ends the body.
    ///
    /// # Errors
    /// When there is no memory, or where the length that was told is not that of what was pushed.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.run(b"", Then::End, out)
    }

    fn run(&mut self, mut input: &[u8], then: Then, out: &mut Vec<u8>) -> io::Result<()> {
        let how: &mut dyn Encode = match &mut self.how {
            How::Gzip(gzip) => gzip,
            How::Brotli(brotli) => brotli,
            How::Zstd(zstd) => zstd,
        };
        loop {
            if out.capacity() - out.len() < LEAST_ROOM {
                out.reserve(PIECE);
            }
            let step = how.step(input, then, out)?;
            input = &input[step.taken..];
            if input.is_empty() && step.done {
                return Ok(());
            }
        }
    }
}

/// A small body, encoded whole.
///
/// # Errors
/// When there is no memory.
pub(crate) fn whole(coding: Coding, levels: &Levels, body: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = Encoder::new(coding, levels, Some(body.len() as u64))?;
    let mut out = Vec::new();
    encoder.push(body, &mut out)?;
    encoder.finish(&mut out)?;
    out.shrink_to_fit();
    Ok(out)
}

#[cfg(test)]
mod tests;
