//! `make soak`: many reloads, one after the other, among configs that have little in common, with broken ones in
//! between and clients all the while. At the end the master has the descriptors and the memory that it had, and
//! nobody has lost a request.

#![allow(clippy::print_stdout, reason = "a program whose output is its result")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use drover_tests::variants::{Range, Variants};
use drover_tests::wait::stays;
use drover_tests::{Config, Drover, Load, Random, binary, descriptors, process};

/// Reloads until the figures are taken that the end is compared with: buffers have found their size by then.
const WARM_UP: usize = 20;
/// Longer than sockets that are not needed any more are accepted from.
const REST: Duration = Duration::from_secs(3);
/// The descriptors are at rest by then.
const REST_AFTER: Duration = Duration::from_secs(60);
/// Lines of the log, and reloads, that are shown where a request was lost.
const LOG_LINES: usize = 100;
const STEPS: usize = 5;
/// How much the master's memory may have grown, in KiB.
const GROWTH_MOST: u64 = 1024;

/// Reloads a running drover again and again.
#[derive(Debug, Parser)]
#[command(name = "soak")]
struct Options {
    /// How many reloads
    #[arg(long, default_value_t = 1000)]
    reloads: usize,
    /// What fixes the order of the configs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Leave out configs that take seconds to be in force
    #[arg(long)]
    quick: bool,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("soak: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// What must be as it was.
#[derive(Debug, PartialEq, Eq)]
struct Figures {
    descriptors: Vec<String>,
    memory_kib: u64,
}

impl Figures {
    fn of(drover: &Drover) -> Result<Figures, String> {
        let memory_kib = process::anonymous_memory(drover.master()).ok_or("the master is gone")?;
        Ok(Figures { descriptors: descriptors::kinds(drover.master()), memory_kib })
    }

    /// Once sockets that nobody needs any more have been drained and closed.
    fn at_rest(drover: &Drover) -> Result<Figures, String> {
        let begun = Instant::now();
        while begun.elapsed() < REST_AFTER {
            let figures = Figures::of(drover)?;
            let same = || Figures::of(drover).is_ok_and(|now| now.descriptors == figures.descriptors);
            if stays(REST, same) {
                return Figures::of(drover);
            }
        }
        Err(format!("after {REST_AFTER:?} the master's descriptors still come and go"))
    }
}

fn run(options: &Options) -> Result<(), String> {
    let variants = Variants::new();
    let _somebody =
        std::net::TcpListener::bind(variants.taken.address()).map_err(|error| error.to_string())?;
    let drover = variants.start();
    let load = Load::start(2, variants.port.address(), "/");
    let mut random = Random::new(options.seed);
    let begun = Instant::now();
    reload_many(options, WARM_UP, &variants, &drover, &load, &mut random)?;
    let before = Figures::at_rest(&drover)?;
    println!(
        "{} descriptors and {} KiB after {WARM_UP} reloads",
        before.descriptors.len(),
        before.memory_kib
    );
    reload_many(options, options.reloads, &variants, &drover, &load, &mut random)?;
    let after = Figures::at_rest(&drover)?;
    println!("{} descriptors and {} KiB at the end", after.descriptors.len(), after.memory_kib);
    let tally = load.stop();
    println!("{} reloads in {:.0?}; requests: {tally}", options.reloads, begun.elapsed());
    if after.descriptors != before.descriptors {
        return Err(format!("the master had {:#?} and has {:#?}", before.descriptors, after.descriptors));
    }
    if after.memory_kib > before.memory_kib + GROWTH_MOST {
        return Err(format!("the master grew from {} to {} KiB", before.memory_kib, after.memory_kib));
    }
    if tally.failures.is_empty() { Ok(()) } else { Err("requests were lost".to_owned()) }
}

/// Reloads that often, the last time to the config of the start, and waits until that serves alone.
fn reload_many(
    options: &Options,
    reloads: usize,
    variants: &Variants,
    drover: &Drover,
    load: &Load,
    random: &mut Random,
) -> Result<(), String> {
    let range = if options.quick { Range::Quick } else { Range::All };
    let mut steps = Vec::new();
    for number in 1..reloads {
        if random.one_in(10) {
            let (word, config) = variants.broken(random);
            is_refused(drover, variants, &config, &word)?;
            steps.push(format!("refused: {word}"));
        } else {
            let (name, config) = variants.any(range, random);
            is_accepted(drover, variants, &config).map_err(|reason| format!("{name}: {reason}"))?;
            steps.push(name);
        }
        if let Some(reason) = load.first_failure() {
            let log = variants.directory.read("logs/drover.log");
            let lines: Vec<&str> = log.lines().collect();
            let end = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
            let steps = steps[steps.len().saturating_sub(STEPS)..].join("\n");
            return Err(format!("a request was lost by reload {number}: {reason}\nafter\n{steps}\n{end}"));
        }
        if number % 100 == 0 {
            println!("{number} of {reloads}: generation {}", drover.status().generation());
        }
    }
    let before = drover.status().generation();
    is_accepted(drover, variants, &variants.base())?;
    drover.generation_after(before);
    Ok(())
}

fn is_accepted(drover: &Drover, variants: &Variants, config: &Config) -> Result<(), String> {
    config.write(&variants.directory);
    let output = binary::run(["reload".as_ref(), "-c".as_ref(), drover.config().as_os_str()]);
    let words = || String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(format!("the reload was refused: {}", words())) }
}

fn is_refused(drover: &Drover, variants: &Variants, config: &Config, word: &str) -> Result<(), String> {
    match is_accepted(drover, variants, config) {
        Err(reason) if reason.contains(word) => Ok(()),
        Err(reason) => Err(format!("{word:?} was expected: {reason}")),
        Ok(()) => Err(format!("a config was accepted that is broken: {word:?}")),
    }
}
