//! `drover run`: the start, in its order.
//!
//! Read and check the config, go into the background if asked to, make the runtime directory and the
//! scoreboard, open the listen sockets, write the pid file, start the workers, say that they are ready.
//! Whatever fails ends it with a message that names the file, the line or the address.

use std::fs::DirBuilder;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;

use drover_config::{Findings, Style};
use drover_sys::title::Title;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Pid, Uid};
use thiserror::Error;
use tracing::debug;

use super::print_findings;
use crate::activation::{self, ActivationError, Passed};
use crate::cli::ConfigFile;
use crate::config::{Config, Source, System};
use crate::daemonise::{self, Launcher, output_without_waiting};
use crate::datagrams::KnownSeats;
use crate::generation::{Generation, PrepareError, address_of};
use crate::lock::LockError;
use crate::log;
use crate::master::Master;
use crate::pidfile::PidFile;
use crate::reload::log_warnings;
use crate::scoreboard::{Scoreboard, ScoreboardError};
use crate::signals::{self, Signals};
use crate::sockets::{Address, Sockets};
use crate::systemd::Notifier;
use crate::upgrade::inherit;
use crate::upgrade::{Executable, Predecessor, Upgrade};
use crate::worker::{self, Start};

/// Why drover does not start.
#[derive(Debug, Error)]
enum StartError {
    #[error(
        "cannot make the runtime directory {path}: {source}; set [process] runtime_dir to one that can be made"
    )]
    RuntimeDir { path: PathBuf, source: io::Error },
    #[error(
        "others may change {path}: {reason}; whoever does decides what pid file and scoreboard say. Set [process] \
         runtime_dir to a directory of this user's own"
    )]
    SharedRuntimeDir { path: PathBuf, reason: &'static str },
    #[error(transparent)]
    Scoreboard(#[from] ScoreboardError),
    #[error(transparent)]
    PidFile(#[from] LockError),
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    #[error(transparent)]
    Activation(#[from] ActivationError),
    #[error("a process without a master cannot take over from one: [process] master = false")]
    NoMaster,
    #[error("cannot open the log: {0}")]
    Log(io::Error),
    #[error("cannot {what}: {source}")]
    System { what: &'static str, source: io::Error },
}

/// What this process was started with.
struct Inheritance {
    /// The master that it takes over from, if there is one.
    predecessor: Option<Predecessor>,
    /// That one's listen sockets.
    sockets: Sockets,
    /// Sockets of systemd's.
    passed: Vec<Passed>,
}

/// Runs the daemon, or in a worker's process the worker, to its end.
pub(crate) fn run(args: &ConfigFile) -> io::Result<ExitCode> {
    // Before anything is opened.
    let passed = activation::passed()?;
    let (predecessor, sockets) = match inherit::predecessor().map_err(io::Error::other)? {
        Some((predecessor, sockets)) => (Some(predecessor), sockets),
        None => (None, Sockets::default()),
    };
    let mut inheritance = Inheritance { predecessor, sockets, passed };
    let system = System::probe();
    let source = Source::of(args)?;
    let (config, warnings) = match source.load(&system) {
        Ok(loaded) => loaded,
        Err(findings) => {
            tell(inheritance.predecessor.as_ref(), &findings.render(Style::Plain));
            print_findings(&findings);
            return Ok(ExitCode::FAILURE);
        }
    };
    if config.people_read_stderr() {
        print_findings(&warnings);
    }
    match start(source.absolute()?, Rc::new(config), &system, &warnings, &mut inheritance) {
        Ok(code) => Ok(code),
        Err(error) => {
            tell(inheritance.predecessor.as_ref(), &error.to_string());
            daemonise::tell(&format!("drover: {error}"));
            Ok(ExitCode::FAILURE)
        }
    }
}

/// An old master that waits for this one hears why it waits in vain.
fn tell(predecessor: Option<&Predecessor>, reason: &str) {
    if let Some(predecessor) = predecessor {
        predecessor.link.send_failure(reason);
    }
}

/// Everything up to the first workers; the old master is left where it is if this fails.
fn start(
    source: Source,
    config: Rc<Config>,
    system: &System,
    warnings: &Findings,
    Inheritance { predecessor, sockets: inherited, passed }: &mut Inheritance,
) -> Result<ExitCode, StartError> {
    let failed = |what| move |source| StartError::System { what, source };
    let executable = Executable::of_this_process(&source).map_err(failed("find out what was started"))?;
    set_up_process()?;
    let launcher = match launcher(&config, predecessor.is_some())? {
        Ok(launcher) => launcher,
        Err(code) => return Ok(code),
    };
    let pid_path = config.process.pid_file.as_deref();
    if predecessor.is_none() {
        pid_path.map_or(Ok(()), PidFile::check_free)?;
    }
    let board = make_scoreboard(&config, predecessor.is_some())?;
    log::apply(log::Settings::from_config(&config), None).map_err(StartError::Log)?;
    log::set_process("master");
    log::log_panics();
    if !config.people_read_stderr() {
        log_warnings(warnings);
    }
    if predecessor.is_none() {
        *inherited = activation::assign(std::mem::take(passed), &wanted_by(&config))?;
    }
    let number = predecessor.as_ref().map_or(0, |predecessor| predecessor.generation) + 1;
    let first = Generation::prepare(number, Rc::clone(&config), system, inherited)?;
    let make_pid_file = if predecessor.is_some() { PidFile::create_named_later } else { PidFile::create };
    let pid_file = pid_path.map(make_pid_file).transpose()?;
    if !*config.process.master {
        return match predecessor {
            Some(_) => Err(StartError::NoMaster),
            None => Ok(alone(first, board, launcher, pid_file)),
        };
    }
    let signals = Signals::new().map_err(failed("read signals"))?;
    let title = set_title(&config);
    let generation = Generation { sockets: std::mem::take(inherited), ..Generation::none(config) };
    Ok(Master::new(
        source,
        board,
        signals,
        title,
        Notifier::from_environment(predecessor.is_none()),
        pid_file,
        launcher,
        generation,
        Upgrade::new(executable, predecessor.take()),
    )
    .run(first))
}

fn wanted_by(config: &Config) -> Vec<Address> {
    config.listeners().iter().map(address_of).collect()
}

/// Signals, output and modes as every process of drover has them.
fn set_up_process() -> Result<(), StartError> {
    let failed = |what| move |source| StartError::System { what, source };
    drover_sys::signal::reset_ignored().map_err(failed("reset signals"))?;
    signals::block().map_err(failed("block signals"))?;
    output_without_waiting();
    // Files are made with the modes that they are asked for.
    umask(Mode::from_bits_truncate(0o022));
    Ok(())
}

/// Whoever waits for the workers; or in the process that stays in the foreground, the code that it is to end with.
fn launcher(config: &Config, takes_over: bool) -> Result<Result<Launcher, ExitCode>, StartError> {
    match config.process.daemon && *config.process.master {
        // Whoever started the first master was told then.
        _ if takes_over => Ok(Ok(Launcher::Told)),
        true => {
            let failed = |source| StartError::System { what: "go into the background", source };
            Launcher::background().map_err(failed)
        }
        false => Ok(Ok(Launcher::Foreground)),
    }
}

fn make_scoreboard(config: &Config, named_later: bool) -> Result<Scoreboard, StartError> {
    // Filled in when the config was read.
    let path = config.process.runtime_dir.clone().unwrap_or_default();
    let made = DirBuilder::new().recursive(true).mode(0o755).create(&path);
    let failed = |source| StartError::RuntimeDir { path: path.clone(), source };
    made.map_err(failed)?;
    let metadata = std::fs::metadata(&path).map_err(failed)?;
    if let Some(reason) = why_shared(metadata.uid(), metadata.mode(), Uid::effective()) {
        return Err(StartError::SharedRuntimeDir { path, reason });
    }
    Ok(if named_later { Scoreboard::create_named_later(&path) } else { Scoreboard::create(&path) }?)
}

/// Why a directory with this owner and mode is not safe for this user's files. Anyone can have made the default
/// one of an ordinary user, in /tmp, before.
fn why_shared(owner: u32, mode: u32, user: Uid) -> Option<&'static str> {
    let (by_all, sticky) = (mode & 0o002 != 0, mode & 0o1000 != 0);
    match owner {
        owner if owner != 0 && owner != user.as_raw() && !user.is_root() => {
            Some("it belongs to another user")
        }
        _ if by_all && !sticky => Some("every user may write to it"),
        _ => None,
    }
}

fn set_title(config: &Config) -> Option<Title> {
    let set = Title::new().and_then(|mut title| {
        title.set(&format!("{}: master", config.process.title))?;
        Ok(title)
    });
    set.inspect_err(|error| debug!("no title: {error}")).ok()
}

/// One process that is master and worker, for debugging: no forks, no reloads.
fn alone(
    mut first: Generation,
    board: Scoreboard,
    mut launcher: Launcher,
    pid_file: Option<PidFile>,
) -> ExitCode {
    let seated = first.seat_workers(&board);
    first.place_servers(&board);
    board.show_servers(first.servers);
    let (Ok(()), Some(plans), Some(seat)) = (seated, first.plans.clone(), first.seats.first()) else {
        return ExitCode::FAILURE;
    };
    let block = seat.block.clone();
    block.begin();
    first.sockets.commit();
    first.sockets.join_datagrams();
    board.show_listeners(&first.sockets.listed(&first.strategies), std::iter::empty::<OwnedFd>(), 1);
    board.set_generation(1, 1);
    board.set_state(crate::scoreboard::MasterState::Serving);
    let start = Start {
        number: 0,
        generation: 1,
        workers: 1,
        config: Rc::clone(&first.config),
        plans,
        identity: first.identity.clone(),
        sockets: first.sockets.for_worker(0, 1),
        strategies: Rc::clone(&first.strategies),
        block,
        seats: Rc::clone(&first.seats),
        known_seats: KnownSeats::default(),
        mutex: board.accept_mutex(Pid::this()),
        channel: None,
        complaint: None,
        title: None,
    };
    let line = format!(
        "drover {}: {}, one process without a master; stop with Ctrl-C",
        env!("CARGO_PKG_VERSION"),
        first.places().unwrap_or_else(|| "listening nowhere".to_owned())
    );
    launcher.ready(first.config.people_read_stderr().then_some(&line));
    // Keeps the files of unix sockets until the end.
    let code = worker::run(start);
    drop((first, pid_file, board));
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_directory_is_nobody_elses() {
        let (root, user) = (Uid::from_raw(0), Uid::from_raw(1000));
        assert_eq!(why_shared(1000, 0o755, user), None);
        assert_eq!(why_shared(0, 0o1777, user), None, "what a user makes in /tmp stays that user's");
        assert_eq!(why_shared(1000, 0o755, root), None);
        assert!(why_shared(1001, 0o755, user).is_some());
        assert!(why_shared(0, 0o777, user).is_some());
        assert!(why_shared(1000, 0o777, user).is_some());
        assert!(why_shared(0, 0o777, root).is_some());
    }
}
