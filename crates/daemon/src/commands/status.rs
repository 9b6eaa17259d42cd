//! `drover status`: the scoreboard for people, or as JSON, and what the JSON means.
//!
//! Everything is read from the file: nothing here asks a process, so it works while all of them hang.

use std::io;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use drover_config::Leaf;

use super::control::scoreboard_path;
use super::print;
use crate::cli::StatusArgs;
use crate::config::Source;
use crate::report::{self, Now};
use crate::scoreboard::Snapshot;

/// Prints the state of the daemon of a config, once or again and again.
pub(crate) fn status(args: &StatusArgs) -> io::Result<ExitCode> {
    if args.schema {
        print(&format!("{:#}\n", report::schema()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let path = scoreboard_path(&Source::of(&args.file)?);
    loop {
        let snapshot = Snapshot::read(&path).map_err(io::Error::other)?;
        let now = Now::read();
        let text = match (args.json, args.every) {
            (true, None) => format!("{:#}\n", report::json(&snapshot, now)),
            // An object a line, for whoever reads on.
            (true, Some(_)) => format!("{}\n", report::json(&snapshot, now)),
            (false, None) => report::table(&snapshot, now),
            (false, Some(_)) => report::table(&snapshot, now) + "\n",
        };
        let Some(every) = args.every else {
            print(&text)?;
            return Ok(ExitCode::SUCCESS);
        };
        // A reader that went away ends this.
        io::Write::write_all(&mut io::stdout(), text.as_bytes())?;
        sleep(every);
    }
}

/// The time between two looks, as the command line has it: `500ms`, `2s`.
pub(crate) fn parse_every(text: &str) -> Result<Duration, String> {
    match Duration::parse(text) {
        Ok(every) if every >= Duration::from_millis(10) => Ok(every),
        Ok(_) => Err("10ms at least".into()),
        Err(reason) => Err(format!("{reason}; {}", Duration::HELP)),
    }
}
