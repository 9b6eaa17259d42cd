//! The master has the same descriptors and about the same memory after many reloads.

use drover_tests::{Config, Directory, Drover, Port, descriptors, process};

#[test]
fn fifty_reloads_leave_the_masters_descriptors_as_they_were() {
    let (directory, port) = (Directory::new(), Port::new());
    let drover = Drover::start(&directory, &Config::new(&directory, 2).answering(&port));
    // The first reload may allocate what stays.
    drover.reload();
    let kinds = || {
        let mut kinds: Vec<String> = descriptors::open(drover.master())
            .into_values()
            .map(|target| target.split(['[', '(']).next().unwrap_or_default().to_owned())
            .collect();
        kinds.sort();
        kinds
    };
    let (before, memory_before) = (kinds(), memory(&drover));
    for _ in 0..50 {
        drover.reload();
    }
    assert_eq!(kinds(), before);
    let grown = memory(&drover) - memory_before;
    assert!(grown < 1024, "the master grew by {grown} KiB over 50 reloads");
    assert_eq!(drover.workers().len(), 2);
}

/// Anonymous memory in KiB.
fn memory(drover: &Drover) -> i64 {
    let line = process::status_line(drover.master(), "RssAnon").expect("the master lives");
    line.split(' ').next().and_then(|number| number.parse().ok()).expect("a number of KiB")
}
