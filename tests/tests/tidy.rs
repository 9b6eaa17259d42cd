//! What goodwill forgets: crate edges, the border of `unsafe`, sizes of files and functions, words, and
//! that every config key is documented.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use drover_tests::binary::{self, source_root};

/// Which crate may depend on which; the picture is in the README.
const EDGES: &[(&str, &[&str])] = &[
    ("drover-sys", &[]),
    ("drover-config", &[]),
    ("drover-event", &["drover-sys"]),
    ("drover-upstream", &["drover-event", "drover-config", "drover-sys"]),
    ("drover-service", &["drover-event", "drover-config"]),
    ("drover-import", &["drover-config"]),
    ("drover-tls", &["drover-event", "drover-config"]),
    ("drover-http", &["drover-service", "drover-upstream", "drover-tls", "drover-event", "drover-config"]),
    ("drover-stream", &["drover-service", "drover-upstream", "drover-tls", "drover-event", "drover-config"]),
    (
        "drover-daemon",
        &[
            "drover-http",
            "drover-import",
            "drover-stream",
            "drover-service",
            "drover-upstream",
            "drover-tls",
            "drover-event",
            "drover-config",
            "drover-sys",
        ],
    ),
    ("drover-tests", &[]),
    // Reads what `drover status` prints.
    ("drover-top", &[]),
];

/// Workspaces: the terminal viewer is one of its own, so that what it links stays out of the daemon's lock file.
const WORKSPACES: [&str; 2] = [".", "crates/top"];

/// Packages of which there may be several versions in a workspace, each with its reason.
const SEVERAL: &[(&str, &str, &str)] =
    &[("crates/top", "syn", "libraries of ratatui derive by an older one, at build time only")];

const LONGEST_FILE: usize = 400;
/// A file of nothing but tests may be longer: it is read a test at a time.
const LONGEST_TESTS: usize = 600;
const LONGEST_FUNCTION: usize = 60;

/// Files that may be longer, each with its reason.
const LONGER_FILES: &[(&str, &str)] = &[];

/// Functions that may be longer, as `file: function`, each with its reason.
const LONGER_FUNCTIONS: &[(&str, &str)] = &[];

/// Second words for what has one already, and the word to use.
const WORDS: &[(&str, &str)] = &[
    ("reactor", "worker, or backend"),
    ("poller", "backend"),
    ("conn_slot", "slot"),
    ("connection_slot", "slot"),
    ("connection slot", "slot"),
    ("slab", "slots"),
    ("acceptor", "listener"),
    ("loop iteration", "turn"),
    ("coroutine", "task"),
    ("worker process", "worker"),
    ("process pool", "workers"),
    ("parent process", "master"),
    ("accept lock", "accept mutex"),
    ("load balancing mode", "accept strategy"),
    ("shared memory segment", "scoreboard"),
    ("stats segment", "scoreboard"),
];

/// What a finished tree does not contain. Put together here so that this file does not contain it.
fn unfinished() -> Vec<String> {
    [("TO", "DO"), ("FIX", "ME"), ("X", "XX"), ("unimplemented", "!"), ("todo", "!")]
        .iter()
        .map(|(a, b)| format!("{a}{b}"))
        .collect()
}

/// Folders of somebody's machine.
fn machine_paths() -> Vec<String> {
    ["root", "home", "work", "Users"].iter().map(|folder| format!("/{folder}/")).collect()
}

#[test]
fn crates_depend_on_each_other_as_drawn() {
    let packages: Vec<serde_json::Value> =
        WORKSPACES.iter().flat_map(|workspace| packages(workspace)).collect();
    assert!(packages.len() >= 6, "only {} packages", packages.len());
    let allowed: BTreeMap<&str, &[&str]> = EDGES.iter().copied().collect();
    for package in &packages {
        let name = package["name"].as_str().expect("a name");
        let allowed = allowed.get(name).unwrap_or_else(|| panic!("{name} is not in the picture"));
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let other = dependency["name"].as_str().expect("a name");
            if other.starts_with("drover-") {
                assert!(allowed.contains(&other), "{name} may not depend on {other}");
            }
        }
    }
}

/// The packages of a workspace.
fn packages(workspace: &str) -> Vec<serde_json::Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(source_root().join(workspace))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    metadata["packages"].as_array().expect("packages").clone()
}

#[test]
fn every_dependency_is_there_once() {
    for workspace in WORKSPACES {
        let lock = fs::read_to_string(source_root().join(workspace).join("Cargo.lock")).expect("Cargo.lock");
        let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let lines: Vec<&str> = lock.lines().collect();
        for pair in lines.windows(2) {
            if let (Some(name), Some(version)) =
                (pair[0].strip_prefix("name = "), pair[1].strip_prefix("version = "))
            {
                versions.entry(name.trim_matches('"')).or_default().push(version);
            }
        }
        assert!(versions.len() > 20);
        let allowed =
            |name: &str| SEVERAL.iter().any(|(place, several, _)| (*place, *several) == (workspace, name));
        let several: Vec<_> =
            versions.iter().filter(|(name, versions)| versions.len() > 1 && !allowed(name)).collect();
        assert!(several.is_empty(), "several versions in {workspace}: {several:?}");
    }
}

#[test]
fn unsafe_stands_in_sys_alone() {
    for (name, text) in sources() {
        let within = name.starts_with("crates/sys/");
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let is_unsafe = ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "allow(unsafe_code"]
                .iter()
                .any(|word| code.contains(word));
            let in_text = code.contains('"');
            assert!(within || !is_unsafe || in_text, "{name}:{}: {line}", number + 1);
        }
    }
}

#[test]
fn files_are_short() {
    for (name, text) in sources() {
        let tests = name.contains("/tests/") || name.ends_with("tests.rs");
        let (lines, most) = match tests {
            true => (text.lines().count(), LONGEST_TESTS),
            false => (without_tests(&text).lines().count(), LONGEST_FILE),
        };
        let excepted = LONGER_FILES.iter().any(|(file, _)| *file == name);
        assert!(lines <= most || excepted, "{name} has {lines} lines");
        assert!(lines > most || !excepted, "{name} is no exception any more");
    }
}

#[test]
fn functions_are_short() {
    let mut excepted: Vec<&str> = LONGER_FUNCTIONS.iter().map(|(function, _)| *function).collect();
    for (name, text) in sources() {
        for (function, lines) in functions(&text) {
            let place = format!("{name}: {function}");
            if lines > LONGEST_FUNCTION {
                let at = excepted.iter().position(|exception| *exception == place);
                let at = at.unwrap_or_else(|| panic!("{place} has {lines} lines"));
                excepted.remove(at);
            }
        }
    }
    assert!(excepted.is_empty(), "no exceptions any more: {excepted:?}");
}

#[test]
fn functions_are_found() {
    let text = "impl A {\n    fn short(&self) -> u8 {\n        1\n    }\n}\n\nfn one() {}\n\npub async fn long(\n    a: u8,\n) {\n    b;\n}\n";
    assert_eq!(functions(text), [("short".to_owned(), 3), ("one".to_owned(), 1), ("long".to_owned(), 5)]);
}

#[test]
fn each_thing_has_one_word() {
    for (name, text) in texts() {
        for (number, line) in text.lines().enumerate() {
            let lower = line.to_lowercase();
            for (word, instead) in WORDS {
                assert!(!has_word(&lower, word), "{name}:{}: say {instead}, not {word}", number + 1);
            }
        }
    }
}

#[test]
fn nothing_is_left_to_do_and_no_machine_is_named() {
    for (name, text) in texts() {
        for (number, line) in text.lines().enumerate() {
            for word in unfinished() {
                assert!(!has_word(line, &word), "{name}:{}: {line}", number + 1);
            }
            for path in machine_paths() {
                // `"/home/` at the start of a path, not `example.org/home/`.
                let found = line.match_indices(&path).any(|(at, _)| {
                    !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-}".contains(c))
                });
                assert!(!found, "{name}:{}: {line}", number + 1);
            }
        }
    }
}

#[test]
fn the_reference_has_all_keys() {
    let path = source_root().join("config/reference.md");
    let output = binary::run(["config", "--reference"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let reference = String::from_utf8(output.stdout).expect("text");
    let reference = format!("# Every key of drover's config\n\n{}\n", reference.trim());
    if std::env::var_os("DROVER_WRITE_REFERENCE").is_some() {
        fs::write(&path, reference).expect("config/reference.md can be written");
        return;
    }
    assert!(
        fs::read_to_string(&path).is_ok_and(|text| text == reference),
        "config/reference.md is behind: run DROVER_WRITE_REFERENCE=1 cargo test -p drover-tests --test tidy"
    );
}

#[test]
fn the_full_example_has_every_key() {
    let full = fs::read_to_string(source_root().join("config/full.toml")).expect("config/full.toml");
    let output = binary::run(["config", "--reference"]);
    let reference = String::from_utf8(output.stdout).expect("text");
    let mut table = String::new();
    let mut keys = 0;
    for line in reference.lines() {
        if let Some(header) = line.strip_prefix("### `") {
            table = header.trim_end_matches('`').to_owned();
            // A table that may be written on one line, such as access_log, is a key there.
            let last = table.trim_matches(['[', ']']).rsplit('.').next().unwrap_or_default();
            let named = table.strip_suffix("NAME]").is_some_and(|before| full.contains(before));
            let there = named || full.contains(&table) || full.contains(&format!("{last} ="));
            assert!(there, "no {table} in config/full.toml");
        } else if let Some(row) = line.strip_prefix("| `") {
            let key = row.split('`').next().unwrap_or_default();
            // The keys of a table on one line stand behind a dot: `listen.address`.
            let last = key.rsplit('.').next().unwrap_or_default();
            let there = [" =", "]", ":"].iter().any(|end| full.contains(&format!("{last}{end}")));
            assert!(there, "no {key} of {table} in config/full.toml");
            keys += 1;
        }
    }
    assert!(keys > 40, "only {keys} keys in the reference");
}

/// The file without the tests at its end.
fn without_tests(text: &str) -> &str {
    text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default()
}

/// Name and number of lines of each function, in code as rustfmt lays it out.
fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let indent = &line[..line.len() - line.trim_start().len()];
        let is_end = |line: &str| {
            line.strip_prefix(indent)
                .is_some_and(|rest| rest.starts_with('}') || rest.ends_with(';') && !rest.starts_with(' '))
        };
        let length = if line.ends_with(['}', ';']) {
            1
        } else {
            1 + lines[start + 1..].iter().position(|line| is_end(line)).map_or(0, |at| at + 1)
        };
        found.push((name.to_owned(), length));
    }
    found
}

fn function_name(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    for word in ["pub(crate) ", "pub(super) ", "pub ", "const ", "async ", "unsafe ", "extern \"C\" "] {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    let name = rest.strip_prefix("fn ")?;
    Some(&name[..name.find(['(', '<'])?])
}

/// True when the text has the word, or its plural, not as part of another one.
fn has_word(text: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let after = text[at + word.len()..].trim_start_matches('s');
        let word_ends = word.ends_with('!') || !after.starts_with(part);
        !text[..at].ends_with(part) && word_ends
    })
}

/// All Rust sources with their names relative to the root.
fn sources() -> Vec<(String, String)> {
    let sources: Vec<_> = texts().into_iter().filter(|(name, _)| name.ends_with(".rs")).collect();
    assert!(sources.len() > 20, "only {} sources", sources.len());
    sources
}

/// All texts of the tree, without this file, licences and what is built.
fn texts() -> Vec<(String, String)> {
    let mut files = Vec::new();
    collect(source_root(), &mut files);
    files.sort();
    let kinds = ["rs", "md", "toml", "service", "awk", "html", "conf"];
    files
        .into_iter()
        .filter(|path| {
            path.extension().is_some_and(|e| kinds.iter().any(|kind| e == *kind))
                || path.ends_with("Makefile")
        })
        .filter(|path| !path.ends_with("tests/tests/tidy.rs"))
        .map(|path| {
            let name = path.strip_prefix(source_root()).expect("within").to_string_lossy().into_owned();
            (name, fs::read_to_string(&path).expect("a text"))
        })
        .collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("readable").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && (!name.starts_with('.') || name == ".ci") {
                collect(&path, files);
            }
        } else {
            files.push(path);
        }
    }
}
