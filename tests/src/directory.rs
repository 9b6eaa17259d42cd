//! A fresh directory for one test, removed with everything in it when the test ends.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory of one test's own. Anyone may enter it, so that workers without privileges can too.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
}

impl Directory {
    /// Makes an empty directory.
    ///
    /// # Panics
    ///
    /// When it cannot be made.
    #[allow(clippy::new_without_default, reason = "a directory on disk is no default value")]
    pub fn new() -> Directory {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let base = std::env::temp_dir();
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = base.join(format!("drover-test-{}-{number}", process::id()));
            match fs::create_dir(&path) {
                Ok(()) => {
                    let directory = Directory { path };
                    directory.set_mode("", 0o755);
                    return directory;
                }
                // Left by a killed process that had the same id.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => panic!("cannot make {}: {error}", path.display()),
            }
        }
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file or folder in it, which need not exist.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file, and the folders above it where missing; returns its path.
    ///
    /// # Panics
    ///
    /// When that fails.
    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(name);
        let folder = path.parent().expect("a file lies in a folder");
        fs::create_dir_all(folder)
            .unwrap_or_else(|error| panic!("cannot make {}: {error}", folder.display()));
        fs::write(&path, contents).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
        path
    }

    /// Copies a program into it, under a name relative to it.
    ///
    /// Another process does so: a program cannot be executed while somebody has it open for writing, and whatever another
    /// thread starts meanwhile has a copy of all descriptors until it is executed itself.
    ///
    /// # Panics
    ///
    /// When that fails.
    pub fn program(&self, name: &str, from: impl AsRef<Path>) -> PathBuf {
        let path = self.join(name);
        let status = Command::new("cp").arg(from.as_ref()).arg(&path).status().expect("cp is there");
        assert!(status.success(), "cannot copy {} to {}", from.as_ref().display(), path.display());
        path
    }

    /// Writes a program of the shell into it, in the same way.
    pub fn script(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let written = self.write(&format!("{name}.text"), format!("#!/bin/sh\n{text}\n"));
        let path = self.program(name, written);
        self.set_mode(name, mode);
        path
    }

    /// Makes a folder that every user may write to.
    pub fn shared_folder(&self, name: &str) -> PathBuf {
        let path = self.join(name);
        fs::create_dir_all(&path).unwrap_or_else(|error| panic!("cannot make {}: {error}", path.display()));
        self.set_mode(name, 0o777);
        path
    }

    /// Sets the permission bits of a file or folder in it.
    ///
    /// # Panics
    ///
    /// When that fails.
    pub fn set_mode(&self, name: &str, mode: u32) {
        let path = self.join(name);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))
            .unwrap_or_else(|error| panic!("cannot set the mode of {}: {error}", path.display()));
    }

    /// What a file contains; nothing when there is no such file (yet).
    pub fn read(&self, name: &str) -> String {
        fs::read(self.join(name))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if std::env::var_os("DROVER_TEST_KEEP").is_some() {
            eprintln!("kept: {}", self.path.display());
            return;
        }
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("cannot remove {}: {error}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_fresh_and_goes_away_with_its_contents() {
        let directory = Directory::new();
        let other = Directory::new();
        assert_ne!(directory.path(), other.path());
        directory.write("a/b/c.txt", "text");
        assert_eq!(directory.read("a/b/c.txt"), "text");
        assert_eq!(directory.read("nothing"), "");
        let path = directory.path().to_owned();
        drop(directory);
        assert!(!path.exists());
    }
}
