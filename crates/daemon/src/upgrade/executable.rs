//! The program to start in an upgrade: the one this master was started as, whatever file has that name by
//! then.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use drover_sys::exec;
use nix::unistd::{AccessFlags, Pid, access};

use super::link::Link;
use crate::config::Source;

/// The variable that names the descriptor of the link to a new master.
pub(crate) const LINK_VARIABLE: &str = "DROVER_UPGRADE";

/// What was meant for this very process, by its id: see sd_listen_fds(3) and sd_watchdog_enabled(3).
const FOR_THIS_PROCESS: [&str; 4] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID"];

/// The path of the program, and where its config comes from.
#[derive(Debug, Clone)]
pub(crate) struct Executable {
    path: PathBuf,
    source: Source,
}

impl Executable {
    /// How this process was started; asked before the working directory changes. A link in the path is not
    /// followed: where it leads to the new version by then, that is meant.
    ///
    /// # Errors
    /// When neither its name nor `/proc` tells what was started.
    pub(crate) fn of_this_process(source: &Source) -> io::Result<Self> {
        let name = env::args_os().next().unwrap_or_default();
        let path = match resolve(&name, env::var_os("PATH").as_deref()) {
            Some(path) => path,
            None => env::current_exe()?,
        };
        Ok(Self { path, source: source.clone() })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Starts it as a master that takes over from this one, with the other end of the link.
    ///
    /// # Errors
    /// When it is missing or cannot be executed.
    pub(crate) fn start(&self, link: &Link) -> io::Result<Pid> {
        let mut command = Command::new(&self.path);
        command.arg("run").args(self.source.arguments());
        for name in FOR_THIS_PROCESS {
            command.env_remove(name);
        }
        command.env(LINK_VARIABLE, link.as_fd().as_raw_fd().to_string());
        exec::spawn(&mut command, link.as_fd())
    }
}

/// The file that a shell would have started for `name`.
fn resolve(name: &OsStr, search: Option<&OsStr>) -> Option<PathBuf> {
    let executable = |path: &PathBuf| path.is_file() && access(path, AccessFlags::X_OK).is_ok();
    if name.as_bytes().contains(&b'/') {
        return std::path::absolute(name).ok().filter(executable);
    }
    let name: Option<OsString> = (!name.is_empty()).then(|| name.to_owned());
    let name = name?;
    let mut found = env::split_paths(search?).map(|folder| folder.join(&name));
    found.find(executable).and_then(|path| std::path::absolute(path).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_a_shell_would_start() {
        let search = Some(OsStr::new("/nonexistent:/usr/bin:/bin"));
        assert_eq!(resolve(OsStr::new("/bin/sh"), None), Some(PathBuf::from("/bin/sh")), "links stay");
        assert_eq!(resolve(OsStr::new("env"), search), Some(PathBuf::from("/usr/bin/env")));
        assert_eq!(resolve(OsStr::new("drover: master"), search), None);
        assert_eq!(resolve(OsStr::new(""), search), None);
        assert_eq!(resolve(OsStr::new("/etc/passwd"), None), None, "not executable");
        let folder = env::current_dir().expect("a directory");
        let own = env::current_exe().expect("a test is a program");
        if let Ok(relative) = own.strip_prefix(&folder) {
            assert_eq!(resolve(Path::new(".").join(relative).as_os_str(), None), Some(own));
        }
    }
}
