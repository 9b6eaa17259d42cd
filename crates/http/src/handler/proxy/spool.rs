//! A spool: bytes that wait on a disk until the side that they are for takes them.
//!
//! The file has no name, so that nothing is left whatever ends the worker. What it does not take, because it is as
//! large as it may be or the disk is full, is held in memory, and then the spool takes nothing more until all of it
//! is sent: the side that sends waits, as it would without a spool. So one costs no more than its size on the disk,
//! and what was added last in memory.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use drover_event::{Counter, Patience, Stream, StreamError, Waited};
use nix::libc::O_TMPFILE;
use tracing::warn;

use crate::h1::connection::Conversation;

/// How much of bodies may wait on a disk, and where.
#[derive(Debug)]
pub(super) struct Buffering {
    pub(super) directory: PathBuf,
    /// The largest body of a request; 0 for none.
    pub(super) requests: u64,
    /// The most of a response; 0 for none.
    pub(super) responses: u64,
}

/// Bytes that wait.
#[derive(Debug)]
pub(super) struct Spool {
    file: Option<File>,
    /// Bytes in the file.
    written: u64,
    /// What the file did not take.
    tail: Vec<u8>,
    /// Bytes that are sent, of the file first.
    sent: u64,
    /// The most bytes in the file.
    most: u64,
    /// The disk did not take something.
    failed: bool,
}

impl Spool {
    /// An empty one. Without a file, which is told, everything is held in memory.
    pub(super) fn new(on: &Conversation, directory: &Path, most: u64) -> Spool {
        on.stream.core().stats().add(Counter::Spooled, 1);
        let mut spool = Spool { file: None, written: 0, tail: Vec::new(), sent: 0, most, failed: false };
        spool.begin(on, directory);
        spool
    }

    fn begin(&mut self, on: &Conversation, directory: &Path) {
        self.file = create(directory).map_err(|error| tell(on, directory, &error)).ok();
        self.failed = self.file.is_none();
    }

    /// Whether more should be added.
    pub(super) fn takes_more(&self) -> bool {
        self.tail.is_empty() && !self.failed && self.written < self.most
    }

    /// Bytes that are in it.
    pub(super) fn length(&self) -> u64 {
        self.written + self.tail.len() as u64
    }

    /// Bytes that are not sent.
    pub(super) fn left(&self) -> u64 {
        self.length() - self.sent
    }

    /// Adds bytes behind those that are there.
    pub(super) fn add(&mut self, mut bytes: &[u8], on: &Conversation, directory: &Path) {
        if self.file.is_none() && !self.failed {
            self.begin(on, directory);
        }
        while let Some(file) = self.file.as_ref().filter(|_| self.takes_more() && !bytes.is_empty()) {
            let room = usize::try_from(self.most - self.written).unwrap_or(usize::MAX);
            match file.write_at(&bytes[..bytes.len().min(room)], self.written) {
                Ok(count) if count > 0 => {
                    self.written += count as u64;
                    bytes = &bytes[count..];
                }
                result => {
                    let error = result.err().unwrap_or_else(|| io::ErrorKind::WriteZero.into());
                    tell(on, directory, &error);
                    self.failed = true;
                }
            }
        }
        self.tail.extend_from_slice(bytes);
    }

    /// Sends as much as `to` takes now.
    ///
    /// # Errors
    /// `WouldBlock` where it takes nothing, else what the system call says.
    pub(super) fn send(&mut self, to: &Stream) -> io::Result<()> {
        match &self.file {
            Some(file) if self.sent < self.written => {
                let before = self.sent;
                to.try_send_file(file.as_fd(), &mut self.sent, self.written - before)?;
                if self.sent == before {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            _ => {
                let at = (self.sent - self.written) as usize;
                self.sent += to.try_send(&self.tail[at..], false)? as u64;
            }
        }
        Ok(())
    }

    /// Sends all that is left.
    pub(super) async fn send_all(&mut self, to: &Stream, patience: Patience) -> Result<(), StreamError> {
        let mut waited = Waited::new(patience);
        while self.left() > 0 {
            waited.writable(to).await?;
            match self.send(to) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Has everything be sent once more.
    pub(super) fn rewind(&mut self) {
        self.sent = 0;
    }

    /// Everything is sent: makes room for more. What went out by `sendfile` is still in the file's pages, on its way
    /// to the client, so nothing is ever written over it; a file without room is left for a new one.
    pub(super) fn renew(&mut self) {
        self.tail = Vec::new();
        self.sent = self.written;
        if self.failed || self.written >= self.most / 2 {
            (self.file, self.written, self.sent) = (None, 0, 0);
        }
    }
}

/// A file that is gone once it is closed.
fn create(directory: &Path) -> io::Result<File> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    match options.clone().custom_flags(O_TMPFILE).open(directory) {
        // File systems that know no files without a name: overlays before Linux 6.1, for one.
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = directory.join(format!("drover-{}-{number}", std::process::id()));
            let file = options.create_new(true).open(&path)?;
            fs::remove_file(path)?;
            Ok(file)
        }
        result => result,
    }
}

#[cold]
fn tell(on: &Conversation, directory: &Path, error: &io::Error) {
    let core = on.stream.core();
    core.stats().add(Counter::SpoolFailures, 1);
    if let Some(kept_back) = on.worker.spool_failures.line(core.now()) {
        let more = match kept_back {
            0 => String::new(),
            count => format!(" ({count} more such lines were kept back)"),
        };
        let directory = directory.display();
        warn!(connection = on.stream.number(), "a body goes on unbuffered, {directory}: {error}{more}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_no_name() {
        let directory = std::env::temp_dir();
        let file = create(&directory).expect("a directory for such files");
        file.write_at(b"text", 0).expect("room");
        let link = fs::read_link(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file)));
        assert!(link.expect("it is open").to_string_lossy().ends_with("(deleted)"));
    }
}
