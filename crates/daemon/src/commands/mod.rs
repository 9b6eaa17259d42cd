//! The subcommands, one function each in a module of its own.

mod check;
mod config;
mod control;
mod import;
mod run;
mod status;
mod top;
mod upgrade;

use std::io::{self, IsTerminal, Write};

use drover_config::{Findings, Style};

pub(crate) use check::check;
pub(crate) use config::config;
pub(crate) use control::{reload, reopen, stop};
pub(crate) use import::import;
pub(crate) use run::run;
pub(crate) use status::{parse_every, status};
pub(crate) use top::top;
pub(crate) use upgrade::upgrade;

/// Prints findings to standard error, in colour where it is a terminal that wants it (<https://no-color.org>).
pub(crate) fn print_findings(findings: &Findings) {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let style = if !plain && io::stderr().is_terminal() { Style::Coloured } else { Style::Plain };
    let mut stderr = io::stderr().lock();
    // Nobody is left to tell if standard error is closed.
    let _ = stderr.write_all(findings.render(style).as_bytes());
}

/// Writes to standard output; a reader that went away early, such as `head`, is no error.
pub(crate) fn print(text: &str) -> io::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}
