//! The command line.

use std::path::PathBuf;

use clap::Parser;

use crate::servers::Kind;

/// Compares drover with nginx, h2o and haproxy: CPU time, system calls and instructions per request.
#[derive(Debug, Parser)]
#[command(name = "bench")]
pub(crate) struct Options {
    /// Rows to measure, by name [default: all]
    #[arg(long, value_delimiter = ',')]
    pub rows: Vec<String>,
    /// Servers to measure; ratios are to the first
    #[arg(long, value_delimiter = ',', default_values = ["drover", "nginx", "h2o", "haproxy"])]
    pub servers: Vec<Kind>,
    /// Seconds of load a round and server
    #[arg(long, default_value_t = 3)]
    pub seconds: u32,
    /// Rounds over all servers
    #[arg(long, default_value_t = 5)]
    pub rounds: u32,
    /// Leave out system calls and instructions
    #[arg(long)]
    pub no_counts: bool,
    /// Also write the figures to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

impl Options {
    pub(crate) fn warm_up(&self) -> u32 {
        1
    }
}
