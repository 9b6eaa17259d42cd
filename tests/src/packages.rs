//! Tools that come from the distribution: there already, installed now, or done without.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use nix::unistd::Uid;

/// Where a program is. One that is missing is installed from its Debian package if that is possible.
///
/// # Errors
///
/// When it is missing and stays missing: a sentence for whoever reads the output.
pub fn tool(program: &str, package: &str) -> Result<PathBuf, String> {
    if let Some(path) = find(program) {
        return Ok(path);
    }
    install(package)?;
    find(program).ok_or_else(|| format!("the package {package} brought no {program}"))
}

/// A file that is no program, such as a module: it is there, or brought by its Debian package if that is possible.
///
/// # Errors
///
/// When it is missing and stays missing.
pub fn file(path: &Path, package: &str) -> Result<(), String> {
    if !path.exists() {
        install(package)?;
    }
    if path.exists() { Ok(()) } else { Err(format!("the package {package} brought no {}", path.display())) }
}

/// A tool that a test needs. Without it the test says so, loudly, and passes.
pub fn tool_or_skip(program: &str, package: &str) -> Option<PathBuf> {
    tool(program, package).map_err(|reason| skip(&reason)).ok()
}

/// Says that a test is skipped and why, past the capture of test output.
pub fn skip(reason: &str) {
    use std::io::Write;
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {reason}");
}

fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Installs a package, for what is no program.
///
/// # Errors
///
/// When that cannot be done here.
pub fn install(package: &str) -> Result<(), String> {
    static ONE_AT_A_TIME: Mutex<bool> = Mutex::new(false);
    if !Uid::effective().is_root() {
        return Err(format!("{package} is missing, and only root can install it"));
    }
    if !Path::new("/usr/bin/apt-get").exists() {
        return Err(format!("{package} is missing, and there is no apt-get to install it with"));
    }
    let mut updated = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if !*updated {
        apt_get(&["update"])?;
        *updated = true;
    }
    without_starting_services(|| apt_get(&["install", "--yes", "--no-install-recommends", package]))
}

/// A server's package starts the server, on a port that somebody else may use. Debian asks this script first.
fn without_starting_services<T>(install: impl FnOnce() -> T) -> T {
    let policy = Path::new("/usr/sbin/policy-rc.d");
    let ours = !policy.exists()
        && fs::write(policy, "#!/bin/sh\nexit 101\n").is_ok()
        && fs::set_permissions(policy, fs::Permissions::from_mode(0o755)).is_ok();
    let outcome = install();
    if ours {
        let _ = fs::remove_file(policy);
    }
    outcome
}

fn apt_get(arguments: &[&str]) -> Result<(), String> {
    let status = Command::new("apt-get")
        .args(["-o", "DPkg::Lock::Timeout=300", "--quiet"])
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .map_err(|error| format!("apt-get: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("apt-get {} failed", arguments.join(" "))) }
}
