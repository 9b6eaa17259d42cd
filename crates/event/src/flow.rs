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
//! [`carry`](crate::carry()) is one flow of a bounded number of bytes; [`pipe`](crate::pipe) is two of them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tracing::debug;

use crate::core::Core;
use crate::error::StreamError;
use crate::kernel_pipe::{KernelPipe, SCRATCH, SPLICE_MOST};
use crate::pace::Pace;
use crate::patience::{Patience, Waited};
use crate::stream::Stream;
use crate::waiting::Readiness;

/// After this many reads that fill the scratch buffer a flow splices.
const FULL_READS: u8 = 3;
/// A splice of less than this is a small piece, and after [`SMALL_PIECES`] of them a flow copies.
const SMALL_PIECE: usize = 8 * 1024;
const SMALL_PIECES: u8 = 4;

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

/// What [`carry`](crate::carry()) carries.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// How many bytes; `u64::MAX` for all until the sender's end.
    pub most: u64,
    /// Whether bytes behind those are left in the socket, to be received by somebody else. Without it
    /// they may be received and dropped, which saves finding out that nothing is there.
    pub leaves_rest: bool,
    /// How long the sender is waited for.
    pub receiving: Patience,
    /// How long the receiver is.
    pub sending: Patience,
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
    pub(crate) receiving: Waited,
    pub(crate) sending: Waited,
    /// Bytes still to be received.
    pub(crate) left: u64,
    /// The rate that the flow is held to.
    pub(crate) pace: Option<Pace>,
    /// The rate allows nothing now.
    paused: bool,
    held: Held,
    /// Reads in a row that filled the scratch buffer, or pieces in a row that were small.
    streak: u8,
    /// The last read found nothing although something was reported, as a splice does before urgent data where the
    /// backend reports none.
    futile: bool,
    /// The sender has ended its stream.
    pub(crate) ended: bool,
    pub(crate) excess: bool,
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
            receiving: Waited::new(load.receiving),
            sending: Waited::new(load.sending),
            left: load.most,
            pace: None,
            paused: false,
            held: Held::Bytes { bytes: Vec::new(), sent: 0 },
            streak: 0,
            futile: false,
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
                std::task::ready!(self.poll_writable(context)).map_err(Stop::sending)?;
                self.send()?;
            } else if !self.ended && self.left > 0 {
                std::task::ready!(self.poll_readable(context)).map_err(Stop::receiving)?;
                let allowed = self.allowance();
                self.paused = allowed == 0;
                if self.paused {
                    return Poll::Pending;
                }
                self.receive(allowed)?;
            } else {
                return Poll::Ready(Ok(()));
            }
        }
    }

    fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamError>> {
        let ready = poll(self.from.readable(), context);
        self.receiving.note(self.from, ready.is_pending());
        ready
    }

    fn poll_writable(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamError>> {
        let ready = poll(self.to.writable(), context);
        self.sending.note(self.to, ready.is_pending());
        ready
    }

    /// Has `bytes` sent before anything that is received.
    pub(crate) fn begin_with(&mut self, bytes: Vec<u8>) {
        self.held = Held::Bytes { bytes, sent: 0 };
    }

    /// How many bytes the rate lets be received now.
    fn allowance(&mut self) -> usize {
        self.pace.as_mut().map_or(usize::MAX, |pace| pace.allowance(self.from.core().now()))
    }

    /// How long the rate has the flow wait.
    pub(crate) fn pause(&self) -> Option<Duration> {
        self.pace.as_ref().filter(|_| self.paused).map(Pace::pause)
    }

    /// Puts off the time-outs to receive.
    pub(crate) fn note_activity(&self) {
        let timeout = self.receiving.left(self.load.most - self.left);
        self.from.set_read_timeout(timeout);
        if self.paired {
            self.to.set_read_timeout(timeout);
        }
    }

    fn note_full(&mut self) {
        self.to.set_write_timeout(self.sending.left_for(self.to));
    }

    fn receive(&mut self, allowed: usize) -> Result<(), Stop> {
        let received = match &self.held {
            Held::Bytes { .. } => self.receive_copying(allowed)?,
            // Splicing does not pass urgent data.
            Held::Piped { .. } if self.from.has_urgent() => {
                self.copy_on();
                return Ok(());
            }
            Held::Piped { pipe, .. } => {
                let most = self.room(SPLICE_MOST.min(allowed));
                match self.from.try_splice_in(&pipe.sink, most) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
                    // That is the end, or urgent data: receiving tells.
                    Ok(0) => {
                        self.copy_on();
                        return Ok(());
                    }
                    result => Some(result.map_err(Stop::receiving)?),
                }
            }
        };
        if received.is_none() && std::mem::replace(&mut self.futile, true) {
            self.copy_on();
        }
        match received {
            None => return Ok(()),
            Some(0) => self.ended = true,
            Some(count) => {
                self.futile = false;
                self.note_activity();
                self.left -= count as u64;
                if let Some(pace) = &mut self.pace {
                    pace.spend(count);
                }
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
    fn receive_copying(&mut self, allowed: usize) -> Result<Option<usize>, Stop> {
        let store = &self.from.core().inner().pipes;
        let scratch = &mut **store.scratch.borrow_mut();
        let most = SCRATCH.min(allowed);
        let asked = if self.load.leaves_rest { self.room(most) } else { most };
        let count = match self.from.try_receive(&mut scratch[..asked]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            result => result.map_err(Stop::receiving)?,
        };
        if count == 0 {
            return Ok(Some(0));
        }
        self.ended = self.from.ends_behind(count, asked);
        self.excess |= count as u64 > self.left;
        let count = self.room(count);
        let sent = match self.to.try_send(&scratch[..count], false) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            result => result.map_err(Stop::sending)?,
        };
        self.moved += sent as u64;
        if sent < count {
            self.note_full();
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
                self.note_full();
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
            Held::Bytes { .. }
                if self.carrying == Carrying::Adaptive
                    && self.streak >= FULL_READS
                    && !self.from.has_urgent() =>
            {
                // Without a pipe (descriptors have run out) copying goes on.
                if let Ok(pipe) = store.take_pipe() {
                    debug!(connection = self.from.number(), "the flow splices");
                    self.held = Held::Piped { pipe, filled: 0 };
                    self.streak = 0;
                }
            }
            Held::Piped { .. } if self.streak >= SMALL_PIECES => {
                self.copy_on();
            }
            // Memory that a slow receiver took is not kept.
            Held::Bytes { .. } => self.release(),
            Held::Piped { .. } => {}
        }
    }

    /// Copies from now on; nothing is held.
    fn copy_on(&mut self) {
        if matches!(self.held, Held::Piped { .. }) {
            debug!(connection = self.from.number(), "the flow copies");
        }
        self.release();
        self.streak = 0;
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
