//! The daemon's own log: which lines are wanted, by the part of drover that they are of, and how many of one place.

use drover_tests::http::get;
use drover_tests::{Config, Directory, Drover, Port, binary, eventually};
use nix::sys::signal::Signal;

/// The lines of the log by now, as the objects that they are.
fn objects(directory: &Directory) -> Vec<serde_json::Value> {
    let text = directory.read("drover.log");
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect()
}

fn config(directory: &Directory, port: &Port) -> Config {
    Config::new(directory, 1)
        .log(&format!("file = \"{}\"", directory.join("drover.log").display()))
        .log("format = \"json\"")
        .answering(port)
}

#[test]
fn parts_have_levels_of_their_own_and_a_reload_changes_them() {
    let (directory, port) = (Directory::new(), Port::new());
    let with = |levels: &str| config(&directory, &port).log("level = \"warn\"").log(levels);
    let drover =
        Drover::start(&directory, &with("levels = { event = \"debug\", \"daemon::reload\" = \"info\" }"));
    assert_eq!(get(port.address(), "/").status, 200);
    let lines = eventually("the loop tells what it does", || {
        let lines = objects(&directory);
        lines.iter().any(|line| line["level"] == "debug").then_some(lines)
    });
    for line in &lines {
        let (target, level) = (line["target"].as_str().expect("a target"), &line["level"]);
        let expected = match target {
            target if target.starts_with("drover_event") => level != "trace",
            "drover::reload" => level == "info",
            _ => level == "warn" || level == "error",
        };
        assert!(expected, "{line}");
    }
    assert!(lines.iter().any(|line| line["target"] == "drover::reload"), "{lines:?}");

    with("levels = { daemon = \"info\" }").write(&directory);
    drover.reload();
    let worker = drover.worker().as_raw();
    assert_eq!(get(port.address(), "/").status, 200);
    drover.signal(Signal::SIGUSR1);
    let of_worker = eventually("the new worker tells that it has the log opened anew", || {
        let lines = objects(&directory);
        let lines: Vec<_> = lines.into_iter().filter(|line| line["pid"] == worker).collect();
        lines.iter().any(|line| line["message"] == "log files reopened").then_some(lines)
    });
    assert!(of_worker.iter().all(|line| line["level"] == "info"), "{of_worker:?}");
}

#[test]
fn a_part_that_there_is_not_is_a_finding() {
    let (directory, port) = (Directory::new(), Port::new());
    let config = config(&directory, &port).log("levels = { htpp = \"debug\" }").write(&directory);
    let output = binary::run(["check".as_ref(), "-c".as_ref(), config.as_os_str()]);
    let words =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success(), "{words}");
    assert!(words.contains("no part of drover is called \"htpp\"") && words.contains("upstream"), "{words}");
}

#[test]
fn one_place_has_so_many_lines_a_second_and_the_rest_is_counted() {
    let (directory, port) = (Directory::new(), Port::new());
    let mut drover = Drover::start(&directory, &config(&directory, &port).log("rate = 3"));
    let messages = || -> Vec<String> {
        let lines = objects(&directory);
        lines.iter().filter_map(|line| line["message"].as_str().map(str::to_owned)).collect()
    };
    let told = |messages: &[String]| -> usize {
        let told = messages.iter().filter(|message| {
            message.contains(" of drover::master (crates/") && message.ends_with(" held back")
        });
        told.filter_map(|message| message.split(' ').next()?.parse::<usize>().ok()).sum()
    };
    let mut sent = 0;
    eventually("lines are held back, and told of once the second is over", || {
        drover.signal(Signal::SIGUSR1);
        sent += 1;
        (told(&messages()) > 0).then_some(())
    });
    drover.signal(Signal::SIGQUIT);
    assert!(drover.wait(drover_tests::wait::SOON).success());
    let messages = messages();
    let written = messages.iter().filter(|message| message.starts_with("SIGUSR1 from")).count();
    // Signals that come at once are one, and each place has a count of its own.
    assert!(written >= 3 && written < sent, "{written} of {sent} written");
    assert!(messages.iter().any(|message| message == "stopped"), "{messages:?}");
}
