//! The `drover` program.

mod cli;
mod commands;
mod config;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};

fn main() -> ExitCode {
    let result = match &Cli::parse().command {
        Command::Check(args) => commands::check(args),
        Command::Config(args) => commands::config(args),
        _ => Err(std::io::Error::other("not part of this build")),
    };
    result.unwrap_or_else(|error| {
        eprintln!("drover: {error}");
        ExitCode::FAILURE
    })
}
