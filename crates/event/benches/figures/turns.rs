//! The cost of a turn with 10 active connections, by how many are open besides.
//!
//! Connections are eventfds, one descriptor each, so that as many as possible are open: the limit of
//! descriptors is raised as far as it goes.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use drover_event::bench::{adopt, read_eventfd};
use drover_event::{BackendKind, Notifier, Settings, Shared, Stats, Worker};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd;

use super::table::{Column, Table};

const ACTIVE: usize = 10;
const TURNS: u32 = 2000;
const WANTED: u64 = 50_000;

struct Crowd {
    worker: Worker,
    active: Vec<OwnedFd>,
}

impl Crowd {
    fn new(backend: BackendKind, open: u32) -> Self {
        let stats = Stats::private().expect("memory");
        let shared = Shared::alone(stats);
        let settings = Settings { connections: open, backend, ..Settings::default() };
        let mut worker = Worker::new(settings, shared).expect("a worker");
        let step = open as usize / ACTIVE;
        let mut active = Vec::new();
        for index in 0..open as usize {
            let descriptor = Notifier::descriptor().expect("an eventfd");
            if index % step == 0 && active.len() < ACTIVE {
                active.push(descriptor.try_clone().expect("a duplicate"));
            }
            let stream = adopt(worker.core(), descriptor).expect("a slot");
            worker.core().spawn(async move {
                while stream.readable().await.is_ok() {
                    let _ = read_eventfd(&stream);
                }
            });
        }
        worker.turn().expect("a turn");
        Self { worker, active }
    }

    /// Nanoseconds of a turn in which all active connections are ready.
    fn measure(&mut self) -> f64 {
        let mut spent = 0.0;
        for _ in 0..TURNS {
            for descriptor in &self.active {
                unistd::write(descriptor.as_fd(), &1u64.to_ne_bytes()).expect("writing");
            }
            let begun = Instant::now();
            self.worker.turn().expect("a turn");
            spent += begun.elapsed().as_nanos() as f64;
        }
        spent / f64::from(TURNS)
    }
}

pub(crate) fn run(table: &mut Table) {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("the limit");
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).expect("raising the limit");
    let most = (hard - 200).min(WANTED) as u32;
    for open in [10, 1000, most] {
        let mut columns = [Column::new("drover"), Column::new("poll backend")];
        for _ in 0..5 {
            // Each with the descriptors to itself, as together they would not fit.
            columns[0].note(Crowd::new(BackendKind::Epoll, open).measure());
            columns[1].note(Crowd::new(BackendKind::Poll, open).measure());
        }
        table.row(&format!("a turn, 10 connections active, {open} open"), "ns", &columns);
    }
    if u64::from(most) < WANTED {
        table.remark(&format!("{WANTED} were wanted; the hard limit of descriptors here is {hard}"));
    }
}
