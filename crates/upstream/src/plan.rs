//! The plan: an upstream made ready by the master, before the fork.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::rc::Rc;
use std::sync::Arc;

use crate::config;
use crate::words::{Layout, Words};

/// An upstream with the words that its workers will share.
#[derive(Clone)]
pub struct Plan {
    made: Rc<Made>,
    resolver: Resolver,
}

struct Made {
    name: Box<str>,
    config: config::Upstream,
    words: RefCell<Words>,
}

/// What tells the addresses of a name, with the port at each. It may take its time: it runs on a thread of
/// its own.
pub type Resolver = Arc<dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// No memory for the words.
    #[error("memory for upstream \"{upstream}\"")]
    Memory {
        /// Its name.
        upstream: String,
        /// What the system said.
        source: io::Error,
    },
}

/// Why an upstream cannot start in a worker.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The plan was made for fewer workers.
    #[error("upstream \"{upstream}\" has no words for worker {worker}")]
    Words {
        /// Its name.
        upstream: String,
        /// The worker's number.
        worker: u32,
    },
}

impl Plan {
    /// An upstream for workers with the numbers from 0 to below `workers`.
    ///
    /// # Errors
    /// When the system has no memory.
    pub fn new(name: &str, config: &config::Upstream, workers: u32) -> Result<Plan, PlanError> {
        let layout = Layout::new(config, workers.max(1));
        let words = Words::anonymous(layout)
            .map_err(|source| PlanError::Memory { upstream: name.to_owned(), source })?;
        let made = Made { name: name.into(), config: config.clone(), words: RefCell::new(words) };
        let system = |host: &str, port| (host, port).to_socket_addrs().map(Iterator::collect);
        Ok(Plan { made: Rc::new(made), resolver: Arc::new(system) })
    }

    /// Has the workers share these words instead, which others may see too. They have to be zero, and of this
    /// plan's layout. For the master, before it forks the workers.
    pub fn place(&self, words: Words) {
        self.made.words.replace(words);
    }

    /// The same with names resolved by `resolver` rather than by the system.
    #[must_use]
    pub fn resolved_by(self, resolver: Resolver) -> Plan {
        Plan { resolver, ..self }
    }

    /// The upstream's name.
    pub fn name(&self) -> &str {
        &self.made.name
    }

    /// What the config says of it.
    pub fn config(&self) -> &config::Upstream {
        &self.made.config
    }

    /// What its workers share.
    pub fn words(&self) -> Words {
        self.made.words.borrow().clone()
    }

    pub(crate) fn resolver(&self) -> &Resolver {
        &self.resolver
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Plan({})", self.name())
    }
}
