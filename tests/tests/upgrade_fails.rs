//! A new executable that does not come to serve: the old master goes on as if nothing had been, and says why.

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use drover_tests::daemon::Surroundings;
use drover_tests::http::get;
use drover_tests::masters::{gone, named, try_named, workers};
use drover_tests::{Config, Directory, Drover, Load, Port, binary, eventually};

/// A daemon whose executable can be replaced.
struct Replaceable {
    drover: Drover,
    executable: PathBuf,
    port: Port,
    directory: Directory,
}

impl Replaceable {
    fn start() -> Replaceable {
        let (directory, port) = (Directory::new(), Port::new());
        fs::create_dir(directory.join("bin")).expect("the directory is ours");
        let executable = directory.program("bin/drover", binary::drover());
        let config = Config::new(&directory, 2).process("upgrade_timeout = \"1s\"").answering(&port);
        let surroundings = Surroundings { executable: Some(executable.clone()), ..Surroundings::default() };
        let drover = Drover::try_start(&directory, &config, &surroundings).expect("it starts");
        Replaceable { drover, executable, port, directory }
    }

    /// Puts a script in the place of the executable, as a package manager would: a new file under the name.
    fn replace(&self, script: &str, mode: u32) {
        let new = self.directory.script("bin/drover.new", script, mode);
        fs::rename(new, &self.executable).expect("ours");
    }

    fn upgrade(&self) -> Output {
        let config = self.drover.config();
        binary::run(["upgrade".as_ref(), "-c".as_ref(), config.as_os_str()])
    }

    /// An upgrade that fails for a reason that has all of `parts`, under load.
    #[track_caller]
    fn fails(&self, parts: &[&str]) {
        let (master, before) = (self.drover.master(), workers(self.drover.master()));
        let load = Load::start(2, self.port.address(), "/");
        load.wait_for(20);
        let output = self.upgrade();
        load.wait_for(20);
        let tally = load.stop();
        assert!(tally.failures.is_empty(), "{tally}");
        let verdict = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{verdict}");
        for part in parts {
            assert!(verdict.contains(part), "no {part:?} in the verdict: {verdict}");
            self.drover.log_line(&[&format!("{master} master"), part]);
        }
        self.drover.log_line(&["the upgrade failed"]);
        assert_eq!(named(&self.directory), master);
        assert_eq!(workers(master), before);
        let mut left: Vec<String> = fs::read_dir(self.directory.join("run"))
            .expect("a folder")
            .map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned())
            .collect();
        left.sort();
        assert_eq!(left, ["scoreboard"]);
        for suffix in ["oldbin", "new"] {
            assert_eq!(try_named(&self.directory, &format!("drover.pid.{suffix}")), None);
        }
        eventually("nothing of the new executable is left", || {
            let mut others = self.drover.processes().into_iter();
            others.all(|pid| pid == master || before.contains(&pid)).then_some(())
        });
        // Nothing stands in the way of what comes next.
        self.drover.reload();
        assert_eq!(get(self.port.address(), "/").text(), "ok\n");
    }
}

#[test]
fn one_that_is_missing() {
    let daemon = Replaceable::start();
    fs::remove_file(&daemon.executable).expect("ours");
    daemon.fails(&["cannot start", &daemon.executable.display().to_string(), "No such file"]);
}

#[test]
fn one_that_may_not_be_executed() {
    let daemon = Replaceable::start();
    daemon.replace("exit 0", 0o644);
    daemon.fails(&["cannot start", &daemon.executable.display().to_string(), "Permission denied"]);
}

#[test]
fn one_that_ends_with_a_failure() {
    let daemon = Replaceable::start();
    daemon.replace("exit 7", 0o755);
    daemon.fails(&["exited with code 7 before it was ready"]);
    daemon.replace("kill -SEGV $$", 0o755);
    daemon.fails(&["was killed by SIGSEGV"]);
}

#[test]
fn one_that_ends_well_without_having_served() {
    let daemon = Replaceable::start();
    daemon.replace("exit 0", 0o755);
    daemon.fails(&["exited with code 0 before it was ready"]);
}

#[test]
fn one_that_hangs() {
    let daemon = Replaceable::start();
    daemon.replace("trap '' TERM INT QUIT; while :; do sleep 0.1; done", 0o755);
    daemon.fails(&["it was not ready within 1s"]);
}

#[test]
fn one_that_is_something_else_altogether() {
    let daemon = Replaceable::start();
    daemon.replace("eval \"exec $DROVER_UPGRADE>&-\"; exec sleep 1000", 0o755);
    daemon.fails(&["it does not know how to take over"]);
}

#[test]
fn a_config_that_does_not_check() {
    let daemon = Replaceable::start();
    let text = daemon.directory.read("drover.toml");
    daemon.directory.write("drover.toml", text.replace("workers = 2", "workerz = 2"));
    let output = daemon.upgrade();
    let verdict = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{verdict}");
    for part in ["unknown key `workerz`", "did you mean `workers`?", "drover.toml:2"] {
        assert!(verdict.contains(part), "{verdict}");
    }
    daemon.directory.write("drover.toml", &text);
    assert_eq!(daemon.upgrade().status.code(), Some(0), "then it works");
    assert_eq!(get(daemon.port.address(), "/").text(), "ok\n");
}

#[test]
fn an_address_that_somebody_else_has() {
    let daemon = Replaceable::start();
    let taken = Port::new();
    let _somebody = std::net::TcpListener::bind(taken.address()).expect("the port is ours");
    let text = daemon.directory.read("drover.toml");
    let both = format!("listen = [\"{}\", \"{}\"]", daemon.port.address(), taken.address());
    let one = format!("listen = [\"{}\"]", daemon.port.address());
    daemon.directory.write("drover.toml", text.replace(&one, &both));
    let output = daemon.upgrade();
    let verdict = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{verdict}");
    assert!(verdict.contains(&format!("cannot listen on {}", taken.address())), "{verdict}");
    assert_eq!(named(&daemon.directory), daemon.drover.master());
    assert_eq!(get(daemon.port.address(), "/").text(), "ok\n");
}

#[test]
fn then_the_same_executable_in_a_new_file_takes_over() {
    let daemon = Replaceable::start();
    daemon.replace("exit 1", 0o755);
    daemon.fails(&["exited with code 1"]);
    let new = daemon.directory.program("bin/drover.new", binary::drover());
    fs::rename(new, &daemon.executable).expect("ours");
    let output = daemon.upgrade();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    gone(daemon.drover.master());
    let executable = fs::read_link(format!("/proc/{}/exe", named(&daemon.directory))).expect("a process");
    assert_eq!(executable, daemon.executable, "the new file and not the one that was deleted");
}
