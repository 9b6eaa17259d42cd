//! A daemon whose runtime directory was removed from under it is still found, steered, and in the way of a second
//! one.

use std::fs;
use std::process::Output;

use drover_tests::http::get;
use drover_tests::wait::SOON;
use drover_tests::{Config, Directory, Drover, Port, binary};

fn command(drover: &Drover, name: &str) -> Output {
    binary::run([name.as_ref(), "-c".as_ref(), drover.config().as_os_str()])
}

#[test]
fn everything_works_on_without_the_directory() {
    let (directory, port) = (Directory::new(), Port::new());
    let config = Config::new(&directory, 2).answering(&port);
    let mut drover = Drover::start(&directory, &config);
    fs::remove_dir_all(directory.join("run")).expect("the directory is ours");
    fs::remove_file(directory.join("drover.pid")).expect("the directory is ours");

    let status = command(&drover, "status");
    let words = String::from_utf8_lossy(&status.stderr).into_owned();
    assert!(status.status.success() && words.contains("was removed while drover runs"), "{words}");
    assert_eq!(drover.status().generation(), 1);

    let second = command(&drover, "run");
    let words = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(!second.status.success(), "{words}");
    assert!(words.contains(&format!("process {}", drover.master())), "{words}");

    let reload = command(&drover, "reload");
    assert!(reload.status.success(), "{}", String::from_utf8_lossy(&reload.stderr));
    assert_eq!(drover.status().generation(), 2);
    assert!(command(&drover, "reopen").status.success());
    assert_eq!(get(port.address(), "/").text(), "ok\n");

    let stop = command(&drover, "stop");
    assert!(stop.status.success(), "{}", String::from_utf8_lossy(&stop.stderr));
    assert!(drover.wait(SOON).success());
    let status = command(&drover, "status");
    assert!(String::from_utf8_lossy(&status.stderr).contains("no drover runs"), "{status:?}");
}
