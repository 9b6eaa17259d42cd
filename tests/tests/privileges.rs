//! Workers of a master that root started run as the user that the config names, and keep nothing else.

use drover_tests::daemon::Surroundings;
use drover_tests::http::get;
use drover_tests::masters::{upgrade, workers};
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

/// As a unit with `AmbientCapabilities=` starts it: the master may bind low ports, over upgrades too, and workers may
/// do nothing.
#[test]
fn workers_keep_no_capability_that_the_master_was_given() {
    if !Uid::effective().is_root() {
        packages::skip("only root can give capabilities");
        return;
    }
    let (directory, port) = (Directory::new(), Port::new());
    directory.set_mode("", 0o777);
    let give = "--inh-caps=-all,+net_bind_service";
    let wrapper = [
        "setpriv",
        "--reuid=nobody",
        "--regid=nogroup",
        "--clear-groups",
        give,
        "--ambient-caps=-all,+net_bind_service",
        "--bounding-set=-all,+net_bind_service",
        "--no-new-privs",
    ];
    let surroundings = Surroundings { wrapper: wrapper.map(Into::into).to_vec(), ..Surroundings::default() };
    let config = Config::new(&directory, 2).answering(&port);
    let drover = match Drover::try_start(&directory, &config, &surroundings) {
        Ok(drover) => drover,
        Err(failure) if failure.stderr.starts_with("setpriv:") => {
            packages::skip(&format!("no capabilities can be given here: {}", failure.stderr));
            return;
        }
        Err(failure) => panic!("{failure:?}"),
    };
    for master in [drover.master(), upgrade(&directory)] {
        let line = |pid, name| process::status_line(pid, name).expect("it lives");
        assert_eq!(line(master, "CapEff"), "0000000000000400", "CAP_NET_BIND_SERVICE is number 10");
        for worker in workers(master) {
            for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
                assert_eq!(line(worker, set), "0000000000000000", "{set}");
            }
        }
    }
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
