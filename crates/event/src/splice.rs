//! The adaptive pipe: bytes pass between two connections, with back-pressure and half-close.
//!
//! Each direction is a flow. A flow that carries messages copies them through one hot scratch
//! buffer of the worker, since moving a small message through the kernel costs more than touching
//! it. A flow whose reads keep filling that buffer changes to `splice(2)`, where the bytes never
//! enter this process, and changes back when they come in small pieces again.
//!
//! A flow receives only after it has sent everything it holds, so a slow receiver holds up its
//! sender and costs at most one scratch buffer, or one kernel pipe. When a sender ends its stream,
//! the end is passed on once everything before it was; the other flow goes on. Where a receiver
//! takes nothing more, what it had sent before still passes the other way.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::num::NonZeroU64;
use std::task::Poll;
use std::time::Duration;

use crate::error::StreamError;
use crate::flow::{Flow, Held, Limits, Stop};
use crate::pace::Pace;
use crate::stream::Stream;

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

/// On which terms bytes pass.
#[derive(Debug)]
pub struct PipeTerms {
    /// The longest time in which nothing moves.
    pub idle: Duration,
    /// The same once one side has ended its stream; `None`: as long as before.
    pub half_closed: Option<Duration>,
    /// How flows carry bytes.
    pub carrying: Carrying,
    /// What passes to the right before anything else: bytes of the left that were received already.
    pub first_to_right: Vec<u8>,
    /// The most bytes a second from the left to the right.
    pub rate_to_right: Option<NonZeroU64>,
    /// The most bytes a second from the right to the left.
    pub rate_to_left: Option<NonZeroU64>,
}

impl PipeTerms {
    /// A time-out, and nothing special.
    pub fn new(idle: Duration) -> Self {
        Self {
            idle,
            half_closed: None,
            carrying: Carrying::Adaptive,
            first_to_right: Vec::new(),
            rate_to_right: None,
            rate_to_left: None,
        }
    }
}

/// Passes bytes both ways between `left` and `right` until both have ended their streams, one of
/// them fails, or nothing moves for too long.
pub async fn pipe(left: &Stream, right: &Stream, terms: PipeTerms) -> Piped {
    let core = left.core();
    let limits = Limits { idle: Cell::new(terms.idle), half_closed: terms.half_closed };
    let pace = |rate: Option<NonZeroU64>| rate.map(|rate| Pace::new(rate, core.now()));
    let mut to_right = Flow::new(left, right, &limits, terms.carrying, pace(terms.rate_to_right));
    let mut to_left = Flow::new(right, left, &limits, terms.carrying, pace(terms.rate_to_left));
    to_right.held = Held::Bytes { bytes: terms.first_to_right, sent: 0 };
    to_right.note_activity();
    let mut alarm = core.task_alarm();
    let mut deaf = None;
    let end = poll_fn(|context| {
        for (flow, from, to) in
            [(&mut to_right, Side::Left, Side::Right), (&mut to_left, Side::Right, Side::Left)]
        {
            match flow.poll(context) {
                Poll::Ready(Err(Stop::Receiving(error))) => return Poll::Ready(end_of(from, error)),
                Poll::Ready(Err(Stop::Sending(StreamError::TimedOut))) => {
                    return Poll::Ready(PipeEnd::TimedOut);
                }
                // What that side sent before still passes the other way.
                Poll::Ready(Err(Stop::Sending(error))) => {
                    flow.finished = true;
                    deaf.get_or_insert(end_of(to, error));
                }
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
        }
        if to_right.finished && to_left.finished {
            return Poll::Ready(deaf.take().unwrap_or(PipeEnd::Finished));
        }
        if let Some(pause) = to_right.pause().into_iter().chain(to_left.pause()).min() {
            alarm.set(pause);
        }
        Poll::Pending
    })
    .await;
    for stream in [left, right] {
        stream.clear_read_timeout();
        stream.clear_write_timeout();
    }
    Piped { to_right: to_right.moved, to_left: to_left.moved, end }
}

/// The end that an error of one side means.
fn end_of(side: Side, error: StreamError) -> PipeEnd {
    match error {
        StreamError::TimedOut => PipeEnd::TimedOut,
        StreamError::Io(error) => PipeEnd::Failed(side, error),
        StreamError::Asked(_) => PipeEnd::Failed(side, io::ErrorKind::ConnectionAborted.into()),
    }
}
