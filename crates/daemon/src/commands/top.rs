//! `drover top`: the workers live in the terminal, by a program of its own, so that the daemon links no library
//! for terminals.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::cli::TopArgs;
use crate::config::Source;

/// The program.
const PROGRAM: &str = "drover-top";

/// Becomes the viewer.
pub(crate) fn top(args: &TopArgs) -> io::Result<ExitCode> {
    let own = std::env::current_exe()?;
    let program = beside(&own).unwrap_or_else(|| PathBuf::from(PROGRAM));
    let mut command = Command::new(&program);
    command.arg("--drover").arg(&own).arg("--every").arg(format!("{}ms", args.every.as_millis()));
    command.arg("--").args(Source::of(&args.file)?.arguments());
    // Returns only if that fails.
    let failure = command.exec();
    Err(match failure.kind() {
        io::ErrorKind::NotFound => io::Error::other(format!(
            "there is no {PROGRAM}, neither beside {} nor in PATH: `make install` puts it there, and in the source \
             tree `make top` does",
            own.display()
        )),
        _ => io::Error::new(failure.kind(), format!("cannot start {}: {failure}", program.display())),
    })
}

/// Where it is installed: in the directory of drover itself.
fn beside(own: &Path) -> Option<PathBuf> {
    let path = own.parent()?.join(PROGRAM);
    path.exists().then_some(path)
}
