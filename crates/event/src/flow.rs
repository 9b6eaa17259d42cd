//! A flow: bytes pass from one connection to another, with back-pressure.
//!
//! A flow that carries messages copies them through one hot scratch buffer of the worker, since moving a
//! small message through the kernel costs more than touching it. A flow whose reads keep filling that
//! buffer changes to `splice(2)`, where the bytes never enter this process, and changes back when they
//! come in small pieces again.
//!
//! A flow receives only after it has sent everything it holds, so a slow receiver holds up its sender
//! and costs at most one scratch buffer, or one kernel pipe.
//!
//! [`carry`] is one flow of a bounded number of bytes; [`pipe`](crate::pipe) is two of them.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use nix::fcntl::{FcntlArg, OFlag, SpliceFFlags, fcntl, splice};
use nix::unistd::pipe2;
use tracing::debug;

use crate::core::Core;
use crate::error::StreamError;
use crate::stream::Stream;
use crate::waiting::Readiness;

/// The size of the scratch buffer, and what a kernel pipe holds.
const SCRATCH: usize = 64 * 1024;
/// After this many reads that fill the scratch buffer a flow splices.
const FULL_READS: u8 = 3;
/// A splice of less than this is a small piece, and after [`SMALL_PIECES`] of them a flow copies.
const SMALL_PIECE: usize = 8 * 1024;
const SMALL_PIECES: u8 = 4;
/// How many idle kernel pipes a worker keeps.
const PIPES_KEPT: usize = 16;

/// What a worker keeps for its flows.
pub(crate) struct PipeStore {
    scratch: RefCell<Box<[u8]>>,
    pipes: RefCell<Vec<KernelPipe>>,
}

impl Default for PipeStore {
    fn default() -> Self {
        let scratch = vec![0; SCRATCH].into_boxed_slice();
        Self { scratch: RefCell::new(scratch), pipes: RefCell::default() }
    }
}

struct KernelPipe {
    source: OwnedFd,
    sink: OwnedFd,
}

impl PipeStore {
    fn take_pipe(&self) -> nix::Result<KernelPipe> {
        if let Some(pipe) = self.pipes.borrow_mut().pop() {
            return Ok(pipe);
        }
        let (source, sink) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        // More than the default needs a privilege or headroom in pipe-user-pages; without it the
        // default serves.
        let _ = fcntl(&sink, FcntlArg::F_SETPIPE_SZ(4 * SCRATCH as i32));
        Ok(KernelPipe { source, sink })
    }

    fn give_back(&self, pipe: KernelPipe) {
        let mut pipes = self.pipes.borrow_mut();
        if pipes.len() < PIPES_KEPT {
            pipes.push(pipe);
        }
    }
}

impl Core {
    /// Lends the worker's scratch buffer, 64 KiB that are hot. Its content is what the last user left.
    ///
    /// # Panics
    /// If `call` asks for it again.
    pub fn with_scratch<T>(&self, call: impl FnOnce(&mut [u8]) -> T) -> T {
        call(&mut self.inner().pipes.scratch.borrow_mut())
    }
}

/// How flows carry bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Carrying {
    /// Copying or splicing, as the traffic suggests.
    #[default]
    Adaptive,
    /// Copying only.
    Copy,
}

/// What [`carry`] carries.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// How many bytes; `u64::MAX` for all until the sender's end.
    pub most: u64,
    /// Whether bytes behind those are left in the socket, to be received by somebody else. Without it
    /// they may be received and dropped, which saves finding out that nothing is there.
    pub leaves_rest: bool,
    /// The time between two receives.
    pub receive_timeout: Duration,
    /// The time between two sends.
    pub send_timeout: Duration,
}

/// What was carried.
#[derive(Debug)]
pub struct Carried {
    /// Bytes that were sent on.
    pub moved: u64,
    /// How it ended.
    pub end: CarryEnd,
}

/// How a [`carry`] ended.
#[derive(Debug)]
pub enum CarryEnd {
    /// All bytes are sent on.
    Whole {
        /// More came behind them, and was dropped.
        excess: bool,
    },
    /// The sender ended its stream before.
    Ended,
    /// Receiving failed, or timed out.
    Receiving(StreamError),
    /// Sending failed, or timed out.
    Sending(StreamError),
}

/// Passes bytes from one connection to another, copying or splicing, until there are as many as wanted.
/// The time-out that was set to receive stays set.
pub async fn carry(from: &Stream, to: &Stream, load: Load) -> Carried {
    let mut flow = Flow::new(from, to, Carrying::Adaptive, load);
    flow.note_activity();
    let end = poll_fn(|context| flow.poll(context)).await;
    let end = match end {
        Ok(()) if flow.ended && flow.left > 0 => CarryEnd::Ended,
        Ok(()) => CarryEnd::Whole { excess: flow.excess },
        Err(Stop { receiving: true, error }) => CarryEnd::Receiving(error),
        Err(Stop { receiving: false, error }) => CarryEnd::Sending(error),
    };
    to.clear_write_timeout();
    Carried { moved: flow.moved, end }
}

/// An error, and whether it was met on the side that is received from.
pub(crate) struct Stop {
    pub(crate) receiving: bool,
    pub(crate) error: StreamError,
}

impl Stop {
    fn receiving(error: impl Into<StreamError>) -> Self {
        Self { receiving: true, error: error.into() }
    }

    fn sending(error: impl Into<StreamError>) -> Self {
        Self { receiving: false, error: error.into() }
    }
}

/// What a flow holds that it has received and not yet sent.
enum Held {
    Bytes { bytes: Vec<u8>, sent: usize },
    Piped { pipe: KernelPipe, filled: usize },
}

impl Held {
    fn is_empty(&self) -> bool {
        match self {
            Self::Bytes { bytes, sent } => bytes.len() == *sent,
            Self::Piped { filled, .. } => *filled == 0,
        }
    }
}

/// One direction.
pub(crate) struct Flow<'a> {
    from: &'a Stream,
    to: &'a Stream,
    carrying: Carrying,
    load: Load,
    /// Bytes still to be received.
    left: u64,
    held: Held,
    /// Reads in a row that filled the scratch buffer, or pieces in a row that were small.
    streak: u8,
    /// The sender has ended its stream.
    pub(crate) ended: bool,
    excess: bool,
    /// Where this is one of two: the receiver sends too, and has more time to do so when it receives.
    pub(crate) paired: bool,
    pub(crate) moved: u64,
}

impl<'a> Flow<'a> {
    pub(crate) fn new(from: &'a Stream, to: &'a Stream, carrying: Carrying, load: Load) -> Self {
        Self {
            from,
            to,
            carrying,
            load,
            left: load.most,
            held: Held::Bytes { bytes: Vec::new(), sent: 0 },
            streak: 0,
            ended: false,
            excess: false,
            paired: false,
            moved: 0,
        }
    }

    /// Moves what can be moved now. Ready when everything is sent on, or the sender has ended.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Stop>> {
        loop {
            if !self.held.is_empty() {
                std::task::ready!(poll(self.to.writable(), context)).map_err(Stop::sending)?;
                self.send()?;
            } else if !self.ended && self.left > 0 {
                std::task::ready!(poll(self.from.readable(), context)).map_err(Stop::receiving)?;
                self.receive()?;
            } else {
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Puts off the time-outs to receive.
    pub(crate) fn note_activity(&self) {
        self.from.set_read_timeout(self.load.receive_timeout);
        if self.paired {
            self.to.set_read_timeout(self.load.receive_timeout);
        }
    }

    fn receive(&mut self) -> Result<(), Stop> {
        let received = match &self.held {
            Held::Bytes { .. } => self.receive_copying()?,
            Held::Piped { pipe, .. } => match self.from.try_splice_in(&pipe.sink, self.room(SPLICE_MOST)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
                result => Some(result.map_err(Stop::receiving)?),
            },
        };
        match received {
            None => return Ok(()),
            Some(0) => self.ended = true,
            Some(count) => {
                self.note_activity();
                self.left -= count as u64;
                if let Held::Piped { filled, .. } = &mut self.held {
                    *filled = count;
                }
                self.adapt(count);
            }
        }
        Ok(())
    }

    /// How many bytes may be received, of `most`.
    fn room(&self, most: usize) -> usize {
        most.min(usize::try_from(self.left).unwrap_or(usize::MAX))
    }

    /// Receives into the scratch buffer and sends from there; what the other side does not take is
    /// held.
    fn receive_copying(&mut self) -> Result<Option<usize>, Stop> {
        let store = &self.from.core().inner().pipes;
        let scratch = &mut **store.scratch.borrow_mut();
        let asked = if self.load.leaves_rest { self.room(SCRATCH) } else { SCRATCH };
        let count = match self.from.try_receive(&mut scratch[..asked]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            result => result.map_err(Stop::receiving)?,
        };
        self.excess |= count as u64 > self.left;
        let count = self.room(count);
        let sent = match self.to.try_send(&scratch[..count], false) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            result => result.map_err(Stop::sending)?,
        };
        self.moved += sent as u64;
        if sent < count {
            self.to.set_write_timeout(self.load.send_timeout);
            self.held = Held::Bytes { bytes: scratch[sent..count].to_vec(), sent: 0 };
        }
        Ok(Some(count))
    }

    fn send(&mut self) -> Result<(), Stop> {
        let result = match &self.held {
            Held::Bytes { bytes, sent } => self.to.try_send(&bytes[*sent..], false),
            Held::Piped { pipe, filled } => self.to.try_splice_out(&pipe.source, *filled),
        };
        match result {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.to.set_write_timeout(self.load.send_timeout);
                return Ok(());
            }
            Err(error) => return Err(Stop::sending(error)),
            Ok(count) => {
                self.moved += count as u64;
                self.note_activity();
                match &mut self.held {
                    Held::Bytes { sent, .. } => *sent += count,
                    Held::Piped { filled, .. } => *filled -= count,
                }
            }
        }
        if self.held.is_empty() {
            self.to.clear_write_timeout();
            self.settle();
        }
        Ok(())
    }

    /// Takes note of how much came at once.
    fn adapt(&mut self, count: usize) {
        let counts = match &self.held {
            Held::Bytes { .. } => count == SCRATCH,
            Held::Piped { .. } => count < SMALL_PIECE,
        };
        self.streak = if counts { self.streak.saturating_add(1) } else { 0 };
        if self.held.is_empty() {
            self.settle();
        }
    }

    /// Changes the way of carrying where the traffic has changed; only while nothing is held.
    fn settle(&mut self) {
        let store = &self.from.core().inner().pipes;
        match &self.held {
            Held::Bytes { .. } if self.carrying == Carrying::Adaptive && self.streak >= FULL_READS => {
                // Without a pipe (descriptors have run out) copying goes on.
                if let Ok(pipe) = store.take_pipe() {
                    debug!(connection = self.from.number(), "the flow splices");
                    self.held = Held::Piped { pipe, filled: 0 };
                    self.streak = 0;
                }
            }
            Held::Piped { .. } if self.streak >= SMALL_PIECES => {
                debug!(connection = self.from.number(), "the flow copies");
                self.release();
                self.streak = 0;
            }
            // Memory that a slow receiver took is not kept.
            Held::Bytes { .. } => self.release(),
            Held::Piped { .. } => {}
        }
    }

    /// Gives back what the flow holds its bytes in; a pipe that is not empty is closed.
    fn release(&mut self) {
        let held = std::mem::replace(&mut self.held, Held::Bytes { bytes: Vec::new(), sent: 0 });
        if let Held::Piped { pipe, filled: 0 } = held {
            self.from.core().inner().pipes.give_back(pipe);
        }
    }
}

impl Drop for Flow<'_> {
    fn drop(&mut self) {
        self.release();
    }
}

fn poll(mut readiness: Readiness<'_>, context: &mut Context<'_>) -> Poll<Result<(), StreamError>> {
    Pin::new(&mut readiness).poll(context)
}

impl Stream {
    /// Moves what is there, at most `most` bytes, into a kernel pipe that is empty. `Ok(0)` is the
    /// end of the peer's stream. Fewer bytes than asked for do not mean that the socket is drained:
    /// a pipe has a number of places, and packets may be small.
    fn try_splice_in(&self, sink: &OwnedFd, most: usize) -> io::Result<usize> {
        self.receiving(0, |socket| Ok(splice(socket, None, sink, None, most, SPLICE_FLAGS)?))
    }

    /// Moves at most `most` bytes out of a kernel pipe into the socket.
    fn try_splice_out(&self, source: &OwnedFd, most: usize) -> io::Result<usize> {
        self.sending(|socket| Ok(splice(source, None, socket, None, most, SPLICE_FLAGS)?))
    }
}

const SPLICE_FLAGS: SpliceFFlags = SpliceFFlags::SPLICE_F_MOVE.union(SpliceFFlags::SPLICE_F_NONBLOCK);
/// What one splice is asked for: more than a pipe holds, so that the pipe is the limit.
const SPLICE_MOST: usize = 1024 * 1024;
