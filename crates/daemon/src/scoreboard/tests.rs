//! A process never conflicts with its own locks, so readers here go past the question of who holds the
//! file; `tests/` asks it with real processes.

use drover_event::Counter;

use super::*;

fn board(name: &str) -> (Scoreboard, Watch, PathBuf) {
    let directory = std::env::temp_dir().join(format!("drover-board-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("directory");
    let board = Scoreboard::create(&directory).expect("scoreboard");
    let watch = snapshot::unlocked(&path_in(&directory));
    (board, watch, directory)
}

#[test]
fn sums_do_not_fall_when_a_worker_ends() {
    let (board, watch, directory) = board("fold");
    let first = board.lend(1, 0, 512).expect("block");
    let second = board.lend(1, 1, 512).expect("block");
    first.set_pid(Pid::from_raw(101));
    second.set_pid(Pid::from_raw(102));
    first.stats().add(Counter::Requests, 7);
    first.stats().set(Gauge::OpenConnections, 3);
    second.stats().add(Counter::Requests, 5);
    let before = watch.snapshot_as(Pid::this());
    assert_eq!(before.total(Counter::Requests), 12);
    assert_eq!(before.workers.len(), 2);
    board.fold(&first);
    let after = watch.snapshot_as(Pid::this());
    assert_eq!(after.total(Counter::Requests), 12);
    assert_eq!(after.workers.iter().map(|worker| worker.pid.as_raw()).collect::<Vec<_>>(), [102]);
    let again = board.lend(2, 0, 64).expect("the block is free again");
    assert_eq!(again.stats().gauge(Gauge::OpenConnections), 0, "and clean");
    again.stats().add(Counter::Requests, 1);
    assert_eq!(watch.snapshot_as(Pid::this()).total(Counter::Requests), 13);
    board.fold(&again);
    board.keep(&again, 2, 0, 64);
    let kept = watch.snapshot_as(Pid::this());
    assert_eq!(kept.total(Counter::Requests), 13, "counted once");
    assert_eq!(kept.workers[1].state, WorkerState::Waiting);
    std::fs::remove_dir_all(directory).expect("removed");
}

#[test]
fn a_worker_shows_what_it_published() {
    let (board, watch, directory) = board("worker");
    let block = board.lend(3, 4, 512).expect("block");
    block.set_pid(Pid::from_raw(77));
    block.set_state(WorkerState::Draining);
    block.stats().add(Counter::Accepts, 9);
    board.set_generation(3, 2);
    board.set_state(MasterState::Reloading);
    board.count_exit(Exit::Killed);
    let snapshot = watch.snapshot_as(Pid::this());
    let worker = &snapshot.workers[0];
    assert_eq!((worker.number, worker.generation, worker.slots), (4, 3, 512));
    assert_eq!((worker.state, worker.counter(Counter::Accepts)), (WorkerState::Draining, 9));
    assert_eq!((snapshot.master.generation, snapshot.master.workers), (3, 2));
    assert_eq!((snapshot.master.state, snapshot.master.exits), (MasterState::Reloading, [0, 0, 0, 1]));
    std::fs::remove_dir_all(directory).expect("removed");
}

#[test]
fn a_verdict_is_kept_with_its_message() {
    let (board, watch, directory) = board("verdict");
    assert_eq!(watch.snapshot_as(Pid::this()).master.verdict, None);
    assert_eq!(watch.reloads(), (0, 0));
    board.reload_begins();
    assert_eq!(watch.reloads(), (1, 0));
    board.reload_ends(false, "line 3: unknown key");
    assert_eq!(watch.reloads(), (1, 1));
    let verdict = watch.snapshot_as(Pid::this()).master.verdict.expect("a verdict");
    assert_eq!((verdict.accepted, verdict.message.as_str()), (false, "line 3: unknown key"));
    board.reload_begins();
    board.reload_ends(true, &"é".repeat(MESSAGE_BYTES));
    let verdict = watch.snapshot_as(Pid::this()).master.verdict.expect("a verdict");
    assert!(verdict.accepted);
    assert_eq!(verdict.message, "é".repeat(MESSAGE_BYTES / 2), "cut between two characters");
    std::fs::remove_dir_all(directory).expect("removed");
}

#[test]
fn blocks_run_out_and_the_file_goes_with_its_owner() {
    let (board, _watch, directory) = board("full");
    let blocks: Vec<Block> = std::iter::from_fn(|| board.lend(1, 0, 1)).collect();
    assert_eq!(blocks.len(), BLOCKS);
    let path = path_in(&directory);
    drop(board);
    assert!(!path.exists());
    std::fs::write(&path, "something else").expect("a file");
    drop(Scoreboard::create(&directory).expect("a file nobody holds is replaced"));
    std::fs::remove_dir_all(directory).expect("removed");
}

fn requests(watch: &Watch) -> u64 {
    watch.snapshot_as(Pid::this()).total(Counter::Requests)
}

#[test]
fn two_masters_show_the_same_sums_and_neither_counts_the_others_twice() {
    let ((old, old_watch, old_directory), (new, new_watch, new_directory)) = (board("old"), board("new"));
    let (before, after) = (old.lend(1, 0, 8).expect("block"), new.lend(2, 0, 8).expect("block"));
    before.stats().add(Counter::Requests, 100);
    old.count_exit(Exit::Killed);
    new.carry(&old.own_totals());
    assert_eq!(requests(&new_watch), 100);
    assert_eq!(new_watch.snapshot_as(Pid::this()).master.exits, [0, 0, 0, 1]);
    before.stats().add(Counter::Requests, 10);
    after.stats().add(Counter::Requests, 1000);
    for _ in 0..3 {
        old.carry(&new.own_totals());
        new.carry(&old.own_totals());
    }
    assert_eq!((requests(&old_watch), requests(&new_watch)), (1110, 1110));
    old.fold(&before);
    new.carry(&old.own_totals());
    assert_eq!(requests(&new_watch), 1110, "what a worker counted is counted once, also after its end");

    // The old one has gone; another upgrade follows.
    new.keep_carried();
    let (newest, newest_watch, newest_directory) = board("newest");
    newest.carry(&new.own_totals());
    assert_eq!(requests(&newest_watch), 1110);
    for directory in [old_directory, new_directory, newest_directory] {
        std::fs::remove_dir_all(directory).expect("removed");
    }
}

#[test]
fn nothing_is_less_after_a_master_was_killed_than_it_showed() {
    let ((old, old_watch, old_directory), (new, new_watch, new_directory)) = (board("left"), board("killed"));
    old.lend(1, 0, 8).expect("block").stats().add(Counter::Requests, 100);
    new.carry(&old.own_totals());
    new.lend(2, 0, 8).expect("block").stats().add(Counter::Requests, 7);
    let shown = requests(&new_watch);
    assert_eq!((requests(&old_watch), shown), (100, 107));
    old.catch_up_with(&path_in(&new_directory));
    assert_eq!(requests(&old_watch), shown);
    old.catch_up_with(&path_in(&new_directory));
    assert_eq!(requests(&old_watch), shown);
    old.catch_up_with(&old_directory);
    for directory in [old_directory, new_directory] {
        std::fs::remove_dir_all(directory).expect("removed");
    }
}

#[test]
fn the_verdict_on_an_upgrade_is_read_without_knowing_the_rest() {
    let (board, _watch, directory) = board("upgrade");
    let watch = UpgradeWatch::unlocked(&path_in(&directory));
    assert_eq!(watch.upgrades(), (0, 0));
    board.upgrade_begins();
    assert_eq!(watch.upgrades(), (1, 0));
    board.upgrade_ends(false, "there is no such file");
    assert_eq!(watch.upgrades(), (1, 1));
    assert_eq!(watch.verdict(), UpgradeVerdict { accepted: false, message: "there is no such file".into() });
    std::fs::remove_dir_all(directory).expect("removed");
}

#[test]
fn what_a_listener_took_is_carried_by_its_address() {
    let ((old, _, old_directory), (new, new_watch, new_directory)) = (board("mine"), board("theirs"));
    old.number_listeners(["127.0.0.1:80", "127.0.0.1:81"].into_iter(), 1);
    new.number_listeners(["127.0.0.1:81"].into_iter(), 1);
    let block = old.lend(1, 0, 8).expect("block");
    let number = block.listener("127.0.0.1:81").expect("it has a number");
    block.stats().count_accept(number);
    assert_eq!((number, block.listener("127.0.0.1:82")), (1, None));
    for _ in 0..2 {
        new.carry(&old.own_totals());
    }
    let snapshot = new_watch.snapshot_as(Pid::this());
    let accepts: Vec<(String, u64)> = snapshot
        .listeners
        .iter()
        .map(|listener| (listener.address.clone(), snapshot.total_accepts(listener)))
        .collect();
    assert_eq!(accepts, [("127.0.0.1:81".to_owned(), 1)], "one that took nothing need not be known");
    for directory in [old_directory, new_directory] {
        std::fs::remove_dir_all(directory).expect("removed");
    }
}

#[test]
fn every_sum_that_a_block_has_is_carried() {
    let carried: std::collections::BTreeSet<usize> = Stats::named_words().map(|(word, _)| word).collect();
    let listeners = Stats::accepts_word(0)..Stats::accepts_word(Stats::LISTENERS);
    for word in Stats::cumulative_words() {
        assert!(carried.contains(&word) || listeners.contains(&word), "word {word}");
    }
    let names: std::collections::BTreeSet<String> = Stats::named_words().map(|(_, name)| name).collect();
    assert_eq!(names.len(), carried.len(), "each by a name of its own");
}

fn plan(name: &str, workers: u32) -> drover_upstream::Plan {
    let address = drover_config::ServerAddress::parse("10.0.0.1:80").expect("an address");
    let config = drover_upstream::config::Upstream::new(vec![drover_upstream::config::Server::new(address)]);
    drover_upstream::Plan::new(name, &config, workers).expect("memory")
}

#[test]
fn room_for_servers_is_lent_as_long_as_a_worker_of_the_generation_lives() {
    let (board, watch, directory) = board("servers");
    let seen = || watch.snapshot_as(Pid::this()).upstreams;
    let names = || seen().into_iter().map(|upstream| upstream.name).collect::<Vec<_>>();
    let place = |generation, plan: &drover_upstream::Plan| {
        let block = board.lend(generation, 0, 512).expect("block");
        let room = board.place_servers(generation, std::iter::once(("http", plan)));
        (block, room)
    };
    assert!(names().is_empty());
    let one = plan("one", 1);
    let (first, room) = place(1, &one);
    assert!(names().is_empty(), "not before it serves");
    board.set_generation(1, 1);
    board.show_servers(room);
    assert_eq!(names(), ["one"]);
    let (second, other) = place(2, &plan("two", 1));
    assert!(other.is_some() && other != room, "the first still serves");
    board.set_generation(2, 1);
    board.show_servers(other);
    assert_eq!(names(), ["two"]);
    let (third, again) = place(3, &plan("three", 1));
    assert!(again.is_some() && again != room && again != other, "a worker of the first drains");
    board.fold(&first);
    board.fold(&third);
    let (_, reused) = place(4, &plan("four", 1));
    assert_eq!(reused, room);
    board.set_generation(4, 1);
    board.show_servers(reused);
    assert_eq!(names(), ["four"]);
    board.fold(&second);
    let peers = &seen()[0].servers[0].peers;
    assert_eq!(peers[0].tally(drover_upstream::Tally::Requests), 0, "it was cleaned");
    std::fs::remove_dir_all(directory).expect("removed");
}
