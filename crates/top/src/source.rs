//! Where the figures come from: a `drover status` that goes on printing, read by a thread.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use thiserror::Error;

use crate::status::Status;

/// Something that the source has to say.
pub(crate) enum News {
    /// How it is now.
    Status(Box<Status>),
    /// There will be no more, and why.
    Ended(String),
}

/// Why there is nothing to show.
#[derive(Debug, Error)]
pub(crate) enum SourceError {
    /// The program that is asked cannot be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The program.
        program: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It ended at once, and said why.
    #[error("{0}")]
    Ended(String),
    /// It says nothing.
    #[error("no status within {FIRST:?}")]
    Silent,
}

/// How long the first status may take.
const FIRST: Duration = Duration::from_secs(10);

/// A `drover status` at work. It ends when this is dropped.
pub(crate) struct Source {
    child: Child,
    news: Receiver<News>,
}

impl Source {
    /// Has `drover` print the status of the daemon that the options in `which` name, again and again.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn start(drover: &Path, which: &[OsString], every: &str) -> Result<Self, SourceError> {
        let mut child = Command::new(drover)
            .args(["status", "--json", "--every", every])
            .args(which)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| SourceError::Start { program: drover.to_owned(), source })?;
        let (output, errors) = (child.stdout.take(), child.stderr.take());
        let (send, news) = channel();
        thread::spawn(move || {
            let lines = output.into_iter().flat_map(|output| BufReader::new(output).lines());
            for line in lines.map_while(Result::ok) {
                let said = match serde_json::from_str(&line) {
                    Ok(status) => News::Status(Box::new(status)),
                    Err(error) => News::Ended(format!("what drover says is not understood: {error}")),
                };
                if send.send(said).is_err() {
                    return;
                }
            }
            let mut reason = String::new();
            if let Some(mut errors) = errors {
                // Where nothing can be read there is nothing to add.
                let _ = errors.read_to_string(&mut reason);
            }
            let reason = reason.trim().trim_start_matches("drover: ");
            let reason = if reason.is_empty() { "drover has ended" } else { reason };
            let _ = send.send(News::Ended(reason.to_owned()));
        });
        Ok(Self { child, news })
    }

    /// Waits for the first status.
    ///
    /// # Errors
    /// When there is none, with the reason.
    pub(crate) fn first(&self) -> Result<Status, SourceError> {
        match self.news.recv_timeout(FIRST) {
            Ok(News::Status(status)) => Ok(*status),
            Ok(News::Ended(reason)) => Err(SourceError::Ended(reason)),
            Err(_) => Err(SourceError::Silent),
        }
    }

    /// What has been said since, if anything.
    pub(crate) fn next(&self) -> Option<News> {
        self.news.try_recv().ok()
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
