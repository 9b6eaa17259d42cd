//! One direction of a pipe: what it holds, how it carries it, and when it waits.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tracing::debug;

use crate::error::StreamError;
use crate::kernel_pipe::{KernelPipe, SCRATCH, SPLICE_MOST};
use crate::pace::Pace;
use crate::splice::Carrying;
use crate::stream::Stream;
use crate::waiting::Readiness;

/// After this many reads that fill the scratch buffer a flow splices.
const FULL_READS: u8 = 3;
/// A splice of less than this is a small piece, and after [`SMALL_PIECES`] of them a flow copies.
const SMALL_PIECE: usize = 8 * 1024;
const SMALL_PIECES: u8 = 4;

/// How long both flows may stand still together.
pub(crate) struct Limits {
    pub(crate) idle: Cell<Duration>,
    pub(crate) half_closed: Option<Duration>,
}

/// An error, and at which side of a flow it was met.
pub(crate) enum Stop {
    Receiving(StreamError),
    Sending(StreamError),
}

impl Stop {
    fn receiving(error: impl Into<StreamError>) -> Self {
        Self::Receiving(error.into())
    }

    fn sending(error: impl Into<StreamError>) -> Self {
        Self::Sending(error.into())
    }
}

/// What a flow holds that it has received and not yet sent.
pub(crate) enum Held {
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

pub(crate) struct Flow<'a> {
    from: &'a Stream,
    to: &'a Stream,
    limits: &'a Limits,
    carrying: Carrying,
    pace: Option<Pace>,
    /// The pace allows nothing now.
    paused: bool,
    pub(crate) held: Held,
    /// Reads in a row that filled the scratch buffer, or pieces in a row that were small.
    streak: u8,
    ended: bool,
    pub(crate) finished: bool,
    pub(crate) moved: u64,
}

impl<'a> Flow<'a> {
    pub(crate) fn new(
        from: &'a Stream,
        to: &'a Stream,
        limits: &'a Limits,
        carrying: Carrying,
        pace: Option<Pace>,
    ) -> Self {
        let held = Held::Bytes { bytes: Vec::new(), sent: 0 };
        let (paused, streak, ended, finished, moved) = (false, 0, false, false, 0);
        Self { from, to, limits, carrying, pace, paused, held, streak, ended, finished, moved }
    }

    /// Moves what can be moved now. Ready when the sender's end was passed on.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Stop>> {
        while !self.finished {
            if !self.held.is_empty() {
                std::task::ready!(poll(self.to.writable(), context)).map_err(Stop::sending)?;
                self.send()?;
            } else if !self.ended {
                std::task::ready!(poll(self.from.readable(), context)).map_err(Stop::receiving)?;
                let allowed = self.allowance();
                self.paused = allowed == 0;
                if self.paused {
                    return Poll::Pending;
                }
                self.receive(allowed)?;
            } else {
                self.finish();
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Passes the sender's end on.
    fn finish(&mut self) {
        self.finished = true;
        // The receiver may be gone already; its own flow will tell.
        let _ = self.to.shutdown_send();
        if let Some(time) = self.limits.half_closed {
            self.limits.idle.set(time);
            self.note_activity();
        }
    }

    /// How many bytes may be received now.
    fn allowance(&mut self) -> usize {
        self.pace.as_mut().map_or(SPLICE_MOST, |pace| pace.allowance(self.from.core().now()).min(SPLICE_MOST))
    }

    /// How long the pace has the flow wait.
    pub(crate) fn pause(&self) -> Option<Duration> {
        self.pace.as_ref().filter(|_| self.paused).map(Pace::pause)
    }

    /// Puts off the time-out of both sides.
    pub(crate) fn note_activity(&self) {
        let idle = self.limits.idle.get();
        self.from.set_read_timeout(idle);
        self.to.set_read_timeout(idle);
    }

    fn receive(&mut self, allowed: usize) -> Result<(), Stop> {
        let received = match &self.held {
            Held::Bytes { .. } => self.receive_copying(allowed)?,
            Held::Piped { pipe, .. } => match self.from.try_splice_in(&pipe.sink, allowed) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
                result => Some(result.map_err(Stop::receiving)?),
            },
        };
        match received {
            None => return Ok(()),
            Some(0) => self.ended = true,
            Some(count) => {
                self.note_activity();
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

    /// Receives into the scratch buffer and sends from there; what the other side does not take is
    /// held.
    fn receive_copying(&mut self, allowed: usize) -> Result<Option<usize>, Stop> {
        let store = &self.from.core().inner().pipes;
        let scratch = &mut **store.scratch.borrow_mut();
        let scratch = &mut scratch[..SCRATCH.min(allowed)];
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
            self.to.set_write_timeout(self.limits.idle.get());
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
                self.to.set_write_timeout(self.limits.idle.get());
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
