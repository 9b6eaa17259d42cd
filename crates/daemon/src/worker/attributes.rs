//! What a worker sets of its process before it gives up the right to.

use std::io;

use drover_sys::priority;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::Pid;
use tracing::{debug, warn};

use super::{Start, WorkerError};
use crate::config::Affinity;

/// Tells master, worker and generation apart in lists of processes.
pub(super) fn set_title(start: &mut Start) {
    let name = &start.config.process.title;
    let title = format!("{name}: worker {}, generation {}", start.number, start.generation);
    // A process without a master keeps its command line.
    let Some(own) = start.title.as_mut().filter(|_| start.channel.is_some()) else { return };
    if let Err(error) = own.set(&title) {
        debug!("no title: {error}");
    }
}

/// Descriptors, priority and CPU as the config says.
///
/// # Errors
/// What the system does not allow.
pub(super) fn set(start: &Start) -> Result<(), WorkerError> {
    let process = &start.config.process;
    let attribute = |what| move |source: io::Error| WorkerError::Attribute { what, source };
    if let Some(limit) = &process.rlimit_nofile {
        let limit = u64::from(**limit);
        let hard = getrlimit(Resource::RLIMIT_NOFILE).map_or(limit, |(_, hard)| hard).max(limit);
        if let Err(errno) = setrlimit(Resource::RLIMIT_NOFILE, limit, hard) {
            warn!("rlimit_nofile = {limit} is not allowed: {errno}; going on with what there is");
        }
    }
    if process.nice != 0 {
        priority::set_nice(process.nice).map_err(attribute("nice"))?;
    }
    if let Some(cpu) = cpu_of(start) {
        let mut set = CpuSet::new();
        let bound = set.set(cpu as usize).and_then(|()| sched_setaffinity(Pid::from_raw(0), &set));
        bound.map_err(|errno| attribute("cpu_affinity")(errno.into()))?;
    }
    Ok(())
}

/// The CPU that this worker stays on, if any.
fn cpu_of(start: &Start) -> Option<u32> {
    let usable;
    let cpus: &[u32] = match &*start.config.process.cpu_affinity {
        Affinity::Off => return None,
        Affinity::Auto => {
            usable = crate::budget::affinity_cpus();
            &usable
        }
        Affinity::Cpus(cpus) => cpus,
    };
    cpus.get(start.number as usize % cpus.len().max(1)).copied()
}
