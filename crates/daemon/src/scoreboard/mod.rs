//! The scoreboard: what master and workers publish, in one shared file of 64-bit words.
//!
//! ```text
//! header      magic, version, shape                      8 words
//! upgrade     how the last upgrade went                  [`layout::Upgrade`] and its message
//! mutex       the accept mutex, on a line of its own     8 words
//! master      pid, generation, reloads, exits, verdict   [`MASTER_WORDS`]
//! listeners   address, strategy, sockets ([`listeners`])
//! totals      counts of workers that have ended          [`STATS_WORDS`]
//! identities  whose each block is                        [`BLOCKS`] times [`IDENTITY_WORDS`]
//! blocks      what each worker counts, while it lives    [`BLOCKS`] times [`STATS_WORDS`]
//! servers     what workers share about servers ([`servers`])
//! ```
//!
//! Every word has one writer: the process whose block it is, and the master for blocks that nobody has. What is
//! shared about servers is an exception: see there.
//! Anyone who may open the file reads it, also while every process hangs. When a worker ends, the master
//! folds its counters into the totals and frees the block, between two bumps of a word that tells readers
//! to look again: sums never fall and nothing is counted twice. The file is sparse; blocks that were never
//! used take no memory, which is why identities stand apart from them: those are read to find the blocks in use.
//!
//! The master locks the file ([`crate::lock`]), which also keeps a second daemon out of its directory.

mod carry;
mod layout;
mod listeners;
mod readout;
mod servers;
mod snapshot;
mod upgrade;

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use drover_event::{AcceptMutex, CloseReason, Gauge, Phase, Stats};
use drover_sys::memory::SharedWords;
use nix::unistd::Pid;
use thiserror::Error;

use crate::clock::unix_ms;
use crate::lock::{self, LockError};
use crate::owned_path::{self, OwnedPath};
use crate::text::counted;
use layout::{
    BLOCKS, FILE_NAME, IDENTITY_WORDS, Identity, MESSAGE_AT, MESSAGE_BYTES, MUTEX_AT, Master, SHAPE,
    STATS_WORDS, TOTALS_AT, WORDS, block_at, identity_at,
};

pub(crate) use carry::Totals;
pub(crate) use layout::{MasterState, WorkerState};
pub(crate) use listeners::{Listed, ListenerView, Transport, WaitingAt, inode};
pub(crate) use readout::Readout;
use readout::Words;
#[cfg(test)]
pub(crate) use snapshot::unlocked;
pub(crate) use snapshot::{MasterView, ReadError, Snapshot, Watch, WorkerView};
pub(crate) use upgrade::{UpgradeVerdict, UpgradeWatch};

/// How a worker ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It was asked to.
    Asked,
    /// With code 0, but nobody asked through the master.
    Clean,
    /// With another code.
    Failed,
    /// By a signal.
    Killed,
}

/// Why there is no scoreboard.
#[derive(Debug, Error)]
pub(crate) enum ScoreboardError {
    /// Another daemon has it, or the file cannot be had.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// It could not be mapped.
    #[error("cannot map the scoreboard {path}: {source}")]
    Map {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Where the scoreboard of a runtime directory is.
pub(crate) fn path_in(runtime_dir: &Path) -> PathBuf {
    runtime_dir.join(FILE_NAME)
}

/// The master's end: makes the file, writes its block, lends the others.
#[derive(Debug)]
pub(crate) struct Scoreboard {
    words: Rc<SharedWords>,
    /// Let go of before the lock, so that the file is removed while it is held.
    pub(crate) place: OwnedPath,
    /// Keeps the lock.
    _file: File,
    owner: Pid,
    /// What the totals have of another master.
    carried: RefCell<Totals>,
    /// Room lent to generations for what they share about servers.
    rooms: RefCell<Vec<servers::Room>>,
}

impl Scoreboard {
    /// Makes the scoreboard of `runtime_dir`. A file that a killed master left is replaced and not
    /// reused, because its workers may still write to it.
    ///
    /// # Errors
    /// When a living daemon holds it, or the system refuses.
    pub(crate) fn create(runtime_dir: &Path) -> Result<Self, ScoreboardError> {
        let name = path_in(runtime_dir);
        if let Some(pid) = lock::removed(&name).and_then(|open| lock::holder(&open)) {
            return Err(LockError::held(&name, pid).into());
        }
        Self::create_as(&name, || OwnedPath::new(&name))
    }

    /// Makes the scoreboard of a master that takes over from another one: it gets its name later.
    ///
    /// # Errors
    /// As [`Scoreboard::create`].
    pub(crate) fn create_named_later(runtime_dir: &Path) -> Result<Self, ScoreboardError> {
        let name = path_in(runtime_dir);
        Self::create_as(&owned_path::fresh(&name), || OwnedPath::named_later(&name))
    }

    fn create_as(path: &Path, place: impl FnOnce() -> OwnedPath) -> Result<Self, ScoreboardError> {
        let map_error = |source| ScoreboardError::Map { path: path.to_owned(), source };
        let file = loop {
            let file = lock::acquire(path)?;
            if file.metadata().map_err(map_error)?.len() == 0 {
                break file;
            }
            std::fs::remove_file(path).map_err(map_error)?;
        };
        let words = Rc::new(SharedWords::create(&file, WORDS).map_err(map_error)?);
        let (place, carried, rooms) = (place(), RefCell::default(), RefCell::default());
        let board = Self { words, place, _file: file, owner: Pid::this(), carried, rooms };
        board.set(Master::Pid, board.owner.as_raw() as u64);
        board.set(Master::StartedMs, unix_ms());
        // The magic comes last: a reader that sees it sees the rest.
        for (index, value) in SHAPE.iter().enumerate().rev() {
            board.words[index].store(*value, Release);
        }
        Ok(board)
    }

    /// The accept mutex in the name of `pid`.
    pub(crate) fn accept_mutex(&self, pid: Pid) -> AcceptMutex {
        AcceptMutex::new(Rc::clone(&self.words), MUTEX_AT, pid.as_raw() as u32)
    }

    /// Lends a free block for a worker of a generation; `None` when all are lent. It is kept in the name of
    /// the master until the worker is there.
    pub(crate) fn lend(&self, generation: u64, number: u32, slots: u32) -> Option<Block> {
        let free = |index: &usize| !self.lent(*index);
        let block = Block { words: Rc::clone(&self.words), index: (0..BLOCKS).find(free)? };
        self.keep(&block, generation, number, slots);
        Some(block)
    }

    /// Lends a block again that was just taken back, for the worker that replaces the one that ended: its
    /// peers go on looking there.
    pub(crate) fn keep(&self, block: &Block, generation: u64, number: u32, slots: u32) {
        block.set(Identity::Generation, generation);
        block.set(Identity::Number, u64::from(number));
        block.set(Identity::Slots, u64::from(slots));
        block.set(Identity::StartedMs, unix_ms());
        block.set(Identity::State, WorkerState::Waiting as u64);
        block.set_pid(self.owner);
    }

    fn lent(&self, index: usize) -> bool {
        self.words[identity_at(index) + Identity::Pid as usize].load(Relaxed) != 0
    }

    /// Takes back the block of a worker that has ended: its counts go into the totals.
    pub(crate) fn fold(&self, block: &Block) {
        let base = block_at(block.index);
        self.bump(Master::FoldSequence);
        for word in Stats::cumulative_words() {
            let ended = self.words[base + word].load(Relaxed);
            let total = &self.words[TOTALS_AT + word];
            total.store(total.load(Relaxed).wrapping_add(ended), Relaxed);
        }
        let cut = &self.words[TOTALS_AT + Stats::close_word(CloseReason::InternalError)];
        cut.store(cut.load(Relaxed).wrapping_add(self.cut_short(base)), Relaxed);
        let identity = identity_at(block.index);
        let (identity, counts) = (identity..identity + IDENTITY_WORDS, base..base + STATS_WORDS);
        identity.chain(counts).for_each(|word| self.words[word].store(0, Relaxed));
        self.bump(Master::FoldSequence);
    }

    /// How many connections and sessions the worker of this block began and did not end: those that a crash took with
    /// it.
    fn cut_short(&self, base: usize) -> u64 {
        let sum = |words: &mut dyn Iterator<Item = usize>| -> u64 {
            words.map(|word| self.words[base + word].load(Relaxed)).sum()
        };
        let begun = sum(&mut (0..Stats::LISTENERS).map(Stats::accepts_word));
        let ended = sum(&mut CloseReason::ALL.iter().map(|&reason| Stats::close_word(reason)));
        begun.saturating_sub(ended)
    }

    /// Counts the end of a worker.
    pub(crate) fn count_exit(&self, exit: Exit) {
        self.bump(match exit {
            Exit::Asked => Master::ExitsAsked,
            Exit::Clean => Master::ExitsClean,
            Exit::Failed => Master::ExitsFailed,
            Exit::Killed => Master::ExitsKilled,
        });
    }

    /// Publishes what the master is about.
    pub(crate) fn set_state(&self, state: MasterState) {
        self.set(Master::State, state as u64);
    }

    /// Publishes which generation serves, and with how many workers.
    pub(crate) fn set_generation(&self, generation: u64, workers: usize) {
        self.set(Master::Generation, generation);
        self.set(Master::Workers, workers as u64);
    }

    /// A reload begins: the configuration is about to be read.
    pub(crate) fn reload_begins(&self) {
        self.bump(Master::ReloadsBegun);
    }

    /// The reload is over; `message` says why it was refused, or what is new.
    pub(crate) fn reload_ends(&self, accepted: bool, message: &str) {
        self.bump(Master::MessageSequence);
        let length = self.write_text(MESSAGE_AT, MESSAGE_BYTES, message);
        self.set(Master::MessageLength, length as u64);
        self.set(Master::Verdict, if accepted { 1 } else { 2 });
        self.set(Master::VerdictMs, unix_ms());
        self.bump(Master::MessageSequence);
        let begun = self.words[Master::ReloadsBegun.at()].load(Relaxed);
        self.set(Master::ReloadsEnded, begun);
    }

    /// Writes as much of a text as fits; its length.
    fn write_text(&self, at: usize, most: usize, text: &str) -> usize {
        let mut length = text.len().min(most);
        while !text.is_char_boundary(length) {
            length -= 1;
        }
        for (index, bytes) in text.as_bytes()[..length].chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            self.words[at + index].store(u64::from_ne_bytes(word), Relaxed);
        }
        length
    }

    /// Whether the verdict on the last reload was against it.
    pub(crate) fn last_reload_refused(&self) -> bool {
        self.words[Master::Verdict.at()].load(Relaxed) == 2
    }

    fn set(&self, word: Master, value: u64) {
        self.words[word.at()].store(value, Release);
    }

    /// The master is the only writer, so no locked instruction is needed; the order matters to readers.
    fn bump(&self, word: Master) {
        let word = &self.words[word.at()];
        std::sync::atomic::fence(Release);
        word.store(word.load(Relaxed).wrapping_add(1), Release);
        std::sync::atomic::fence(Acquire);
    }
}

/// What the connection that runs is busy with, by its own account. A request that is answered at once has no
/// phase of its own.
fn running_phase(stats: &Stats) -> String {
    let number = usize::try_from(stats.gauge(Gauge::RunningPhase)).unwrap_or(usize::MAX);
    match Phase::ALL.get(number) {
        Some(phase @ (Phase::Accepted | Phase::Idle)) => format!("{} until this turn", phase.name()),
        Some(phase) => phase.name().to_owned(),
        None => "in an unknown phase".to_owned(),
    }
}

/// The words of one worker.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    words: Rc<SharedWords>,
    index: usize,
}

impl Block {
    /// A worker is about to be forked for it.
    pub(crate) fn begin(&self) {
        self.set(Identity::StartedMs, unix_ms());
        self.set(Identity::State, WorkerState::Starting as u64);
    }

    /// Says whose it is. Written by the master right after the fork and by the worker at its start,
    /// whichever is first.
    pub(crate) fn set_pid(&self, pid: Pid) {
        self.set(Identity::Pid, pid.as_raw() as u64);
    }

    /// Publishes what the worker is about.
    pub(crate) fn set_state(&self, state: WorkerState) {
        self.set(Identity::State, state as u64);
    }

    /// What the whole scoreboard says, read by a worker.
    pub(crate) fn readout(&self) -> Readout {
        Readout::new(Words::Own(Rc::clone(&self.words)))
    }

    /// Where the engine counts.
    pub(crate) fn stats(&self) -> Stats {
        Stats::new(&self.words, block_at(self.index))
    }

    /// What the worker is doing by its own account, for reports: "serving, handling connection 7 (sending), with 3
    /// connections: 2 idle, 1 sending".
    pub(crate) fn describe(&self) -> String {
        let stats = self.stats();
        let state = WorkerState::from_word(self.get(Identity::State))
            .map_or("of an unknown state", WorkerState::name);
        let running = match stats.gauge(Gauge::RunningConnection) {
            0 if stats.gauge(Gauge::TurnStarted) == 0 => "asleep".to_owned(),
            0 => "in a turn".to_owned(),
            connection => format!("handling connection {connection} ({})", running_phase(&stats)),
        };
        let phases = Phase::ALL.into_iter().map(|phase| (stats.in_phase(phase), phase.name()));
        let phases: Vec<String> =
            phases.filter(|(count, _)| *count > 0).map(|(count, name)| format!("{count} {name}")).collect();
        let open = counted(stats.gauge(Gauge::OpenConnections) as usize, "connection");
        let separator = if phases.is_empty() { "" } else { ": " };
        format!("{state}, {running}, with {open}{separator}{}", phases.join(", "))
    }

    fn set(&self, word: Identity, value: u64) {
        self.words[identity_at(self.index) + word as usize].store(value, Release);
    }

    fn get(&self, word: Identity) -> u64 {
        self.words[identity_at(self.index) + word as usize].load(Relaxed)
    }
}

#[cfg(test)]
mod tests;
