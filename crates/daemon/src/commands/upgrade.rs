//! `drover upgrade`: has a new executable take over from a running master, and the old master leave.

use std::io;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::control::{POLL, scoreboard_path, send};
use super::print;
use crate::cli::UpgradeArgs;
use crate::config::{Source, System};
use crate::lock;
use crate::scoreboard::{UpgradeVerdict, UpgradeWatch};

/// What the master may take for its verdict beyond the time that it gives the new one.
const GRACE: Duration = Duration::from_secs(60);

/// Does the whole sequence: USR2, the new master's workers serve, QUIT to the old master, its end.
pub(crate) fn upgrade(args: &UpgradeArgs) -> io::Result<ExitCode> {
    let source = Source::of(&args.file)?;
    let path = scoreboard_path(&source);
    let watch = UpgradeWatch::open(&path).map_err(io::Error::other)?;
    let Some(old) = watch.master() else {
        return Err(io::Error::other("no drover runs with this configuration"));
    };
    let timeout = source
        .load(&System::probe())
        .map_or_else(|_| crate::config::Process::default(), |(config, _)| config.process)
        .upgrade_timeout;
    let verdict = ask(&watch, old, timeout + GRACE)?;
    if !verdict.accepted {
        eprintln!("{}", verdict.message.trim_end());
        eprintln!("\nno upgrade: process {old} goes on");
        return Ok(ExitCode::FAILURE);
    }
    print(&format!("{}\n", verdict.message))?;
    let new = lock::holder(&path).filter(|new| *new != old);
    if let (true, Some(new)) = (args.keep_old, new) {
        print(&format!(
            "process {old} serves too: kill -QUIT {old} makes the upgrade final, kill -QUIT {new} takes it back\n"
        ))?;
        return Ok(ExitCode::SUCCESS);
    }
    if new.is_some() {
        send(old, Signal::SIGQUIT)?;
        while watch.master() == Some(old) {
            sleep(POLL);
        }
    }
    if new.is_none() || lock::holder(&path) != new {
        return Err(io::Error::other("the new master has ended meanwhile; its log has the reason"));
    }
    print(&format!("process {old} has left\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Asks the master for an upgrade and waits for its verdict.
fn ask(watch: &UpgradeWatch, old: Pid, timeout: Duration) -> io::Result<UpgradeVerdict> {
    let (begun, ended) = watch.upgrades();
    if begun != ended {
        return Err(io::Error::other("an upgrade is under way already"));
    }
    send(old, Signal::SIGUSR2)?;
    let asked = Instant::now();
    while watch.upgrades().1 <= begun {
        if watch.master() != Some(old) {
            return Err(io::Error::other(
                "the master ended before there was a verdict; its log has the reason",
            ));
        }
        if asked.elapsed() > timeout {
            return Err(io::Error::other(format!(
                "there was no verdict within {timeout:?}; the log of process {old} may say why"
            )));
        }
        sleep(POLL);
    }
    Ok(watch.verdict())
}
