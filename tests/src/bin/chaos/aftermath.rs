//! What is left when it is over.

use std::thread;
use std::time::{Duration, Instant};

use drover_tests::status::Status;
use drover_tests::{Drover, process};

use nix::unistd::Pid;

use crate::run::{Figures, Run, tell_log};

/// How much the master's memory may have grown, in KiB: what many generations at once need stays with the
/// allocator.
const GROWTH_MOST: u64 = 4096;
/// Old workers drain for 30 s at most.
const DRAINED: Duration = Duration::from_secs(45);

/// Ends the run and tells everything that is not as it should be.
pub(crate) fn examine(mut run: Run) -> Vec<String> {
    if let Err(reason) = settle(&mut run) {
        run.complain(&reason);
    }
    let master = run.master();
    let Run { ledger, clients, complaints, before, begun, mut drover, log_disk, variants, .. } = run;
    let mut wrong = complaints;
    let crashed = clients.stop();
    if crashed > 0 {
        wrong.push(format!("{crashed} clients ended by a panic"));
    }
    print!("{ledger}");
    println!("{} requests answered in {:.0?}", ledger.total(), begun.elapsed());
    wrong.extend(ledger.losses());
    wrong.extend(as_before(&drover, master, &before).err());
    wrong.extend(exits(&drover).err());
    for word in ["panicked", "did not end in time"] {
        let log = variants.directory.read("logs/drover.log") + &drover.log();
        let lines = log.lines().filter(|line| line.contains(word));
        wrong.extend(lines.map(|line| format!("the log says: {line}")));
    }
    if !wrong.is_empty() {
        tell_log(&variants, &drover);
    }
    wrong.extend(stop(&mut drover, master).err());
    for path in [
        variants.unix_path(),
        variants.directory.join("drover.pid"),
        variants.directory.join("run/scoreboard"),
    ] {
        if path.exists() {
            wrong.push(format!("{} is left", path.display()));
        }
    }
    drop((drover, log_disk));
    wrong
}

/// Back to the config of the start, until that serves alone.
fn settle(run: &mut Run) -> Result<(), String> {
    let base = run.variants.base();
    run.reload(&base)?;
    soon("the last generation serves alone", DRAINED, || {
        Status::read(run.drover.config()).is_ok_and(|status| status.serves_alone())
    })
}

/// Once the clients have gone, everything is as it was before they came.
fn as_before(drover: &Drover, master: Pid, before: &Figures) -> Result<(), String> {
    let mut now = Err("not looked yet".to_owned());
    let settled = soon("slots and descriptors are as before", Duration::from_secs(20), || {
        now = Figures::of(drover, master);
        now.as_ref()
            .is_ok_and(|now| now.free_slots == before.free_slots && now.descriptors == before.descriptors)
    });
    let now = now?;
    settled.map_err(|reason| format!("{reason}: before {before:#?}, now {now:#?}"))?;
    println!("the master has {} KiB, and had {} KiB", now.memory_kib, before.memory_kib);
    if now.memory_kib > before.memory_kib + GROWTH_MOST {
        return Err("the master grew too much".to_owned());
    }
    if now.shared_memory != before.shared_memory {
        return Err(format!("shared memory is left: {:?}", now.shared_memory));
    }
    Ok(())
}

/// Workers ended as they were asked to, or because they were killed.
fn exits(drover: &Drover) -> Result<(), String> {
    let json: serde_json::Value =
        serde_json::from_str(&Status::text(drover.config())?).map_err(|error| error.to_string())?;
    let exits = &json["master"]["worker_exits"];
    println!("workers that ended: {exits}");
    if exits["failed"] == 0 && exits["clean"] == 0 {
        Ok(())
    } else {
        Err(format!("workers ended by themselves: {exits}"))
    }
}

fn stop(drover: &mut Drover, master: Pid) -> Result<(), String> {
    let output = drover_tests::binary::run(["stop".as_ref(), "-c".as_ref(), drover.config().as_os_str()]);
    if !output.status.success() {
        return Err(format!("drover stop: {}", String::from_utf8_lossy(&output.stderr)));
    }
    soon("the master ends", Duration::from_secs(40), || !process::alive(master))?;
    let status = drover.wait(Duration::from_secs(5));
    let left = drover.processes();
    match (status.success(), left.is_empty()) {
        (true, true) => Ok(()),
        (false, _) => Err(format!("the master ended with {status}")),
        (true, false) => Err(format!("processes are left: {left:?}")),
    }
}

fn soon(what: &str, deadline: Duration, mut probe: impl FnMut() -> bool) -> Result<(), String> {
    let begun = Instant::now();
    while !probe() {
        if begun.elapsed() > deadline {
            return Err(format!("within {deadline:?} this did not happen: {what}"));
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
