//! The figures of the engine, each beside what an engineer would otherwise use, in one run.
//!
//! `cargo bench -p drover-event --features bench-internals` prints one table. The contenders of a row
//! take turns within every round, so that whatever else the machine does hits all of them; a cell is
//! the median over the rounds, and a ratio above 1 means that drover needs less. A word given as an
//! argument runs the groups whose name contains it.
#![allow(clippy::print_stdout, reason = "the table is the purpose")]

mod pipes;
mod posts;
mod sizes;
mod table;
mod tasks;
mod timers;
mod turns;

type Group = (&'static str, fn(&mut table::Table));

const GROUPS: &[Group] = &[
    ("timers", timers::run),
    ("posts", posts::run),
    ("tasks", tasks::run),
    ("turns", turns::run),
    ("sizes", sizes::run),
    ("pipes", pipes::run),
];

fn main() {
    // `cargo bench` adds `--bench`; what is no option chooses groups.
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let mut table = table::Table::new();
    for (name, run) in GROUPS {
        if wanted.as_ref().is_none_or(|wanted| name.contains(wanted.as_str())) {
            run(&mut table);
        }
    }
}
