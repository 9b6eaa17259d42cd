//! `make install` puts everything where it belongs, for a prefix and under a staging directory, and what it
//! installs works.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use drover_tests::binary::{self, source_root};
use drover_tests::http::get;
use drover_tests::{Config, Directory, Drover, Port};

/// Everything that is installed, with its mode, for `prefix=/usr`.
const FILES: [(&str, u32); 8] = [
    ("usr/bin/drover", 0o755),
    ("usr/share/drover/welcome/index.html", 0o644),
    ("usr/lib/systemd/system/drover.service", 0o644),
    ("usr/lib/systemd/system/drover.socket", 0o644),
    ("usr/lib/sysusers.d/drover.conf", 0o644),
    ("usr/lib/tmpfiles.d/drover.conf", 0o644),
    ("etc/logrotate.d/drover", 0o644),
    ("etc/drover/drover.toml", 0o644),
];

#[track_caller]
fn make(arguments: &[String]) -> String {
    let output = Command::new("make")
        .current_dir(source_root())
        .args(["--no-print-directory", "--silent"])
        .args(arguments)
        .output()
        .expect("make runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn arguments(target: &str, more: &[String]) -> Vec<String> {
    let mut arguments = vec![target.to_owned(), format!("BINARY={}", binary::drover().display())];
    arguments.extend_from_slice(more);
    arguments
}

fn installed(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("readable").path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

#[test]
fn under_a_staging_directory() {
    let directory = Directory::new();
    let stage = directory.join("stage");
    let staged = [format!("DESTDIR={}", stage.display()), "prefix=/usr".to_owned()];
    make(&arguments("install", &staged));
    let mut expected: Vec<PathBuf> = FILES.iter().map(|(name, _)| stage.join(name)).collect();
    expected.sort();
    assert_eq!(installed(&stage), expected);
    for (name, mode) in FILES {
        let path = stage.join(name);
        assert_eq!(path.metadata().expect("a file").permissions().mode() & 0o7777, mode, "{name}");
        let text = fs::read(&path).expect("readable");
        let names_stage = text.windows(6).any(|part| part == b"/stage") && name != "usr/bin/drover";
        assert!(!names_stage, "{name} names the staging directory");
    }
    let unit = fs::read_to_string(stage.join("usr/lib/systemd/system/drover.service")).expect("text");
    assert!(unit.contains("ExecStart=/usr/bin/drover run -c /etc/drover/drover.toml\n"), "{unit}");

    // What somebody wrote into the config stays, also when the rest is removed.
    let config = stage.join("etc/drover/drover.toml");
    fs::write(&config, "# mine\n").expect("ours");
    let said = make(&arguments("install", &staged));
    assert!(said.contains("drover.toml stays as it is"), "{said}");
    assert_eq!(fs::read_to_string(&config).expect("text"), "# mine\n");
    make(&arguments("uninstall", &staged));
    assert_eq!(installed(&stage), [config]);
}

#[test]
fn the_viewer_is_installed_with_drover_and_found_by_it() {
    let directory = Directory::new();
    let (built, prefix) = (directory.join("built"), directory.join("usr"));
    fs::create_dir(&built).expect("ours");
    directory.program("built/drover", binary::drover());
    directory.program("built/drover-top", binary::viewer());
    let places = [
        format!("BINARY={}", built.join("drover").display()),
        format!("prefix={}", prefix.display()),
        format!("sysconfdir={}", directory.join("etc").display()),
    ];
    make(&[&["install".to_owned()], &places[..]].concat());
    let output = run(&prefix.join("bin/drover"), &["top", "-c", "/nowhere/drover.toml"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with("drover top: "), "the viewer speaks: {said}");
    make(&[&["uninstall".to_owned()], &places[..]].concat());
    assert!(!prefix.join("bin/drover-top").exists());
}

fn run(binary: &Path, arguments: &[&str]) -> Output {
    Command::new(binary).args(arguments).output().expect("it was installed")
}

#[test]
fn with_another_prefix_everything_names_it() {
    let directory = Directory::new();
    let (prefix, etc) = (directory.join("local"), directory.join("etc"));
    let places = [format!("prefix={}", prefix.display()), format!("sysconfdir={}", etc.display())];
    make(&arguments("install", &places));
    let (drover, config) = (prefix.join("bin/drover"), etc.join("drover/drover.toml"));
    let unit = fs::read_to_string(prefix.join("lib/systemd/system/drover.service")).expect("text");
    for command in ["ExecStartPre", "ExecStart", "ExecStop"] {
        let line =
            unit.lines().find_map(|line| line.strip_prefix(command)?.strip_prefix('=')).expect("a line");
        assert!(line.starts_with(&format!("{} ", drover.display())), "{line}");
        assert!(line.ends_with(&format!(" -c {}", config.display())), "{line}");
    }
    let rotation = fs::read_to_string(etc.join("logrotate.d/drover")).expect("text");
    assert!(rotation.contains(&format!("{} reopen -c {}", drover.display(), config.display())), "{rotation}");

    // The config is one that the binary takes, but for directories that the system is to make.
    let text = fs::read_to_string(&config).expect("text");
    let logs = directory.join("logs");
    fs::create_dir(&logs).expect("ours");
    let text = text.replace("/var/log/drover", &logs.display().to_string());
    fs::write(&config, text).expect("ours");
    let checked = run(&drover, &["check", "-c", &config.display().to_string()]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    assert!(checked.stderr.is_empty(), "no warning either: {}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn the_welcome_page_is_served() {
    let directory = Directory::new();
    let stage = directory.join("stage");
    make(&arguments("install", &[format!("DESTDIR={}", stage.display())]));
    let port = Port::new();
    let root = stage.join("usr/local/share/drover/welcome");
    let config = Config::new(&directory, 1).server_with(&format!(
        "listen = [\"{}\"]\nroot = \"{}\"",
        port.address(),
        root.display()
    ));
    let _drover = Drover::start(&directory, &config);
    assert!(get(port.address(), "/").text().contains("drover"));
}
