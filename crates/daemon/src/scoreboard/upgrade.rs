//! How upgrades went, in words that every version of drover understands.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering::{Relaxed, Release};

use drover_sys::memory::{ReadOnlyWords, SharedWords};
use nix::unistd::Pid;

use super::layout::{MAGIC, UPGRADE_BYTES, UPGRADE_MESSAGE_AT, Upgrade};
use super::readout::text;
use super::{ReadError, Scoreboard};
use crate::lock;

/// What became of an upgrade.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UpgradeVerdict {
    /// Whether the new master serves.
    pub(crate) accepted: bool,
    /// What serves, or why not.
    pub(crate) message: String,
}

impl Scoreboard {
    /// An upgrade begins.
    pub(crate) fn upgrade_begins(&self) {
        let word = &self.words[Upgrade::Begun.at()];
        word.store(word.load(Relaxed).wrapping_add(1), Release);
    }

    /// The upgrade is over; `message` says what serves, or why the new master does not.
    pub(crate) fn upgrade_ends(&self, accepted: bool, message: &str) {
        let length = self.write_text(UPGRADE_MESSAGE_AT, UPGRADE_BYTES, message);
        self.words[Upgrade::MessageLength.at()].store(length as u64, Relaxed);
        self.words[Upgrade::Verdict.at()].store(if accepted { 1 } else { 2 }, Relaxed);
        // Last: a reader that sees it sees the rest, and nothing is written before the next upgrade begins.
        let begun = self.words[Upgrade::Begun.at()].load(Relaxed);
        self.words[Upgrade::Ended.at()].store(begun, Release);
    }
}

/// A scoreboard of any version, kept open to see how an upgrade goes.
#[derive(Debug)]
pub(crate) struct UpgradeWatch {
    file: File,
    words: ReadOnlyWords,
}

impl UpgradeWatch {
    /// Opens the scoreboard at `path`.
    ///
    /// # Errors
    /// When there is none, or none that a master holds.
    pub(crate) fn open(path: &Path) -> Result<Self, ReadError> {
        let not_running = |reason: String| ReadError::NotRunning { reason };
        let file = lock::open_held(path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => not_running(format!("there is no {}", path.display())),
            _ => ReadError::Io { path: path.to_owned(), source },
        })?;
        let file = file.ok_or_else(|| not_running(format!("nobody holds {}", path.display())))?;
        Self::map(file).ok_or_else(|| not_running(format!("{} is no scoreboard yet", path.display())))
    }

    fn map(file: File) -> Option<Self> {
        let words = SharedWords::open_read_only(&file).ok()?;
        (words.load(0) == Some(MAGIC)).then_some(Self { file, words })
    }

    /// One opened without asking who holds it.
    #[cfg(test)]
    pub(super) fn unlocked(path: &Path) -> Self {
        Self::map(File::open(path).expect("file")).expect("scoreboard")
    }

    /// The master whose scoreboard this is, as long as it lives.
    pub(crate) fn master(&self) -> Option<Pid> {
        lock::holder_of(&self.file)
    }

    /// How many upgrades have begun, and how many of them are over.
    pub(crate) fn upgrades(&self) -> (u64, u64) {
        (self.word(Upgrade::Begun), self.word(Upgrade::Ended))
    }

    /// The verdict on the last upgrade that is over.
    pub(crate) fn verdict(&self) -> UpgradeVerdict {
        let length = (self.word(Upgrade::MessageLength) as usize).min(UPGRADE_BYTES);
        let message = text(|word| self.words.load(word).unwrap_or(0), UPGRADE_MESSAGE_AT, length);
        UpgradeVerdict { accepted: self.word(Upgrade::Verdict) == 1, message }
    }

    fn word(&self, word: Upgrade) -> u64 {
        self.words.load(word.at()).unwrap_or(0)
    }
}
