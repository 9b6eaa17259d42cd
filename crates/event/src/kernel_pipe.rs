//! What a worker keeps for its pipes: the hot scratch buffer, and kernel pipes that flows have let go of.

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;

use nix::fcntl::{FcntlArg, OFlag, SpliceFFlags, fcntl, splice};
use nix::unistd::pipe2;

use crate::stream::Stream;

/// The size of the scratch buffer, and a quarter of what a kernel pipe holds.
pub(crate) const SCRATCH: usize = 64 * 1024;
/// How many idle kernel pipes a worker keeps.
const PIPES_KEPT: usize = 16;
const SPLICE_FLAGS: SpliceFFlags = SpliceFFlags::SPLICE_F_MOVE.union(SpliceFFlags::SPLICE_F_NONBLOCK);
/// What one splice is asked for: more than a pipe holds, so that the pipe is the limit.
pub(crate) const SPLICE_MOST: usize = 1024 * 1024;

/// What a worker keeps for its flows.
pub(crate) struct PipeStore {
    pub(crate) scratch: RefCell<Box<[u8]>>,
    pipes: RefCell<Vec<KernelPipe>>,
}

impl Default for PipeStore {
    fn default() -> Self {
        let scratch = vec![0; SCRATCH].into_boxed_slice();
        Self { scratch: RefCell::new(scratch), pipes: RefCell::default() }
    }
}

/// A kernel pipe; a flow that lets go of it has emptied it.
pub(crate) struct KernelPipe {
    pub(crate) source: OwnedFd,
    pub(crate) sink: OwnedFd,
}

impl PipeStore {
    pub(crate) fn take_pipe(&self) -> nix::Result<KernelPipe> {
        if let Some(pipe) = self.pipes.borrow_mut().pop() {
            return Ok(pipe);
        }
        let (source, sink) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        // More than the default needs a privilege or headroom in pipe-user-pages; without it the
        // default serves.
        let _ = fcntl(&sink, FcntlArg::F_SETPIPE_SZ(4 * SCRATCH as i32));
        Ok(KernelPipe { source, sink })
    }

    pub(crate) fn give_back(&self, pipe: KernelPipe) {
        let mut pipes = self.pipes.borrow_mut();
        if pipes.len() < PIPES_KEPT {
            pipes.push(pipe);
        }
    }
}

impl Stream {
    /// Moves what is there, at most `most` bytes, into a kernel pipe that is empty. `Ok(0)` is the
    /// end of the peer's stream. Fewer bytes than asked for do not mean that the socket is drained:
    /// a pipe has a number of places, and packets may be small.
    pub(crate) fn try_splice_in(&self, sink: &OwnedFd, most: usize) -> io::Result<usize> {
        self.receiving(0, |socket| Ok(splice(socket, None, sink, None, most, SPLICE_FLAGS)?))
    }

    /// Moves at most `most` bytes out of a kernel pipe into the socket.
    pub(crate) fn try_splice_out(&self, source: &OwnedFd, most: usize) -> io::Result<usize> {
        self.sending(|socket| Ok(splice(source, None, socket, None, most, SPLICE_FLAGS)?))
    }
}
