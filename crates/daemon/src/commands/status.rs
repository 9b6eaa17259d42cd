//! `drover status`: the scoreboard for people, or as JSON, and what the JSON means.
//!
//! Everything is read from the file: nothing here asks a process, so it works while all of them hang.

use std::io;
use std::process::ExitCode;

use super::control::scoreboard_path;
use super::print;
use crate::cli::StatusArgs;
use crate::config::Source;
use crate::report::{self, Now};
use crate::scoreboard::Snapshot;

/// Prints the state of the daemon of a config.
pub(crate) fn status(args: &StatusArgs) -> io::Result<ExitCode> {
    if args.schema {
        print(&format!("{:#}\n", report::schema()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let snapshot = Snapshot::read(&scoreboard_path(&Source::of(&args.file)?)).map_err(io::Error::other)?;
    let now = Now::read();
    if args.json {
        print(&format!("{:#}\n", report::json(&snapshot, now)))?;
    } else {
        print(&report::table(&snapshot, now))?;
    }
    Ok(ExitCode::SUCCESS)
}
