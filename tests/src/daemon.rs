//! A running drover: the real binary, in a process group of its own.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::prctl;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;

use crate::status::Status;
use crate::{Config, Directory, binary, eventually, process};

/// A drover that was started with `run -c FILE`. Dropping it ends master and workers.
#[derive(Debug)]
pub struct Drover {
    child: Child,
    config: PathBuf,
    /// The arguments that name it.
    source: Vec<OsString>,
    directory: PathBuf,
    stderr: PathBuf,
}

/// How a drover ended that did not come up.
#[derive(Debug)]
pub struct Failure {
    /// The exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// All it wrote to stderr.
    pub stderr: String,
}

/// What is around the command `drover run -c FILE`.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// A command that runs the rest of its command line in the same process, such as `prlimit --nofile=64`.
    pub wrapper: Vec<OsString>,
    /// Variables of the environment.
    pub environment: Vec<(OsString, OsString)>,
    /// The executable, where it is not the one under test itself.
    pub executable: Option<PathBuf>,
    /// What standard input and output are, in this order; else nothing.
    pub passed: Vec<Arc<OwnedFd>>,
}

impl Surroundings {
    fn stream(&self, number: usize) -> Stdio {
        let passed = self.passed.get(number).map(|socket| socket.try_clone().expect("a descriptor"));
        passed.map_or_else(Stdio::null, Stdio::from)
    }
}

impl Drover {
    /// Writes the config and starts drover; returns when its workers are there.
    ///
    /// # Panics
    ///
    /// When it ends instead, or is not ready soon.
    #[track_caller]
    pub fn start(directory: &Directory, config: &Config) -> Drover {
        match Drover::try_start(directory, config, &Surroundings::default()) {
            Ok(drover) => drover,
            Err(failure) => panic!("drover ended with {:?}:\n{}", failure.code, failure.stderr),
        }
    }

    /// Like [`Drover::start`], where it may be meant to fail.
    pub fn try_start(
        directory: &Directory,
        config: &Config,
        surroundings: &Surroundings,
    ) -> Result<Drover, Failure> {
        Drover::try_start_file(directory, &config.write(directory), surroundings)
    }

    /// The same with the text of a config, which has to say that `run` and `drover.pid` lie in the directory.
    ///
    /// # Panics
    ///
    /// When it ends instead, or is not ready soon.
    #[track_caller]
    pub fn start_text(directory: &Directory, text: &str) -> Drover {
        let file = directory.write("drover.toml", text);
        match Drover::try_start_file(directory, &file, &Surroundings::default()) {
            Ok(drover) => drover,
            Err(failure) => panic!("drover ended with {:?}:\n{}", failure.code, failure.stderr),
        }
    }

    /// Starts drover with an nginx.conf, which has to say that the directory has its pid file, `drover.pid`, and with
    /// the directory as its prefix.
    ///
    /// # Errors
    /// How it ended instead.
    pub fn try_start_nginx_conf(
        directory: &Directory,
        text: &str,
        arguments: &[&str],
    ) -> Result<Drover, Failure> {
        let file = directory.write("nginx.conf", text);
        let mut source: Vec<OsString> = vec!["--nginx-conf".into(), file.clone().into()];
        source.extend(["-p".into(), directory.path().into()]);
        source.extend(arguments.iter().map(OsString::from));
        Drover::try_start_source(directory, &file, source, &Surroundings::default())
    }

    fn try_start_file(
        directory: &Directory,
        config: &Path,
        surroundings: &Surroundings,
    ) -> Result<Drover, Failure> {
        Drover::try_start_source(directory, config, vec!["-c".into(), config.into()], surroundings)
    }

    fn try_start_source(
        directory: &Directory,
        config: &Path,
        source: Vec<OsString>,
        surroundings: &Surroundings,
    ) -> Result<Drover, Failure> {
        let mut drover = Drover::launch(directory.path(), config, source, surroundings);
        let start = Instant::now();
        while !drover.is_ready() {
            if drover.has_ended() {
                let status = drover.child.wait().expect("the master is our child");
                return Err(Failure { code: status.code(), stderr: drover.log() });
            }
            assert!(start.elapsed() < crate::wait::SOON, "drover is not ready; it said:\n{}", drover.log());
            thread::sleep(Duration::from_millis(5));
        }
        Ok(drover)
    }

    fn launch(directory: &Path, config: &Path, source: Vec<OsString>, surroundings: &Surroundings) -> Drover {
        // Workers that outlive their master become our children, so that they can be reaped.
        prctl::set_child_subreaper(true).expect("Linux has subreapers");
        let stderr = directory.join("stderr.log");
        let mut line: Vec<OsString> = end_with_us();
        line.extend(surroundings.wrapper.iter().cloned());
        let executable = surroundings.executable.as_deref().unwrap_or_else(|| binary::drover());
        line.extend([executable.into(), "run".into()]);
        line.extend(source.iter().cloned());
        let child = Command::new(&line[0])
            .args(&line[1..])
            .envs(surroundings.environment.iter().cloned())
            .current_dir(directory)
            .stdin(surroundings.stream(0))
            .stdout(surroundings.stream(1))
            .stderr(File::create(&stderr).expect("the directory is ours"))
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", line[0].display()));
        Drover { child, config: config.to_owned(), source, directory: directory.to_owned(), stderr }
    }

    /// The pid file is there, and every worker says on the scoreboard that it serves.
    fn is_ready(&self) -> bool {
        let pid = fs::read_to_string(self.directory.join("drover.pid")).unwrap_or_default();
        pid.trim() == self.master().to_string() && self.try_status().is_some_and(|status| status.all_serve())
    }

    /// The master's process id.
    pub fn master(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// The living workers' process ids, oldest first.
    pub fn workers(&self) -> Vec<Pid> {
        process::children(self.master())
    }

    /// The one worker there is.
    ///
    /// # Panics
    ///
    /// When there is none, or more than one.
    #[track_caller]
    pub fn worker(&self) -> Pid {
        let workers = self.workers();
        assert_eq!(workers.len(), 1, "one worker is expected");
        workers[0]
    }

    /// The config file.
    pub fn config(&self) -> &Path {
        &self.config
    }

    /// All it wrote to stderr so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.stderr).unwrap_or_default()).into_owned()
    }

    /// Waits for a line of the log that contains all of `parts`; returns it.
    #[track_caller]
    pub fn log_line(&self, parts: &[&str]) -> String {
        eventually(&format!("a log line with {parts:?}"), || self.log_lines(parts).into_iter().next())
    }

    /// The lines of the log so far that contain all of `parts`.
    pub fn log_lines(&self, parts: &[&str]) -> Vec<String> {
        let log = self.log();
        let fits = |line: &&str| parts.iter().all(|part| line.contains(part));
        log.lines().filter(fits).map(str::to_owned).collect()
    }

    /// Sends a signal to the master.
    pub fn signal(&self, signal: Signal) {
        process::send(self.master(), signal);
    }

    /// Reloads, and waits until a new generation has taken over and the old workers have gone.
    #[track_caller]
    pub fn reload(&self) {
        let before = self.status().generation();
        self.signal(Signal::SIGHUP);
        self.generation_after(before);
    }

    /// Reloads, and waits until a new generation serves; the old workers may still drain.
    #[track_caller]
    pub fn reload_begun(&self) {
        let before = self.status().generation();
        self.signal(Signal::SIGHUP);
        eventually("the new generation serves", || {
            self.try_status().filter(|status| status.generation() > before && status.all_serve()).map(drop)
        });
    }

    /// Waits until a generation later than this one serves alone.
    #[track_caller]
    pub fn generation_after(&self, generation: u64) {
        eventually("the new generation serves alone", || {
            self.try_status()
                .filter(|status| status.generation() > generation && status.serves_alone())
                .map(drop)
        });
    }

    /// What `drover status --json` says.
    ///
    /// # Panics
    ///
    /// When it says nothing, or nothing that can be understood.
    #[track_caller]
    pub fn status(&self) -> Status {
        Status::of(&self.source).unwrap_or_else(|error| panic!("no status: {error}"))
    }

    fn try_status(&self) -> Option<Status> {
        Status::of(&self.source).ok()
    }

    /// True once the master has ended.
    pub fn has_ended(&self) -> bool {
        // It stays unreaped until the end: its process id, and with it the group's, is not given to others.
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        !matches!(waitid(Id::Pid(self.master()), flags), Ok(WaitStatus::StillAlive))
    }

    /// Waits for the master's end.
    ///
    /// # Panics
    ///
    /// When it lives on past the deadline.
    #[track_caller]
    pub fn wait(&mut self, deadline: Duration) -> ExitStatus {
        crate::eventually_within(deadline, "the master ends", || self.has_ended().then_some(()));
        self.child.wait().expect("the master is our child")
    }

    /// The living processes of this drover: master and workers of every generation, also orphaned ones.
    pub fn processes(&self) -> Vec<Pid> {
        process::members(self.master())
    }

    /// Kills the master with no chance to tidy up, and waits until it is gone.
    pub fn kill_master(&self) {
        process::send(self.master(), Signal::SIGKILL);
        eventually("the killed master is gone", || self.has_ended().then_some(()));
    }

    /// Ends everything that is left of it, in the order: ask, wait a little, kill, reap.
    fn end(&mut self) {
        let group = self.master();
        let start = Instant::now();
        let _ = killpg(group, Signal::SIGTERM);
        let _ = killpg(group, Signal::SIGCONT);
        while !process::members(group).is_empty() {
            if start.elapsed() > Duration::from_secs(3) {
                let _ = killpg(group, Signal::SIGKILL);
            }
            thread::sleep(Duration::from_millis(2));
        }
        let _ = self.child.wait();
        // Workers whose master died first.
        while waitpid(Pid::from_raw(-group.as_raw()), Some(WaitPidFlag::WNOHANG)).is_ok_and(is_an_end) {}
    }
}

fn is_an_end(status: WaitStatus) -> bool {
    status != WaitStatus::StillAlive
}

impl Drop for Drover {
    fn drop(&mut self) {
        self.end();
        if thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let shown = &lines[lines.len().saturating_sub(100)..];
            eprintln!("--- the last {} of {} log lines\n{}\n---", shown.len(), lines.len(), shown.join("\n"));
        }
    }
}

/// A wrapper that ends the master when the test's thread dies without dropping its [`Drover`], where
/// util-linux offers it.
pub(crate) fn end_with_us() -> Vec<OsString> {
    let setpriv = Path::new("/usr/bin/setpriv");
    if !setpriv.exists() {
        return Vec::new();
    }
    vec![setpriv.into(), "--pdeathsig".into(), "KILL".into(), "--".into()]
}

/// The signal that ended a process, if one did.
pub fn ended_by(status: ExitStatus) -> Option<Signal> {
    status.signal().and_then(|number| Signal::try_from(number).ok())
}
