//! What `/proc` says about a process.

use std::fs;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

/// True while the process exists and has not ended (one that waits to be reaped has).
pub fn alive(pid: Pid) -> bool {
    state(pid).is_some_and(|state| state != 'Z' && state != 'X')
}

/// The state letter (`R`, `S`, `Z`, ...).
pub fn state(pid: Pid) -> Option<char> {
    stat_field(pid, 3)?.chars().next()
}

/// The parent's process id.
pub fn parent(pid: Pid) -> Option<Pid> {
    stat_field(pid, 4)?.parse().ok().map(Pid::from_raw)
}

/// The process group.
pub fn group(pid: Pid) -> Option<Pid> {
    stat_field(pid, 5)?.parse().ok().map(Pid::from_raw)
}

/// The living children of a process, oldest first.
pub fn children(pid: Pid) -> Vec<Pid> {
    all().into_iter().filter(|child| parent(*child) == Some(pid) && alive(*child)).collect()
}

/// The living members of a process group.
pub fn members(process_group: Pid) -> Vec<Pid> {
    all().into_iter().filter(|pid| group(*pid) == Some(process_group) && alive(*pid)).collect()
}

fn all() -> Vec<Pid> {
    let mut pids: Vec<i32> = fs::read_dir("/proc")
        .expect("/proc is mounted")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    pids.sort_unstable();
    pids.into_iter().map(Pid::from_raw).collect()
}

/// The command line, or the title that the process gave itself.
pub fn title(pid: Pid) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes).replace('\0', " ");
    text.trim_end().to_owned()
}

/// One line of `/proc/PID/status`, without its name and with single spaces.
pub fn status_line(pid: Pid, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Memory of a process that belongs to no file, in KiB.
pub fn anonymous_memory(pid: Pid) -> Option<u64> {
    status_line(pid, "RssAnon")?.split(' ').next()?.parse().ok()
}

/// The memory in bytes that a process has written to and shares with none.
pub fn private_dirty(pid: Pid) -> Option<u64> {
    let maps = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = maps.lines().find_map(|line| line.strip_prefix("Private_Dirty:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Processor time of a process.
#[derive(Debug, Clone, Copy, Default)]
pub struct CpuTime {
    /// Outside the kernel.
    pub user: Duration,
    /// In the kernel.
    pub system: Duration,
}

impl CpuTime {
    /// Both together.
    pub fn total(self) -> Duration {
        self.user + self.system
    }

    /// The time since an earlier reading.
    pub fn since(self, earlier: CpuTime) -> CpuTime {
        CpuTime {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }
}

/// The processor time a process has used so far.
///
/// The kernel knows the sum to the nanosecond and splits it by where its clock ticks found the
/// process, so the split needs a second or more to be of use.
pub fn cpu_time(pid: Pid) -> Option<CpuTime> {
    let ticks = |field| stat_field(pid, field)?.parse::<u64>().ok();
    let (user, system) = (ticks(14)?, ticks(15)?);
    let sum = run_time(pid)?;
    let share = if user + system == 0 { 0.0 } else { user as f64 / (user + system) as f64 };
    let user = sum.mul_f64(share);
    Some(CpuTime { user, system: sum - user })
}

/// The time that all threads of a process have spent on a processor.
fn run_time(pid: Pid) -> Option<Duration> {
    let of_thread = |thread: fs::DirEntry| {
        let schedstat = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        schedstat.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
    };
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    Some(threads.filter_map(|thread| of_thread(thread.ok()?)).sum())
}

/// A field of `/proc/PID/stat` by its number in proc(5), from 3 on.
fn stat_field(pid: Pid, number: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the command in parentheses, which may contain anything.
    let rest = &stat[stat.rfind(')')? + 2..];
    rest.split(' ').nth(number - 3).map(str::to_owned)
}

/// Sends a signal; false when there is no such process any more.
///
/// # Panics
///
/// When it may not be sent.
pub fn send(pid: Pid, signal: Signal) -> bool {
    match signal::kill(pid, signal) {
        Ok(()) => true,
        Err(Errno::ESRCH) => false,
        Err(error) => panic!("cannot send {signal} to {pid}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn sees_a_child_come_and_go() {
        let mut child = Command::new("sleep").arg("100").spawn().expect("sleep starts");
        let pid = Pid::from_raw(child.id() as i32);
        assert!(alive(pid));
        assert_eq!(parent(pid), Some(Pid::this()));
        assert!(children(Pid::this()).contains(&pid));
        crate::eventually("it has its title", || (title(pid) == "sleep 100").then_some(()));
        assert!(send(pid, Signal::SIGKILL));
        crate::eventually("the child ends", || (!alive(pid)).then_some(()));
        assert_eq!(state(pid), Some('Z'));
        child.wait().expect("the child is ours");
        assert_eq!(state(pid), None);
        assert!(!send(pid, Signal::SIGKILL));
    }

    #[test]
    fn counts_processor_time() {
        let before = cpu_time(Pid::this()).expect("we exist");
        // The main thread may be idle meanwhile: only the parts are checked against each other.
        assert_eq!(before.total(), before.user + before.system);
        assert_eq!(before.since(before).total(), Duration::ZERO);
        assert!(status_line(Pid::this(), "Threads").is_some());
    }
}
