//! `drover import`: an nginx.conf in drover's terms.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use drover_import::{Converted, Directories};

use super::{print, print_findings};
use crate::cli::ImportArgs;
use crate::config::{Config, System, with_prefix};

/// Something was not carried over, and nothing less would do.
const INCOMPLETE: u8 = 2;

/// Converts the file, prints the config and the report.
pub(crate) fn import(args: &ImportArgs) -> io::Result<ExitCode> {
    let Some(path) = &args.path else {
        print(&drover_import::reference())?;
        return Ok(ExitCode::SUCCESS);
    };
    let (path, prefix) = match &args.prefix {
        Some(prefix) => with_prefix(path, Some(prefix)).map(|(path, prefix)| (path, Some(prefix)))?,
        None => (path.clone(), None),
    };
    let nodes = drover_import::tree::read(&path).map_err(io::Error::other)?;
    let directories = Directories::of(&path, prefix.as_deref());
    let Converted { text, report } = drover_import::convert(&nodes, &directories);
    if !args.report {
        print(&text)?;
    }
    eprint!("{report}");
    let usable = check(&path, &text);
    let complete = report.is_complete() && usable;
    Ok(if args.strict && !complete { ExitCode::from(INCOMPLETE) } else { ExitCode::SUCCESS })
}

/// Says what is wrong with the config that was written, as far as that can be said on this machine.
fn check(path: &Path, text: &str) -> bool {
    let findings =
        Config::check_text(&format!("{} in drover's terms", path.display()), text, &System::probe());
    if findings.has_errors() {
        eprintln!("\nthe config needs a hand:\n");
        print_findings(&findings);
    }
    !findings.has_errors()
}
