//! Where log lines go: `"stderr"`, `"off"`, or the path of a file.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use nix::errno::Errno;
use nix::fcntl::OFlag;

use crate::node::Node;
use crate::output::{Output, quoted};
use crate::reader::Reader;
use crate::value::Value;

/// Where log lines go. A file of one of these names is written `"./off"`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum LogFile {
    /// Nowhere.
    Off,
    /// To the standard error that the daemon was started with.
    Stderr,
    /// To the standard output that the daemon was started with.
    Stdout,
    /// Appended to this file.
    Path(PathBuf),
}

impl LogFile {
    /// Opens the file at `path` for appending, making it where missing. Neither this nor a write to it waits:
    /// where it is a pipe that nobody reads, it takes what the kernel keeps for a later reader.
    ///
    /// # Errors
    /// What `open(2)` reports.
    pub fn append(path: &Path) -> io::Result<File> {
        let mut options = File::options();
        let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        options.append(true).create(true).mode(0o640).custom_flags(flags.bits());
        match options.open(path) {
            // A pipe without a reader; opened both ways it has one (fifo(7)).
            Err(fault) if fault.raw_os_error() == Some(Errno::ENXIO as i32) => options.read(true).open(path),
            result => result,
        }
    }
}

impl fmt::Display for LogFile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogFile::Off => out.write_str("off"),
            LogFile::Stderr => out.write_str("stderr"),
            LogFile::Stdout => out.write_str("stdout"),
            LogFile::Path(path) => path.display().fmt(out),
        }
    }
}

impl Value for LogFile {
    fn type_name() -> String {
        r#""off" or "stderr" or "stdout" or path"#.into()
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<LogFile> {
        match node.as_str() {
            Some("off") => Some(LogFile::Off),
            Some("stderr") => Some(LogFile::Stderr),
            Some("stdout") => Some(LogFile::Stdout),
            Some(_) => PathBuf::read(node, reader).map(LogFile::Path),
            None => reader.expected(node, &Self::type_name()),
        }
    }

    fn write(&self) -> Output {
        Output::Inline(quoted(&self.to_string()))
    }
}
