//! What the checks have to know of the system, asked once.

use std::path::PathBuf;

use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::{Uid, User};

use crate::budget;

/// Facts about the system and the process. Tests make up their own.
#[derive(Clone, Debug)]
pub(crate) struct System {
    /// The user the process runs as.
    pub(crate) uid: u32,
    /// CPUs the process may run on, by number.
    pub(crate) cpus: Vec<u32>,
    /// How many workers `"auto"` makes: the CPUs, less what a quota of the control group takes away.
    pub(crate) parallelism: u32,
    /// The longest queue for accept that the kernel grants.
    pub(crate) somaxconn: Option<u32>,
    /// Most descriptors of a process now.
    pub(crate) nofile: u64,
    /// The most it may raise that to.
    pub(crate) nofile_hard: u64,
    /// The user's directory for files that live as long as the login, if there is one.
    pub(crate) user_runtime_dir: Option<PathBuf>,
}

impl System {
    /// Asks the system. What it does not tell is taken as unlimited.
    pub(crate) fn probe() -> System {
        let (nofile, nofile_hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((u64::MAX, u64::MAX));
        let somaxconn = std::fs::read_to_string("/proc/sys/net/core/somaxconn");
        System {
            uid: Uid::effective().as_raw(),
            cpus: budget::affinity_cpus(),
            parallelism: budget::usable_cpus() as u32,
            somaxconn: somaxconn.ok().and_then(|text| text.trim().parse().ok()),
            nofile,
            nofile_hard,
            user_runtime_dir: std::env::var_os("XDG_RUNTIME_DIR")
                .map(PathBuf::from)
                .filter(|dir| dir.is_absolute()),
        }
    }

    pub(crate) fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Where the scoreboard is unless the config says otherwise.
    pub(crate) fn runtime_dir(&self) -> PathBuf {
        match &self.user_runtime_dir {
            _ if self.is_root() => PathBuf::from("/run/drover"),
            Some(dir) => dir.join("drover"),
            None => PathBuf::from(format!("/tmp/drover-{}", self.uid)),
        }
    }

    /// Whether there is a user of this name; assumed if it cannot be told.
    pub(crate) fn has_user(&self, name: &str) -> bool {
        User::from_name(name).map_or(true, |user| user.is_some())
    }
}
