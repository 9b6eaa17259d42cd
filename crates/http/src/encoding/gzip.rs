//! gzip (RFC 1952).

use std::io;

use flate2::{Compress, Compression, FlushCompress, Status};

use super::{Encode, Step, Then};

/// Bits of the window: 32 KiB, the most that gzip can have.
const WINDOW_BITS: u8 = 15;

/// What an encoder takes, whatever its level: two windows, two tables that lead into them, and symbols.
pub(super) const MEMORY: usize = 384 * 1024;

pub(super) struct Gzip(Compress);

impl Gzip {
    pub(super) fn new(level: u32) -> Gzip {
        Gzip(Compress::new_gzip(Compression::new(level), WINDOW_BITS))
    }

    pub(super) fn restart(&mut self) {
        self.0.reset();
    }
}

impl Encode for Gzip {
    fn step(&mut self, input: &[u8], then: Then, out: &mut Vec<u8>) -> io::Result<Step> {
        let flush = match then {
            Then::More => FlushCompress::None,
            Then::Flush => FlushCompress::Sync,
            Then::End => FlushCompress::Finish,
        };
        let before = self.0.total_in();
        let status = self.0.compress_vec(input, out, flush).map_err(io::Error::other)?;
        let taken = (self.0.total_in() - before) as usize;
        // What is left of the room means that there is nothing more to fill it with.
        let done = match then {
            Then::More | Then::Flush => out.len() < out.capacity(),
            Then::End => status == Status::StreamEnd,
        };
        Ok(Step { taken, done })
    }
}
