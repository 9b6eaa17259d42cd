//! Brotli (RFC 7932).

use std::io;

use brotli::enc::StandardAlloc;
use brotli::enc::encode::{BrotliEncoderOperation, BrotliEncoderParameter, BrotliEncoderStateStruct};

use super::{Encode, Step, Then};

/// Bits of the window: 256 KiB. With twice as much an encoder takes four times as much memory, for bodies that are
/// smaller by a hundredth.
const WINDOW_BITS: u32 = 18;

/// So much is gathered at most before it comes out. Left alone, Brotli works on up to twice its window at once,
/// for 10 ms and more.
const BLOCK: usize = 128 * 1024;

/// What an encoder takes at a level: its window, the tables that lead into it, and what it gathers.
pub(super) fn memory(level: u32) -> usize {
    const KIB: [usize; 7] = [192, 192, 1280, 1280, 2304, 2816, 3840];
    KIB[(level as usize).min(KIB.len() - 1)] * 1024
}

pub(super) struct Brotli {
    state: Box<BrotliEncoderStateStruct<StandardAlloc>>,
    /// Bytes that were pushed since all came out.
    gathered: usize,
}

impl Brotli {
    /// The length of the body is not told: Brotli would take larger tables for a long one.
    pub(super) fn new(level: u32) -> Brotli {
        let mut state = Box::new(BrotliEncoderStateStruct::new(StandardAlloc::default()));
        state.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_QUALITY, level);
        state.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_LGWIN, WINDOW_BITS);
        Brotli { state, gathered: 0 }
    }
}

impl Encode for Brotli {
    fn step(&mut self, input: &[u8], then: Then, out: &mut Vec<u8>) -> io::Result<Step> {
        let operation = match then {
            Then::More if self.gathered + input.len() < BLOCK => {
                BrotliEncoderOperation::BROTLI_OPERATION_PROCESS
            }
            Then::More | Then::Flush => BrotliEncoderOperation::BROTLI_OPERATION_FLUSH,
            Then::End => BrotliEncoderOperation::BROTLI_OPERATION_FINISH,
        };
        let begin = out.len();
        out.resize(out.capacity(), 0);
        let (mut left, mut taken) = (input.len(), 0);
        let (mut room, mut end) = (out.len() - begin, begin);
        let fine = self.state.compress_stream(
            operation,
            &mut left,
            input,
            &mut taken,
            &mut room,
            out,
            &mut end,
            &mut None,
            &mut |_, _, _, _| (),
        );
        out.truncate(end);
        if !fine {
            return Err(io::Error::other("Brotli refused what it was given"));
        }
        self.gathered += taken;
        let done = !self.state.has_more_output() && (then != Then::End || self.state.is_finished());
        if done && left == 0 && operation == BrotliEncoderOperation::BROTLI_OPERATION_FLUSH {
            self.gathered = 0;
        }
        Ok(Step { taken, done })
    }
}
