//! What the client sends behind a request's head, for a handler that wants the body.
//!
//! The handler pulls: nothing is received that it did not ask for, so a handler that waits holds up the client.
//! What is behind the body is the next request's and stays.

use std::future::pending;

use drover_event::{Phase, StreamError, Waited};

use super::connection::Conversation;

/// The input behind the head of the request at hand.
pub(crate) struct Incoming<'a> {
    on: &'a Conversation,
    /// Bytes of the input behind the head.
    room: &'a mut [u8],
    /// Of those, the first that were read...
    read: usize,
    /// ... and received.
    filled: usize,
    /// Bytes that were read in all.
    length: u64,
    /// How long the client was waited for.
    waited: Waited,
    /// More was received, over what was there.
    has_received: bool,
}

impl<'a> Incoming<'a> {
    /// `room` is the input behind the head, of which `filled` bytes are received.
    pub(crate) fn new(on: &'a Conversation, room: &'a mut [u8], filled: usize) -> Incoming<'a> {
        let waited = Waited::new(on.worker.plan.timeouts.body);
        Incoming { on, room, read: 0, filled, length: 0, waited, has_received: false }
    }

    /// What was received and is not read yet.
    pub(crate) fn unread(&self) -> &[u8] {
        &self.room[self.read..self.filled]
    }

    /// The first `count` unread bytes belong to the body and are read.
    pub(crate) fn read(&mut self, count: usize) {
        self.read += count;
        self.length += count as u64;
    }

    /// So many bytes of the body were read without being received here.
    pub(crate) fn passed(&mut self, count: u64) {
        self.length += count;
    }

    /// Bytes of the body that were read.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Whether what was there at first is there no longer.
    pub(crate) fn has_received(&self) -> bool {
        self.has_received
    }

    /// Where the unread bytes begin and end in the room.
    pub(crate) fn span(&self) -> (usize, usize) {
        (self.read, self.filled)
    }

    /// Receives more of the body, waiting for it, over what was read. `Ok(0)` is the end of the client's stream.
    pub(crate) async fn receive(&mut self) -> Result<usize, StreamError> {
        self.on.stream.set_phase(Phase::ReadingBody);
        self.on.stream.set_read_timeout(self.waited.left(self.length));
        self.room.copy_within(self.read..self.filled, 0);
        (self.read, self.filled) = (0, self.filled - self.read);
        self.has_received = true;
        let core = self.on.stream.core();
        self.waited.begin(core.now());
        let received = self.on.stream.receive(&mut self.room[self.filled..]).await;
        self.waited.end(core.now());
        let count = received?;
        self.filled += count;
        Ok(count)
    }

    /// Waits until the client has closed, or its connection broke. What it sends meanwhile is the next request's.
    pub(crate) async fn closed(&mut self) {
        loop {
            if self.filled == self.room.len() {
                // No room to see further: what is there will be answered first.
                return pending().await;
            }
            match self.on.stream.readable().await {
                // Of an earlier time-out, which nobody waited for.
                Ok(()) | Err(StreamError::TimedOut) => {}
                Err(_) => return,
            }
            match self.on.stream.try_receive(&mut self.room[self.filled..]) {
                Ok(0) => return,
                Ok(count) => self.filled += count,
                Err(fault) if fault.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    }
}
