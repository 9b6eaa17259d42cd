//! `drover check` and `drover config`: everything that is wrong, at once, with its place; and the
//! effective config, which reads back as itself.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Output;

use drover_tests::{Config, Directory, Drover, Port, binary, http};

fn drover(subcommand: &str, config: &Path) -> Output {
    binary::run([OsStr::new(subcommand), OsStr::new("-c"), config.as_os_str()])
}

fn example(name: &str) -> PathBuf {
    binary::source_root().join("config").join(name)
}

#[test]
fn all_findings_come_at_once_each_with_its_place() {
    let directory = Directory::new();
    let text = r#"[process]
worker = 2
shutdown_timeout = 30

[events]
accept = "mutexx"
worker_connections = 0
keepalive_timeout = "3s"

[http]
keepalive_timeout = "75"
client_body_size = "99999999999999999999k"

[[http.servers]]
listen = ["127.0.0.1:99999"]
"#;
    let config = directory.write("bad.toml", text);
    let output = drover("check", &config);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    for (line, column) in [(2, 1), (3, 20), (6, 10), (7, 22), (8, 1), (11, 21), (12, 20), (15, 11)] {
        assert!(
            said.contains(&format!("bad.toml:{line}:{column}")),
            "no finding at {line}:{column} in\n{said}"
        );
    }
    for part in ["did you mean `workers`", "\"mutex\"", "[http]", "unit", "worker = 2", "^"] {
        assert!(said.contains(part), "no {part} in\n{said}");
    }
}

#[test]
fn addresses_that_cannot_be_listened_on_are_found_without_trying() {
    let directory = Directory::new();
    let listen = r#"listen = ["unix:/nonexistent-drover/socket", "::1:80"]"#;
    let config = directory.write("bad.toml", format!("[[http.servers]]\n{listen}\n"));
    let said = String::from_utf8_lossy(&drover("check", &config).stderr).into_owned();
    assert!(said.contains(r#"write "[::1]:80", or "[::1:80]:80""#), "{said}");
    // What goes across keys is looked at once each of them can be read.
    let config =
        directory.write("bad.toml", format!("[[http.servers]]\n{}\n", listen.replace(", \"::1:80\"", "")));
    let said = String::from_utf8_lossy(&drover("check", &config).stderr).into_owned();
    assert!(said.contains("bad.toml:2:11") && said.contains("its directory does not exist"), "{said}");
}

#[test]
fn what_is_no_toml_is_said_with_its_place() {
    let directory = Directory::new();
    let config = directory.write("bad.toml", "[process]\nworkers = = 1\n");
    let output = drover("check", &config);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("bad.toml:2:11"), "{output:?}");
}

#[test]
fn slots_too_few_for_the_listeners_name_the_minimum() {
    let (directory, port) = (Directory::new(), Port::new());
    let further: Vec<Port> = (0..3).map(|_| Port::new()).collect();
    let config = further
        .iter()
        .fold(Config::new(&directory, 1).events("worker_connections = 5").answering(&port), Config::answering)
        .write(&directory);
    let output = drover("check", &config);
    assert_eq!(output.status.code(), Some(1));
    // Four listeners, the channel and one client.
    assert!(String::from_utf8_lossy(&output.stderr).contains('6'), "{output:?}");
}

#[test]
fn run_refuses_what_check_refuses_in_the_same_words() {
    let directory = Directory::new();
    let config = directory.write("bad.toml", "[process]\nworker = 2\n");
    let (check, run) = (drover("check", &config), drover("run", &config));
    assert_eq!(run.status.code(), Some(1));
    let finding = |output: &Output| {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        text.lines().find(|line| line.contains("unknown key")).map(str::to_owned)
    };
    assert!(finding(&check).is_some());
    assert_eq!(finding(&run), finding(&check));
}

#[test]
fn a_check_disturbs_no_running_daemon() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover_process = Drover::start(&directory, &Config::new(&directory, 1).answering(&port));
    let output = drover("check", drover_process.config());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(http::get(port.address(), "/").text(), "ok\n");
    assert_eq!(directory.read("drover.pid"), format!("{}\n", drover_process.master()));
}

#[test]
fn the_effective_config_reads_back_as_itself() {
    let (directory, port) = (Directory::new(), Port::new());
    let own = Config::new(&directory, 2).answering(&port).write(&directory);
    for config in [own, example("drover.toml"), example("full.toml")] {
        let first = drover("config", &config);
        assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
        let text = String::from_utf8(first.stdout).expect("text");
        assert!(text.contains("worker_connections = "), "{text}");
        // Next to the original: its paths are relative to the file's directory.
        let again = directory.write("again.toml", &text);
        let second = String::from_utf8(drover("config", &again).stdout).expect("text");
        assert_eq!(second, text);
    }
}

#[test]
fn the_examples_check_out() {
    let entries = |folder| std::fs::read_dir(folder).expect("there are examples");
    for entry in entries(example("")).chain(entries(example("experiments"))) {
        let path = entry.expect("readable").path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let output = drover("check", &path);
            assert!(
                output.status.success(),
                "{}: {}",
                path.display(),
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
}
