//! The master has the same descriptors and about the same memory after many reloads.

use std::process::Command;

/// `make soak` is the same with a thousand reloads among more configs.
#[test]
fn two_hundred_reloads_leave_the_master_as_it_was() {
    let output = Command::new(env!("CARGO_BIN_EXE_soak"))
        .args(["--reloads", "200", "--quick"])
        .output()
        .expect("the program is built with the test");
    let words =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    assert!(words.contains("200 reloads in "), "{words}");
}
