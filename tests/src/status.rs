//! `drover status --json`, read back.

use std::ffi::OsString;
use std::path::Path;

use serde::Deserialize;

use crate::binary;

/// The daemon as the scoreboard shows it.
#[derive(Debug, Clone, Deserialize)]
pub struct Status {
    /// The master.
    pub master: MasterStatus,
    /// Every worker that has not ended, also of older generations.
    pub workers: Vec<WorkerStatus>,
    /// Sums over all workers there are and have been.
    pub totals: Totals,
}

/// The master.
#[derive(Debug, Clone, Deserialize)]
pub struct MasterStatus {
    /// Its process id.
    pub pid: i32,
    /// The running generation.
    pub generation: u64,
    /// How many workers it is to have.
    pub workers: usize,
}

/// Sums that never fall.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Totals {
    /// Connections accepted.
    pub accepts: u64,
    /// Requests answered.
    pub requests: u64,
}

/// One worker.
#[derive(Debug, Clone, Deserialize)]
pub struct WorkerStatus {
    /// The worker's number.
    pub worker: u32,
    /// Its process id.
    pub pid: i32,
    /// The generation it belongs to.
    pub generation: u64,
    /// `starting`, `serving`, `draining`, ...
    pub state: String,
    /// Open connections.
    pub connections: u64,
    /// Free slots.
    pub free_slots: u64,
    /// Connections accepted.
    pub accepts: u64,
    /// Requests answered.
    pub requests: u64,
    /// How often it took its listeners out because it had more connections than others.
    pub gate_closed: u64,
    /// Turns of its loop.
    pub turns: u64,
}

impl Status {
    /// Asks the daemon that was started with this config file.
    pub fn read(config: &Path) -> Result<Status, String> {
        Status::of(&["-c".into(), config.into()])
    }

    /// Asks the daemon that was started with these arguments.
    pub fn of(source: &[OsString]) -> Result<Status, String> {
        let json = Status::text_of(source)?;
        serde_json::from_str(&json).map_err(|error| format!("{error} in\n{json}"))
    }

    /// The JSON itself.
    pub fn text(config: &Path) -> Result<String, String> {
        Status::text_of(&["-c".into(), config.into()])
    }

    fn text_of(source: &[OsString]) -> Result<String, String> {
        let command = ["status".into(), "--json".into()];
        let output = binary::run(command.iter().chain(source));
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        String::from_utf8(output.stdout).map_err(|error| error.to_string())
    }

    /// The running generation.
    pub fn generation(&self) -> u64 {
        self.master.generation
    }

    /// True when every worker of the running generation is there and serves.
    pub fn all_serve(&self) -> bool {
        let current = self.workers.iter().filter(|worker| worker.generation == self.generation());
        let serving = current.filter(|worker| worker.state == "serving").count();
        serving > 0 && serving == self.master.workers
    }

    /// True when, besides, no worker of an older generation is left.
    pub fn serves_alone(&self) -> bool {
        self.all_serve() && self.workers.len() == self.master.workers
    }
}
