//! The servers of upstreams on the scoreboard: what workers share about them stands in room that is lent to each
//! generation, and beside it a text that says what it means ([`drover_upstream::shown`]).
//!
//! ```text
//! room   where its text is, how long that is      8 words
//!        the words of each upstream
//!        the text
//! ```
//!
//! Room is lent for as long as a worker of the generation lives, since that is how long it is written to. Readers
//! look at the room of the generation that serves.

use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::fence;

use drover_upstream::shown::{self, UpstreamView};
use drover_upstream::{Plan, Words};

use super::Scoreboard;
use super::layout::{BLOCKS, Identity, LINE, Master, SERVERS_AT, SERVERS_WORDS, identity_at};
use super::readout::{Readout, TRIES, text};

/// Room that is lent.
#[derive(Debug)]
pub(super) struct Room {
    generation: u64,
    words: Range<usize>,
}

/// The longest text that a reader takes for one, in bytes.
const TEXT_MOST: usize = 16 << 20;

impl Scoreboard {
    /// Has the workers of a generation, which has its blocks already, share what they know of servers here. The
    /// number of the room; none where there is nothing to share, or not enough room: then they share it unseen.
    pub(crate) fn place_servers<'a>(
        &self,
        generation: u64,
        upstreams: impl Iterator<Item = (&'static str, &'a Plan)>,
    ) -> Option<usize> {
        let mut next = LINE;
        let upstreams: Vec<(&str, &Plan, usize)> = upstreams
            .map(|(service, plan)| {
                let base = next;
                next += plan.words().layout().words().next_multiple_of(LINE);
                (service, plan, base)
            })
            .collect();
        if upstreams.is_empty() {
            return None;
        }
        let text = shown::describe(upstreams.iter().copied());
        let room = self.lend_room(generation, next + text.len().div_ceil(8))?;
        self.words[room].store(next as u64, Relaxed);
        self.words[room + 1].store(text.len() as u64, Relaxed);
        self.write_text(room + next, text.len(), &text);
        for (_, plan, base) in upstreams {
            let words = Words::within(&self.words, room + base, plan.words().layout().clone());
            // The room has been measured for all of them.
            words.into_iter().for_each(|words| plan.place(words));
        }
        Some(room)
    }

    /// Shows the room of the generation that serves.
    pub(crate) fn show_servers(&self, room: Option<usize>) {
        self.set(Master::ServersAt, room.unwrap_or(0) as u64);
    }

    /// Room of so many words, all zero.
    fn lend_room(&self, generation: u64, count: usize) -> Option<usize> {
        let mut rooms = self.rooms.borrow_mut();
        let serving = self.words[Master::Generation.at()].load(Relaxed);
        rooms.retain(|room| room.generation == serving || self.has_block(room.generation));
        rooms.sort_by_key(|room| room.words.start);
        let count = count.next_multiple_of(LINE);
        let mut start = SERVERS_AT;
        for room in rooms.iter() {
            if room.words.start - start >= count {
                break;
            }
            start = room.words.end;
        }
        if start + count > SERVERS_AT + SERVERS_WORDS {
            return None;
        }
        let words = start..start + count;
        self.words[words.clone()].iter().for_each(|word| word.store(0, Relaxed));
        rooms.push(Room { generation, words });
        Some(start)
    }

    /// Whether a worker of the generation lives, or is to be started.
    fn has_block(&self, generation: u64) -> bool {
        let word = |index, word: Identity| self.words[identity_at(index) + word as usize].load(Relaxed);
        (0..BLOCKS).any(|index| self.lent(index) && word(index, Identity::Generation) == generation)
    }
}

impl Readout {
    /// The upstreams of the generation that serves.
    pub(super) fn servers(&self) -> Vec<UpstreamView> {
        for _ in 0..TRIES {
            let room = self.master_word(Master::ServersAt) as usize;
            if room == 0 {
                return Vec::new();
            }
            let length = (self.word(room + 1) as usize).min(TEXT_MOST);
            let text = text(|word| self.word(word), room + self.word(room) as usize, length);
            let seen = shown::read(&text, |word| self.word(room + word));
            fence(Acquire);
            if self.master_word(Master::ServersAt) as usize == room {
                return seen;
            }
        }
        Vec::new()
    }
}
