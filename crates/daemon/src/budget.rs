//! What the machine grants: how many CPUs this process may really use, and whether descriptors and memory
//! suffice for the slots.
//!
//! `workers = "auto"` is the smaller of the affinity mask and the quota of the control group, rounded up:
//! a quota of one and a half CPUs gives two workers. Both cgroup versions are read, and every level up to
//! the root, because each of them limits. The root is `/sys/fs/cgroup`, or `DROVER_CGROUP_ROOT` (for
//! tests and unusual mounts).

use std::fs;
use std::path::{Path, PathBuf};

use nix::sched::{CpuSet, sched_getaffinity};
use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::Pid;

use crate::config::Config;
use crate::text::counted;

/// The CPUs that this process may use, at least one.
pub(crate) fn usable_cpus() -> usize {
    let root =
        std::env::var_os("DROVER_CGROUP_ROOT").map_or_else(|| PathBuf::from("/sys/fs/cgroup"), PathBuf::from);
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    limit(affinity(), quota(&root, &groups))
}

fn limit(affinity: usize, quota: Option<f64>) -> usize {
    let quota = quota.map_or(usize::MAX, |cpus| cpus.ceil() as usize);
    affinity.min(quota).max(1)
}

fn affinity() -> usize {
    affinity_cpus().len()
}

/// The numbers of the CPUs that this process may run on.
pub(crate) fn affinity_cpus() -> Vec<u32> {
    let Ok(mask) = sched_getaffinity(Pid::from_raw(0)) else { return Vec::new() };
    (0..CpuSet::count()).filter(|cpu| mask.is_set(*cpu).unwrap_or(false)).map(|cpu| cpu as u32).collect()
}

/// The smallest quota, in CPUs, over all groups named in `groups` (the text of `/proc/self/cgroup`) and
/// their ancestors below `root`.
fn quota(root: &Path, groups: &str) -> Option<f64> {
    let quotas = groups.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        match controllers {
            "" => smallest(root, path, quota_v2),
            _ if controllers.split(',').any(|name| name == "cpu") => {
                let mounts = [controllers, "cpu"].map(|name| root.join(name));
                mounts.iter().filter_map(|mount| smallest(mount, path, quota_v1)).reduce(f64::min)
            }
            _ => None,
        }
    });
    quotas.reduce(f64::min)
}

/// The smallest quota of the group at `path` and its ancestors. Inside a container the path is often the
/// host's and not there; its ancestors then end at `root`, which is the container's own group.
fn smallest(root: &Path, path: &str, read: fn(&Path) -> Option<f64>) -> Option<f64> {
    let path = Path::new(path.trim_start_matches('/'));
    path.ancestors().filter_map(|ancestor| read(&root.join(ancestor))).reduce(f64::min)
}

/// `cpu.max`: "QUOTA PERIOD" or "max PERIOD", in microseconds.
fn quota_v2(group: &Path) -> Option<f64> {
    let text = fs::read_to_string(group.join("cpu.max")).ok()?;
    let (quota, period) = text.trim().split_once(' ')?;
    ratio(quota, period)
}

fn quota_v1(group: &Path) -> Option<f64> {
    let quota = fs::read_to_string(group.join("cpu.cfs_quota_us")).ok()?;
    let period = fs::read_to_string(group.join("cpu.cfs_period_us")).ok()?;
    ratio(quota.trim(), period.trim())
}

/// Nothing for "max" (version 2) and -1 (version 1).
fn ratio(quota: &str, period: &str) -> Option<f64> {
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

/// What a configuration asks of the machine, for the line at start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    /// Workers.
    pub(crate) workers: usize,
    /// Slots of each.
    pub(crate) slots: u32,
    /// Descriptors that a worker may open.
    pub(crate) descriptors: u64,
    /// Bytes that a slot with its two events takes.
    pub(crate) slot_bytes: u64,
}

/// Descriptors of a worker that are no slots: standard streams, logs, the backend and the like.
const OTHER_DESCRIPTORS: u64 = 16;
/// What a slot with its two events takes at most, in bytes: a limit of the design.
const SLOT_BYTES: u64 = 256;

impl Budget {
    /// What `config` asks for with this many workers.
    pub(crate) fn of(config: &Config, workers: u32) -> Self {
        let configured = config.process.rlimit_nofile.as_ref().map(|limit| u64::from(**limit));
        let inherited = || getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
        Self {
            workers: workers as usize,
            slots: *config.events.worker_connections,
            descriptors: configured.unwrap_or_else(inherited),
            slot_bytes: SLOT_BYTES,
        }
    }

    /// One line: workers, slots, descriptors against the limit, memory.
    pub(crate) fn describe(&self) -> String {
        let Self { workers, slots, descriptors, .. } = self;
        let memory = self.slot_bytes * u64::from(*slots) * *workers as u64;
        format!(
            "budget: {} with {slots} slots each, up to {} descriptors per worker of {descriptors} \
             allowed, at most {} KiB for slots in all",
            counted(*workers, "worker"),
            self.needed_descriptors(),
            memory.div_ceil(1024),
        )
    }

    /// What is wrong with it, if anything.
    pub(crate) fn shortfall(&self) -> Option<String> {
        let needed = self.needed_descriptors();
        (needed > self.descriptors).then(|| {
            format!(
                "{} slots can take {needed} descriptors, but a worker may open {}: raise [process] rlimit_nofile \
                 or lower [events] worker_connections",
                self.slots, self.descriptors
            )
        })
    }

    fn needed_descriptors(&self) -> u64 {
        u64::from(self.slots) + OTHER_DESCRIPTORS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Groups(PathBuf);

    impl Groups {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("drover-cgroup-{}-{name}", std::process::id()));
            for (file, text) in files {
                let path = root.join(file);
                fs::create_dir_all(path.parent().expect("parent")).expect("directory");
                fs::write(path, text).expect("file");
            }
            Self(root)
        }
    }

    impl Drop for Groups {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_tightest_ancestor_counts() {
        let groups = Groups::new(
            "v2",
            &[
                ("cpu.max", "max 100000\n"),
                ("a/cpu.max", "150000 100000\n"),
                ("a/b/cpu.max", "400000 100000\n"),
            ],
        );
        assert_eq!(quota(&groups.0, "0::/a/b\n"), Some(1.5));
        assert_eq!(quota(&groups.0, "0::/\n"), None);
    }

    #[test]
    fn a_path_that_the_container_cannot_see_ends_at_its_root() {
        let groups = Groups::new("inside", &[("cpu.max", "50000 100000\n")]);
        assert_eq!(quota(&groups.0, "0::/docker/0123/somewhere\n"), Some(0.5));
    }

    #[test]
    fn version_one_is_read_under_either_name_of_its_mount() {
        for mount in ["cpu", "cpu,cpuacct"] {
            let file = |name| format!("{mount}/box/cpu.cfs_{name}_us");
            let (quota_file, period_file) = (file("quota"), file("period"));
            let groups = Groups::new(mount, &[(&quota_file, "300000\n"), (&period_file, "100000\n")]);
            assert_eq!(quota(&groups.0, "5:memory:/x\n4:cpu,cpuacct:/box\n"), Some(3.0));
        }
        let free =
            Groups::new("free", &[("cpu/cpu.cfs_quota_us", "-1\n"), ("cpu/cpu.cfs_period_us", "100000\n")]);
        assert_eq!(quota(&free.0, "1:cpu:/\n"), None);
    }

    #[test]
    fn the_smaller_of_mask_and_quota_is_used_and_at_least_one() {
        assert_eq!(limit(8, Some(1.5)), 2);
        assert_eq!(limit(2, Some(4.0)), 2);
        assert_eq!(limit(4, None), 4);
        assert_eq!(limit(4, Some(0.2)), 1);
        assert_eq!(limit(0, None), 1);
    }

    #[test]
    fn a_shortfall_names_both_keys() {
        let budget = Budget { workers: 2, slots: 1024, descriptors: 64, slot_bytes: 256 };
        let text = budget.shortfall().expect("too few");
        assert!(text.contains("rlimit_nofile") && text.contains("worker_connections"), "{text}");
        assert!(budget.describe().contains("512 KiB"), "{}", budget.describe());
        assert_eq!(Budget { descriptors: 2000, ..budget }.shortfall(), None);
    }
}
