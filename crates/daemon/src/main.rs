//! The `drover` program: command line, configuration, master, workers, signals, logs, scoreboard.
//!
//! Read in this order: `commands/run.rs` (the start), `master.rs` (the loop that supervises), `reload.rs`
//! (from a wish to a generation that serves), `worker.rs` (what a forked child does), `sockets.rs` (what
//! a reload does to listen sockets), `upgrade/` (two masters), `scoreboard/` (what everyone may see).

mod activation;
mod budget;
mod cli;
mod clock;
mod commands;
mod complaint;
mod config;
mod daemonise;
mod datagrams;
mod descriptors;
mod generation;
mod leaving;
mod lock;
mod log;
mod log_limit;
mod log_line;
mod log_relay;
mod master;
mod message;
mod owned_path;
mod pidfile;
mod plan;
mod privileges;
mod process;
mod reload;
mod report;
mod respawn;
mod scoreboard;
mod services;
mod signals;
mod sockets;
mod stall;
mod supervise;
mod systemd;
mod text;
mod unix_socket;
mod upgrade;
mod worker;
mod workers;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};

fn main() -> ExitCode {
    let result = match &Cli::parse().command {
        Command::Run(args) => commands::run(args),
        Command::Check(args) => commands::check(args),
        Command::Config(args) => commands::config(args),
        Command::Reload(args) => commands::reload(args),
        Command::Stop(args) => commands::stop(args),
        Command::Reopen(args) => commands::reopen(args),
        Command::Import(args) => commands::import(args),
        Command::Upgrade(args) => commands::upgrade(args),
        Command::Status(args) => commands::status(args),
        Command::Top(args) => commands::top(args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("drover: {error}");
        ExitCode::FAILURE
    })
}
