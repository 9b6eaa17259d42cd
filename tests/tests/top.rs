//! `drover top` shows the daemon of a config in a terminal until q is pressed. What its screen looks like is tested
//! in its own crate.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use drover_tests::{Config, Directory, Drover, Port, binary, eventually, packages};

/// `drover top` with these arguments shows the daemon that listens on the port, until q is pressed.
#[track_caller]
fn shows_the_daemon_until_q_is_pressed(arguments: &str, drover: &Drover, port: &Port) {
    // `script` runs a command in a terminal.
    let Some(script) = packages::tool_or_skip("script", "bsdutils") else { return };
    let viewer = binary::viewer();
    let path = format!(
        "{}:{}",
        viewer.parent().expect("a folder").display(),
        std::env::var("PATH").unwrap_or_default()
    );
    // A terminal made for a pipe has no size.
    let size = "stty rows 24 columns 80";
    let command = format!("{size}; {} top --every 100ms {arguments}", binary::drover().display());
    let mut terminal = Command::new(script)
        .args(["-qfec", &command, "/dev/null"])
        .env("PATH", path)
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("script starts");
    let shown = Arc::new(Mutex::new(Vec::new()));
    let (mut output, seen) = (terminal.stdout.take().expect("a pipe"), Arc::clone(&shown));
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = output.read(&mut bytes) {
            seen.lock().expect("no panic").extend_from_slice(&bytes[..count]);
        }
    });
    let shows = |text: &str| String::from_utf8_lossy(&shown.lock().expect("no panic")).contains(text);
    eventually("the daemon is shown", || {
        let all = drover.workers().iter().all(|worker| shows(&worker.to_string()));
        (all && shows(&format!("master {}", drover.master())) && shows(&port.address().to_string()))
            .then_some(())
    });
    terminal.stdin.take().expect("a pipe").write_all(b"q").expect("the terminal takes keys");
    let status = eventually("it ends", || terminal.try_wait().expect("our child"));
    assert!(status.success());
}

#[test]
fn it_shows_the_daemon_of_a_config() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = Drover::start(&directory, &Config::new(&directory, 2).answering(&port));
    let arguments = format!("-c {}", drover.config().display());
    shows_the_daemon_until_q_is_pressed(&arguments, &drover, &port);
}

#[test]
fn it_shows_the_daemon_of_an_nginx_conf() {
    let (directory, port) = (Directory::new(), Port::new());
    let text = format!(
        "worker_processes 2;\npid drover.pid;\nevents {{ }}\nhttp {{\n    access_log off;\n    \
         server {{ listen {}; return 204; }}\n}}\n",
        port.address()
    );
    let drover = Drover::try_start_nginx_conf(&directory, &text, &[]);
    let drover = drover.unwrap_or_else(|failure| panic!("{failure:?}"));
    let arguments = format!("--nginx-conf {} -p {}", drover.config().display(), directory.path().display());
    shows_the_daemon_until_q_is_pressed(&arguments, &drover, &port);
}

#[test]
fn without_a_daemon_the_reason_is_said() {
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, 1).answering(&port).write(&directory);
    let output = Command::new(binary::drover())
        .args(["top".as_ref(), "-c".as_ref(), config.as_os_str()])
        .env("PATH", binary::viewer().parent().expect("a folder"))
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("drover top: no drover runs with this configuration"), "{text}");
}

/// It is a program of its own, and may be missing where drover was copied by hand.
#[test]
fn without_its_program_it_says_where_that_comes_from() {
    let directory = Directory::new();
    let copy = directory.program("drover", binary::drover());
    let output = Command::new(&copy).arg("top").env("PATH", directory.path()).output().expect("it starts");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("there is no drover-top, neither beside ") && text.contains("make install"),
        "{text}"
    );
    assert!(text.contains(&copy.display().to_string()), "{text}");
}
