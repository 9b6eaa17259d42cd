//! A head of which some is there: what was received waits in a place of just its size, so that a client that sends
//! half a head and no more costs little longer than an idle one. The large buffer is somebody else's meanwhile.

use drover_event::{Millis, Phase};

use super::connection::Conversation;
use super::work::Work;

/// What was received of a head.
pub(crate) struct Remnant {
    bytes: Box<[u8]>,
    /// When its first byte came.
    started: Millis,
}

impl Conversation {
    /// Puts what was received of a head aside, until more comes. The time-out is for the whole head.
    #[cold]
    pub(super) fn set_aside(&mut self, work: &Work) {
        self.stream.set_phase(Phase::ReadingHead);
        if !self.head_is_timed {
            self.stream.set_read_timeout(self.worker.plan.timeouts.header);
            self.head_is_timed = true;
        }
        let bytes = work.input[work.start..work.filled].into();
        self.remnant = Some(Box::new(Remnant { bytes, started: work.started }));
    }

    /// Takes up what was put aside, if anything was.
    #[inline]
    pub(super) fn take_up(&mut self, work: &mut Work) {
        if let Some(remnant) = self.remnant.take() {
            work.filled = remnant.bytes.len();
            work.input[..work.filled].copy_from_slice(&remnant.bytes);
            work.started = remnant.started;
        }
    }
}
