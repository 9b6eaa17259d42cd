//! `include`: several files make one config, and findings name the right one.
#![allow(clippy::unwrap_used)] // A test that fails is to end.

mod common;

use std::path::{Path, PathBuf};

use drover_config::{Findings, ListenAddress, load};

use common::Farm;

/// A fresh directory with these files.
fn directory(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&directory);
    for (file, text) in files {
        let path = directory.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    directory
}

fn messages(findings: &Findings) -> Vec<String> {
    findings.iter().map(|finding| finding.message().to_owned()).collect()
}

#[test]
fn files_are_merged_in_the_order_of_their_names() {
    let directory = directory(
        "merged [*]",
        &[
            ("farm.toml", "include = [\"conf.d/*.toml\", \"conf.d/1.toml\"]\n[herd]\nanimals = 3\n"),
            ("conf.d/2.toml", "[[fields]]\ngate = \"127.0.0.1:2\"\nmap = \"m.png\"\n"),
            ("conf.d/1.toml", "[herd]\ndog = false\n[[fields]]\ngate = \"unix:gate.sock\"\n"),
            ("conf.d/3.toml.bak", "this is not read"),
            ("conf.d/.#3.toml", "nor is this"),
        ],
    );
    let (farm, findings) = load::<Farm>(&directory.join("farm.toml"));
    assert!(findings.is_empty(), "{findings}");
    let farm = farm.unwrap();
    assert_eq!((farm.herd.animals, farm.herd.dog), (3, false));
    assert_eq!(*farm.fields[0].gate, ListenAddress::Unix(directory.join("conf.d/gate.sock")));
    assert_eq!(farm.fields[1].map, Some(directory.join("conf.d/m.png")), "relative to the file it stands in");
    assert_eq!(findings.sources().names().count(), 3);
}

#[test]
fn findings_name_the_right_file() {
    let directory = directory(
        "named",
        &[
            ("farm.toml", "include = [\"more.toml\"]\n[herd]\nanimals = 3\n"),
            ("more.toml", "[herd]\nanimals = 4\nanimls = 5\n"),
        ],
    );
    let (_, findings) = load::<Farm>(&directory.join("farm.toml"));
    assert_eq!(messages(&findings), ["`animals` is set twice", "unknown key `animls` in [herd]"]);
    let drawn = findings.to_string();
    assert!(drawn.contains("/more.toml:2:1"), "{drawn}");
    assert!(drawn.contains("/farm.toml:3:1"), "{drawn}");
    assert!(drawn.contains("/more.toml:3:1"), "{drawn}");
}

#[test]
fn a_cycle_ends() {
    let directory = directory(
        "cycle",
        &[
            ("a.toml", "include = [\"b.toml\"]"),
            ("b.toml", "include = [\"../cycle/a.toml\"]\n[herd]\ndog = 1"),
        ],
    );
    let (_, findings) = load::<Farm>(&directory.join("a.toml"));
    assert_eq!(findings.errors(), 2, "{findings}");
    assert!(findings.to_string().contains("a.toml includes itself"), "{findings}");
}

#[test]
fn what_cannot_be_read_is_found() {
    let directory = directory(
        "unreadable",
        &[
            ("a.toml", "include = [\"none.toml\", \"none/*.toml\", \"sub\", 5]"),
            ("sub/x", ""),
            ("b.toml", "include = 1"),
        ],
    );
    let (_, findings) = load::<Farm>(&directory.join("a.toml"));
    assert_eq!(findings.errors(), 3, "{findings}");
    let (_, findings) = load::<Farm>(&directory.join("b.toml"));
    assert_eq!(messages(&findings), ["`include` has the wrong type"]);
    let (farm, findings) = load::<Farm>(&PathBuf::from("/nonexistent/farm.toml"));
    assert!(farm.is_none());
    assert_eq!(findings.errors(), 1);
    std::fs::write(directory.join("c.toml"), b"a = \"\xff\"").unwrap();
    let (_, findings) = load::<Farm>(&directory.join("c.toml"));
    assert!(findings.to_string().contains("not UTF-8 from byte 5 on"), "{findings}");
}

#[test]
fn text_without_a_file_includes_nothing() {
    let (_, findings) = drover_config::parse::<Farm>("text", "include = [\"/etc/passwd\"]");
    assert_eq!(messages(&findings), ["unknown key `include` at the top level"]);
}
