//! `make chaos`: clients of every kind, while a running drover is reloaded, its workers are killed and stopped,
//! descriptors and log disk run out, and so on ([`actions`] has the table).
//!
//! At the end nobody has lost a request but those whose connection was on a worker at the moment it was killed,
//! every slot is free, the master has the descriptors and about the memory that it had, and nothing is left
//! over: no process, no file, no shared memory. What was seen against that is printed, and the exit code says
//! whether there was anything.
//!
//! A seed fixes the order of what happens, not the moments at which it meets the clients.

#![allow(clippy::print_stdout, reason = "a program whose output is its result")]

mod actions;
mod aftermath;
mod clients;
mod ledger;
mod log_disk;
mod run;

use std::process::ExitCode;

use clap::Parser;

use run::Run;

/// Disturbs a running drover and its clients in every way there is.
#[derive(Debug, Parser)]
#[command(name = "chaos")]
pub(crate) struct Options {
    /// How long
    #[arg(long, default_value_t = 180)]
    pub seconds: u64,
    /// What fixes the order of events
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Also step the clock of this machine, which everybody on it notices
    #[arg(long)]
    pub clock_steps: bool,
    /// Print each event
    #[arg(long)]
    pub verbose: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let mut run = Run::start(&options);
    actions::disturb(&mut run, &options);
    let complaints = aftermath::examine(run);
    for complaint in &complaints {
        println!("WRONG: {complaint}");
    }
    if complaints.is_empty() {
        println!("nothing was wrong");
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
