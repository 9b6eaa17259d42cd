//! The schema of `drover status --json` says what is really printed: every key is documented, and every
//! documented key is there.

use drover_tests::http::get;
use drover_tests::status::Status;
use drover_tests::{Config, Directory, Drover, Port, binary, schema};
use serde_json::Value;

fn schema_of_status() -> Value {
    let output = binary::run(["status", "--schema"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[track_caller]
fn keeps_to_schema(drover: &Drover) -> Value {
    let status = Status::text(drover.config()).expect("a status");
    let status = serde_json::from_str(&status).expect("JSON");
    let faults = schema::faults(&status, &schema_of_status());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    status
}

#[test]
fn what_is_printed_keeps_to_the_schema() {
    let (directory, port) = (Directory::new(), Port::new());
    let unix = directory.join("socket");
    let config = Config::new(&directory, 2)
        .answering(&port)
        .server_with(&format!("listen = [\"unix:{}\"]", unix.display()))
        .location("/", "return = { status = 204 }");
    let drover = Drover::start(&directory, &config);
    get(port.address(), "/");
    let fresh = keeps_to_schema(&drover);
    assert_eq!(fresh["findings"].as_array().map(Vec::len), Some(0), "{fresh:#}");
    assert_eq!(fresh["listeners"].as_array().map(Vec::len), Some(2));

    // Every value that may be null has one by now, and there is a finding.
    directory.write("drover.toml", format!("{}\n[nonsense]\n", config.text()));
    let refused = binary::run(["reload".as_ref(), "-c".as_ref(), drover.config().as_os_str()]);
    assert!(!refused.status.success());
    let after = keeps_to_schema(&drover);
    assert_eq!(after["master"]["last_reload"]["accepted"], false);
    assert_eq!(after["findings"][0]["about"], "reload");
    assert!(after["listeners"][0]["waiting"].is_u64() && after["accept_skew"].is_number(), "{after:#}");
}

#[test]
fn the_readme_has_every_reason_for_which_connections_end() {
    let readme = std::fs::read_to_string(binary::source_root().join("README.md")).expect("README.md");
    let schema = schema_of_status();
    let reasons = &schema["properties"]["totals"]["properties"]["closes"]["properties"];
    let reasons = reasons.as_object().expect("reasons");
    assert!(reasons.len() > 20);
    for (reason, about) in reasons {
        let meaning = about["description"].as_str().expect("a text").trim_end_matches('.');
        let row = format!("| `{reason}` | {meaning} |\n");
        assert!(readme.contains(&row), "README.md lacks {row}");
    }
}
