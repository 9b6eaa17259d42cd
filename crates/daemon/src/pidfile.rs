//! The pid file: written once the sockets listen, locked while the master lives, removed by the process
//! that wrote it.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use nix::unistd::Pid;

use crate::lock::{self, LockError};
use crate::owned_path::{self, OwnedPath};

/// The pid file of this process.
#[derive(Debug)]
pub(crate) struct PidFile {
    /// Let go of before the lock, so that the file is removed while it is held.
    pub(crate) place: OwnedPath,
    /// Keeps the lock.
    _file: File,
}

impl PidFile {
    /// Refuses when a living process holds the file at `path`. Asked early, so that a second daemon is
    /// told about the first one rather than about a port in use.
    pub(crate) fn check_free(path: &Path) -> Result<(), LockError> {
        match lock::holder(path) {
            None => Ok(()),
            Some(pid) => Err(LockError::held(path, pid)),
        }
    }

    /// Makes, locks and writes the file.
    pub(crate) fn create(path: &Path) -> Result<Self, LockError> {
        Self::create_as(path, || OwnedPath::new(path))
    }

    /// Makes the file of a master that takes over from another one: it gets its name later.
    pub(crate) fn create_named_later(name: &Path) -> Result<Self, LockError> {
        Self::create_as(&owned_path::fresh(name), || OwnedPath::named_later(name))
    }

    fn create_as(path: &Path, place: impl FnOnce() -> OwnedPath) -> Result<Self, LockError> {
        let failed = |source: io::Error| LockError::Io { path: path.to_owned(), source };
        let mut file = lock::acquire(path)?;
        let line = format!("{}\n", Pid::this());
        file.set_len(0).and_then(|()| file.write_all(line.as_bytes())).map_err(failed)?;
        Ok(Self { place: place(), _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn is_written_and_goes_away_with_its_owner_alone() {
        let path = std::env::temp_dir().join(format!("drover-pid-{}", std::process::id()));
        fs::write(&path, "a much longer line left by a killed process\n").expect("stale file");
        PidFile::check_free(&path).expect("nobody holds it");
        let mut file = PidFile::create(&path).expect("created");
        assert_eq!(fs::read_to_string(&path).expect("read"), format!("{}\n", Pid::this()));
        file.place.owner = Pid::from_raw(1);
        drop(file);
        assert!(path.exists(), "a process that is not the owner leaves it");
        drop(PidFile::create(&path).expect("created again"));
        assert!(!path.exists());
    }

    #[test]
    fn a_directory_that_is_missing_is_named() {
        let error = PidFile::create(Path::new("/nonexistent-drover/x.pid")).expect_err("no directory");
        assert!(error.to_string().contains("/nonexistent-drover/x.pid"), "{error}");
    }
}
