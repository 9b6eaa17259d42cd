//! Where the drover binary is, and running its subcommands to their end.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The root of the source tree.
pub fn source_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the source tree")
}

/// The binary under test: `$DROVER`, or the one of the profile that the tests were built with.
///
/// It is (re)built first, once a process: a stale binary would make the tests lie. When it is fresh, and
/// `make test` sees to that, this takes cargo a moment.
///
/// # Panics
///
/// When it cannot be built.
pub fn drover() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| match env::var_os("DROVER") {
        Some(path) => std::path::absolute(path).expect("a path"),
        None => build(),
    })
}

fn build() -> PathBuf {
    let test = env::current_exe().expect("a process has an executable");
    // target/PROFILE/deps/test-HASH, or target/PROFILE/bench.
    let folder = test.parent().expect("an executable lies in a folder");
    let profile_folder =
        if folder.ends_with("deps") { folder.parent().expect("deps has a parent") } else { folder };
    let path = profile_folder.join("drover");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // The whole workspace, as `make test` does: of one package alone, cargo builds other features.
    cargo.current_dir(source_root()).args(["build", "--quiet", "--workspace"]);
    if profile_folder.ends_with("release") {
        cargo.arg("--release");
    }
    let status = cargo.status().expect("cargo runs");
    assert!(status.success(), "drover does not build");
    assert!(path.exists(), "no {} after a build", path.display());
    path
}

/// The terminal viewer, built first, once a process: it is a workspace of its own.
///
/// # Panics
///
/// When it cannot be built.
pub fn viewer() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let target = source_root().join("target/top");
        let status = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .current_dir(source_root())
            .args(["build", "--quiet", "--manifest-path", "crates/top/Cargo.toml", "--target-dir"])
            .arg(&target)
            .status()
            .expect("cargo runs");
        assert!(status.success(), "the viewer does not build");
        target.join("debug/drover-top")
    })
}

/// Runs a subcommand (`check`, `status` and the like) to its end.
///
/// # Panics
///
/// When it cannot be started.
pub fn run<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Output {
    Command::new(drover()).args(arguments).output().expect("drover starts")
}
