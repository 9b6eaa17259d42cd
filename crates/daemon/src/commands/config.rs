//! `drover config`: the effective config, or the reference of all keys.

use std::io;
use std::process::ExitCode;

use super::{print, print_findings};
use crate::cli::ConfigArgs;
use crate::config::{Config, Source, System};

/// Prints the config with every default filled in; findings go to standard error.
pub(crate) fn config(args: &ConfigArgs) -> io::Result<ExitCode> {
    if args.reference {
        print(&drover_config::reference::<Config>())?;
        return Ok(ExitCode::SUCCESS);
    }
    match Source::of(&args.file)?.load(&System::probe()) {
        Ok((config, warnings)) => {
            print_findings(&warnings);
            print(&drover_config::effective(&config))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(findings) => {
            print_findings(&findings);
            Ok(ExitCode::FAILURE)
        }
    }
}
