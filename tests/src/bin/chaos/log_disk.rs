//! The disk of the log files, which can be filled: a small tmpfs in a mount namespace of this program's own where
//! that is permitted, else a limit on the size of files.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use drover_tests::Drover;
use nix::sched::{CloneFlags, unshare};

/// Room on the disk: more than a run writes.
const SIZE: &str = "size=32m";

/// Where the logs are.
pub(crate) enum LogDisk {
    /// A file system of its own, mounted here.
    Small(PathBuf),
    /// Part of a large one; why.
    Shared(String),
}

impl LogDisk {
    /// Makes `folder` a small disk. To be called while this process has one thread.
    pub(crate) fn new(folder: &Path) -> LogDisk {
        let mounted = unshare(CloneFlags::CLONE_NEWNS).map_err(|errno| errno.to_string()).and_then(|()| {
            mount(&["--make-rprivate".as_ref(), "/".as_ref()])?;
            mount(&["-t".as_ref(), "tmpfs".as_ref(), "-o".as_ref(), SIZE.as_ref(), "logs".as_ref(), folder])
        });
        match mounted {
            Ok(()) => LogDisk::Small(folder.to_owned()),
            Err(reason) => LogDisk::Shared(reason),
        }
    }

    /// Leaves no room for a further byte.
    pub(crate) fn fill(&self, drover: &Drover) -> Result<(), String> {
        let LogDisk::Small(folder) = self else { return limit_files(drover, "0") };
        let mut filler = File::create(folder.join("filler")).map_err(|error| error.to_string())?;
        let block = vec![0; 64 << 10];
        for size in [block.len(), 512, 1] {
            while filler.write(&block[..size]).is_ok_and(|count| count > 0) {}
        }
        Ok(())
    }

    /// Makes room again.
    pub(crate) fn free(&self, drover: &Drover) -> Result<(), String> {
        let LogDisk::Small(folder) = self else { return limit_files(drover, "unlimited") };
        fs::remove_file(folder.join("filler")).map_err(|error| error.to_string())
    }
}

impl Drop for LogDisk {
    fn drop(&mut self) {
        if let LogDisk::Small(folder) = self {
            let _ = Command::new("umount").arg(folder).status();
        }
    }
}

fn mount(arguments: &[&Path]) -> Result<(), String> {
    let output = Command::new("mount").args(arguments).output().map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}

fn limit_files(drover: &Drover, size: &str) -> Result<(), String> {
    for pid in drover.processes() {
        let status =
            Command::new("prlimit").args(["--pid", &pid.to_string(), &format!("--fsize={size}:")]).status();
        // One that ended meanwhile needs no limit.
        status.map_err(|error| format!("prlimit: {error}"))?;
    }
    Ok(())
}
