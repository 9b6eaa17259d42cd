//! Carrying: one flow of a bounded number of bytes, from one connection to another.

use std::future::poll_fn;

use crate::error::StreamError;
use crate::flow::{Carrying, Flow, Load, Stop};
use crate::stream::Stream;

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
