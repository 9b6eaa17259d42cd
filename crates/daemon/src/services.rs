//! The services: what each protocol crate makes of its tables, in the master and in a worker.
//!
//! A new protocol is one more field in both.

use std::path::Path;
use std::rc::Rc;

use drover_event::{Core, Service};
use drover_http::{PlanError, StartError, Started};
use drover_service::Listener;
use thiserror::Error;

use crate::config::Config;

/// A service that the configuration does not allow, or that cannot start.
#[derive(Debug, Error)]
pub(crate) enum ServiceError {
    /// The tables of HTTP.
    #[error("[http]: {}", with_causes(.0))]
    Plan(#[from] PlanError),
    /// HTTP in a worker.
    #[error("http: {}", with_causes(.0))]
    Start(#[from] StartError),
}

/// An error and what caused it, in one line.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// What the master makes of a configuration, before any fork; nothing is opened.
#[derive(Clone)]
pub(crate) struct Plans {
    http: drover_http::Plan,
}

impl Plans {
    /// Compiles the tables for so many workers.
    ///
    /// # Errors
    /// Where a table does not mean anything; the check of the configuration finds most of that earlier.
    pub(crate) fn new(config: &Config, workers: u32) -> Result<Self, ServiceError> {
        Ok(Self { http: drover_http::Plan::new(&config.http, workers)? })
    }

    /// The listeners that are needed.
    pub(crate) fn listeners(&self) -> impl Iterator<Item = &Listener> {
        self.http.listeners().iter().map(|listener| &listener.socket)
    }

    /// The files that workers write to, beside the log.
    pub(crate) fn log_files(&self) -> impl Iterator<Item = &Path> {
        self.http.log_files()
    }

    /// What pooled buffers have to hold, in bytes.
    pub(crate) fn buffer_size(&self) -> usize {
        self.http.buffer_size()
    }

    /// Opens what a worker needs.
    ///
    /// # Errors
    /// A log that this worker may not write to.
    pub(crate) fn start(&self, core: &Core) -> Result<Services, ServiceError> {
        Ok(Services { http: self.http.start(core)? })
    }
}

/// The services of a worker.
pub(crate) struct Services {
    http: Started,
}

impl Services {
    /// The service behind a listener, by its number in [`Plans::listeners`].
    pub(crate) fn of(&self, listener: usize) -> Option<Rc<dyn Service>> {
        self.http.services.get(listener).cloned()
    }

    /// Goes on in the files that now have the logs' names.
    pub(crate) fn reopen_logs(&self) {
        self.http.logs.reopen();
    }

    /// Writes what is gathered, before the end.
    pub(crate) fn finish(&self) {
        self.http.logs.flush();
    }
}
