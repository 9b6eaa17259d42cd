//! The master's table of workers: who they are, what they were asked, and when they are killed.
//!
//! ```text
//! Starting ──Ready──> Serving ──Drain──> Draining ──┐
//!     └──────────────────┴────────Stop──> Stopping ─┴─> ended
//! ```
//!
//! A worker that ends while Starting or Serving ended unexpectedly. Draining and Stopping have a deadline,
//! after which the process is killed.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitStatus;
use std::rc::Rc;
use std::time::{Duration, Instant};

use drover_event::channel::{ChannelEnd, Received};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tracing::{debug, error, warn};

use crate::datagrams::DatagramSeat;
use crate::message::{Command, Report};
use crate::scoreboard::Block;
use crate::stall::Heartbeat;

/// How long a worker that was asked to end at once may take.
pub(crate) const FAST_STOP: Duration = Duration::from_secs(1);
/// What a drain may take beyond `shutdown_timeout`, at whose end the worker closes by itself what is left.
const DRAIN_GRACE: Duration = Duration::from_secs(1);

/// Where a worker stands; see the picture above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Forked.
    Starting,
    /// Reported ready.
    Serving,
    /// Asked to finish and end.
    Draining,
    /// Asked to end at once.
    Stopping,
}

/// One worker, as a process.
#[derive(Debug)]
pub(crate) struct Process {
    /// Its id.
    pub(crate) pid: Pid,
    /// Its number.
    pub(crate) number: u32,
    /// Its generation.
    pub(crate) generation: u64,
    /// Where it publishes.
    pub(crate) block: Block,
    /// Our end.
    pub(crate) channel: ChannelEnd,
    /// When it was forked.
    pub(crate) started: Instant,
    /// Where it stands.
    pub(crate) stage: Stage,
    /// Whether it holds surplus sockets.
    pub(crate) surplus: bool,
    /// Whether it has accepted what was queued, and listens no more.
    pub(crate) left: bool,
    /// How it shares datagram sockets, if it does.
    pub(crate) datagrams: Option<Rc<DatagramSeat>>,
    /// What was seen of its turns.
    pub(crate) heartbeat: Heartbeat,
    kill_at: Option<Instant>,
}

impl Process {
    /// A process that was just forked.
    pub(crate) fn new(pid: Pid, number: u32, generation: u64, block: Block, channel: ChannelEnd) -> Self {
        Self {
            pid,
            number,
            generation,
            block,
            channel,
            started: Instant::now(),
            stage: Stage::Starting,
            surplus: false,
            left: false,
            datagrams: None,
            heartbeat: Heartbeat::default(),
            kill_at: None,
        }
    }

    /// Names it in the log.
    pub(crate) fn who(&self) -> String {
        format!("worker {} of generation {} (process {})", self.number, self.generation, self.pid)
    }

    /// Tells it something; where the channel does not take it, with the signal that means the same.
    pub(crate) fn tell(&self, command: Command) {
        let Err(error) = self.channel.send(command.to_word()) else { return };
        let signal = match command {
            Command::Drain => Signal::SIGQUIT,
            Command::Stop => Signal::SIGTERM,
            Command::Reopen => Signal::SIGUSR1,
            // The sockets are taken off the port at the deadline whatever it does.
            Command::ReleaseSurplus => return,
        };
        debug!(worker = self.number, "channel: {error}; sending {signal} instead");
        // It may have ended, which is noticed elsewhere.
        let _ = kill(self.pid, signal);
    }

    /// Asks it to finish and end within `timeout`. One that does so already looks once more what others have taken
    /// over by now.
    pub(crate) fn drain(&mut self, timeout: Duration) {
        if self.stage == Stage::Stopping {
            return;
        }
        if self.stage != Stage::Draining {
            self.stage = Stage::Draining;
            self.kill_at = Some(Instant::now() + timeout + DRAIN_GRACE);
        }
        self.tell(Command::Drain);
    }

    /// Asks it to end at once.
    pub(crate) fn stop(&mut self) {
        if self.stage == Stage::Stopping {
            return;
        }
        self.stage = Stage::Stopping;
        let deadline = Instant::now() + FAST_STOP;
        self.kill_at = Some(self.kill_at.map_or(deadline, |at| at.min(deadline)));
        self.tell(Command::Stop);
    }

    /// Whether nobody asked it to end.
    pub(crate) fn wanted(&self) -> bool {
        matches!(self.stage, Stage::Starting | Stage::Serving)
    }
}

impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

/// All workers, of every generation that has some.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    processes: Vec<Process>,
    /// When their heartbeats were last looked at.
    pub(crate) looked_at: Option<Instant>,
}

impl Workers {
    /// Adds one.
    pub(crate) fn add(&mut self, process: Process) {
        self.processes.push(process);
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Process> {
        self.processes.iter()
    }

    /// All of them, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Process> {
        self.processes.iter_mut()
    }

    /// Those of one generation.
    pub(crate) fn of(&self, generation: u64) -> impl Iterator<Item = &Process> {
        self.processes.iter().filter(move |process| process.generation == generation)
    }

    /// How many of a generation serve.
    pub(crate) fn serving(&self, generation: u64) -> usize {
        self.of(generation).filter(|process| process.stage == Stage::Serving).count()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// Takes out the process that ended.
    pub(crate) fn remove(&mut self, pid: Pid) -> Option<Process> {
        let index = self.processes.iter().position(|process| process.pid == pid)?;
        Some(self.processes.remove(index))
    }

    /// What workers reported since last asked: who, and what.
    pub(crate) fn reports(&self) -> Vec<(Pid, Report)> {
        let mut reports = Vec::new();
        for process in &self.processes {
            loop {
                match process.channel.receive() {
                    Ok(Received::Message(word)) => match Report::from_word(word) {
                        Some(report) => reports.push((process.pid, report)),
                        None => warn!(worker = process.number, word, "unknown report"),
                    },
                    // It ended, which is noticed elsewhere.
                    Ok(Received::Nothing | Received::Ended) => break,
                    Err(error) => {
                        warn!(worker = process.number, "channel: {error}");
                        break;
                    }
                }
            }
        }
        reports
    }

    /// The next deadline.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.processes.iter().filter_map(|process| process.kill_at).min()
    }

    /// Kills those whose deadline has passed.
    pub(crate) fn kill_overdue(&mut self) {
        let now = Instant::now();
        for process in &mut self.processes {
            if process.kill_at.is_some_and(|at| at <= now) {
                process.kill_at = None;
                error!("{} did not end in time: killing it", process.who());
                let _ = kill(process.pid, Signal::SIGKILL);
            }
        }
    }
}

/// "exited with code 1", "was killed by SIGSEGV (core dumped)", "was stopped by SIGSTOP".
pub(crate) fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    if let Some(code) = status.code() {
        return format!("exited with code {code}");
    }
    if let Some(number) = status.signal() {
        let core = if status.core_dumped() { " (core dumped)" } else { "" };
        return format!("was killed by {}{core}", signal_name(number));
    }
    match status.stopped_signal() {
        Some(number) => format!("was stopped by {}", signal_name(number)),
        None => "goes on after a stop".to_owned(),
    }
}

fn signal_name(number: i32) -> String {
    Signal::try_from(number).map_or_else(|_| format!("signal {number}"), |signal| signal.to_string())
}

/// A pair of channel ends: the master's, the worker's.
///
/// # Errors
/// What the system reports.
pub(crate) fn channel() -> io::Result<(ChannelEnd, ChannelEnd)> {
    drover_event::channel::pair()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn an_end_is_told_in_words() {
        assert_eq!(describe(ExitStatus::from_raw(1 << 8)), "exited with code 1");
        assert_eq!(describe(ExitStatus::from_raw(9)), "was killed by SIGKILL");
        assert_eq!(describe(ExitStatus::from_raw(11 | 0x80)), "was killed by SIGSEGV (core dumped)");
        assert_eq!(describe(ExitStatus::from_raw(34)), "was killed by signal 34");
        assert_eq!(describe(ExitStatus::from_raw(19 << 8 | 0x7f)), "was stopped by SIGSTOP");
        assert_eq!(describe(ExitStatus::from_raw(0xffff)), "goes on after a stop");
    }
}
