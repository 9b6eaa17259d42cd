//! Files that only one living process may hold.
//!
//! The lock is a POSIX record lock: it belongs to a process and not to a descriptor, so workers do not
//! inherit it, it vanishes with its holder however that ends, and anyone can ask the kernel who holds it
//! (`F_GETLK`). No stale pid is ever trusted. The price is a rule: the process that holds a lock never
//! opens and closes the file a second time, as that would drop the lock.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use nix::unistd::Pid;
use thiserror::Error;

use crate::process::command_suffix;

/// Why a file could not be locked.
#[derive(Debug, Error)]
pub(crate) enum LockError {
    /// Another process has it.
    #[error("{path} is held by process {pid}{command}: drover already runs with this configuration")]
    Held {
        /// The file.
        path: PathBuf,
        /// The holder.
        pid: Pid,
        /// Its command in parentheses, or nothing.
        command: String,
    },
    /// The system said no.
    #[error("cannot open {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl LockError {
    /// `pid` has the file at `path`.
    pub(crate) fn held(path: &Path, pid: Pid) -> Self {
        Self::Held { path: path.to_owned(), pid, command: command_suffix(pid) }
    }
}

/// Opens `path` for reading and writing, making it where missing, and locks it.
///
/// # Errors
/// [`LockError::Held`] when another process holds it.
pub(crate) fn acquire(path: &Path) -> Result<File, LockError> {
    let failed = |source: io::Error| LockError::Io { path: path.to_owned(), source };
    loop {
        let file = File::options().read(true).write(true).create(true).truncate(false).mode(0o644).open(path);
        let file = file.map_err(failed)?;
        match fcntl(&file, FcntlArg::F_SETLK(&whole_file(libc::F_WRLCK))) {
            Ok(_) => {}
            Err(Errno::EACCES | Errno::EAGAIN) => match holder_of(&file) {
                Some(pid) => return Err(LockError::held(path, pid)),
                // It ended between the two calls.
                None => continue,
            },
            Err(error) => return Err(failed(error.into())),
        }
        // The file may have been removed or replaced by whoever held it before.
        if is_at(&file, path) {
            return Ok(file);
        }
    }
}

/// The file at `path`, if a process holds it. In an upgrade a name passes from one master to another: one that nobody
/// holds is asked about again where the name leads to another by now.
///
/// # Errors
/// What the system says to opening it.
pub(crate) fn open_held(path: &Path) -> io::Result<Option<File>> {
    loop {
        let file = File::open(path)?;
        if holder_of(&file).is_some() {
            return Ok(Some(file));
        }
        if is_at(&file, path) {
            return Ok(None);
        }
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let identity = |found: fs::Metadata| (found.dev(), found.ino());
    match (fs::metadata(path), file.metadata()) {
        (Ok(named), Ok(own)) => identity(named) == identity(own),
        _ => false,
    }
}

/// The process that holds the lock on the file at `path`, if there is such a file and process.
pub(crate) fn holder(path: &Path) -> Option<Pid> {
    holder_of(&File::open(path).ok()?)
}

/// Where the file can still be opened that was at `path` until somebody removed it, or the directory, from under
/// the process that holds it. Only that process' user, and root, can tell.
pub(crate) fn removed(path: &Path) -> Option<PathBuf> {
    if path.exists() {
        return None;
    }
    // As the kernel names it: see proc_pid_fd(5).
    let mut name = real(path).into_os_string();
    name.push(" (deleted)");
    let processes = fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    let mut descriptors =
        processes.filter_map(|process| fs::read_dir(process.path().join("fd")).ok()).flatten();
    descriptors.find_map(|descriptor| {
        let descriptor = descriptor.ok()?.path();
        let same = fs::read_link(&descriptor).is_ok_and(|target| target.as_os_str() == name);
        (same && holder(&descriptor).is_some()).then_some(descriptor)
    })
}

/// The path without symbolic links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    match (fs::canonicalize(path), path.parent(), path.file_name()) {
        (Ok(real), _, _) => real,
        (Err(_), Some(parent), Some(name)) => real(parent).join(name),
        _ => path.to_owned(),
    }
}

/// The process that holds the lock on an open file, if one does.
pub(crate) fn holder_of(file: &File) -> Option<Pid> {
    // Asking for a write lock finds any holder, and F_GETLK needs no write access to ask.
    let mut lock = whole_file(libc::F_WRLCK);
    fcntl(file, FcntlArg::F_GETLK(&mut lock)).ok()?;
    (i32::from(lock.l_type) != libc::F_UNLCK).then(|| Pid::from_raw(lock.l_pid))
}

fn whole_file(kind: libc::c_int) -> libc::flock {
    libc::flock { l_type: kind as i16, l_whence: libc::SEEK_SET as i16, l_start: 0, l_len: 0, l_pid: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_file_nobody_holds_has_no_holder_and_can_be_had() {
        let path = std::env::temp_dir().join(format!("drover-lock-{}", std::process::id()));
        assert_eq!(holder(&path), None);
        let file = acquire(&path).expect("first");
        assert!(path.exists());
        drop(file);
        fs::remove_file(&path).expect("removed");
    }

    /// Another process is needed: a process never conflicts with itself.
    #[test]
    fn the_holder_is_named() {
        let path = std::env::temp_dir().join(format!("drover-held-{}", std::process::id()));
        fs::write(&path, "").expect("file");
        let script = "import fcntl,sys,time\nf=open(sys.argv[1],'r+')\nfcntl.lockf(f,fcntl.LOCK_EX)\nprint('held',flush=True)\ntime.sleep(60)";
        let Ok(mut child) =
            Command::new("python3").args(["-c", script]).arg(&path).stdout(Stdio::piped()).spawn()
        else {
            return;
        };
        let mut line = String::new();
        let output = child.stdout.take().expect("piped");
        io::BufRead::read_line(&mut io::BufReader::new(output), &mut line).expect("line");
        let error = acquire(&path).expect_err("held");
        assert!(
            matches!(&error, LockError::Held { pid, .. } if pid.as_raw() == child.id() as i32),
            "{error}"
        );
        assert_eq!(holder(&path).map(Pid::as_raw), Some(child.id() as i32));
        assert_eq!(removed(&path), None);
        fs::remove_file(&path).expect("removed");
        assert_eq!(holder(&path), None);
        let found = removed(&path).expect("the child has it open");
        assert_eq!(holder(&found).map(Pid::as_raw), Some(child.id() as i32));
        child.kill().expect("ended");
        child.wait().expect("collected");
        assert_eq!(removed(&path), None);
        acquire(&path).expect("free again");
        fs::remove_file(&path).expect("removed");
    }
}
