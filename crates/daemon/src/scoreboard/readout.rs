//! Reading the words of a scoreboard: of a file that was opened, or of the mapping that a worker has anyway.

use std::rc::Rc;
use std::sync::atomic::{Ordering::Acquire, fence};
use std::time::Duration;

use drover_event::Stats;
use drover_sys::memory::{ReadOnlyWords, SharedWords};
use nix::unistd::Pid;

use super::layout::{
    BLOCKS, Identity, MESSAGE_AT, MESSAGE_BYTES, Master, MasterState, TOTALS_AT, WorkerState, block_at,
    identity_at,
};
use super::snapshot::{MasterView, Snapshot, Verdict, WorkerView};

/// How often a reader looks again when it met a writer.
pub(super) const TRIES: u32 = 100;

/// The words of a scoreboard.
#[derive(Debug)]
pub(super) enum Words {
    /// Of a file that was opened to be read.
    Opened(ReadOnlyWords),
    /// Of the scoreboard that this process writes to.
    Own(Rc<SharedWords>),
}

/// Reads the words of a scoreboard of this version.
#[derive(Debug)]
pub(crate) struct Readout {
    words: Words,
}

impl Readout {
    /// Of `words`, which are as many as a scoreboard has.
    pub(super) fn new(words: Words) -> Self {
        Self { words }
    }

    /// Everything, with the master that says it is the master.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let master = i32::try_from(self.master_word(Master::Pid)).unwrap_or(0);
        self.snapshot_as(Pid::from_raw(master))
    }

    /// Everything, with `master` as the process that holds the scoreboard.
    pub(crate) fn snapshot_as(&self, master: Pid) -> Snapshot {
        let (workers, listeners, ended) = self.settled(Master::FoldSequence, || {
            let mut workers: Vec<WorkerView> = (0..BLOCKS).filter_map(|index| self.worker(index)).collect();
            workers.sort_by_key(|worker| (worker.generation, worker.number, worker.pid));
            (workers, self.listeners(), self.stats_words(TOTALS_AT))
        });
        let master = MasterView {
            pid: master,
            state: MasterState::from_word(self.master_word(Master::State)).unwrap_or(MasterState::Starting),
            generation: self.master_word(Master::Generation),
            started_ms: self.master_word(Master::StartedMs),
            workers: self.master_word(Master::Workers),
            reloads: self.master_word(Master::ReloadsBegun),
            verdict: self.settled(Master::MessageSequence, || self.verdict()),
            exits: [Master::ExitsAsked, Master::ExitsClean, Master::ExitsFailed, Master::ExitsKilled]
                .map(|word| self.master_word(word)),
        };
        let upstreams = self.servers();
        let mut snapshot = Snapshot { master, workers, listeners, upstreams, ended };
        snapshot.look_at_queues();
        snapshot
    }

    /// Runs `read` until no writer came between. A writer that died half-way leaves what it left.
    fn settled<T>(&self, sequence: Master, read: impl Fn() -> T) -> T {
        for _ in 0..TRIES {
            let before = self.master_word(sequence);
            let result = read();
            fence(Acquire);
            if before.is_multiple_of(2) && self.master_word(sequence) == before {
                return result;
            }
            match &self.words {
                Words::Opened(_) => std::thread::sleep(Duration::from_micros(100)),
                // A worker does not sleep here; whoever writes may go on.
                Words::Own(_) => std::thread::yield_now(),
            }
        }
        read()
    }

    fn verdict(&self) -> Option<Verdict> {
        let accepted = match self.master_word(Master::Verdict) {
            1 => true,
            2 => false,
            _ => return None,
        };
        let length = (self.master_word(Master::MessageLength) as usize).min(MESSAGE_BYTES);
        let message = text(|word| self.word(word), MESSAGE_AT, length);
        Some(Verdict { accepted, message, at_ms: self.master_word(Master::VerdictMs) })
    }

    fn worker(&self, index: usize) -> Option<WorkerView> {
        let identity = |word: Identity| self.word(identity_at(index) + word as usize);
        let pid = i32::try_from(identity(Identity::Pid)).ok().filter(|pid| *pid > 0)?;
        Some(WorkerView {
            pid: Pid::from_raw(pid),
            number: identity(Identity::Number),
            generation: identity(Identity::Generation),
            state: WorkerState::from_word(identity(Identity::State)).unwrap_or(WorkerState::Starting),
            started_ms: identity(Identity::StartedMs),
            slots: identity(Identity::Slots),
            words: self.stats_words(block_at(index)),
        })
    }

    fn stats_words(&self, base: usize) -> Vec<u64> {
        (0..Stats::WORDS).map(|word| self.word(base + word)).collect()
    }

    pub(super) fn master_word(&self, word: Master) -> u64 {
        self.word(word.at())
    }

    /// The length was checked when it was opened; a mapping does not shrink.
    pub(super) fn word(&self, index: usize) -> u64 {
        match &self.words {
            Words::Opened(words) => words.load(index).unwrap_or(0),
            Words::Own(words) => words.get(index).map_or(0, |word| word.load(Acquire)),
        }
    }
}

/// The text of `length` bytes whose first word is at `at`.
pub(super) fn text(load: impl Fn(usize) -> u64, at: usize, length: usize) -> String {
    let words = (0..length.div_ceil(8)).map(|index| load(at + index).to_ne_bytes());
    let mut bytes = words.collect::<Vec<_>>().concat();
    bytes.truncate(length);
    String::from_utf8_lossy(&bytes).into_owned()
}
