//! Reading a scoreboard: from its file alone, without any process having to answer.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use drover_event::{CloseReason, Counter, Gauge, Histogram, Lag, Phase, Stats};
use drover_sys::memory::SharedWords;
use drover_upstream::shown::UpstreamView;
use nix::unistd::Pid;
use thiserror::Error;

use super::layout::{Master, MasterState, SHAPE, WORDS, WorkerState};
use super::listeners::ListenerView;
use super::readout::{Readout, Words};
use crate::lock;

/// How long a reader waits for a new master to take over from the old one, which takes a moment.
const HAND_OVER: Duration = Duration::from_secs(1);

/// Why a scoreboard cannot be read.
#[derive(Debug, Error)]
pub(crate) enum ReadError {
    /// Nobody has it open for writing.
    #[error("no drover runs with this configuration ({reason})")]
    NotRunning {
        /// How that was found out.
        reason: String,
    },
    /// It was made by another version.
    #[error("the daemon that runs here is another version of drover: use its own binary to look at {0}")]
    OtherVersion(PathBuf),
    /// The system said no.
    #[error("cannot read the scoreboard {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// What the master published.
#[derive(Debug, Clone)]
pub(crate) struct MasterView {
    /// Its process, by the kernel's word on who holds the file.
    pub(crate) pid: Pid,
    /// What it is about.
    pub(crate) state: MasterState,
    /// The generation that serves.
    pub(crate) generation: u64,
    /// When it started, in milliseconds of Unix time.
    pub(crate) started_ms: u64,
    /// Workers that the generation should have.
    pub(crate) workers: u64,
    /// Reloads that have begun.
    pub(crate) reloads: u64,
    /// The verdict on the last one that ended.
    pub(crate) verdict: Option<Verdict>,
    /// Workers that ended, by cause: asked to, clean, failed, killed.
    pub(crate) exits: [u64; 4],
}

/// What became of a reload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Whether the new generation serves.
    pub(crate) accepted: bool,
    /// Why not, or what is new.
    pub(crate) message: String,
    /// When, in milliseconds of Unix time.
    pub(crate) at_ms: u64,
}

/// What one worker published.
#[derive(Debug, Clone)]
pub(crate) struct WorkerView {
    /// Its process.
    pub(crate) pid: Pid,
    /// Its number within its generation.
    pub(crate) number: u64,
    /// Its generation.
    pub(crate) generation: u64,
    /// What it is about.
    pub(crate) state: WorkerState,
    /// When it started, in milliseconds of Unix time.
    pub(crate) started_ms: u64,
    /// Slots it has in all.
    pub(crate) slots: u64,
    pub(super) words: Vec<u64>,
}

impl WorkerView {
    /// A counter.
    pub(crate) fn counter(&self, counter: Counter) -> u64 {
        self.words[Stats::counter_word(counter)]
    }

    /// A gauge.
    pub(crate) fn gauge(&self, gauge: Gauge) -> u64 {
        self.words[Stats::gauge_word(gauge)]
    }

    /// How long what is ready waits for it, and how long its turns take.
    pub(crate) fn lag(&self) -> Lag<'_> {
        Lag::of_block(&self.words)
    }

    /// Connections that ended for `reason`.
    pub(crate) fn closes(&self, reason: CloseReason) -> u64 {
        self.words[Stats::close_word(reason)]
    }

    /// Accepts of a listener.
    pub(crate) fn accepts(&self, listener: &ListenerView) -> u64 {
        self.words[Stats::accepts_word(listener.number)]
    }

    /// Descriptors that are open, by the last count and the slots lent and returned since; and how many may be.
    pub(crate) fn descriptors(&self) -> (u64, u64) {
        let lent_since = self.gauge(Gauge::FreeSlotsThen) as i64 - self.gauge(Gauge::FreeSlots) as i64;
        let open = self.gauge(Gauge::Descriptors).saturating_add_signed(lent_since);
        (open, self.gauge(Gauge::DescriptorLimit))
    }

    /// How many connections are in a phase.
    pub(crate) fn in_phase(&self, phase: Phase) -> u64 {
        self.words[Stats::phase_word(phase)]
    }
}

/// All that a scoreboard says at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    /// The master.
    pub(crate) master: MasterView,
    /// Its workers, by generation and number.
    pub(crate) workers: Vec<WorkerView>,
    /// The listeners, by their numbers.
    pub(crate) listeners: Vec<ListenerView>,
    /// The upstreams of the generation that serves.
    pub(crate) upstreams: Vec<UpstreamView>,
    pub(super) ended: Vec<u64>,
}

impl Snapshot {
    /// Reads the scoreboard at `path`.
    ///
    /// # Errors
    /// When nobody writes to it, or somebody of another version does.
    pub(crate) fn read(path: &Path) -> Result<Self, ReadError> {
        let deadline = Instant::now() + HAND_OVER;
        loop {
            let watch = Watch::open(path)?;
            // One whose master just left may have passed its name on.
            let Ok(snapshot) = watch.snapshot() else { continue };
            // What another master takes over has to be looked for there: here the sums stand still by now.
            if watch.readout.master_word(Master::HandingOver) == 0 || Instant::now() >= deadline {
                return Ok(snapshot);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Connections that ended for `reason`, over all workers there ever were.
    pub(crate) fn total_closes(&self, reason: CloseReason) -> u64 {
        self.total_of(Stats::close_word(reason))
    }

    /// Accepts of a listener, over all workers there ever were.
    pub(crate) fn total_accepts(&self, listener: &ListenerView) -> u64 {
        self.total_of(Stats::accepts_word(listener.number))
    }

    /// How often turns took how long, over all workers there ever were.
    pub(crate) fn total_turns(&self) -> Histogram {
        self.total_durations(|lag| lag.turns())
    }

    /// How often lag was how long, over all workers there ever were.
    pub(crate) fn total_lags(&self) -> Histogram {
        self.total_durations(|lag| lag.lags())
    }

    fn total_durations(&self, of: impl Fn(Lag<'_>) -> Histogram) -> Histogram {
        let mut sum = of(Lag::of_block(&self.ended));
        self.workers.iter().for_each(|worker| sum.add(&of(worker.lag())));
        sum
    }

    /// A word summed over all workers there ever were.
    pub(super) fn total_of(&self, word: usize) -> u64 {
        self.workers.iter().fold(self.ended[word], |sum, worker| sum.wrapping_add(worker.words[word]))
    }

    /// A counter summed over all workers there ever were.
    pub(crate) fn total(&self, counter: Counter) -> u64 {
        self.total_of(Stats::counter_word(counter))
    }
}

/// A scoreboard kept open.
#[derive(Debug)]
pub(crate) struct Watch {
    path: PathBuf,
    file: File,
    readout: Readout,
}

impl Watch {
    /// Opens the scoreboard at `path`.
    ///
    /// # Errors
    /// As [`Snapshot::read`].
    pub(crate) fn open(path: &Path) -> Result<Self, ReadError> {
        let io_error = |source| ReadError::Io { path: path.to_owned(), source };
        // Somebody must hold it; whoever is about to fill it counts as not running yet.
        match lock::open_held(path) {
            Ok(Some(file)) => Self::map(path, file),
            Ok(None) => Err(not_held(path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(ReadError::NotRunning { reason: format!("there is no {}", path.display()) })
            }
            Err(error) => Err(io_error(error)),
        }
    }

    /// Opens the scoreboard of a daemon that need not live any more.
    pub(super) fn open_left_behind(path: &Path) -> Result<Self, ReadError> {
        let file = File::open(path).map_err(|source| ReadError::Io { path: path.to_owned(), source })?;
        Self::map(path, file)
    }

    fn map(path: &Path, file: File) -> Result<Self, ReadError> {
        let words = SharedWords::open_read_only(&file).map_err(|_| starting(path))?;
        for (index, expected) in SHAPE.iter().enumerate() {
            match words.load(index) {
                Some(0) if index == 0 => return Err(starting(path)),
                word if word == Some(*expected) => {}
                _ => return Err(ReadError::OtherVersion(path.to_owned())),
            }
        }
        if words.len() < WORDS {
            return Err(ReadError::OtherVersion(path.to_owned()));
        }
        Ok(Self { path: path.to_owned(), file, readout: Readout::new(Words::Opened(words)) })
    }

    /// How many reloads have begun and how many of them have ended.
    pub(crate) fn reloads(&self) -> (u64, u64) {
        (self.readout.master_word(Master::ReloadsBegun), self.readout.master_word(Master::ReloadsEnded))
    }

    /// The process that holds this very scoreboard, whatever file has its name by now.
    ///
    /// # Errors
    /// [`ReadError::NotRunning`] when none does any more.
    pub(crate) fn master(&self) -> Result<Pid, ReadError> {
        lock::holder_of(&self.file).ok_or_else(|| not_held(&self.path))
    }

    /// Everything, as of now.
    ///
    /// # Errors
    /// [`ReadError::NotRunning`] when the master is gone.
    pub(crate) fn snapshot(&self) -> Result<Snapshot, ReadError> {
        Ok(self.snapshot_as(self.master()?))
    }

    /// Everything, with `master` as the process that holds the scoreboard.
    pub(crate) fn snapshot_as(&self, master: Pid) -> Snapshot {
        self.readout.snapshot_as(master)
    }
}

fn not_held(path: &Path) -> ReadError {
    ReadError::NotRunning { reason: format!("nobody holds {}, which a killed daemon left", path.display()) }
}

fn starting(path: &Path) -> ReadError {
    ReadError::NotRunning { reason: format!("{} is still empty", path.display()) }
}

/// A scoreboard opened without asking who holds it: a process never conflicts with its own locks.
#[cfg(test)]
pub(crate) fn unlocked(path: &Path) -> Watch {
    Watch::open_left_behind(path).expect("scoreboard")
}
