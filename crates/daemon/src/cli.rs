//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::commands::parse_every;
use crate::config::DEFAULT_PATH;

/// A pre-fork worker daemon: one master, many workers, one event loop each.
#[derive(Parser, Debug)]
#[command(name = "drover", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What drover is to do.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Start the daemon and stay until it is stopped
    ///
    /// Reads and checks the config, opens the listen sockets and starts the workers. Stays in the foreground unless
    /// the config has `daemon = true` for the process.
    Run(ConfigFile),
    /// Check the config and say everything that is wrong with it
    ///
    /// Exits with 0 if the config can be used, and with 1 otherwise. Opens nothing that disturbs a running daemon.
    Check(ConfigFile),
    /// Print the config that is in effect, every default filled in
    ///
    /// What is printed is a config file that means the same.
    Config(ConfigArgs),
    /// Have a running daemon read its config again
    ///
    /// Waits for the verdict. Exits with 0 once the new workers serve, and with 1 and what is wrong if the config
    /// cannot be used; the daemon then goes on with the old one.
    Reload(ConfigFile),
    /// Stop a running daemon, letting its connections finish
    Stop(StopArgs),
    /// Have a running daemon open its log files again, after they were moved
    Reopen(ConfigFile),
    /// Write the config that does what an nginx.conf does
    ///
    /// Prints the config to standard output, and to standard error what became of each directive: what was carried
    /// over, with what difference, and what was not. A directive that was not is left as a comment at its place.
    Import(ImportArgs),
    /// Have the executable that is installed by now take over from a running daemon
    ///
    /// Starts it beside the running master with the same listen sockets, waits until its workers serve, and has the
    /// old master leave once its connections have finished. Exits with 0 then, and with 1 and what is wrong if the new
    /// executable does not come to serve; the old master then goes on. No connection is lost either way.
    Upgrade(UpgradeArgs),
    /// Show the master, its workers and listeners, and what is off
    Status(StatusArgs),
    /// Watch the workers live in the terminal
    Top(TopArgs),
}

/// Which daemon: all else is found through its config.
#[derive(Args, Debug)]
pub(crate) struct ConfigFile {
    /// The config file
    #[arg(short = 'c', long = "config", value_name = "FILE", default_value = DEFAULT_PATH)]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) nginx: NginxConf,
}

/// An nginx.conf instead of a config of drover's own.
#[derive(Args, Debug)]
pub(crate) struct NginxConf {
    /// Run what an nginx.conf says instead; it is read anew by each reload
    ///
    /// What drover cannot carry over is an error: `drover import --report` shows it.
    #[arg(long = "nginx-conf", value_name = "FILE", conflicts_with = "path")]
    pub(crate) file: Option<PathBuf>,
    /// Where relative paths of the nginx.conf start, and its own too; else the directory that it is in
    #[arg(short = 'p', long = "prefix", value_name = "PREFIX", requires = "file")]
    pub(crate) prefix: Option<PathBuf>,
    /// Warn of directives that cannot be carried over, and run without them
    #[arg(long, requires = "file")]
    pub(crate) lenient: bool,
}

/// Arguments of `drover config`.
#[derive(Args, Debug)]
pub(crate) struct ConfigArgs {
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    /// Print the reference of all keys instead, in Markdown
    #[arg(long)]
    pub(crate) reference: bool,
}

/// Arguments of `drover stop`.
#[derive(Args, Debug)]
pub(crate) struct StopArgs {
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    /// Close all connections at once instead
    #[arg(long)]
    pub(crate) fast: bool,
}

/// Arguments of `drover import`.
#[derive(Args, Debug)]
pub(crate) struct ImportArgs {
    /// The nginx.conf
    #[arg(value_name = "FILE", required_unless_present = "reference")]
    pub(crate) path: Option<PathBuf>,
    /// Where relative paths in it start, and its own too; else they stay relative
    #[arg(short = 'p', long, value_name = "PREFIX")]
    pub(crate) prefix: Option<PathBuf>,
    /// Print only what became of each directive
    #[arg(long)]
    pub(crate) report: bool,
    /// Exit with 2 if something was not carried over
    #[arg(long)]
    pub(crate) strict: bool,
    /// Print what each directive becomes instead, in Markdown
    #[arg(long, conflicts_with_all = ["path", "prefix", "report", "strict"])]
    pub(crate) reference: bool,
}

/// Arguments of `drover upgrade`.
#[derive(Args, Debug)]
pub(crate) struct UpgradeArgs {
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    /// Leave the old master running beside the new one, so that the upgrade can be taken back
    #[arg(long)]
    pub(crate) keep_old: bool,
}

/// Arguments of `drover status`.
#[derive(Args, Debug)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    /// Print JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the schema of that JSON instead: what each key means
    #[arg(long)]
    pub(crate) schema: bool,
    /// Print it again each time this much has passed, until the daemon ends; JSON then has one object a line
    #[arg(long, value_name = "TIME", value_parser = parse_every)]
    pub(crate) every: Option<Duration>,
}

/// Arguments of `drover top`.
#[derive(Args, Debug)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    /// Time between two looks
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_every)]
    pub(crate) every: Duration,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        super::Cli::command().debug_assert();
    }
}
