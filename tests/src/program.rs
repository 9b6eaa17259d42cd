//! Programs of others at work behind a proxy: they end with the test.

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::{Pid, Uid};

use crate::{Directory, process};

/// How long a program may take to end by itself.
const END_LIMIT: Duration = Duration::from_secs(5);

/// A program that runs until it is dropped.
#[derive(Debug)]
pub struct Program {
    child: Child,
    /// What asks it to end.
    signal: Signal,
}

impl Program {
    /// Starts it with what it says in a file of the directory named after it; it ends by SIGTERM.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    #[track_caller]
    pub fn start<A: Into<OsString>>(
        directory: &Directory,
        program: &Path,
        arguments: impl IntoIterator<Item = A>,
    ) -> Program {
        Program::start_as(directory, None, program, arguments)
    }

    /// The same as another user, where that is possible.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    #[track_caller]
    pub fn start_as<A: Into<OsString>>(
        directory: &Directory,
        user: Option<&str>,
        program: &Path,
        arguments: impl IntoIterator<Item = A>,
    ) -> Program {
        let mut line = as_user(user);
        line.push(program.into());
        line.extend(arguments.into_iter().map(Into::into));
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let said = File::create(directory.join(format!("{name}.said"))).expect("the directory is ours");
        let child = Command::new(&line[0])
            .args(&line[1..])
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(said.try_clone().expect("a descriptor"))
            .stderr(said)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", program.display()));
        Program { child, signal: Signal::SIGTERM }
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// It ends by this signal.
    pub fn ended_by(mut self, signal: Signal) -> Program {
        self.signal = signal;
        self
    }
}

/// What stands before a command so that its program ends with this process, and runs as that user.
pub fn as_user(user: Option<&str>) -> Vec<OsString> {
    let mut line = crate::daemon::end_with_us();
    if let (Some(user), true, false) = (user, Uid::effective().is_root(), line.is_empty()) {
        // Before the `--` at the end. Changing the user takes back the signal that comes with the parent's end: that
        // option is worked on last.
        let end = line.len() - 1;
        let change = [format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".to_owned()];
        line.splice(end..end, change.map(OsString::from));
    }
    line
}

/// The first line of what a program says when it is asked for its version.
pub fn version(program: &Path, option: &str) -> String {
    let said = Command::new(program).arg(option).stdin(Stdio::null()).output();
    let text = said.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_owned()
}

impl Drop for Program {
    fn drop(&mut self) {
        process::send(self.pid(), self.signal);
        let start = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if start.elapsed() > END_LIMIT {
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
