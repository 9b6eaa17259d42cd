//! The adaptive pipe: bytes pass between two connections, with half-close.
//!
//! Each direction is a [flow](crate::flow). When a sender ends its stream, the end is passed on once everything
//! before it was; the other flow goes on.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::error::StreamError;
use crate::flow::{Carrying, Flow, Load, Stop};
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

/// Passes bytes both ways between `left` and `right` until both have ended their streams, one of
/// them fails, or nothing moves for `idle`.
pub async fn pipe(left: &Stream, right: &Stream, idle: Duration, carrying: Carrying) -> Piped {
    let load = Load { most: u64::MAX, leaves_rest: true, receive_timeout: idle, send_timeout: idle };
    let half = |from, to| {
        let mut flow = Flow::new(from, to, carrying, load);
        flow.paired = true;
        Half { flow, to, finished: false }
    };
    let (mut to_right, mut to_left) = (half(left, right), half(right, left));
    to_right.flow.note_activity();
    let end = poll_fn(|context| {
        let first = to_right.poll(context);
        let second = to_left.poll(context);
        match (first, second) {
            (Poll::Ready(Err(stop)), _) => Poll::Ready(end_of(stop, Side::Left)),
            (_, Poll::Ready(Err(stop))) => Poll::Ready(end_of(stop, Side::Right)),
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => Poll::Ready(PipeEnd::Finished),
            _ => Poll::Pending,
        }
    })
    .await;
    for stream in [left, right] {
        stream.clear_read_timeout();
        stream.clear_write_timeout();
    }
    Piped { to_right: to_right.flow.moved, to_left: to_left.flow.moved, end }
}

/// One direction, whose end is passed on.
struct Half<'a> {
    flow: Flow<'a>,
    to: &'a Stream,
    finished: bool,
}

impl Half<'_> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Stop>> {
        if !self.finished {
            std::task::ready!(self.flow.poll(context))?;
            self.finished = true;
            // The receiver may be gone already; its own flow will tell.
            let _ = self.to.shutdown_send();
        }
        Poll::Ready(Ok(()))
    }
}

fn end_of(stop: Stop, from: Side) -> PipeEnd {
    let other = if from == Side::Left { Side::Right } else { Side::Left };
    match stop.error {
        StreamError::TimedOut => PipeEnd::TimedOut,
        StreamError::Io(error) => PipeEnd::Failed(if stop.receiving { from } else { other }, error),
        StreamError::Asked(_) => PipeEnd::Failed(from, io::ErrorKind::ConnectionAborted.into()),
    }
}
