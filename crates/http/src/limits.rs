//! Limits of what clients with one key may do: requests a time, and requests under way at once.
//!
//! Both count over all workers, in memory that the master makes before it forks; it is bounded, whatever clients do.

use std::hash::{BuildHasher, RandomState};
use std::io;

use drover_service::limits::{Requests, UnderWay};

use crate::config::{self, AtOnce};
use crate::own::OwnVariables;
use crate::plan::PlanError;
use crate::variables::Template;

/// The limits of a config.
pub(crate) struct Limits {
    pub(crate) requests: Vec<RequestLimit>,
    pub(crate) connections: Vec<ConnectionLimit>,
    /// Made by the master, so that all workers know a key by the same number, and no client knows which.
    hasher: RandomState,
}

/// A limit of requests a time.
pub(crate) struct RequestLimit {
    name: String,
    pub(crate) key: Template,
    pub(crate) table: Requests,
}

/// A limit of requests under way at once.
pub(crate) struct ConnectionLimit {
    name: String,
    pub(crate) key: Template,
    pub(crate) table: UnderWay,
}

/// A limit of requests a time as a location has it.
#[derive(Debug)]
pub(crate) struct RequestLimitUse {
    /// Number of the limit.
    pub(crate) limit: usize,
    pub(crate) burst: u64,
    /// Requests of the burst that do not wait.
    pub(crate) at_once: u64,
    pub(crate) status: u16,
}

/// A limit of requests under way as a location has it.
#[derive(Debug)]
pub(crate) struct ConnectionLimitUse {
    /// Number of the limit.
    pub(crate) limit: usize,
    pub(crate) most: u64,
    pub(crate) status: u16,
}

impl Limits {
    /// Makes the tables for so many workers.
    pub(crate) fn new(config: &config::Http, own: &OwnVariables, workers: u32) -> Result<Limits, PlanError> {
        let key = |name: &str, text: &str| {
            own.template(text).map_err(|source| PlanError::Limit { name: name.to_owned(), source })
        };
        let memory = |name: &str| {
            let name = name.to_owned();
            move |source: io::Error| PlanError::Memory { name, source }
        };
        let mut limits = Limits { requests: Vec::new(), connections: Vec::new(), hasher: RandomState::new() };
        for (name, config) in &config.request_limits {
            let table = Requests::new(config.entries, config.rate.interval_us()).map_err(memory(name))?;
            limits.requests.push(RequestLimit { name: name.clone(), key: key(name, &config.key)?, table });
        }
        for (name, config) in &config.connection_limits {
            let table = UnderWay::new(config.entries, workers).map_err(memory(name))?;
            limits.connections.push(ConnectionLimit {
                name: name.clone(),
                key: key(name, &config.key)?,
                table,
            });
        }
        Ok(limits)
    }

    /// What a location says about requests a time.
    pub(crate) fn of_requests(&self, config: &config::LimitRequests) -> Result<RequestLimitUse, PlanError> {
        let name = config.limit.as_str();
        let found = self.requests.iter().position(|limit| limit.name == name);
        let limit = found.ok_or_else(|| PlanError::UnknownLimit { name: name.to_owned() })?;
        let burst = u64::from(config.burst);
        let at_once = match config.at_once {
            AtOnce::None => 0,
            AtOnce::Count(count) => u64::from(count),
            AtOnce::All => burst,
        };
        Ok(RequestLimitUse { limit, burst, at_once, status: config.status })
    }

    /// What a location says about requests under way.
    pub(crate) fn of_connections(
        &self,
        config: &config::LimitConnections,
    ) -> Result<ConnectionLimitUse, PlanError> {
        let name = config.limit.as_str();
        let found = self.connections.iter().position(|limit| limit.name == name);
        let limit = found.ok_or_else(|| PlanError::UnknownLimit { name: name.to_owned() })?;
        Ok(ConnectionLimitUse { limit, most: u64::from(config.most), status: config.status })
    }

    /// What a worker that is gone had under way is over: to be called when another begins with its number.
    pub(crate) fn forget_worker(&self, worker: u32) {
        self.connections.iter().for_each(|limit| limit.table.forget_worker(worker));
    }

    /// The number that a key is known by; never 0.
    pub(crate) fn number(&self, key: &[u8]) -> u64 {
        self.hasher.hash_one(key).max(1)
    }
}
