//! What a run has: the daemon, its clients, what was seen, and what is to be undone later.

use std::collections::VecDeque;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use drover_tests::status::Status;
use drover_tests::variants::Variants;
use drover_tests::{Client, Config, Drover, Random, binary, descriptors, masters, process};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::Options;
use crate::clients::Clients;
use crate::ledger::Ledger;
use crate::log_disk::LogDisk;

/// How many events are kept to be told of where something is lost.
const RECENT: usize = 12;
/// How much of the log is told where something is wrong.
const LOG_LINES: usize = 120;

/// A run under way.
pub(crate) struct Run {
    pub(crate) random: Random,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) clients: Clients,
    /// What was wrong so far.
    pub(crate) complaints: Vec<String>,
    pub(crate) before: Figures,
    pub(crate) begun: Instant,
    later: Vec<(Instant, Undo)>,
    verbose: bool,
    /// What happened of late.
    recent: VecDeque<String>,
    /// Losses that have been told of.
    told: usize,
    pub(crate) drover: Drover,
    pub(crate) log_disk: LogDisk,
    pub(crate) variants: Variants,
    /// Keeps the port that no config can have.
    _somebody: std::net::TcpListener,
}

/// What a disturbance leaves behind, and is ended by.
pub(crate) enum Undo {
    /// A worker is stopped.
    Continue(Pid),
    /// Connections are open that ask for nothing.
    HangUp(#[expect(dead_code, reason = "held open, and closed by being dropped")] Vec<Client>),
    /// The log disk is full.
    FreeLogDisk,
    /// The clock is so many seconds ahead of the time.
    StepClock(i64),
}

/// What the end is compared with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) descriptors: Vec<String>,
    pub(crate) memory_kib: u64,
    pub(crate) free_slots: Vec<u64>,
    pub(crate) shared_memory: Vec<String>,
}

impl Run {
    /// Starts the daemon and its clients.
    pub(crate) fn start(options: &Options) -> Run {
        let variants = Variants::new();
        let log_disk = LogDisk::new(&variants.logs);
        if let LogDisk::Shared(reason) = &log_disk {
            println!("the log disk is not one of its own ({reason}): files get a limit of size instead");
        }
        if !options.clock_steps {
            println!("the clock is not stepped: it is the whole machine's (--clock-steps)");
        }
        let somebody = std::net::TcpListener::bind(variants.taken.address()).expect("the port is ours");
        let drover = variants.start();
        let ledger = Arc::new(Ledger::default());
        let before = Figures::of(&drover, drover.master()).expect("it runs");
        let clients = Clients::start(&variants, &ledger, options.seed);
        Run {
            random: Random::new(options.seed),
            ledger,
            clients,
            complaints: Vec::new(),
            before,
            begun: Instant::now(),
            later: Vec::new(),
            verbose: options.verbose,
            recent: VecDeque::new(),
            told: 0,
            drover,
            log_disk,
            variants,
            _somebody: somebody,
        }
    }

    /// The master that has the names now.
    pub(crate) fn master(&self) -> Pid {
        masters::try_named(&self.variants.directory, "drover.pid").unwrap_or_else(|| self.drover.master())
    }

    /// The living workers of all masters.
    pub(crate) fn workers(&self) -> Vec<Pid> {
        let processes = self.drover.processes().into_iter();
        processes.filter(|pid| process::title(*pid).contains(": worker ")).collect()
    }

    /// Prints what happens, where that is wanted.
    pub(crate) fn tell(&mut self, what: &str) {
        let line = format!("{:>7.2} {what}", self.begun.elapsed().as_secs_f64());
        if self.verbose {
            println!("{line}");
        }
        self.recent.push_back(line);
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
    }

    /// Where requests were lost since it was looked last: what happened before that, and what the daemon logged.
    pub(crate) fn tell_of_losses(&mut self) {
        let losses = self.ledger.lost();
        if losses.len() <= self.told {
            return;
        }
        println!("at {:.2} s requests are lost:", self.begun.elapsed().as_secs_f64());
        losses[self.told..].iter().for_each(|loss| println!("  {loss}"));
        self.told = losses.len();
        println!("what happened last:");
        self.recent.iter().for_each(|line| println!("  {line}"));
        tell_log(&self.variants, &self.drover);
    }

    /// Takes note of something that should not be.
    pub(crate) fn complain(&mut self, what: &str) {
        self.tell(&format!("WRONG: {what}"));
        self.complaints.push(format!("at {:.1} s: {what}", self.begun.elapsed().as_secs_f64()));
    }

    /// Has something undone after a while.
    pub(crate) fn undo_after(&mut self, time: Duration, undo: Undo) {
        self.later.push((Instant::now() + time, undo));
    }

    /// Undoes what is due, or everything.
    pub(crate) fn undo(&mut self, everything: bool) {
        let now = Instant::now();
        let (due, later) =
            std::mem::take(&mut self.later).into_iter().partition(|(at, _)| everything || *at <= now);
        self.later = later;
        let due: Vec<(Instant, Undo)> = due;
        for (_, undo) in due {
            let undone = match undo {
                Undo::Continue(pid) => {
                    process::send(pid, Signal::SIGCONT);
                    Ok(())
                }
                Undo::HangUp(_) => Ok(()),
                Undo::FreeLogDisk => self.log_disk.free(&self.drover),
                Undo::StepClock(ahead) => step_clock(-ahead),
            };
            if let Err(reason) = undone {
                self.complain(&format!("cannot undo a disturbance: {reason}"));
            }
        }
    }

    /// Whether a disturbance that ends the same way as `undo` is still in force.
    pub(crate) fn has_pending(&self, undo: &Undo) -> bool {
        let kind = std::mem::discriminant(undo);
        self.later.iter().any(|(_, pending)| std::mem::discriminant(pending) == kind)
    }

    /// Writes a config and has the daemon take it; fails with its reason.
    pub(crate) fn reload(&mut self, config: &Config) -> Result<(), String> {
        config.write(&self.variants.directory);
        self.command("reload")
    }

    /// Runs a subcommand to its end, and undoes meanwhile what it may be waiting for; fails with what it says.
    pub(crate) fn command(&mut self, name: &str) -> Result<(), String> {
        self.command_with(name, &[])
    }

    /// The same with options.
    pub(crate) fn command_with(&mut self, name: &str, options: &[&str]) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("drover {name}: {error}");
        let mut command = Command::new(binary::drover());
        command.arg(name).args(options).arg("-c").arg(self.drover.config());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(failed)?;
        while child.try_wait().map_err(failed)?.is_none() {
            self.undo(false);
            thread::sleep(Duration::from_millis(5));
        }
        let output = child.wait_with_output().map_err(failed)?;
        if output.status.success() {
            return Ok(());
        }
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

impl Figures {
    pub(crate) fn of(drover: &Drover, master: Pid) -> Result<Figures, String> {
        let status = Status::read(drover.config())?;
        let mut shared_memory: Vec<String> = std::fs::read_dir("/dev/shm")
            .map(|entries| entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect())
            .unwrap_or_default();
        // Those of other programs come and go.
        shared_memory.retain(|name| name.contains("drover"));
        Ok(Figures {
            descriptors: descriptors::kinds(master),
            memory_kib: process::anonymous_memory(master).ok_or("the master is gone")?,
            free_slots: status.workers.iter().map(|worker| worker.free_slots).collect(),
            shared_memory,
        })
    }
}

/// The end of the log, for whoever wants to know why.
pub(crate) fn tell_log(variants: &Variants, drover: &Drover) {
    let log = drover.log()
        + &variants.directory.read("logs/drover.log.1")
        + &variants.directory.read("logs/drover.log");
    let lines: Vec<&str> = log.lines().collect();
    println!("the last lines of the log:");
    lines[lines.len().saturating_sub(LOG_LINES)..].iter().for_each(|line| println!("  {line}"));
}

/// Moves the wall clock of this machine.
pub(crate) fn step_clock(seconds: i64) -> Result<(), String> {
    use nix::sys::time::{TimeSpec, TimeValLike};
    use nix::time::{ClockId, clock_gettime, clock_settime};
    let stepped = clock_gettime(ClockId::CLOCK_REALTIME)
        .and_then(|now| clock_settime(ClockId::CLOCK_REALTIME, now + TimeSpec::seconds(seconds)));
    stepped.map_err(|errno| format!("cannot step the clock: {errno}"))
}
