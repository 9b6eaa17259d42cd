//! What is done to the daemon: a table of actions, drawn from by weight.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant};

use drover_tests::variants::Range;
use drover_tests::{Client, process, sockets};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::Options;
use crate::run::{Run, Undo, step_clock};

/// Something that is done to the daemon.
struct Action {
    name: &'static str,
    /// How often, compared with the others.
    weight: usize,
    /// Fails with what should not be.
    act: fn(&mut Run) -> Result<(), String>,
}

const ACTIONS: &[Action] = &[
    Action { name: "reload", weight: 30, act: reload },
    Action { name: "reload a broken config", weight: 6, act: reload_broken },
    Action { name: "many HUPs at once", weight: 4, act: many_hups },
    Action { name: "kill a worker", weight: 12, act: kill_worker },
    Action { name: "stop a worker for a while", weight: 8, act: stop_worker },
    Action { name: "let descriptors run out", weight: 4, act: run_out_of_descriptors },
    Action { name: "fill the log disk", weight: 4, act: fill_log_disk },
    Action { name: "rotate the logs", weight: 6, act: rotate_logs },
    Action { name: "upgrade the executable", weight: 3, act: upgrade },
    Action { name: "upgrade, and take it back", weight: 3, act: upgrade_and_back },
];

const CLOCK_STEP: Action = Action { name: "step the clock", weight: 3, act: step };

/// Pauses between two actions, in milliseconds.
const PAUSE: (u64, u64) = (10, 400);
/// Few descriptors: a worker's own, and less than the flood for connections.
const FEW_DESCRIPTORS: &str = "rlimit_nofile = 96";
/// More connections than the workers of a config with few descriptors can hold.
const FLOOD: usize = 250;

/// Disturbs the daemon for as long as the options say, and undoes what is left to undo.
pub(crate) fn disturb(run: &mut Run, options: &Options) {
    let mut table: Vec<&Action> = ACTIONS.iter().collect();
    table.extend(options.clock_steps.then_some(&CLOCK_STEP));
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    let end = run.begun + Duration::from_secs(options.seconds);
    while Instant::now() < end {
        run.undo(false);
        let action = draw(&table, run.random.below(table.iter().map(|action| action.weight).sum()));
        run.tell(action.name);
        *counts.entry(action.name).or_default() += 1;
        if let Err(reason) = (action.act)(run) {
            run.complain(&format!("{}: {reason}", action.name));
        }
        thread::sleep(run.random.millis(PAUSE.0, PAUSE.1));
        run.tell_of_losses();
    }
    run.undo(true);
    for (name, count) in counts {
        println!("{count:>5} times: {name}");
    }
}

fn draw<'a>(table: &[&'a Action], mut number: usize) -> &'a Action {
    for action in table {
        match number.checked_sub(action.weight) {
            Some(rest) => number = rest,
            None => return action,
        }
    }
    table[0]
}

fn reload(run: &mut Run) -> Result<(), String> {
    let (name, config) = run.variants.any(Range::All, &mut run.random);
    run.tell(&name);
    run.reload(&config).map_err(|reason| format!("{name}: {reason}"))
}

/// The daemon says what is wrong and goes on; what it has is put back into the file.
fn reload_broken(run: &mut Run) -> Result<(), String> {
    let before = std::fs::read(run.drover.config()).map_err(|error| error.to_string())?;
    let (word, config) = run.variants.broken(&mut run.random);
    let outcome = run.reload(&config);
    std::fs::write(run.drover.config(), before).map_err(|error| error.to_string())?;
    match outcome {
        Err(reason) if reason.contains(&word) => Ok(()),
        Err(reason) => Err(format!("{word:?} was expected, not {reason}")),
        Ok(()) => Err(format!("{word:?} was accepted")),
    }
}

fn many_hups(run: &mut Run) -> Result<(), String> {
    let master = run.master();
    for _ in 0..30 {
        process::send(master, Signal::SIGHUP);
    }
    Ok(())
}

/// A worker of any generation.
fn any_worker(run: &mut Run) -> Option<Pid> {
    let workers = run.workers();
    (!workers.is_empty()).then(|| *run.random.pick(&workers))
}

/// Stops the worker first, so that which connections it has is known when it is killed.
fn kill_worker(run: &mut Run) -> Result<(), String> {
    let Some(worker) = any_worker(run) else { return Ok(()) };
    process::send(worker, Signal::SIGSTOP);
    let begun = Instant::now();
    while process::state(worker).is_some_and(|state| !matches!(state, 'T' | 'Z')) {
        if begun.elapsed() > Duration::from_secs(10) {
            return Err(format!("process {worker} does not stop"));
        }
        thread::sleep(Duration::from_millis(1));
    }
    for port in [&run.variants.port, &run.variants.stream] {
        run.ledger.will_be_killed(&sockets::peers(worker, port.number())?);
    }
    process::send(worker, Signal::SIGKILL);
    Ok(())
}

fn stop_worker(run: &mut Run) -> Result<(), String> {
    let Some(worker) = any_worker(run) else { return Ok(()) };
    process::send(worker, Signal::SIGSTOP);
    let time = run.random.millis(50, 1500);
    run.undo_after(time, Undo::Continue(worker));
    Ok(())
}

fn run_out_of_descriptors(run: &mut Run) -> Result<(), String> {
    if run.has_pending(&Undo::HangUp(Vec::new())) {
        return Ok(());
    }
    let few = run.variants.base().process(FEW_DESCRIPTORS);
    // What that has to wait for may take any time.
    run.ledger.short_until(run.begun + Duration::from_secs(86_400));
    run.reload(&few)?;
    let address = run.variants.port.address();
    let connect = |_| Client::connect_from(Ipv4Addr::new(127, 0, 79, 1), address);
    let flood: Vec<Client> =
        (0..FLOOD).map(connect).collect::<Result<_, _>>().map_err(|error| format!("connect: {error}"))?;
    let time = run.random.millis(500, 2000);
    // It takes a moment until the workers have noticed that their clients are gone.
    run.ledger.short_until(Instant::now() + time + Duration::from_secs(2));
    run.undo_after(time, Undo::HangUp(flood));
    Ok(())
}

fn fill_log_disk(run: &mut Run) -> Result<(), String> {
    if run.has_pending(&Undo::FreeLogDisk) {
        return Ok(());
    }
    run.log_disk.fill(&run.drover)?;
    let time = run.random.millis(500, 2000);
    run.undo_after(time, Undo::FreeLogDisk);
    Ok(())
}

fn rotate_logs(run: &mut Run) -> Result<(), String> {
    for name in ["access.log", "drover.log"] {
        let (from, to) = (run.variants.logs.join(name), run.variants.logs.join(format!("{name}.1")));
        match std::fs::rename(from, to) {
            // The daemon has been told to make it, and has not come to that.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            result => result.map_err(|error| format!("cannot move {name}: {error}"))?,
        }
    }
    run.command("reopen")
}

/// Another executable (the same one) takes over, and the old master leaves.
fn upgrade(run: &mut Run) -> Result<(), String> {
    let old = run.master();
    run.command("upgrade")?;
    if run.master() == old { Err("the old master has the names".to_owned()) } else { Ok(()) }
}

/// Both masters serve for a while; then the new one is asked to leave.
fn upgrade_and_back(run: &mut Run) -> Result<(), String> {
    let old = run.master();
    run.command_with("upgrade", &["--keep-old"])?;
    let new = run.master();
    if new == old {
        return Err("the old master has the names".to_owned());
    }
    thread::sleep(run.random.millis(0, 500));
    process::send(new, Signal::SIGQUIT);
    let begun = Instant::now();
    while process::alive(new) {
        if begun.elapsed() > Duration::from_secs(45) {
            return Err(format!("the new master (process {new}) does not leave"));
        }
        run.undo(false);
        thread::sleep(Duration::from_millis(5));
    }
    if run.master() == old { Ok(()) } else { Err("the old master has not got its names back".to_owned()) }
}

fn step(run: &mut Run) -> Result<(), String> {
    if run.has_pending(&Undo::StepClock(0)) {
        return Ok(());
    }
    let seconds = *run.random.pick(&[-3600, -60, -1, 1, 60, 3600]);
    step_clock(seconds)?;
    let time = run.random.millis(100, 1500);
    run.undo_after(time, Undo::StepClock(seconds));
    Ok(())
}
