//! `workers = "auto"`: as many as the affinity mask and the quota of the control group allow, at the start and
//! at each reload.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use drover_tests::daemon::Surroundings;
use drover_tests::packages::{skip, tool_or_skip};
use drover_tests::{Config, Directory, Drover, Port, process};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

/// The CPUs that this test may use.
fn cpus() -> Vec<usize> {
    let mask = sched_getaffinity(Pid::this()).expect("Linux has affinity masks");
    (0..CpuSet::count()).filter(|cpu| mask.is_set(*cpu).unwrap_or(false)).collect()
}

fn start(directory: &Directory, surroundings: &Surroundings) -> Drover {
    let config = Config::new(directory, 1).process("workers = \"auto\"").answering(&Port::new());
    Drover::try_start(directory, &config, surroundings).unwrap_or_else(|failure| panic!("{}", failure.stderr))
}

#[test]
fn the_affinity_mask_counts() {
    let Some(taskset) = tool_or_skip("taskset", "util-linux") else { return };
    let cpu = cpus()[0].to_string();
    let wrapper: Vec<OsString> = vec![taskset.into(), "-c".into(), cpu.clone().into()];
    let directory = Directory::new();
    let drover = start(&directory, &Surroundings { wrapper, ..Surroundings::default() });
    assert_eq!(process::status_line(drover.worker(), "Cpus_allowed_list"), Some(cpu));
}

/// Where this process stands in the hierarchy of a cgroup version, by `/proc/self/cgroup`: the folder beneath the
/// root of all hierarchies.
fn group(version: u8) -> Option<PathBuf> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    text.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let path = path.trim_start_matches('/');
        match version {
            2 => controllers.is_empty().then(|| PathBuf::from(path)),
            _ => controllers
                .split(',')
                .any(|name| name == "cpu")
                .then(|| PathBuf::from(controllers).join(path)),
        }
    })
}

/// Starts drover under a made-up root of control groups, in which its own has a quota of so many hundredths
/// of a CPU; then changes the quota and reloads.
fn quota(version: u8, write: impl Fn(&PathBuf, u32)) {
    let Some(group) = group(version) else {
        return skip(&format!("this machine has no control groups of version {version} for CPUs"));
    };
    let directory = Directory::new();
    let own = directory.join("cgroup").join(group);
    fs::create_dir_all(&own).expect("the directory is ours");
    let expected = |hundredths: u32| cpus().len().min(hundredths.div_ceil(100) as usize);
    let root = directory.join("cgroup").into_os_string();
    let environment = vec![("DROVER_CGROUP_ROOT".into(), root)];
    write(&own, 50);
    let drover = start(&directory, &Surroundings { environment, ..Surroundings::default() });
    assert_eq!(drover.workers().len(), 1);
    for hundredths in [150, 30, 10_000] {
        write(&own, hundredths);
        drover.reload();
        assert_eq!(drover.workers().len(), expected(hundredths), "{hundredths} hundredths of a CPU");
    }
}

#[test]
fn the_quota_of_version_2_counts() {
    quota(2, |own, hundredths| {
        fs::write(own.join("cpu.max"), format!("{} 100000\n", hundredths * 1000))
            .expect("the directory is ours");
    });
}

#[test]
fn the_quota_of_version_1_counts() {
    quota(1, |own, hundredths| {
        let quota = (hundredths * 1000).to_string();
        for (file, text) in [("cpu.cfs_quota_us", quota.as_str()), ("cpu.cfs_period_us", "100000")] {
            fs::write(own.join(file), text).expect("the directory is ours");
        }
    });
}
