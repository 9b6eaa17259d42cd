//! strace attached to one worker, and its lines taken apart.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::{Directory, eventually, packages, process};

/// A strace at work. It lets the process go when it is dropped.
#[derive(Debug)]
pub struct Strace {
    child: Child,
    output: PathBuf,
}

/// One system call as strace prints it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Its name.
    pub name: String,
    /// What stands between its parentheses.
    pub arguments: String,
    /// What it returned: a number, and what follows it (`-1 EAGAIN (...)`).
    pub result: String,
}

impl Call {
    /// The number it returned.
    pub fn value(&self) -> Option<i64> {
        self.result.split_whitespace().next()?.parse().ok()
    }

    /// The time-out of an `epoll_wait` or `epoll_pwait`, in milliseconds.
    pub fn timeout(&self) -> Option<i64> {
        if !self.name.starts_with("epoll_") {
            return None;
        }
        // `4, [{events=EPOLLIN, data=0x1}], 512, 7000, [], 8`; a call that failed shows a pointer instead.
        let (_, after_epoll) = self.arguments.split_once(", ")?;
        let after_events = match after_epoll.strip_prefix('[') {
            Some(list) => list.split_once("], ")?.1,
            None => after_epoll.split_once(", ")?.1,
        };
        after_events.split(", ").nth(1)?.parse().ok()
    }
}

impl Strace {
    /// Attaches to a process and returns when every further call will be seen. Without strace, or where
    /// tracing is not permitted, says so and returns none: the test is skipped.
    pub fn attach(directory: &Directory, pid: Pid, calls: &str) -> Option<Strace> {
        Strace::start(directory, pid, &format!("trace={calls}"))
    }

    /// Attaches to a process and has each call of this name return that much later, as if the kernel or a disk
    /// had taken so long.
    pub fn slow_down(directory: &Directory, pid: Pid, call: &str, delay: Duration) -> Option<Strace> {
        Strace::start(directory, pid, &format!("inject={call}:delay_exit={}", delay.as_micros()))
    }

    fn start(directory: &Directory, pid: Pid, expression: &str) -> Option<Strace> {
        let strace = packages::tool_or_skip("strace", "strace")?;
        let (output, errors) = (directory.join("strace.txt"), directory.join("strace.errors"));
        let child = Command::new(strace)
            .args(["-s", "64", "-e", "signal=none", "-e", expression])
            .args(["-p", &pid.to_string(), "-o"])
            .arg(&output)
            .stdin(Stdio::null())
            .stderr(fs::File::create(&errors).expect("the directory is ours"))
            .spawn()
            .expect("strace starts");
        let mut strace = Strace { child, output };
        let attached = eventually("strace attaches", || {
            let said = fs::read_to_string(&errors).unwrap_or_default();
            if said.contains("attached") {
                return Some(true);
            }
            strace.child.try_wait().expect("strace is our child").map(|_| false)
        });
        if !attached {
            packages::skip(&fs::read_to_string(&errors).unwrap_or_default());
            return None;
        }
        Some(strace)
    }

    /// The calls seen so far. One that lasts is not among them: strace tells its time-out at its end.
    pub fn calls(&self) -> Vec<Call> {
        parse(&fs::read_to_string(&self.output).unwrap_or_default())
    }

    /// The file with strace's own lines.
    pub fn output(&self) -> &Path {
        &self.output
    }
}

impl Drop for Strace {
    fn drop(&mut self) {
        process::send(Pid::from_raw(self.child.id() as i32), Signal::SIGINT);
        let deadline = Instant::now() + DETACH_LIMIT;
        while let Ok(None) = self.child.try_wait() {
            if Instant::now() > deadline {
                // It cannot detach from a process that does not stop; its end detaches it.
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The number of system calls of a process while something runs.
///
/// # Errors
///
/// Where strace is missing or may not trace, and what `run` reports.
pub fn count<T>(
    directory: &Directory,
    pid: Pid,
    run: impl FnOnce() -> Result<T, String>,
) -> Result<(T, u64), String> {
    let strace = packages::tool("strace", "strace")?;
    let (table, said) = (directory.join("calls.txt"), directory.join("strace.txt"));
    let errors = fs::File::create(&said).map_err(|error| error.to_string())?;
    let mut child = Command::new(strace)
        .args(["-c", "-f", "-p", &pid.to_string(), "-o"])
        .arg(&table)
        .stdin(Stdio::null())
        .stderr(errors)
        .spawn()
        .map_err(|error| format!("strace: {error}"))?;
    eventually("strace attaches", || {
        let attached = fs::read_to_string(&said).is_ok_and(|text| text.contains("attached"));
        (attached || child.try_wait().is_ok_and(|ended| ended.is_some())).then_some(())
    });
    let outcome = run();
    process::send(Pid::from_raw(child.id() as i32), Signal::SIGINT);
    child.wait().map_err(|error| error.to_string())?;
    let text = fs::read_to_string(&table).map_err(|error| format!("strace: {error}"))?;
    let calls = total_calls(&text).ok_or_else(|| format!("strace says\n{text}"))?;
    Ok((outcome?, calls))
}

/// `100.00    1.234567           1   1234567        12 total`
fn total_calls(table: &str) -> Option<u64> {
    let line = table.lines().find(|line| line.trim_end().ends_with(" total"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

/// How long strace may take to let a process go.
const DETACH_LIMIT: Duration = Duration::from_secs(5);

/// Takes strace's output apart; lines that are no complete call are left out.
pub fn parse(text: &str) -> Vec<Call> {
    text.lines().filter_map(parse_call).collect()
}

/// `1234  recvfrom(7, "GET / HTTP/1.1\r\n", 1024, 0, NULL, NULL) = 16`
fn parse_call(line: &str) -> Option<Call> {
    let call = without_pid(line);
    let (call, result) = call.rsplit_once(" = ")?;
    let (name, arguments) = call.trim_end().strip_suffix(')')?.split_once('(')?;
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then(|| Call {
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        result: result.to_owned(),
    })
}

fn without_pid(line: &str) -> &str {
    line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
4711  epoll_pwait(4, [{events=EPOLLIN, data=0x1}], 512, -1, [HUP INT], 8) = 1
4711  recvfrom(7, "GET / HTTP/1.1\r\n (x) = 3", 1024, 0, NULL, NULL) = 37
4711  epoll_pwait(4, [], 512, 3000, [], 8) = 0
4711  epoll_wait(4, [{events=EPOLLIN, data={u32=1, u64=1}}], 512, 7000) = 1
4711  recvfrom(7, 0x55, 1024, 0, NULL, NULL) = -1 EAGAIN (Resource temporarily unavailable)
4711  epoll_pwait(4, 0x7ffe, 512, 60000, [], 8) = -1 EINTR (Interrupted system call)
4711  epoll_pwait(4,  <unfinished ...>
"#;

    #[test]
    fn takes_calls_apart() {
        let calls = parse(TEXT);
        assert_eq!(calls.len(), 6);
        let timeouts: Vec<Option<i64>> = calls.iter().map(Call::timeout).collect();
        assert_eq!(timeouts, [Some(-1), None, Some(3000), Some(7000), None, Some(60_000)]);
        let values: Vec<Option<i64>> = calls.iter().map(Call::value).collect();
        assert_eq!(values, [Some(1), Some(37), Some(0), Some(1), Some(-1), Some(-1)]);
        assert_eq!(calls[1].name, "recvfrom");
        assert!(calls[4].result.contains("EAGAIN"));
    }

    #[test]
    fn follows_a_process() {
        let directory = Directory::new();
        // A shell's own loop: it never forks, as no worker does.
        let mut child = Command::new("sh")
            .args(["-c", "while :; do cd /; done"])
            .stdin(Stdio::null())
            .spawn()
            .expect("sh starts");
        if let Some(strace) = Strace::attach(&directory, Pid::from_raw(child.id() as i32), "chdir") {
            eventually("calls are seen", || (strace.calls().len() > 2).then_some(()));
        }
        child.kill().expect("the child is ours");
        child.wait().expect("the child is ours");
    }

    #[test]
    fn reads_the_total() {
        let table = "% time     seconds  usecs/call     calls    errors syscall\n\
            ------ ----------- ----------- --------- --------- ----------------\n \
            60.00    0.000600           1       600           recvfrom\n \
            ------ ----------- ----------- --------- --------- ----------------\n\
            100.00    0.001000           1      1000         2 total\n";
        assert_eq!(total_calls(table), Some(1000));
    }
}
