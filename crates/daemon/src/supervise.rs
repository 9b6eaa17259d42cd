//! Supervision: workers are forked, collected when they end, and replaced.

use std::ops::ControlFlow;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::rc::Rc;
use std::time::{Duration, Instant};

use drover_sys::fork::{Fork, fork, next_change};
use nix::unistd::Pid;
use tracing::{debug, error, info, warn};

use crate::complaint::Complaints;
use crate::datagrams::{DatagramSeat, KnownSeats};
use crate::generation::Generation;
use crate::leaving::Leaving;
use crate::master::{Master, Split};
use crate::reload::Reload;
use crate::scoreboard::Exit;
use crate::worker::Start;
use crate::workers::{self, Process, Stage};

/// Which generation a worker is started for.
pub(super) enum For<'a> {
    /// The one that serves.
    Serving,
    /// One that is to serve; there its workers complain.
    Candidate(&'a Generation, &'a Complaints),
    /// One on its way out.
    Leaving(&'a Generation),
}

impl Master {
    /// Collects children that have ended, as process 1 of a container orphans too, and takes note of those that
    /// were stopped.
    pub(super) fn collect_ended(&mut self) {
        loop {
            let (pid, status) = match next_change() {
                Ok(Some(changed)) => changed,
                Ok(None) => return,
                Err(failure) => {
                    error!("waitpid: {failure}");
                    return;
                }
            };
            if status.stopped_signal().is_some() || status.continued() {
                self.note_stop(pid, status);
                continue;
            }
            match self.workers.remove(pid) {
                Some(process) => self.bury(process, status),
                None if self.successor_ended(pid, status) => {}
                None => debug!("process {pid}, which is no worker, {}", workers::describe(status)),
            }
        }
    }

    /// A worker was stopped, or goes on. While it is stopped it must not keep others from accepting: what it takes
    /// for its hold on the accept mutex is then nobody's or another's, and its release of it does nothing.
    fn note_stop(&self, pid: Pid, status: ExitStatus) {
        let Some(process) = self.workers.iter().find(|process| process.pid == pid) else { return };
        let (who, how) = (process.who(), workers::describe(status));
        if status.continued() {
            return info!("{who} {how}");
        }
        let held = self.board.accept_mutex(pid).unlock();
        let released = if held { "; it held the accept mutex, which is released" } else { "" };
        warn!("{who} {how}: kill -CONT {pid} lets it go on{released}");
    }

    /// Releases what an ended worker held, says what happened, and arranges for what follows.
    fn bury(&mut self, process: Process, status: ExitStatus) {
        let Process { pid, number, generation, .. } = process;
        let (life, how) = (process.started.elapsed(), workers::describe(status));
        if self.board.accept_mutex(pid).unlock() {
            info!("worker {number} (process {pid}) held the accept mutex: released");
        }
        let wanted = process.wanted() && self.stopping.is_none();
        let (doing, stage) = (process.block.describe(), process.stage);
        self.board.count_exit(match (status.code(), wanted) {
            (_, false) => Exit::Asked,
            (Some(0), true) => Exit::Clean,
            (Some(_), true) => Exit::Failed,
            (None, true) => Exit::Killed,
        });
        self.board.fold(&process.block);
        if let Some(seat) = &process.datagrams {
            seat.table.clear();
        }
        self.keep_seat(&process);
        // One that did as it was asked has emptied its queues before it ended.
        if !process.left
            && !status.success()
            && let Some(leaver) = self.leaving.iter_mut().find(|leaver| leaver.is(generation))
        {
            leaver.lacks(number);
        }
        self.forget_left();
        let who = process.who();
        match wanted {
            false => return info!("{who} {how} after {life:.1?}"),
            // Somebody sent it a signal.
            true if status.success() => warn!("{who} {how} after {life:.1?}, unasked"),
            true => error!("{who} {how} after {life:.1?}; it was {doing}"),
        }
        if let Some(Reload::Starting { candidate, complaints, .. }) = &self.reload
            && candidate.number == generation
        {
            let before = if stage == Stage::Starting { "before" } else { "right after" };
            let reason = complaints.first().unwrap_or_else(|| "the log has more".to_owned());
            self.refuse(&format!("worker {number} {how} {before} it was ready: {reason}"));
        } else if generation == self.generation.number {
            let backoff = self.backoff.entry(number).or_default();
            let delay = if status.success() { Duration::ZERO } else { backoff.ended(life) };
            if !delay.is_zero() {
                warn!("worker {number} ended young: it is replaced in {delay:?}");
            }
            self.due.push((number, Instant::now() + delay));
        }
    }

    /// The block of a worker that ended is its successor's, as long as there may be one.
    fn keep_seat(&self, process: &Process) {
        let starting = match &self.reload {
            Some(Reload::Starting { candidate, .. }) => Some(&**candidate),
            _ => None,
        };
        let leaving = self.leaving.iter().map(Leaving::generation);
        let mut lasting = [Some(&self.generation), starting].into_iter().flatten().chain(leaving);
        if let Some(generation) = lasting.find(|generation| generation.number == process.generation) {
            let slots = *generation.config.events.worker_connections;
            self.board.keep(&process.block, process.generation, process.number, slots);
        }
    }

    /// Where nobody has sockets of addresses that are gone any more, they are forgotten.
    pub(super) fn forget_left(&mut self) {
        let serving = self.generation.number;
        if self.leaving.is_empty() && self.workers.iter().all(|process| process.generation >= serving) {
            self.generation.sockets.forget_left();
        }
    }

    /// Takes back the blocks of a generation that is over, except those of workers that still live: theirs
    /// come back when they end.
    pub(super) fn free_seats(&self, over: &Generation) {
        for (number, seat) in over.seats.iter().enumerate() {
            if !self.workers.of(over.number).any(|process| process.number as usize == number) {
                self.board.fold(&seat.block);
            }
        }
    }

    /// Starts the replacements that are due.
    pub(super) fn replace_ended(&mut self) -> Split {
        let now = Instant::now();
        let due: Vec<u32> = self.due.iter().filter(|(_, at)| *at <= now).map(|(number, _)| *number).collect();
        self.due.retain(|(_, at)| *at > now);
        for number in due {
            if let Err(reason) = self.spawn(For::Serving, number)? {
                error!("{reason}");
                let delay = self.backoff.entry(number).or_default().ended(Duration::ZERO);
                self.due.push((number, Instant::now() + delay));
            }
        }
        Split::Continue(())
    }

    /// With whom worker `number` of `generation` shares datagram sockets.
    fn known_seats(&self, generation: &Generation, number: u32) -> KnownSeats {
        let beside = generation.seats.iter().enumerate().filter(|(other, _)| *other != number as usize);
        let others = self.workers.iter().filter(|process| process.generation != generation.number);
        let (before, after): (Vec<&Process>, Vec<&Process>) =
            others.partition(|process| process.generation < generation.number);
        let seats = |processes: Vec<&Process>| -> Vec<Rc<DatagramSeat>> {
            processes.into_iter().filter_map(|process| process.datagrams.clone()).collect()
        };
        let beside = beside.filter_map(|(_, seat)| seat.datagrams.clone()).chain(seats(after)).collect();
        KnownSeats { beside, before: seats(before).into_iter().chain(self.seats_elsewhere()).collect() }
    }

    /// Forks worker `number` of a generation; says why that cannot be.
    pub(super) fn spawn(&mut self, of: For<'_>, number: u32) -> ControlFlow<Box<Start>, Result<(), String>> {
        let (generation, complaints) = match of {
            For::Serving => (&self.generation, None),
            For::Candidate(generation, complaints) => (generation, Some(complaints)),
            For::Leaving(generation) => (generation, None),
        };
        let (Some(plans), Some(seat)) = (generation.plans.clone(), generation.seats.get(number as usize))
        else {
            return ControlFlow::Continue(Err(format!("there is no place for worker {number}")));
        };
        let block = seat.block.clone();
        let sockets = generation.sockets.for_worker(number as usize, generation.workers as usize);
        let surplus = sockets.iter().any(|inherited| !inherited.surplus.is_empty());
        let (id, workers) = (generation.number, generation.workers);
        let (datagrams, known_seats) = (seat.datagrams.clone(), self.known_seats(generation, number));
        if let Some(seat) = &datagrams {
            seat.table.set_heirs(self.heirs());
        }
        block.begin();
        let forked = workers::channel().and_then(|ends| Ok((ends, fork()?)));
        let ((ours, theirs), side) = match forked {
            Ok(forked) => forked,
            Err(failure) => {
                return ControlFlow::Continue(Err(format!("cannot start worker {number}: {failure}")));
            }
        };
        match side {
            Fork::Parent(pid) => {
                block.set_pid(pid);
                debug!("worker {number} of generation {id} is process {pid}");
                let mut process = Process::new(pid, number, id, block, ours);
                process.surplus = surplus;
                process.datagrams = datagrams;
                self.workers.add(process);
                ControlFlow::Continue(Ok(()))
            }
            Fork::Child => {
                let start = Start {
                    number,
                    generation: id,
                    workers,
                    config: Rc::clone(&generation.config),
                    plans,
                    identity: generation.identity.clone(),
                    sockets,
                    strategies: Rc::clone(&generation.strategies),
                    block,
                    seats: Rc::clone(&generation.seats),
                    known_seats,
                    mutex: self.board.accept_mutex(Pid::this()),
                    channel: Some(theirs),
                    complaint: complaints.and_then(|complaints| complaints.for_worker().ok()),
                    title: self.title.take(),
                };
                ControlFlow::Break(Box::new(start))
            }
        }
    }
}
