//! The access logs of one worker: opened together, written by number, flushed in time.

use std::cell::RefCell;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;

use drover_event::Core;

use crate::access_log::{Log, LogPlan, Target};

/// The access logs of one worker. Clones are handles on the same logs.
#[derive(Clone)]
pub struct Logs(Rc<[RefCell<Log>]>);

/// A log that cannot be opened: most often its directory is missing or not writable by the workers.
#[derive(Debug, thiserror::Error)]
#[error("opening the access log {}", path.display())]
pub struct OpenLogError {
    /// Its path.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

impl Logs {
    /// Opens the logs of `plans`. To be called after the fork.
    ///
    /// # Errors
    /// The first that cannot be opened.
    pub fn open(plans: &[LogPlan]) -> Result<Logs, OpenLogError> {
        let open = |plan: &LogPlan| match Log::open(plan) {
            Ok(log) => Ok(RefCell::new(log)),
            Err(source) => {
                let path = match &plan.target {
                    Target::File(path) => path.clone(),
                    Target::Stderr | Target::Stdout | Target::Syslog(_) => PathBuf::new(),
                };
                Err(OpenLogError { path, source })
            }
        };
        plans.iter().map(open).collect::<Result<Rc<[_]>, _>>().map(Logs)
    }

    /// Adds a line, which `write` appends without its end, to log `number` in the order of the plans.
    #[inline]
    pub fn line(&self, core: &Core, number: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let mut log = self.0[number].borrow_mut();
        let waits = log.line(write);
        if waits && !log.flush_is_due {
            log.flush_is_due = true;
            self.flush_later(core, number, &log);
        }
    }

    #[cold]
    fn flush_later(&self, core: &Core, number: usize, log: &Log) {
        let (logs, after, own) = (self.clone(), log.flush_after(), core.clone());
        core.spawn(async move {
            own.sleep(after).await;
            let mut log = logs.0[number].borrow_mut();
            log.flush_is_due = false;
            log.flush();
        });
    }

    /// Writes what is gathered. To be called before the worker exits.
    pub fn flush(&self) {
        self.0.iter().for_each(|log| log.borrow_mut().flush());
    }

    /// Goes on in the files that now have the logs' names. A log that cannot be reopened stays as it is.
    pub fn reopen(&self) {
        self.0.iter().for_each(|log| log.borrow_mut().reopen());
    }
}
