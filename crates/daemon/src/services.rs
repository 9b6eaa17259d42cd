//! The services: what each protocol crate makes of its tables, in the master and in a worker.
//!
//! A new protocol is one more field in both.

use std::path::Path;

use drover_event::Core;
use drover_http::{PlanError, StartError, Started};
use drover_service::Listener;
use drover_stream::Behind;
use thiserror::Error;

use crate::config::Config;
use crate::report::OwnScoreboard;
use crate::scoreboard::Readout;

/// A service that the configuration does not allow, or that cannot start.
#[derive(Debug, Error)]
pub(crate) enum ServiceError {
    /// The tables of HTTP.
    #[error("[http]: {}", with_causes(.0))]
    Plan(#[from] PlanError),
    /// HTTP in a worker.
    #[error("http: {}", with_causes(.0))]
    Start(#[from] StartError),
    /// The tables of streams.
    #[error("[stream]: {}", with_causes(.0))]
    StreamPlan(#[from] drover_stream::PlanError),
    /// Streams in a worker.
    #[error("stream: {}", with_causes(.0))]
    StreamStart(#[from] drover_stream::StartError),
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
    stream: drover_stream::Plan,
}

impl Plans {
    /// Compiles the tables for so many workers.
    ///
    /// # Errors
    /// Where a table does not mean anything; the check of the configuration finds most of that earlier.
    pub(crate) fn new(config: &Config, workers: u32) -> Result<Self, ServiceError> {
        let http = drover_http::Plan::new(&config.http, workers)?;
        Ok(Self { http, stream: drover_stream::Plan::new(&config.stream, workers)? })
    }

    /// The upstreams, each with the name of its service.
    pub(crate) fn upstreams(&self) -> impl Iterator<Item = (&'static str, &drover_upstream::Plan)> {
        let http = self.http.upstreams().iter().map(|plan| ("http", plan));
        http.chain(self.stream.upstreams().map(|plan| ("stream", plan)))
    }

    /// Takes over what the plans of the generation before know of servers that these have too.
    pub(crate) fn inherit(&self, before: &Plans) {
        for (service, plan) in self.upstreams() {
            let same = before.upstreams().find(|(other, old)| *other == service && old.name() == plan.name());
            if let Some((_, same)) = same {
                plan.inherit(same);
            }
        }
    }

    /// The listeners that are needed.
    pub(crate) fn listeners(&self) -> impl Iterator<Item = &Listener> {
        self.http_listeners().chain(self.stream.listeners())
    }

    fn http_listeners(&self) -> impl Iterator<Item = &Listener> {
        self.http.listeners().iter().map(|listener| &listener.socket)
    }

    /// `http on http://127.0.0.1:80, tcp on 127.0.0.1:5432`; empty where nothing listens.
    pub(crate) fn describe(&self) -> String {
        let http = self.http_listeners().map(|listener| format!("http://{}", listener.address)).collect();
        let of_stream = |udp| {
            let listeners = self.stream.listeners().filter(move |listener| listener.udp == udp);
            listeners.map(|listener| listener.address.to_string()).collect()
        };
        let places: [(&str, Vec<String>); 3] =
            [("http", http), ("tcp", of_stream(false)), ("udp", of_stream(true))];
        let used = places.iter().filter(|(_, places)| !places.is_empty());
        let parts: Vec<String> =
            used.map(|(name, places)| format!("{name} on {}", places.join(", "))).collect();
        parts.join(", ")
    }

    /// The files that workers write to, beside the log.
    pub(crate) fn log_files(&self) -> impl Iterator<Item = &Path> {
        self.http.log_files().chain(self.stream.log_files())
    }

    /// What pooled buffers have to hold, in bytes.
    pub(crate) fn buffer_size(&self) -> usize {
        self.http.buffer_size()
    }

    /// Opens what a worker needs, which sees the scoreboard through `readout`.
    ///
    /// # Errors
    /// A log that this worker may not write to.
    pub(crate) fn start(&self, core: &Core, readout: Readout) -> Result<Services, ServiceError> {
        self.http.show_status(Box::new(OwnScoreboard::new(readout)));
        Ok(Services { http: self.http.start(core)?, stream: self.stream.start(core)? })
    }
}

/// The services of a worker.
pub(crate) struct Services {
    http: Started,
    stream: drover_stream::Started,
}

impl Services {
    /// The service behind a listener, by its number in [`Plans::listeners`].
    pub(crate) fn of(&self, listener: usize) -> Option<Behind> {
        let http = self.http.services.iter().cloned().map(Behind::Connections);
        http.chain(self.stream.services.iter().cloned()).nth(listener)
    }

    /// Goes on in the files that now have the logs' names.
    pub(crate) fn reopen_logs(&self) {
        self.http.logs.reopen();
        self.stream.logs.reopen();
    }

    /// Writes what is gathered, before the end.
    pub(crate) fn finish(&self) {
        self.http.logs.flush();
        self.stream.logs.flush();
    }
}
