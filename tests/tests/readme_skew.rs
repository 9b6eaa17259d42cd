//! The README's skewed deployment, replayed as it is written there: found with `drover status`, mended by a reload.

use std::process::{Command, Stdio};

use drover_tests::binary::{self, source_root};
use drover_tests::{Directory, Port, packages};

/// The commands of a section: its blocks for bash, in their order.
fn commands(section: &str) -> String {
    let readme = std::fs::read_to_string(source_root().join("README.md")).expect("README.md");
    let (_, rest) = readme.split_once(&format!("### {section}\n")).expect("the section is there");
    let section = rest.split("\n## ").next().unwrap_or_default();
    let blocks = section.split("```bash\n").skip(1).filter_map(|block| block.split("```").next());
    blocks.collect()
}

/// What a block prints, with the paths and the port of a test.
fn replay(commands: &str) -> String {
    let (directory, port) = (Directory::new(), Port::new());
    let own = |text: &str| {
        text.replace("/tmp/", &format!("{}/", directory.path().display()))
            .replace("target/release/drover", &binary::drover().display().to_string())
            .replace("config/experiments/skew.toml", &directory.join("experiment.toml").display().to_string())
            .replace("127.0.0.1:8089", &port.address().to_string())
            .replace("127.0.0.1/8089", &format!("{}/{}", port.address().ip(), port.address().port()))
    };
    let config =
        std::fs::read_to_string(source_root().join("config/experiments/skew.toml")).expect("a config");
    directory.write("experiment.toml", own(&config));
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &own(commands)])
        .current_dir(source_root())
        .stdin(Stdio::null())
        .output()
        .expect("bash starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

#[test]
fn the_skew_is_found_and_mended_as_the_readme_says() {
    if Command::new("bash").args(["-c", "true"]).status().is_err() {
        packages::skip("there is no bash");
        return;
    }
    let said = replay(&commands("A skewed deployment, found and mended"));
    let (before, after) = said.split_once("generation 2 serves").expect("the verdict of the reload");
    let share = before.split(" holds ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<u32>().ok());
    assert!(share >= Some(40), "a skew is found: {said}");
    assert!(before.contains("accept = \"balanced\" would even this"), "{said}");
    assert!(!after.contains("accept = \"balanced\""), "nothing is off any more: {said}");
    let serving = after.lines().filter(|line| line.contains(" 2 serving "));
    let connections: Vec<u32> =
        serving.filter_map(|line| line.split_whitespace().nth(5)?.parse().ok()).collect();
    assert_eq!(connections.iter().sum::<u32>(), 200, "{said}");
    assert!(connections.len() == 4 && connections.iter().all(|count| (40..=60).contains(count)), "{said}");
}
