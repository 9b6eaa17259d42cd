//! `drover run --nginx-conf`: an nginx.conf runs as it is, and reloads read it anew.

use drover_tests::http::get;
use drover_tests::{Directory, Drover, Port, binary, masters};

/// A configuration with a server that answers like this.
fn conf(port: &Port, server: &str) -> String {
    format!(
        "user root;\nworker_processes 1;\npid drover.pid;\nerror_log stderr info;\nevents {{ }}\nhttp {{\n    \
         access_log logs/access.log;\n    server {{\n        listen {};\n        {server}\n    }}\n}}\n",
        port.address()
    )
}

#[track_caller]
fn start(directory: &Directory, text: &str, arguments: &[&str]) -> Drover {
    std::fs::create_dir_all(directory.join("logs")).expect("the directory is ours");
    match Drover::try_start_nginx_conf(directory, text, arguments) {
        Ok(drover) => drover,
        Err(failure) => panic!("drover ended with {:?}:\n{}", failure.code, failure.stderr),
    }
}

#[test]
fn relative_paths_start_at_the_prefix() {
    let (directory, port) = (Directory::new(), Port::new());
    std::fs::create_dir_all(directory.join("html")).expect("the directory is ours");
    directory.write("html/index.html", "home\n");
    std::fs::create_dir_all(directory.join("sites")).expect("the directory is ours");
    directory.write("sites/a.conf", "location /a { return 200 \"a\\n\"; }\n");
    let _drover = start(&directory, &conf(&port, "root html; include sites/*.conf;"), &[]);
    assert_eq!(get(port.address(), "/").text(), "home\n");
    assert_eq!(get(port.address(), "/a").text(), "a\n");
    assert!(directory.join("drover.drover").is_dir(), "the runtime directory stands beside the pid file");
    assert!(directory.join("logs/access.log").is_file());
}

#[test]
fn a_reload_reads_it_anew_and_refuses_what_cannot_be_carried_over() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = start(&directory, &conf(&port, "location / { return 200 \"one\\n\"; }"), &[]);
    assert_eq!(get(port.address(), "/").text(), "one\n");

    directory.write("nginx.conf", conf(&port, "location / { return 200 \"two\\n\"; }"));
    drover.reload();
    assert_eq!(get(port.address(), "/").text(), "two\n");

    for wrong in ["location / { perl main::handler; }", "location / {"] {
        directory.write("nginx.conf", conf(&port, wrong));
        let said = binary::run(
            ["reload", "-p", directory.path().to_str().expect("text"), "--nginx-conf", "nginx.conf"].iter(),
        );
        let said = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(said.contains("nginx.conf:"), "{said}");
        assert!(said.contains("generation 2 goes on"), "{said}");
        assert_eq!(get(port.address(), "/").text(), "two\n");
    }
}

#[test]
fn an_upgrade_goes_on_with_it() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = start(&directory, &conf(&port, "location / { return 200 \"here\\n\"; }"), &[]);
    let new = masters::upgrade(&directory);
    masters::quit(drover.master());
    assert_eq!(get(port.address(), "/").text(), "here\n");
    assert_eq!(masters::named(&directory), new);
    masters::quit(new);
}

#[test]
fn it_is_strict_unless_told_otherwise() {
    let (directory, port) = (Directory::new(), Port::new());
    let text = conf(&port, "perl_set $a main::b;\n        location / { return 200 \"ok\\n\"; }");
    let failure = Drover::try_start_nginx_conf(&directory, &text, &[]).expect_err("it is strict");
    assert_eq!(failure.code, Some(1));
    assert!(failure.stderr.contains("error: not carried over: perl_set $a main::b;"), "{}", failure.stderr);
    assert!(failure.stderr.contains("nginx.conf:10:9"), "{}", failure.stderr);
    let drover = start(&directory, &text, &["--lenient"]);
    drover.log_line(&["warning: not carried over: perl_set"]);
    assert_eq!(get(port.address(), "/").text(), "ok\n");
}

#[test]
fn it_can_be_checked() {
    let (directory, port) = (Directory::new(), Port::new());
    std::fs::create_dir_all(directory.join("logs")).expect("the directory is ours");
    let prefix = directory.path().to_str().expect("text");
    let check = |text: String| {
        directory.write("nginx.conf", text);
        binary::run(["check", "-p", prefix, "--nginx-conf", "nginx.conf"].iter())
    };
    let good = check(conf(&port, "location / { return 200 ok; }"));
    assert!(good.status.success(), "{}", String::from_utf8_lossy(&good.stderr));
    assert!(String::from_utf8_lossy(&good.stdout).contains("listening on"));
    let bad = check(conf(&port, "location / { perl main::handler; }"));
    let said = String::from_utf8_lossy(&bad.stderr).into_owned();
    assert_eq!(bad.status.code(), Some(1), "{said}");
    assert!(said.contains("nginx.conf:10:9"), "{said}");
}
