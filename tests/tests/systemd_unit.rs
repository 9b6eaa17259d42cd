//! systemd's own tools find nothing wrong with the units and snippets, where there are such tools.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use drover_tests::binary::{self, source_root};
use drover_tests::http::get;
use drover_tests::{Config, Directory, Drover, Port, eventually};

/// The first that knows `Type=notify-reload`.
const NOTIFY_RELOAD: u32 = 253;

/// Runs a tool; nothing where it is not installed, which is said.
fn run(command: &str, arguments: &[&str]) -> Option<Output> {
    match Command::new(command).args(arguments).output() {
        Ok(output) => Some(output),
        Err(error) => {
            eprintln!("skipped: {command} cannot be run: {error}");
            None
        }
    }
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned()).concat()
}

/// `systemd 252 (252.39-1)`
fn version() -> Option<u32> {
    let output = run("systemd-analyze", &["--version"])?;
    said(&output).split_whitespace().nth(1)?.parse().ok()
}

/// The units with commands that exist.
fn installed(directory: &Directory) -> PathBuf {
    let prefix = directory.join("usr");
    let status = Command::new("make")
        .current_dir(source_root())
        .args(["--silent", "install"])
        .arg(format!("BINARY={}", binary::drover().display()))
        .arg(format!("prefix={}", prefix.display()))
        .arg(format!("sysconfdir={}", directory.join("etc").display()))
        .stdout(std::process::Stdio::null())
        .status()
        .expect("make runs");
    assert!(status.success());
    prefix
}

#[test]
fn the_units_verify() {
    let Some(version) = version() else { return };
    let directory = Directory::new();
    let units = installed(&directory).join("lib/systemd/system");
    for unit in ["drover.service", "drover.socket"] {
        let path = units.join(unit).display().to_string();
        let output = run("systemd-analyze", &["verify", "--man=no", &path]).expect("it is there");
        let text = said(&output);
        // Of units of this machine that these refer to it may say what it likes.
        let about = text.lines().filter(|line| line.contains("drover"));
        let known = |line: &&str| {
            let old =
                version < NOTIFY_RELOAD && line.contains("service type") && line.contains("notify-reload");
            if old {
                eprintln!("skipped: systemd {version} does not know Type=notify-reload");
            }
            !old
        };
        let wrong: Vec<&str> = about.filter(known).collect();
        assert!(wrong.is_empty(), "{unit}: {wrong:#?}");
        assert!(output.status.success(), "{unit}: {text}");
    }
}

#[test]
fn the_service_is_hardened() {
    if version().is_none() {
        return;
    }
    let unit = source_root().join("systemd/drover.service").display().to_string();
    // In tenths: what `systemd-analyze security` calls OK begins below 40.
    let arguments = ["security", "--offline=true", "--no-pager", "--threshold=20", &unit];
    let output = run("systemd-analyze", &arguments).expect("it is there");
    let text = said(&output);
    if text.contains("unrecognized option") {
        eprintln!("skipped: this systemd-analyze looks at running services only");
        return;
    }
    assert!(output.status.success(), "{text}");
    assert!(text.contains("Overall exposure level for drover.service"), "{text}");
}

#[test]
fn the_user_can_be_made() {
    let file = source_root().join("systemd/sysusers.conf").display().to_string();
    let Some(output) = run("systemd-sysusers", &["--dry-run", &file]) else { return };
    let text = said(&output);
    if text.contains("unrecognized option") {
        eprintln!("skipped: this systemd-sysusers cannot try without doing");
        return;
    }
    assert!(output.status.success(), "{text}");
}

#[test]
fn the_directories_can_be_made() {
    let file = source_root().join("systemd/tmpfiles.conf").display().to_string();
    let directory = Directory::new();
    // Of another root, where there is no user of that name: only what the lines say is looked at.
    let root = format!("--root={}", directory.path().display());
    let Some(output) = run("systemd-tmpfiles", &["--create", &root, &file]) else { return };
    let text = said(&output);
    let wrong: Vec<&str> =
        text.lines().filter(|line| !line.contains("resolve") && !line.contains("/proc")).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn logs_are_rotated_without_losing_a_line() {
    if run("logrotate", &["--version"]).is_none() {
        return;
    }
    let (directory, port) = (Directory::new(), Port::new());
    let drover = Drover::start(&directory, &Config::new(&directory, 1).answering(&port));
    assert_eq!(get(port.address(), "/before").status, 200);
    eventually("it is logged", || directory.read("access.log").contains("/before").then_some(()));

    let rules = fs::read_to_string(source_root().join("systemd/logrotate.conf")).expect("a file");
    let reopen = format!("{} reopen -c {}", binary::drover().display(), drover.config().display());
    let rules = rules
        .replace("/var/log/drover", &directory.path().display().to_string())
        .replace("/usr/bin/drover reopen -c /etc/drover/drover.toml", &reopen)
        // The user is made when drover is installed.
        .replace("    su drover drover\n", "");
    assert!(rules.contains(&reopen));
    let rules = directory.write("logrotate.conf", rules);
    directory.set_mode("logrotate.conf", 0o644);
    let state = format!("--state={}", directory.join("state").display());
    let output = run("logrotate", &["--force", &state, &rules.display().to_string()]).expect("it is there");
    assert!(output.status.success(), "{}", said(&output));
    assert!(directory.read("access.log.1").contains("/before"));
    assert_eq!(get(port.address(), "/after").status, 200);
    eventually("the new file is written to", || {
        directory.read("access.log").contains("/after").then_some(())
    });
    assert!(!directory.read("access.log").contains("/before"));
}
