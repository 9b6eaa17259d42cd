//! The accept mutex among real processes, of which some are killed while they hold it.
//!
//! Each worker takes the mutex again and again and writes its pid into a second word while it is
//! inside. The master kills workers at random moments and releases what they held once they are
//! gone. Nobody may ever find somebody else inside, and the others must get on.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use drover_event::AcceptMutex;
use drover_sys::memory::SharedWords;

/// The words of the file.
const MUTEX: usize = 0;
const INSIDE: usize = 1;
const VIOLATIONS: usize = 2;
const ENTRIES: usize = 3;
const WORDS: usize = 4;

const FILE: &str = "DROVER_TEST_MUTEX_FILE";
const WORKERS: usize = 4;
const KILLS: usize = 40;
/// How long a certain worker is waited for to be inside.
const PATIENCE: Duration = Duration::from_millis(100);
const LIMIT: Duration = Duration::from_secs(20);

fn map(path: &PathBuf) -> Rc<SharedWords> {
    let file = File::options().read(true).write(true).open(path).expect("the file");
    Rc::new(SharedWords::create(&file, WORDS).expect("the mapping"))
}

/// A worker, when this binary is started as one; else nothing.
#[test]
fn worker() {
    let Some(path) = std::env::var_os(FILE) else { return };
    let words = map(&path.into());
    let pid = std::process::id();
    let mutex = AcceptMutex::new(Rc::clone(&words), MUTEX, pid);
    loop {
        if !mutex.try_lock() {
            std::thread::sleep(Duration::from_micros(100));
            continue;
        }
        if words[INSIDE].swap(u64::from(pid), SeqCst) != 0 {
            words[VIOLATIONS].fetch_add(1, SeqCst);
        }
        words[ENTRIES].fetch_add(1, SeqCst);
        // Long enough inside that most kills find somebody there.
        let until = Instant::now() + Duration::from_micros(200);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        if words[INSIDE].swap(0, SeqCst) != u64::from(pid) || !mutex.unlock() {
            words[VIOLATIONS].fetch_add(1, SeqCst);
        }
    }
}

fn start(path: &PathBuf) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this binary"));
    command.args(["--exact", "worker"]).env(FILE, path).stdout(Stdio::null());
    command.spawn().expect("a worker")
}

/// Waits until `entries` more have been inside.
fn await_entries(words: &SharedWords, entries: u64) {
    let (begun, wanted) = (Instant::now(), words[ENTRIES].load(SeqCst) + entries);
    while words[ENTRIES].load(SeqCst) < wanted {
        assert!(begun.elapsed() < LIMIT, "nobody gets in: the owner is {}", words[MUTEX].load(SeqCst));
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn workers_killed_inside_keep_nobody_out() {
    let path = std::env::temp_dir().join(format!("drover-mutex-{}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path).expect("a file");
    let words = Rc::new(SharedWords::create(&file, WORDS).expect("a mapping"));
    let master = AcceptMutex::new(Rc::clone(&words), MUTEX, std::process::id());
    let mut workers: Vec<Child> = (0..WORKERS).map(|_| start(&path)).collect();
    let mut held = 0;
    for kill in 0..KILLS {
        await_entries(&words, 3);
        let victim = &mut workers[kill % WORKERS];
        let pid = victim.id();
        // Three out of four times the one that is inside, as well as that can be met.
        let begun = Instant::now();
        while kill % 4 != 0 && master.owner() != Some(pid) && begun.elapsed() < PATIENCE {
            std::thread::yield_now();
        }
        victim.kill().expect("killing");
        victim.wait().expect("waiting for its end");
        // While the mutex still bears its name nobody else can be inside.
        if master.owner() == Some(pid) {
            let _ = words[INSIDE].compare_exchange(u64::from(pid), 0, SeqCst, SeqCst);
        }
        held += usize::from(master.release_for(pid));
        assert!(!master.release_for(pid), "once");
        workers[kill % WORKERS] = start(&path);
    }
    await_entries(&words, 100);
    for worker in &mut workers {
        worker.kill().expect("killing");
        worker.wait().expect("waiting");
    }
    std::fs::remove_file(path).expect("removing the file");
    assert_eq!(words[VIOLATIONS].load(SeqCst), 0);
    assert!(held >= KILLS / 10, "only {held} of {KILLS} were killed inside");
}
