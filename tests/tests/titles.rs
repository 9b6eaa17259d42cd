//! Processes say in the process list what they are.

use drover_tests::{Config, Directory, Drover, Port, process};

#[test]
fn titles_tell_master_worker_and_generation() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = Drover::start(&directory, &Config::new(&directory, 2).answering(&port));
    let titles = || {
        let mut titles: Vec<String> = drover.workers().into_iter().map(process::title).collect();
        titles.sort();
        titles
    };
    assert!(
        process::title(drover.master()).starts_with("drover: master"),
        "{}",
        process::title(drover.master())
    );
    assert_eq!(titles(), ["drover: worker 0, generation 1", "drover: worker 1, generation 1"]);
    drover.reload();
    assert_eq!(titles(), ["drover: worker 0, generation 2", "drover: worker 1, generation 2"]);
}
