//! A file that goes away with the process that made it.

use std::fs;
use std::path::{Path, PathBuf};

use nix::unistd::Pid;

/// A path whose file is removed when the process that made it lets go. Children inherit the value, and
/// dropping it there leaves the file alone.
#[derive(Debug)]
pub(crate) struct OwnedPath {
    path: PathBuf,
    pub(crate) owner: Pid,
}

impl OwnedPath {
    /// The file that this process just made at `path`.
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), owner: Pid::this() }
    }
}

impl Drop for OwnedPath {
    fn drop(&mut self) {
        if Pid::this() == self.owner {
            let _ = fs::remove_file(&self.path);
        }
    }
}
