//! The adaptive pipe: bytes pass between two connections, with back-pressure and half-close.
//!
//! Each direction is a [flow](crate::flow). When a sender ends its stream, the end is passed on once everything
//! before it was; the other flow goes on. Where a receiver takes nothing more, what it had sent before still
//! passes the other way.

use std::future::poll_fn;
use std::io;
use std::num::NonZeroU64;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::error::StreamError;
use crate::flow::{Carrying, Flow, Load, Stop};
use crate::pace::Pace;
use crate::patience::Waited;
use crate::stream::Stream;

/// Which of the two connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The first one.
    Left,
    /// The second one.
    Right,
}

impl Side {
    fn other(self) -> Side {
        match self {
            Side::Left => Side::Right,
            Side::Right => Side::Left,
        }
    }
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
/// them fails, or nothing moves for too long. The last end is passed on by closing both streams, which is for the
/// caller to do.
pub async fn pipe(left: &Stream, right: &Stream, terms: PipeTerms) -> Piped {
    left.hope_for_first();
    let mut pipe = Pipe::new(left, right, terms);
    let mut alarm = left.core().task_alarm();
    let end = poll_fn(|context| {
        let end = pipe.poll(context);
        if let (Poll::Pending, Some(pause)) = (&end, pipe.pause()) {
            alarm.set(pause);
        }
        end
    })
    .await;
    for stream in [left, right] {
        stream.clear_read_timeout();
        stream.clear_write_timeout();
    }
    Piped { to_right: pipe.to_right.flow.moved, to_left: pipe.to_left.flow.moved, end }
}

struct Pipe<'a> {
    to_right: Half<'a>,
    to_left: Half<'a>,
    half_closed: Option<Duration>,
    /// What befell a side that takes nothing more, while the other way is still open.
    deaf: Option<PipeEnd>,
}

/// One direction, whose end is passed on.
struct Half<'a> {
    flow: Flow<'a>,
    from: Side,
    to: &'a Stream,
    finished: bool,
}

impl<'a> Pipe<'a> {
    fn new(left: &'a Stream, right: &'a Stream, terms: PipeTerms) -> Self {
        let PipeTerms { idle, half_closed, carrying, first_to_right, rate_to_right, rate_to_left } = terms;
        let now = left.core().now();
        let load = Load { most: u64::MAX, leaves_rest: true, receiving: idle.into(), sending: idle.into() };
        let half = |from: &'a Stream, side, to, rate: Option<NonZeroU64>| {
            let mut flow = Flow::new(from, to, carrying, load);
            flow.paired = true;
            flow.pace = rate.map(|rate| Pace::new(rate, now));
            Half { flow, from: side, to, finished: false }
        };
        let mut to_right = half(left, Side::Left, right, rate_to_right);
        to_right.flow.begin_with(first_to_right);
        to_right.flow.note_activity();
        Self { to_right, to_left: half(right, Side::Right, left, rate_to_left), half_closed, deaf: None }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<PipeEnd> {
        let mut open = [&self.to_right, &self.to_left].into_iter().filter(|half| !half.finished).count();
        for half in [&mut self.to_right, &mut self.to_left] {
            if half.finished {
                continue;
            }
            match half.flow.poll(context) {
                Poll::Pending => continue,
                Poll::Ready(Ok(())) if open == 2 => {
                    // The receiver may be gone already; its own flow will tell.
                    let _ = half.to.shutdown_send();
                }
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(Stop { receiving: false, error: StreamError::Io(error) })) => {
                    let end = PipeEnd::Failed(half.from.other(), error);
                    self.deaf.get_or_insert(end);
                }
                Poll::Ready(Err(stop)) => return Poll::Ready(half.end_of(stop)),
            }
            half.finished = true;
            open -= 1;
        }
        if open == 0 {
            return Poll::Ready(self.deaf.take().unwrap_or(PipeEnd::Finished));
        }
        if open == 1 {
            self.limit_half();
        }
        Poll::Pending
    }

    /// Has what is left of the pipe wait no longer than it may, once.
    fn limit_half(&mut self) {
        let Some(time) = self.half_closed.take() else { return };
        for half in [&mut self.to_right, &mut self.to_left] {
            half.flow.receiving = Waited::new(time);
            half.flow.sending = Waited::new(time);
        }
        self.to_right.flow.note_activity();
    }

    /// How long rates have the pipe wait.
    fn pause(&self) -> Option<Duration> {
        [&self.to_right, &self.to_left].into_iter().filter_map(|half| half.flow.pause()).min()
    }
}

impl Half<'_> {
    fn end_of(&self, stop: Stop) -> PipeEnd {
        let side = if stop.receiving { self.from } else { self.from.other() };
        match stop.error {
            StreamError::TimedOut => PipeEnd::TimedOut,
            StreamError::Io(error) => PipeEnd::Failed(side, error),
            StreamError::Asked(_) => PipeEnd::Failed(self.from, io::ErrorKind::ConnectionAborted.into()),
        }
    }
}
