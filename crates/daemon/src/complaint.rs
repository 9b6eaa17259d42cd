//! Why a new worker could not start, from the worker to the master: one pipe for a generation that starts.
//!
//! The worker has logged it too, but whoever asked for the reload looks at the verdict, not at the log. The
//! pipe is gone once the generation serves. Messages are shorter than what a pipe takes in one piece, so
//! those of several workers do not mix; the first is as good as any.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use nix::fcntl::OFlag;
use nix::libc::PIPE_BUF;
use nix::unistd::pipe2;

/// The master's end, with the other one to be inherited.
#[derive(Debug)]
pub(crate) struct Complaints {
    reader: OwnedFd,
    writer: OwnedFd,
}

/// A worker's end.
#[derive(Debug)]
pub(crate) struct Complaint(File);

impl Complaints {
    /// A pipe that neither end waits on.
    ///
    /// # Errors
    /// What the system reports.
    pub(crate) fn new() -> io::Result<Self> {
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        Ok(Self { reader, writer })
    }

    /// The end for one worker.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub(crate) fn for_worker(&self) -> io::Result<Complaint> {
        self.writer.try_clone().map(|writer| Complaint(File::from(writer)))
    }

    /// The first thing that a worker complained about, if one did.
    pub(crate) fn first(&self) -> Option<String> {
        let mut bytes = vec![0; PIPE_BUF];
        let length = self.reader.try_clone().map(File::from).ok()?.read(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
        text.lines().next().map(str::to_owned)
    }
}

impl Complaint {
    /// Tells the master; `reason` is one line.
    pub(crate) fn tell(mut self, reason: &str) {
        let mut line = reason.replace('\n', " ").into_bytes();
        line.truncate(PIPE_BUF - 1);
        line.push(b'\n');
        // The log has it as well.
        let _ = self.0.write_all(&line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_complaint_is_heard_in_one_line() {
        let complaints = Complaints::new().expect("pipe");
        assert_eq!(complaints.first(), None);
        complaints.for_worker().expect("end").tell("no such\nfile");
        complaints.for_worker().expect("end").tell(&"x".repeat(10_000));
        assert_eq!(complaints.first().as_deref(), Some("no such file"));
    }
}
