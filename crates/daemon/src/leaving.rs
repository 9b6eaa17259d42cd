//! Generations on their way out, and what is queued on their sockets.
//!
//! Connections in the queue of a socket that is listened on no more can be served only by a worker of the generation
//! that had it. Each of them accepts what is queued, reports that, and closes its copy. Until all have done so the
//! master keeps one: where a worker ended before, or was dead and not yet replaced when its generation was asked to
//! leave, another is started in its place, which accepts what is queued and finishes that.

use std::time::Duration;

use tracing::error;

use crate::generation::Generation;
use crate::master::{Master, Split};
use crate::sockets::Sockets;
use crate::supervise::For;
use crate::workers::Process;

/// How often workers of one generation are started once more: what ends them may be the generation itself.
const REPLACEMENTS_EACH: u32 = 3;

/// A generation whose workers drain while there may be connections in queues that only they can serve.
pub(crate) struct Leaving {
    /// Its sockets are those that nobody goes on with.
    generation: Generation,
    /// How long its workers may take.
    timeout: Duration,
    /// Numbers of workers that have ended and have not emptied their queues.
    due: Vec<u32>,
    /// How many more workers are started.
    replacements: u32,
}

impl Leaving {
    /// Whether this is the generation of that number.
    pub(crate) fn is(&self, generation: u64) -> bool {
        self.generation.number == generation
    }

    /// What it is.
    pub(crate) fn generation(&self) -> &Generation {
        &self.generation
    }

    /// A worker ended without having emptied its queues.
    pub(crate) fn lacks(&mut self, number: u32) {
        self.due.push(number);
    }
}

impl Master {
    /// Lets go of a generation whose workers have been asked to drain, as soon as nothing is queued on its sockets, which
    /// are those that nobody goes on with. Workers of the numbers in `missing` are started for that.
    pub(super) fn let_go(&mut self, generation: Generation, missing: Vec<u32>) {
        if generation.sockets.is_empty() {
            return self.free_seats(&generation);
        }
        let timeout = generation.config.process.shutdown_timeout;
        let replacements = REPLACEMENTS_EACH * generation.workers;
        self.leaving.push(Leaving { generation, timeout, due: missing, replacements });
    }

    /// The generation that serves is asked to leave: what is queued on the sockets in `queues`, which nobody goes on
    /// with, is accepted first.
    pub(super) fn empty_queues(&mut self, queues: Sockets) {
        if !queues.is_empty() {
            let generation = self.generation.with_sockets(queues);
            let missing = self.missing(&generation);
            self.let_go(generation, missing);
        }
    }

    /// The numbers of a generation that have no worker at the moment.
    pub(super) fn missing(&self, generation: &Generation) -> Vec<u32> {
        let there =
            |number: &u32| self.workers.of(generation.number).any(|process| process.number == *number);
        (0..generation.workers).filter(|number| !there(number)).collect()
    }

    /// Starts the workers that are missing from generations on their way out, and closes the sockets of those whose
    /// queues are empty.
    pub(super) fn tend_leaving(&mut self) -> Split {
        let mut leaving = std::mem::take(&mut self.leaving);
        for leaver in &mut leaving {
            for number in std::mem::take(&mut leaver.due) {
                self.start_in_place(leaver, number)?;
            }
        }
        let has_queues = |process: &Process, leaver: &Leaving| leaver.is(process.generation) && !process.left;
        let (there, over): (Vec<Leaving>, Vec<Leaving>) = leaving
            .into_iter()
            .partition(|leaver| self.workers.iter().any(|process| has_queues(process, leaver)));
        self.leaving = there;
        if !over.is_empty() {
            over.iter().for_each(|leaver| self.free_seats(&leaver.generation));
            drop(over);
            self.forget_left();
        }
        Split::Continue(())
    }

    fn start_in_place(&mut self, leaver: &mut Leaving, number: u32) -> Split {
        let started = match leaver.replacements.checked_sub(1) {
            Some(rest) => {
                leaver.replacements = rest;
                self.spawn(For::Leaving(&leaver.generation), number)?
            }
            None => Err("its workers end before they have accepted anything".to_owned()),
        };
        match started {
            Ok(()) => {
                let of_it = self.workers.iter_mut().filter(|process| leaver.is(process.generation));
                of_it.filter(|process| process.wanted()).for_each(|process| process.drain(leaver.timeout));
            }
            Err(reason) => error!(
                "connections queued for worker {number} of generation {} are lost: {reason}",
                leaver.generation.number
            ),
        }
        Split::Continue(())
    }
}
