//! HTTP on a worker: what [`Plan::start`] opens after the fork, and the service behind each listener.

use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;

use drover_event::{Core, Service, Stream};
use drover_service::access_log::LocalTime;
use drover_service::{Logs, OpenLogError};
use drover_upstream::Upstream;
use jiff::tz::TimeZone;

use crate::basic_auth::Verified;
use crate::encoding::encoders::Encoders;
use crate::h1::at_length::{AtLength, at_length};
use crate::h1::connection::{self, Conversation};
use crate::h1::work::Work;
use crate::handler::files::store::FileStore;
use crate::log_budget::LogBudget;
use crate::plan::{Compiled, LogUse, Plan};
use crate::request_id::RequestIds;
use crate::reused_future::ReusedFutures;
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
    /// An access log cannot be opened.
    #[error(transparent)]
    Log(#[from] OpenLogError),
    /// An upstream that this worker has no part of.
    #[error(transparent)]
    Upstream(#[from] drover_upstream::StartError),
    /// The worker's buffers are smaller than [`Plan::buffer_size`].
    #[error("the worker's buffers have {actual} bytes, and a request's head needs {needed}")]
    Buffers {
        /// What they have.
        actual: usize,
        /// What [`Plan::buffer_size`] says.
        needed: usize,
    },
    /// The system gives no random bytes.
    #[error("reading random bytes: {0}")]
    Random(io::Error),
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
        let upstreams = self.0.upstreams.iter().map(|plan| Upstream::start(core, plan));
        // Whoever had this number before is gone.
        self.0.client_limits.forget_worker(core.settings().worker);
        let state = Rc::new(WorkerState {
            upstreams: upstreams.collect::<Result<_, _>>()?,
            logs: Logs::open(&self.0.logs)?,
            time: RefCell::new(LocalTime::new(TimeZone::system())),
            store: FileStore::new(
                &self.0.store,
                Encoders::of_worker(core, self.0.levels, self.0.encoder_memory),
            ),
            next: Cell::new(None),
            spare: RefCell::new(Vec::with_capacity(SPARE)),
            refusals: LogBudget::default(),
            spool_failures: LogBudget::default(),
            ids: RequestIds::new().map_err(StartError::Random)?,
            verified: Verified::new().map_err(StartError::Random)?,
            pid: std::process::id(),
            worker: core.settings().worker,
            plan: Rc::clone(&self.0),
            at_length: ReusedFutures::new(at_length),
        });
        let service =
            |listener| -> Rc<dyn Service> { Rc::new(HttpService { worker: Rc::clone(&state), listener }) };
        Ok(Started { services: (0..self.0.listeners.len()).map(service).collect(), logs: state.logs.clone() })
    }
}

/// How many unused [`Work`]s a worker keeps: those of requests that are passed on wait side by side.
const SPARE: usize = 64;

/// What all connections of a worker share.
pub(crate) struct WorkerState {
    pub(crate) plan: Rc<Compiled>,
    pub(crate) store: FileStore,
    pub(crate) upstreams: Vec<Rc<Upstream>>,
    pub(crate) time: RefCell<LocalTime>,
    pub(crate) ids: RequestIds,
    /// Credentials that were right.
    pub(crate) verified: Verified,
    /// For lines about requests that are refused.
    pub(crate) refusals: LogBudget,
    /// For lines about disks that take no bodies.
    pub(crate) spool_failures: LogBudget,
    pub(crate) pid: u32,
    pub(crate) worker: u32,
    logs: Logs,
    /// What the next request is worked on with: most are done before another begins.
    next: Cell<Option<Box<Work>>>,
    #[expect(clippy::vec_box, reason = "it moves between here and connections, which hold it boxed")]
    spare: RefCell<Vec<Box<Work>>>,
    /// What connections do where they must wait.
    pub(crate) at_length: ReusedFutures<AtLength, (Conversation, bool)>,
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
    pub(crate) fn log(&self, core: &Core, log_use: &LogUse, facts: &Facts<'_>) {
        if log_use.when.as_ref().is_none_or(|when| when.holds(facts)) {
            self.logs.line(core, log_use.log, |line| log_use.format.push(facts, line));
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
