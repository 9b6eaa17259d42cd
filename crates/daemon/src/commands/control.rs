//! `drover reload`, `stop` and `reopen`: signals to the master of a config, and what became of them.
//!
//! The master is whoever holds the lock on the scoreboard: no pid that was written down is trusted.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::print;
use crate::cli::{ConfigFile, StopArgs};
use crate::config::{Source, System};
use crate::owned_path;
use crate::scoreboard::{self, UpgradeWatch, Watch};

/// How often a change is looked for.
pub(super) const POLL: Duration = Duration::from_millis(20);
/// A reload takes as long as the new workers need; the master gives up before this.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(120);

/// Has the master read its config again and waits for the verdict.
pub(crate) fn reload(args: &ConfigFile) -> io::Result<ExitCode> {
    let watch = Watch::open(&scoreboard_path(&Source::of(args)?)).map_err(io::Error::other)?;
    let master = watch.master().map_err(io::Error::other)?;
    // A reload that began before this one was asked for may have read the config of before.
    let (begun, _) = watch.reloads();
    send(master, Signal::SIGHUP)?;
    let asked = Instant::now();
    while watch.reloads().1 <= begun {
        if watch.master().ok() != Some(master) {
            return Err(io::Error::other(
                "the master ended before there was a verdict; its log has the reason",
            ));
        }
        if asked.elapsed() > RELOAD_TIMEOUT {
            return Err(io::Error::other(format!(
                "there was no verdict within {RELOAD_TIMEOUT:?}; `drover status` shows more"
            )));
        }
        sleep(POLL);
    }
    let snapshot = watch.snapshot().map_err(io::Error::other)?;
    let Some(verdict) = snapshot.master.verdict else {
        return Err(io::Error::other("there is no verdict"));
    };
    if verdict.accepted {
        print(&format!("{}\n", verdict.message))?;
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("{}", verdict.message.trim_end());
    eprintln!("\nrefused: generation {} goes on", snapshot.master.generation);
    Ok(ExitCode::FAILURE)
}

/// Has the daemon end and waits until it has.
pub(crate) fn stop(args: &StopArgs) -> io::Result<ExitCode> {
    let masters = masters(&args.file)?;
    let signal = if args.fast { Signal::SIGTERM } else { Signal::SIGQUIT };
    for (_, master) in &masters {
        send(*master, signal)?;
    }
    for (watch, master) in masters {
        while watch.master() == Some(master) {
            sleep(POLL);
        }
        print(&format!("drover (process {master}) has stopped\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Has masters and workers open their log files anew.
pub(crate) fn reopen(args: &ConfigFile) -> io::Result<ExitCode> {
    for (_, master) in masters(args)? {
        send(master, Signal::SIGUSR1)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The masters of a config that live, of any version, since signals mean the same in all of them. Where an upgrade left two,
/// both, the old one first: it would go on by itself if the new one ended before it.
fn masters(args: &ConfigFile) -> io::Result<Vec<(UpgradeWatch, Pid)>> {
    let path = scoreboard_path(&Source::of(args)?);
    let current = UpgradeWatch::open(&path).map_err(io::Error::other)?;
    let old = UpgradeWatch::open(&owned_path::aside(&path)).ok();
    let living = |watch: UpgradeWatch| watch.master().map(|master| (watch, master));
    Ok(old.into_iter().chain([current]).filter_map(living).collect())
}

pub(super) fn send(master: Pid, signal: Signal) -> io::Result<()> {
    kill(master, signal).map_err(|errno| match errno {
        Errno::EPERM => io::Error::other(format!(
            "not allowed to signal drover (process {master}): use its user, or root"
        )),
        errno => io::Error::other(format!("cannot signal drover (process {master}): {errno}")),
    })
}

/// Where the scoreboard of a config is. One that was removed from under its daemon is found where that daemon
/// has it open.
pub(super) fn scoreboard_path(source: &Source) -> PathBuf {
    let path = configured_path(source);
    let Some(open) = crate::lock::removed(&path) else { return path };
    eprintln!("drover: {} was removed while drover runs; a restart puts it back", path.display());
    open
}

fn configured_path(source: &Source) -> PathBuf {
    let system = System::probe();
    let directory = match source.load(&system) {
        Ok((config, _)) => config.process.runtime_dir,
        Err(_) => source.runtime_dir_in_broken(),
    };
    scoreboard::path_in(&directory.unwrap_or_else(|| system.runtime_dir()))
}
