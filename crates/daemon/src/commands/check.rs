//! `drover check`: everything that is wrong with a config, or that nothing is.

use std::io;
use std::process::ExitCode;

use drover_config::Findings;

use super::{print, print_findings};
use crate::cli::ConfigFile;
use crate::config::{Config, Source, System};
use crate::text::counted;

/// Checks the config, prints the findings and a line that sums up.
pub(crate) fn check(args: &ConfigFile) -> io::Result<ExitCode> {
    let system = System::probe();
    let source = Source::of(args)?;
    match source.load(&system) {
        Ok((config, warnings)) => {
            print_findings(&warnings);
            print(&format!("{source}: {}\n", summary(&config, &warnings, &system)))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(findings) => {
            print_findings(&findings);
            eprint!("\n{}", failure(&source, &findings));
            Ok(ExitCode::FAILURE)
        }
    }
}

/// `ok, 1 warning: 4 workers of 512 slots, listening on 0.0.0.0:8080 (exclusive)`
fn summary(config: &Config, warnings: &Findings, system: &System) -> String {
    let ok = match warnings.warnings() {
        0 => "ok".to_owned(),
        count => format!("ok, {}", counted(count, "warning")),
    };
    let workers = counted(config.worker_count(system) as usize, "worker");
    let slots = counted(*config.events.worker_connections as usize, "slot");
    let listeners: Vec<String> = config
        .listeners()
        .iter()
        .map(|listener| format!("{listener} ({})", config.accept_in_force(listener, system).accept))
        .collect();
    match listeners.is_empty() {
        true => format!("{ok}: {workers} of {slots}, listening nowhere"),
        false => format!("{ok}: {workers} of {slots}, listening on {}", listeners.join(", ")),
    }
}

fn failure(source: &Source, findings: &Findings) -> String {
    let errors = counted(findings.errors(), "error");
    match findings.warnings() {
        0 => format!("{source}: {errors}\n"),
        count => format!("{source}: {errors}, {}\n", counted(count, "warning")),
    }
}
