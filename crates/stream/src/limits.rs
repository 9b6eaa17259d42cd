//! Limits of connections and sessions: how many at once, and how many a time, for each key.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use drover_event::Core;
use drover_service::limits::{Held, Requests, UnderWay, Verdict};

use crate::config;
use crate::plan::{PlanError, parse};
use crate::record::Record;
use crate::variables::Template;

/// The limits of a config.
pub(crate) struct Limits {
    connections: Vec<(String, Template, UnderWay)>,
    accepts: Vec<(String, Template, Requests)>,
    /// Made by the master, so that all workers know a key by the same number, and no client knows which.
    hasher: RandomState,
}

/// The limits that apply to a proxy.
#[derive(Debug, Default)]
pub(crate) struct Applied {
    /// Number of the limit, and connections at once.
    connections: Vec<(usize, u64)>,
    /// Number of the limit, and connections above the rate.
    accepts: Vec<(usize, u64)>,
}

impl Limits {
    /// Makes the tables for so many workers.
    pub(crate) fn new(config: &config::Stream, workers: u32) -> Result<Limits, PlanError> {
        let mut limits = Limits { connections: Vec::new(), accepts: Vec::new(), hasher: RandomState::new() };
        for (name, limit) in &config.connection_limits {
            let key = parse(&limit.key, || format!("`key` of limit \"{name}\""))?;
            let table = UnderWay::new(limit.entries, workers).map_err(PlanError::Memory)?;
            limits.connections.push((name.clone(), key, table));
        }
        for (name, limit) in &config.accept_limits {
            let key = parse(&limit.key, || format!("`key` of limit \"{name}\""))?;
            let table = Requests::new(limit.entries, limit.rate.interval_us()).map_err(PlanError::Memory)?;
            limits.accepts.push((name.clone(), key, table));
        }
        Ok(limits)
    }

    /// The texts of all keys.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Template> {
        let connections = self.connections.iter().map(|(_, key, _)| key);
        connections.chain(self.accepts.iter().map(|(_, key, _)| key))
    }

    /// What applies to a proxy.
    pub(crate) fn applied(&self, server: &config::Server) -> Result<Applied, PlanError> {
        let unknown = |name: &str| PlanError::UnknownLimit { name: name.to_owned() };
        let mut applied = Applied::default();
        for limit in &server.limit_connections {
            let name = limit.limit.as_str();
            let number = self.connections.iter().position(|(known, ..)| known == name);
            applied.connections.push((number.ok_or_else(|| unknown(name))?, u64::from(limit.most)));
        }
        for limit in &server.limit_accepts {
            let name = limit.limit.as_str();
            let number = self.accepts.iter().position(|(known, ..)| known == name);
            applied.accepts.push((number.ok_or_else(|| unknown(name))?, u64::from(limit.burst)));
        }
        Ok(applied)
    }

    /// What a worker that is gone had open is over: to be called when another begins with its number.
    pub(crate) fn forget_worker(&self, worker: u32) {
        self.connections.iter().for_each(|(_, _, table)| table.forget_worker(worker));
    }

    /// Counts a connection or session that begins; what is given back counts as long as it is kept. None where
    /// it is one too many.
    pub(crate) fn admit(&self, core: &Core, applied: &Applied, record: &Record) -> Option<Vec<Held>> {
        for (number, burst) in &applied.accepts {
            let (_, key, table) = &self.accepts[*number];
            let Some(key) = self.number(core, key, record) else { continue };
            let now = Duration::from_millis(core.now().as_u64()).as_micros() as u64;
            if table.take(key, now, *burst, *burst) == Verdict::Refuse {
                return None;
            }
        }
        let mut held = Vec::with_capacity(applied.connections.len());
        for (number, most) in &applied.connections {
            let (_, key, table) = &self.connections[*number];
            let Some(key) = self.number(core, key, record) else { continue };
            held.push(table.begin(key, record.worker.worker, *most)?);
        }
        Some(held)
    }

    /// The number that a key is known by; none for an empty one.
    fn number(&self, core: &Core, key: &Template, record: &Record) -> Option<u64> {
        let text = record.render(core, key);
        (!text.is_empty()).then(|| self.hasher.hash_one(&text).max(1))
    }
}

impl Applied {
    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.connections.is_empty() && self.accepts.is_empty()
    }
}
