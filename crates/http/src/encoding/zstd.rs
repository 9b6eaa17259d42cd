//! Zstandard (RFC 8878).

use std::io;

use zstd::stream::raw::{CParameter, Encoder, InBuffer, Operation, OutBuffer};

use super::{Encode, Step, Then};

/// Bits of the window: 512 KiB. Clients take up to 8 MiB (RFC 9659), which would be the memory of each body.
const WINDOW_BITS: u32 = 19;

pub(super) struct Zstd(Encoder<'static>);

impl Zstd {
    pub(super) fn new(level: i32, length: Option<u64>) -> io::Result<Zstd> {
        let mut encoder = Encoder::new(level)?;
        encoder.set_parameter(CParameter::WindowLog(WINDOW_BITS))?;
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
