//! How many descriptors a worker has open, and how many it may have.
//!
//! Counting them costs a system call where the kernel keeps the count (Linux 6.2: the size of `/proc/self/fd`),
//! and a walk through the directory where it does not; then they are counted once, at the start. What changes
//! afterwards is mostly slots, each of which stands for a descriptor: readers correct the count by those.

use std::fs;

use drover_event::{Core, Gauge};
use nix::sys::resource::{Resource, getrlimit};

const DIRECTORY: &str = "/proc/self/fd";

/// Publishes the descriptors of a worker, now and once a second while it turns.
pub(crate) fn publish(core: &Core) {
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
    core.stats().set(Gauge::DescriptorLimit, limit);
    // The one by which the directory is read is not there any more.
    let counted = fs::read_dir(DIRECTORY).map_or(0, |entries| entries.count().saturating_sub(1));
    note(core, counted as u64);
    if by_the_kernel().is_some() {
        core.each_second(|core| {
            if let Some(count) = by_the_kernel() {
                note(core, count);
            }
        });
    }
}

fn note(core: &Core, count: u64) {
    let stats = core.stats();
    stats.set(Gauge::Descriptors, count);
    stats.set(Gauge::FreeSlotsThen, stats.gauge(Gauge::FreeSlots));
}

/// The kernel's own count, from Linux 6.2 on.
fn by_the_kernel() -> Option<u64> {
    fs::metadata(DIRECTORY).ok().map(|directory| directory.len()).filter(|count| *count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_counts_what_the_directory_shows() {
        let Some(before) = by_the_kernel() else { return };
        let files: Vec<fs::File> = (0..100).map(|_| fs::File::open("/dev/null").expect("device")).collect();
        let after = by_the_kernel().expect("as before");
        // Other tests of this process open and close files meanwhile.
        assert!(after >= before + 50, "{before} and {} more are {after}", files.len());
    }
}
