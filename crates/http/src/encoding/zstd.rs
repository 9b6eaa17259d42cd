//! Zstandard (RFC 8878).

use std::io;

use zstd::stream::raw::{CParameter, Encoder, InBuffer, Operation, OutBuffer};

use super::{Encode, Step, Then};

/// Bits of the window: 512 KiB. Clients take up to 8 MiB (RFC 9659), which would be the memory of each body.
const WINDOW_BITS: u32 = 19;

/// Bits of the tables that lead into the window, at most. Levels from 9 on would otherwise have some that are made for
/// larger windows, and take up to 42 MiB.
const TABLE_BITS: (u32, u32) = (WINDOW_BITS + 1, WINDOW_BITS);

/// The first level whose tables are larger than that.
const LARGE_TABLES: i32 = 9;

/// What an encoder takes at a level: its window, the tables, and blocks of input and output.
pub(super) fn memory(level: i32) -> usize {
    const KIB: [usize; 7] = [1408, 1408, 1664, 2176, 3456, 3968, 3968];
    usize::try_from(level).ok().and_then(|level| KIB.get(level)).unwrap_or(&6528) * 1024
}

pub(super) struct Zstd(Encoder<'static>);

impl Zstd {
    pub(super) fn new(level: i32, length: Option<u64>) -> io::Result<Zstd> {
        let mut encoder = Encoder::new(level)?;
        encoder.set_parameter(CParameter::WindowLog(WINDOW_BITS))?;
        if level >= LARGE_TABLES {
            encoder.set_parameter(CParameter::HashLog(TABLE_BITS.0))?;
            encoder.set_parameter(CParameter::ChainLog(TABLE_BITS.1))?;
        }
        encoder.set_pledged_src_size(length)?;
        Ok(Zstd(encoder))
    }

    pub(super) fn restart(&mut self, length: Option<u64>) -> io::Result<()> {
        self.0.reinit()?;
        self.0.set_pledged_src_size(length)
    }
}

impl Encode for Zstd {
    fn step(&mut self, input: &[u8], then: Then, out: &mut Vec<u8>) -> io::Result<Step> {
        let mut input = InBuffer::around(input);
        let begin = out.len();
        let mut room = OutBuffer::around_pos(out, begin);
        let left = match then {
            Then::More => {
                self.0.run(&mut input, &mut room)?;
                0
            }
            Then::Flush => self.0.flush(&mut room)?,
            Then::End => self.0.finish(&mut room, true)?,
        };
        Ok(Step { taken: input.pos(), done: left == 0 })
    }
}
