//! Access logs: lines are gathered in memory and written with one `write` to a descriptor that appends.
//!
//! Each worker has its own buffer for each file. A flush writes whole lines only, so that the lines of
//! several workers, which share the file, never mix; a pipe is given as many lines at a time as the kernel
//! takes whole. What cannot be written is dropped and counted: a log never holds up a request.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use drover_config::LogFile;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use nix::errno::Errno;
use tracing::{error, warn};

use crate::output::Output;
use crate::syslog::{Sender, Syslog};

/// Where lines go.
#[derive(Clone, PartialEq, Debug)]
pub enum Target {
    /// The standard error that the daemon was started with.
    Stderr,
    /// Its standard output.
    Stdout,
    /// Appended to this file.
    File(PathBuf),
    /// Sent to a syslog daemon, each line at once.
    Syslog(Syslog),
}

impl Target {
    /// Where a config says that lines go; `None` for nowhere.
    pub fn of(file: &LogFile) -> Option<Target> {
        match file {
            LogFile::Off => None,
            LogFile::Stderr => Some(Target::Stderr),
            LogFile::Stdout => Some(Target::Stdout),
            LogFile::Path(path) => Some(Target::File(path.clone())),
        }
    }

    /// The file that lines are appended to, if it is one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Target::File(path) => Some(path),
            Target::Stderr | Target::Stdout | Target::Syslog(_) => None,
        }
    }

    fn name(&self) -> &Path {
        match self {
            Target::Stderr => Path::new("stderr"),
            Target::Stdout => Path::new("stdout"),
            Target::File(path) => path,
            Target::Syslog(_) => Path::new("syslog"),
        }
    }
}

/// How one log is kept.
#[derive(Clone, PartialEq, Debug)]
pub struct LogPlan {
    /// Where lines go.
    pub target: Target,
    /// Bytes that are gathered; 0 writes each line at once.
    pub buffer: usize,
    /// How long lines wait at most.
    pub flush: Duration,
}

/// One log of one worker.
#[derive(Debug)]
pub(crate) struct Log {
    plan: LogPlan,
    file: Option<File>,
    syslog: Option<Sender>,
    buffer: Vec<u8>,
    /// A flush is on its way.
    pub(crate) flush_is_due: bool,
    /// Lines lost since the last that was written.
    lost: u64,
    /// The last that was written is there in part only.
    torn: bool,
}

/// What could not be written.
struct Lost {
    fault: io::Error,
    lines: u64,
    /// A part of the first of them was written.
    torn: bool,
}

impl Log {
    /// Opens the log.
    pub(crate) fn open(plan: &LogPlan) -> io::Result<Log> {
        let file = open(&plan.target)?;
        let syslog = match &plan.target {
            Target::Syslog(config) => Some(Sender::new(config)),
            Target::Stderr | Target::Stdout | Target::File(_) => None,
        };
        let plan = plan.clone();
        Ok(Log { plan, file, syslog, buffer: Vec::new(), flush_is_due: false, lost: 0, torn: false })
    }

    /// How long lines wait at most.
    pub(crate) fn flush_after(&self) -> Duration {
        self.plan.flush
    }

    /// Adds one line, which `write` appends without its end. Gives whether the line now waits for a flush.
    #[inline]
    pub(crate) fn line(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        write(&mut self.buffer);
        self.buffer.push(b'\n');
        if self.buffer.len() >= self.plan.buffer || self.syslog.is_some() {
            self.flush();
        }
        !self.buffer.is_empty()
    }

    /// Writes what was gathered.
    pub(crate) fn flush(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        let written = match (&self.file, &self.plan.target) {
            (_, Target::Syslog(_)) => self
                .syslog
                .as_mut()
                .map_or(Ok(()), |syslog| syslog.send_lines(&self.buffer))
                .map_err(|(fault, lines)| Lost { fault, lines, torn: false }),
            (Some(file), _) => write_lines(file.as_fd(), &self.buffer, self.torn),
            (None, Target::Stdout) => write_lines(io::stdout().as_fd(), &self.buffer, self.torn),
            (None, _) => write_lines(io::stderr().as_fd(), &self.buffer, self.torn),
        };
        self.buffer.clear();
        self.torn = written.as_ref().is_err_and(|lost| lost.torn);
        let name = self.plan.target.name().display();
        match written {
            Err(Lost { fault, lines, .. }) => {
                // Once, not for every line that follows.
                if self.lost == 0 {
                    error!("access log {name}: lines are lost: {fault}");
                }
                self.lost += lines;
            }
            Ok(()) if self.lost > 0 => {
                warn!("access log {name}: written again after {} lost lines", self.lost);
                self.lost = 0;
            }
            Ok(()) => {}
        }
    }

    /// Flushes, and goes on in the file that now has the log's name; in the old one where that fails.
    pub(crate) fn reopen(&mut self) {
        self.flush();
        match open(&self.plan.target) {
            Ok(file) => (self.file, self.torn) = (file, false),
            Err(fault) => {
                error!("access log {}: not reopened: {fault}", self.plan.target.name().display());
            }
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Standard error and output are not kept: the daemon may give their numbers to other files.
fn open(target: &Target) -> io::Result<Option<File>> {
    let Target::File(path) = target else { return Ok(None) };
    LogFile::append(path).map(Some)
}

/// Writes `text`, which begins with a line, behind the end of one that was `torn`.
fn write_lines(to: BorrowedFd<'_>, text: &[u8], torn: bool) -> Result<(), Lost> {
    let output = Output::of(to);
    let most = output.whole().unwrap_or(text.len());
    let lost = |fault: Errno, rest: &[u8], torn: bool| Lost {
        fault: fault.into(),
        lines: memchr::memchr_iter(b'\n', rest).count() as u64,
        torn,
    };
    if torn {
        output.write(to, b"\n").map_err(|fault| lost(fault, text, true))?;
    }
    let (mut rest, mut begun) = (text, false);
    while !rest.is_empty() {
        match output.write(to, whole_lines(rest, most)) {
            Ok(written) => {
                begun = rest[..written].last().map_or(begun, |last| *last != b'\n');
                rest = &rest[written..];
            }
            Err(Errno::EINTR) => {}
            Err(fault) => return Err(lost(fault, rest, begun)),
        }
    }
    Ok(())
}

/// As many lines as `most` bytes hold; the first one alone if it is longer.
fn whole_lines(text: &[u8], most: usize) -> &[u8] {
    if text.len() <= most {
        return text;
    }
    let end = memchr::memrchr(b'\n', &text[..most]).or_else(|| memchr::memchr(b'\n', text));
    end.map_or(text, |end| &text[..=end])
}

/// Local time as text, worked out once a second.
#[derive(Debug)]
pub struct LocalTime {
    zone: TimeZone,
    second: Option<i64>,
    /// `02/Jan/2006:15:04:05 +0000`.
    pub common: String,
    /// `2006-01-02T15:04:05+00:00`.
    pub iso8601: String,
}

impl LocalTime {
    /// Local time in `zone`.
    pub fn new(zone: TimeZone) -> LocalTime {
        LocalTime { zone, second: None, common: String::new(), iso8601: String::new() }
    }

    /// The texts for a second since the epoch.
    #[inline]
    pub fn at(&mut self, second: i64) -> &LocalTime {
        if self.second != Some(second) {
            self.update(second);
        }
        self
    }

    fn update(&mut self, second: i64) {
        // Only years far from ours have no timestamp.
        let time = Timestamp::from_second(second).unwrap_or_default().to_zoned_datetime(self.zone.clone());
        self.common = time.strftime("%d/%b/%Y:%H:%M:%S %z").to_string();
        self.iso8601 = time.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
        self.second = Some(second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("drover-log-{}-{name}", std::process::id()));
            fs::create_dir_all(&path).expect("a directory can be made");
            Scratch(path)
        }

        fn plan(&self, buffer: usize) -> LogPlan {
            LogPlan { target: Target::File(self.0.join("log")), buffer, flush: Duration::from_secs(1) }
        }

        fn text(&self, name: &str) -> String {
            fs::read_to_string(self.0.join(name)).unwrap_or_default()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).expect("the directory can be removed");
        }
    }

    #[test]
    fn lines_are_gathered_and_flushed_at_the_end() {
        let scratch = Scratch::new("gather");
        let mut log = Log::open(&scratch.plan(10)).expect("the log opens");
        assert!(log.line(|out| out.extend_from_slice(b"one")));
        assert_eq!(scratch.text("log"), "");
        assert!(!log.line(|out| out.extend_from_slice(b"twotwo")), "the buffer was full");
        assert_eq!(scratch.text("log"), "one\ntwotwo\n");
        log.line(|out| out.extend_from_slice(b"3"));
        drop(log);
        assert_eq!(scratch.text("log"), "one\ntwotwo\n3\n");
    }

    #[test]
    fn without_a_buffer_each_line_is_written() {
        let scratch = Scratch::new("each");
        let mut log = Log::open(&scratch.plan(0)).expect("the log opens");
        assert!(!log.line(|out| out.extend_from_slice(b"one")));
        assert_eq!(scratch.text("log"), "one\n");
    }

    #[test]
    fn a_renamed_file_is_left_on_reopening() {
        let scratch = Scratch::new("reopen");
        let mut log = Log::open(&scratch.plan(100)).expect("the log opens");
        log.line(|out| out.extend_from_slice(b"old"));
        fs::rename(scratch.0.join("log"), scratch.0.join("log.1")).expect("the log can be renamed");
        log.reopen();
        log.line(|out| out.extend_from_slice(b"new"));
        log.flush();
        assert_eq!((scratch.text("log.1").as_str(), scratch.text("log").as_str()), ("old\n", "new\n"));
    }

    #[test]
    fn a_log_that_cannot_be_written_loses_lines_and_goes_on() {
        let plan =
            LogPlan { target: Target::File("/dev/full".into()), buffer: 0, flush: Duration::from_secs(1) };
        let mut log = Log::open(&plan).expect("the log opens");
        log.line(|out| out.extend_from_slice(b"one"));
        log.line(|out| out.extend_from_slice(b"two"));
        assert_eq!((log.lost, log.buffer.len()), (2, 0));
    }

    #[test]
    fn a_pipe_gets_whole_lines_and_never_makes_wait() {
        let scratch = Scratch::new("pipe");
        let plan = scratch.plan(1 << 20);
        let Target::File(path) = &plan.target else { unreachable!("a file") };
        nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).expect("a pipe can be made");
        let mut log = Log::open(&plan).expect("the log opens though nobody reads");
        let total: u64 = 2000;
        for _ in 0..total {
            log.line(|out| out.extend_from_slice(&[b'x'; 99]));
        }
        log.flush();
        let lost = log.lost;
        assert!(lost > 0, "a pipe does not hold 200 kB");
        let mut reader = File::open(path).expect("the log has it open for writing");
        let mut text = vec![0; 1 << 20];
        let length = io::Read::read(&mut reader, &mut text).expect("what was written");
        assert_eq!(length as u64, (total - lost) * 100, "neither a part of a line nor a wrong count");
    }

    #[test]
    fn lines_are_taken_whole() {
        assert_eq!(whole_lines(b"ab\ncd\n", 100), b"ab\ncd\n");
        assert_eq!(whole_lines(b"ab\ncd\n", 5), b"ab\n");
        assert_eq!(whole_lines(b"abcdef\ncd\n", 5), b"abcdef\n");
    }

    #[test]
    fn local_time_has_its_offset() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        let mut time = LocalTime::new(zone);
        let at = time.at(1_136_214_245);
        assert_eq!(at.common, "02/Jan/2006:17:04:05 +0200");
        assert_eq!(at.iso8601, "2006-01-02T17:04:05+02:00");
        assert_eq!(time.at(1_136_214_246).common, "02/Jan/2006:17:04:06 +0200");
    }
}
