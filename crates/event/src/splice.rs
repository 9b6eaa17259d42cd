//! The adaptive pipe: bytes pass between two connections, with back-pressure and half-close.
//!
//! Each direction is a flow. A flow that carries messages copies them through one hot scratch
//! buffer of the worker, since moving a small message through the kernel costs more than touching
//! it. A flow whose reads keep filling that buffer changes to `splice(2)`, where the bytes never
//! enter this process, and changes back when they come in small pieces again.
//!
//! A flow receives only after it has sent everything it holds, so a slow receiver holds up its
//! sender and costs at most one scratch buffer, or one kernel pipe. When a sender ends its stream,
//! the end is passed on once everything before it was; the other flow goes on.

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

/// Which of the two connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The first one.
    Left,
    /// The second one.
    Right,
}

/// How a pipe ended.
#[derive(Debug)]
pub enum PipeEnd {
    /// Both streams were passed on to their ends.
    Finished,
    /// Nothing moved for as long as was allowed.
    TimedOut,
    /// A connection failed.
    Failed(Side, io::Error),
}

/// What a pipe moved, and how it ended.
#[derive(Debug)]
pub struct Piped {
    /// Bytes from the left to the right.
    pub to_right: u64,
    /// Bytes from the right to the left.
    pub to_left: u64,
    /// How it ended.
    pub end: PipeEnd,
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

/// Passes bytes both ways between `left` and `right` until both have ended their streams, one of
/// them fails, or nothing moves for `idle`.
pub async fn pipe(left: &Stream, right: &Stream, idle: Duration, carrying: Carrying) -> Piped {
    let mut to_right = Flow::new(left, right, idle, carrying);
    let mut to_left = Flow::new(right, left, idle, carrying);
    to_right.note_activity();
    let end = poll_fn(|context| {
        let first = to_right.poll(context);
        let second = to_left.poll(context);
        match (first, second) {
            (Poll::Ready(Err(Stop(on_from, error))), _) => Poll::Ready(end_of(on_from, Side::Left, error)),
            (_, Poll::Ready(Err(Stop(on_from, error)))) => Poll::Ready(end_of(on_from, Side::Right, error)),
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => Poll::Ready(PipeEnd::Finished),
            _ => Poll::Pending,
        }
    })
    .await;
    for stream in [left, right] {
        stream.clear_read_timeout();
        stream.clear_write_timeout();
    }
    Piped { to_right: to_right.moved, to_left: to_left.moved, end }
}

fn end_of(on_from: bool, from: Side, error: StreamError) -> PipeEnd {
    let other = if from == Side::Left { Side::Right } else { Side::Left };
    match error {
        StreamError::TimedOut => PipeEnd::TimedOut,
        StreamError::Io(error) => PipeEnd::Failed(if on_from { from } else { other }, error),
        StreamError::Asked(_) => PipeEnd::Failed(from, io::ErrorKind::ConnectionAborted.into()),
    }
}

/// An error, and whether it was met on the side that is received from.
struct Stop(bool, StreamError);

impl Stop {
    fn receiving(error: impl Into<StreamError>) -> Self {
        Self(true, error.into())
    }

    fn sending(error: impl Into<StreamError>) -> Self {
        Self(false, error.into())
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

struct Flow<'a> {
    from: &'a Stream,
    to: &'a Stream,
    idle: Duration,
    carrying: Carrying,
    held: Held,
    /// Reads in a row that filled the scratch buffer, or pieces in a row that were small.
    streak: u8,
    ended: bool,
    finished: bool,
    moved: u64,
}

impl<'a> Flow<'a> {
    fn new(from: &'a Stream, to: &'a Stream, idle: Duration, carrying: Carrying) -> Self {
        let held = Held::Bytes { bytes: Vec::new(), sent: 0 };
        Self { from, to, idle, carrying, held, streak: 0, ended: false, finished: false, moved: 0 }
    }

    /// Moves what can be moved now. Ready when the sender's end was passed on.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Stop>> {
        while !self.finished {
            if !self.held.is_empty() {
                std::task::ready!(poll(self.to.writable(), context)).map_err(Stop::sending)?;
                self.send()?;
            } else if !self.ended {
                std::task::ready!(poll(self.from.readable(), context)).map_err(Stop::receiving)?;
                self.receive()?;
            } else {
                self.finished = true;
                // The receiver may be gone already; its own flow will tell.
                let _ = self.to.shutdown_send();
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Puts off the time-out of both sides.
    fn note_activity(&self) {
        self.from.set_read_timeout(self.idle);
        self.to.set_read_timeout(self.idle);
    }

    fn receive(&mut self) -> Result<(), Stop> {
        let received = match &self.held {
            Held::Bytes { .. } => self.receive_copying()?,
            Held::Piped { pipe, .. } => match self.from.try_splice_in(&pipe.sink, SPLICE_MOST) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
                result => Some(result.map_err(Stop::receiving)?),
            },
        };
        match received {
            None => return Ok(()),
            Some(0) => self.ended = true,
            Some(count) => {
                self.note_activity();
                if let Held::Piped { filled, .. } = &mut self.held {
                    *filled = count;
                }
                self.adapt(count);
            }
        }
        Ok(())
    }

    /// Receives into the scratch buffer and sends from there; what the other side does not take is
    /// held.
    fn receive_copying(&mut self) -> Result<Option<usize>, Stop> {
        let store = &self.from.core().inner().pipes;
        let scratch = &mut **store.scratch.borrow_mut();
        let count = match self.from.try_receive(scratch) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            result => result.map_err(Stop::receiving)?,
        };
        let sent = match self.to.try_send(&scratch[..count], false) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            result => result.map_err(Stop::sending)?,
        };
        self.moved += sent as u64;
        if sent < count {
            self.to.set_write_timeout(self.idle);
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
                self.to.set_write_timeout(self.idle);
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
