//! HTTP on a worker: what [`Plan::start`] opens after the fork, and the service behind each listener.

use std::cell::{Cell, RefCell};
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;

use drover_event::{Core, Service, Stream};
use jiff::tz::TimeZone;

use crate::access_log::{LocalTime, Log, Target};
use crate::encoding::encoders::Encoders;
use crate::h1::connection::{self, Conversation};
use crate::h1::work::Work;
use crate::handler::files::store::FileStore;
use crate::plan::{Compiled, LogUse, Plan};
use crate::variables::Facts;

/// HTTP on one worker, ready to take connections.
pub struct Started {
    /// The services, in the order of [`Plan::listeners`].
    pub services: Vec<Rc<dyn Service>>,
    /// The worker's access logs.
    pub logs: Logs,
}

/// Why a worker cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An access log cannot be opened: most often its directory is missing or not writable by the workers.
    #[error("opening the access log {}", path.display())]
    Log {
        /// Its path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The worker's buffers are smaller than [`Plan::buffer_size`].
    #[error("the worker's buffers have {actual} bytes, and a request's head needs {needed}")]
    Buffers {
        /// What they have.
        actual: usize,
        /// What [`Plan::buffer_size`] says.
        needed: usize,
    },
}

impl Plan {
    /// Opens what a worker needs: its logs and an empty cache of files. To be called after the fork.
    ///
    /// # Errors
    /// A log that cannot be opened, or buffers that are too small.
    pub fn start(&self, core: &Core) -> Result<Started, StartError> {
        let (actual, needed) = (core.settings().buffer_size, self.buffer_size());
        if actual < needed {
            return Err(StartError::Buffers { actual, needed });
        }
        let open = |plan| match Log::open(plan) {
            Ok(log) => Ok(RefCell::new(log)),
            Err(source) => {
                let path = match &plan.target {
                    Target::File(path) => path.clone(),
                    Target::Stderr | Target::Stdout => PathBuf::new(),
                };
                Err(StartError::Log { path, source })
            }
        };
        let state = Rc::new(WorkerState {
            logs: self.0.logs.iter().map(open).collect::<Result<_, _>>()?,
            time: RefCell::new(LocalTime::new(TimeZone::system())),
            store: FileStore::new(&self.0.store, Encoders::new(self.0.levels, self.0.encoders)),
            next: Cell::new(None),
            spare: RefCell::new(Vec::with_capacity(SPARE)),
            pid: std::process::id(),
            worker: core.settings().worker,
            plan: Rc::clone(&self.0),
        });
        let service =
            |listener| -> Rc<dyn Service> { Rc::new(HttpService { worker: Rc::clone(&state), listener }) };
        Ok(Started {
            services: (0..self.0.listeners.len()).map(service).collect(),
            logs: Logs(Rc::clone(&state)),
        })
    }
}

/// A handle on a worker's access logs.
#[derive(Clone)]
pub struct Logs(Rc<WorkerState>);

impl Logs {
    /// Writes what is gathered. To be called before the worker exits.
    pub fn flush(&self) {
        for log in &self.0.logs {
            log.borrow_mut().flush();
        }
    }

    /// Goes on in the files that now have the logs' names. A log that cannot be reopened stays as it is.
    pub fn reopen(&self) {
        for log in &self.0.logs {
            log.borrow_mut().reopen();
        }
    }
}

/// How many unused [`Work`]s a worker keeps.
const SPARE: usize = 8;

/// What all connections of a worker share.
pub(crate) struct WorkerState {
    pub(crate) plan: Rc<Compiled>,
    pub(crate) store: FileStore,
    pub(crate) time: RefCell<LocalTime>,
    pub(crate) pid: u32,
    pub(crate) worker: u32,
    logs: Vec<RefCell<Log>>,
    /// What the next request is worked on with: most are done before another begins.
    next: Cell<Option<Box<Work>>>,
    #[expect(clippy::vec_box, reason = "it moves between here and connections, which hold it boxed")]
    spare: RefCell<Vec<Box<Work>>>,
}

impl WorkerState {
    /// A place to work at: input, head and output.
    #[inline]
    pub(crate) fn take_work(&self, core: &Core) -> Box<Work> {
        self.next.take().unwrap_or_else(|| self.take_spare(core))
    }

    #[cold]
    fn take_spare(&self, core: &Core) -> Box<Work> {
        self.spare.borrow_mut().pop().unwrap_or_else(|| Box::new(Work::new(core.take_buffer())))
    }

    #[inline]
    pub(crate) fn give_back(&self, mut work: Box<Work>) {
        work.reset();
        if let Some(other) = self.next.replace(Some(work)) {
            self.keep_spare(other);
        }
    }

    #[cold]
    fn keep_spare(&self, work: Box<Work>) {
        let mut spare = self.spare.borrow_mut();
        if spare.len() < SPARE {
            spare.push(work);
        }
    }

    /// Writes a line about a request.
    pub(crate) fn log(self: &Rc<Self>, core: &Core, log_use: &LogUse, facts: &Facts<'_>) {
        let mut log = self.logs[log_use.log].borrow_mut();
        let waits = log.line(|line| log_use.format.push_for_log(facts, line));
        if waits && !log.flush_is_due {
            log.flush_is_due = true;
            let (state, number, after) = (Rc::clone(self), log_use.log, log.flush_after());
            let own = core.clone();
            core.spawn(async move {
                own.sleep(after).await;
                let mut log = state.logs[number].borrow_mut();
                log.flush_is_due = false;
                log.flush();
            });
        }
    }
}

/// The service behind one listener.
struct HttpService {
    worker: Rc<WorkerState>,
    listener: usize,
}

impl Service for HttpService {
    fn connection(&self, stream: Stream) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(connection::serve(Conversation::new(stream, Rc::clone(&self.worker), self.listener)))
    }
}
