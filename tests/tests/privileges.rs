//! Workers of a master that root started run as the user that the config names, and keep nothing else.

use drover_tests::http::get;
use drover_tests::{Config, Directory, Drover, Port, packages, process};
use nix::unistd::{Uid, User};

#[test]
fn workers_run_as_the_user_of_the_config() {
    if !Uid::effective().is_root() {
        packages::skip("only root can give workers another user");
        return;
    }
    let nobody = User::from_name("nobody").expect("users can be looked up").expect("nobody exists");
    let (directory, port) = (Directory::new(), Port::new());
    directory.write("www/index.html", "a file that everyone may read\n");
    let config = Config::new(&directory, 2)
        .process("user = \"nobody\"")
        .server_with(&format!("listen = [\"{}\"]\nroot = \"www\"", port.address()));
    let drover = Drover::start(&directory, &config);
    for worker in drover.workers() {
        let line = |name| process::status_line(worker, name).expect("the worker lives");
        let four = |id: u32| format!("{id} {id} {id} {id}");
        assert_eq!(line("Uid"), four(nobody.uid.as_raw()));
        assert_eq!(line("Gid"), four(nobody.gid.as_raw()));
        assert_eq!(line("Groups"), nobody.gid.to_string(), "no group of root's");
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            assert_eq!(line(set), "0000000000000000", "{set}");
        }
    }
    assert_eq!(process::status_line(drover.master(), "Uid").expect("the master lives"), "0 0 0 0");
    assert_eq!(get(port.address(), "/").text(), "a file that everyone may read\n");

    // The log that the master made is one that workers may write to, and so is the next generation's.
    drover.reload();
    get(port.address(), "/again");
    drover_tests::eventually("the request is logged", || {
        directory.read("access.log").contains("/again").then_some(())
    });
}

#[test]
fn a_user_that_does_not_exist_is_a_finding() {
    let (directory, port) = (Directory::new(), Port::new());
    let config =
        Config::new(&directory, 1).process("user = \"no-such-user-here\"").answering(&port).write(&directory);
    let output = drover_tests::binary::run(["check".as_ref(), "-c".as_ref(), config.as_os_str()]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("no-such-user-here") && text.contains("drover.toml:"), "{text}");
}
