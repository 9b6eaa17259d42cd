//! A few seconds of what `make chaos` does for minutes.

use std::process::Command;

#[test]
fn a_few_seconds_of_everything_lose_nothing_and_leave_nothing() {
    let output = Command::new(env!("CARGO_BIN_EXE_chaos"))
        .args(["--seconds", "15", "--seed", "3"])
        .output()
        .expect("the program is built with the test");
    let words =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    assert!(words.contains("nothing was wrong"), "{words}");
}
