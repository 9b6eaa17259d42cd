//! Streams on a worker: what [`Plan::start`] opens after the fork, and the service behind each listener.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;

use drover_event::{Core, DatagramService, PeerAddress, Service, Session, Stream};
use drover_service::access_log::LocalTime;
use drover_service::{Logs, OpenLogError};
use drover_upstream::Upstream;
use jiff::tz::TimeZone;

use crate::complaint::Complaints;
use crate::plan::{Compiled, ListenerPlan, Plan};
use crate::reason::CloseReason;
use crate::record::{Passed, Record};
use crate::tcp::{self, Tunnel};
use crate::udp::{self, Exchange};

/// Streams on one worker, ready to take connections.
pub struct Started {
    /// The services, in the order of [`Plan::listeners`].
    pub services: Vec<Behind>,
    /// The worker's access logs.
    pub logs: Logs,
}

/// The service behind a listener.
#[derive(Clone)]
pub enum Behind {
    /// For connections.
    Connections(Rc<dyn Service>),
    /// For datagrams.
    Datagrams(Rc<dyn DatagramService>),
}

/// Why a worker cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An access log cannot be opened.
    #[error(transparent)]
    Log(#[from] OpenLogError),
    /// An upstream cannot start.
    #[error(transparent)]
    Upstream(#[from] drover_upstream::StartError),
}

impl Plan {
    /// Opens what a worker needs. To be called after the fork.
    ///
    /// # Errors
    /// A log that cannot be opened, or an upstream that was planned for fewer workers.
    pub fn start(&self, core: &Core) -> Result<Started, StartError> {
        let start = |planned: &crate::plan::UpstreamPlan| Upstream::start(core, &planned.plan);
        let state = Rc::new(WorkerState {
            logs: Logs::open(&self.0.logs)?,
            time: RefCell::new(LocalTime::new(TimeZone::system())),
            upstreams: self.0.upstreams.iter().map(start).collect::<Result<_, _>>()?,
            complaints: self.0.servers.iter().map(|_| Complaints::default()).collect(),
            pid: std::process::id(),
            worker: core.settings().worker,
            plan: Rc::clone(&self.0),
        });
        self.0.limits.forget_worker(state.worker);
        let service = |(number, listener): (usize, &ListenerPlan)| {
            let proxy = Rc::new(Proxy { worker: Rc::clone(&state), listener: number });
            if listener.socket.udp { Behind::Datagrams(proxy) } else { Behind::Connections(proxy) }
        };
        Ok(Started {
            services: self.0.listeners.iter().enumerate().map(service).collect(),
            logs: state.logs.clone(),
        })
    }
}

/// What all connections of a worker share.
pub(crate) struct WorkerState {
    pub(crate) plan: Rc<Compiled>,
    /// In the order of the plan's.
    pub(crate) upstreams: Vec<Rc<Upstream>>,
    /// By server.
    pub(crate) complaints: Vec<Complaints>,
    pub(crate) logs: Logs,
    pub(crate) time: RefCell<LocalTime>,
    pub(crate) pid: u32,
    pub(crate) worker: u32,
}

/// The service behind one listener.
struct Proxy {
    worker: Rc<WorkerState>,
    /// Number of the listener.
    listener: usize,
}

impl Service for Proxy {
    fn connection(&self, stream: Stream) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(tcp::serve(Tunnel::new(stream, Rc::clone(&self.worker), self.listener)))
    }

    fn dropped(&self, core: &Core, peer: PeerAddress, number: u64) {
        let server = self.worker.plan.listeners[self.listener].server;
        let mut record = Record::new(Rc::clone(&self.worker), server, "TCP", peer, number, core.now());
        record.reason = Some(CloseReason::NoSlot);
        record.write(core, Passed::default(), || None);
    }
}

impl DatagramService for Proxy {
    fn session(&self, session: Session) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(udp::serve(Exchange::new(session, Rc::clone(&self.worker), self.listener)))
    }
}
