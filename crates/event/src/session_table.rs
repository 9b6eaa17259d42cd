//! Which sessions of datagrams a worker has, for other workers to look up.
//!
//! One set of fingerprints for each worker, in shared memory: open addressing with linear probing. Its worker
//! alone changes it, and entries never move, so that whoever looks meanwhile finds every entry that is neither
//! being added nor being removed at that moment. Of two keys that share a fingerprint, which are 64 bits that
//! nobody can foresee, one may be taken for the other; a reader may be told of a session that just ended.
//! Both must be harmless to it.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

use drover_sys::memory::SharedWords;
use drover_sys::process::has_ended;
use nix::unistd::Pid;

/// Nothing was ever here: a search ends.
const EMPTY: u64 = 0;
/// Something was here: a search goes on.
const REMOVED: u64 = 1;

/// The word with the ports whose datagram sockets the worker reads.
const READING: usize = 0;
/// The word with the ports whose sockets others take over.
const FOLLOWED: usize = 1;
/// The word with the ports whose sockets others would take over, were this worker left alone.
const HEIRS: usize = 2;
/// The word with the process id of the worker, or 0 where nobody has said.
const OWNER: usize = 3;
/// Words before the set.
const HEADER: usize = 8;

/// UDP ports, as a set that fits a word: of two that share a bit, one stands for the other too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ports(u64);

impl FromIterator<u16> for Ports {
    fn from_iter<T: IntoIterator<Item = u16>>(ports: T) -> Self {
        Self(ports.into_iter().fold(0, |bits, port| bits | 1 << (port % 64)))
    }
}

impl Ports {
    /// Whether a port is in both.
    pub(crate) fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// A worker's set of sessions.
#[derive(Clone, Debug)]
pub struct SessionTable {
    words: Arc<SharedWords>,
    /// The capacity, a power of two, less one.
    mask: usize,
}

impl SessionTable {
    /// An empty set for at most `sessions` sessions, in a file that is empty.
    ///
    /// # Errors
    /// What `ftruncate(2)` and `mmap(2)` report.
    pub fn create(file: &File, sessions: u32) -> io::Result<Self> {
        // At most half full, so that searches stay short.
        let capacity = (sessions as usize * 2).next_power_of_two();
        Ok(Self { words: Arc::new(SharedWords::create(file, HEADER + capacity)?), mask: capacity - 1 })
    }

    /// The set that another process has made in this file.
    ///
    /// # Errors
    /// What `mmap(2)` reports, and `InvalidData` for a file of another size than such a set has.
    pub fn open(file: &File) -> io::Result<Self> {
        let words = usize::try_from(file.metadata()?.len()).unwrap_or(0) / size_of::<u64>();
        let capacity = words.checked_sub(HEADER).filter(|capacity| capacity.is_power_of_two());
        let capacity = capacity.ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { words: Arc::new(SharedWords::create(file, words)?), mask: capacity - 1 })
    }

    /// Whether there is nothing that anybody needs to know: no worker, or no session and no socket that is read.
    pub fn is_idle(&self) -> bool {
        let mut entries = self.words[HEADER..].iter().map(|word| word.load(Acquire));
        self.is_orphaned() || self.reading() == Ports::default() && entries.all(|entry| entry <= REMOVED)
    }

    /// The ports whose sockets the worker reads now, so that nobody else should. One that was killed reads nothing,
    /// and said nothing about it.
    pub fn reading(&self) -> Ports {
        let reading = Ports(self.words[READING].load(Acquire));
        if reading == Ports::default() || self.is_orphaned() { Ports::default() } else { reading }
    }

    /// Whether the worker has ended: its master tidies up behind it, unless that is gone too.
    fn is_orphaned(&self) -> bool {
        let owner = self.words[OWNER].load(Acquire) as i32;
        owner != 0 && has_ended(Pid::from_raw(owner))
    }

    /// Says whose sessions these are.
    pub(crate) fn set_owner(&self, owner: Pid) {
        self.words[OWNER].store(owner.as_raw() as u64, Release);
    }

    /// The ports whose sockets others take over.
    pub(crate) fn followed(&self) -> Ports {
        Ports(self.words[FOLLOWED].load(Acquire))
    }

    /// Workers of a later generation take over the sockets of these ports: when this one is asked to drain, it stops
    /// reading them.
    pub fn set_followed(&self, ports: Ports) {
        self.words[FOLLOWED].store(ports.0, Release);
    }

    /// The ports whose sockets others would take over.
    pub(crate) fn heirs(&self) -> Ports {
        Ports(self.words[HEIRS].load(Acquire))
    }

    /// Somebody goes on with these ports if this worker is left alone by the end of its master. Until they follow, it
    /// begins sessions though it drains: nobody else can.
    pub fn set_heirs(&self, ports: Ports) {
        self.words[HEIRS].store(ports.0, Release);
    }

    /// Forgets everything but who goes on: the worker has ended, or begins.
    pub fn clear(&self) {
        self.set_reading(Ports::default());
        self.set_followed(Ports::default());
        self.words[OWNER].store(0, Release);
        self.words[HEADER..].iter().filter(|word| word.load(Acquire) != EMPTY).for_each(|word| {
            word.store(EMPTY, Release);
        });
    }

    pub(crate) fn set_reading(&self, ports: Ports) {
        self.words[READING].store(ports.0, Release);
    }

    /// Adds a fingerprint that is not in the set. Where there is no room for it, nobody else will know of the
    /// session.
    pub(crate) fn insert(&self, fingerprint: u64) {
        let fingerprint = legal(fingerprint);
        let free = self.places(fingerprint).find(|place| self.at(*place) <= REMOVED);
        if let Some(place) = free {
            self.words[HEADER + place].store(fingerprint, Release);
        }
    }

    /// Takes a fingerprint out.
    pub(crate) fn remove(&self, fingerprint: u64) {
        let Some(place) = self.find(legal(fingerprint)) else { return };
        self.words[HEADER + place].store(REMOVED, Release);
        // In front of a place that ends searches, none has to be kept going.
        let mut place = place;
        while self.at(place) == REMOVED && self.at((place + 1) & self.mask) == EMPTY {
            self.words[HEADER + place].store(EMPTY, Release);
            place = place.wrapping_sub(1) & self.mask;
        }
    }

    /// Whether the worker has a session with this fingerprint.
    pub(crate) fn contains(&self, fingerprint: u64) -> bool {
        self.find(legal(fingerprint)).is_some()
    }

    fn find(&self, fingerprint: u64) -> Option<usize> {
        let places = self.places(fingerprint).take_while(|place| self.at(*place) != EMPTY);
        let mut places = places.skip_while(|place| self.at(*place) != fingerprint);
        places.next()
    }

    /// The places to look at, from the one the fingerprint points to.
    fn places(&self, fingerprint: u64) -> impl Iterator<Item = usize> {
        let (start, mask) = (fingerprint as usize, self.mask);
        (0..=mask).map(move |step| start.wrapping_add(step) & mask)
    }

    fn at(&self, place: usize) -> u64 {
        self.words[HEADER + place].load(Acquire)
    }
}

/// A fingerprint that is no mark.
fn legal(fingerprint: u64) -> u64 {
    if fingerprint <= REMOVED { fingerprint + 2 } else { fingerprint }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_sys::memory::anonymous_file;
    use proptest::prelude::*;
    use std::collections::HashSet;
    use std::process::{Command, Stdio};

    fn table(sessions: u32) -> SessionTable {
        let file = anonymous_file(c"sessions").expect("memory");
        SessionTable::create(&file, sessions).expect("a mapping")
    }

    proptest! {
        /// Against a set, with fingerprints that collide all the time.
        #[test]
        fn behaves_as_a_set(steps in prop::collection::vec((any::<bool>(), 0u64..40), 1..300)) {
            let table = table(16);
            let mut model = HashSet::new();
            for (adds, key) in steps {
                let fingerprint = legal(key * 7 % 64);
                match adds {
                    true if model.len() < 16 && model.insert(fingerprint) => table.insert(fingerprint),
                    false if model.remove(&fingerprint) => table.remove(fingerprint),
                    _ => {}
                }
                for key in 0..64 {
                    let fingerprint = legal(key);
                    prop_assert_eq!(table.contains(fingerprint), model.contains(&fingerprint));
                }
            }
            model.iter().for_each(|fingerprint| table.remove(*fingerprint));
            prop_assert!((0..=table.mask).all(|place| table.at(place) == EMPTY || table.at(place) == REMOVED));
        }
    }

    #[test]
    fn a_full_set_is_searched_to_an_end() {
        let table = table(1);
        (0..5).for_each(|key| table.insert(10 + key));
        assert!(table.contains(10) && table.contains(11));
        assert!(!table.contains(12) && !table.contains(99));
    }

    #[test]
    fn another_process_sees_the_same_set() {
        let file = anonymous_file(c"sessions").expect("memory");
        let own = SessionTable::create(&file, 100).expect("a mapping");
        let other = SessionTable::open(&file).expect("a mapping");
        assert!(other.is_idle());
        own.insert(77);
        assert!(other.contains(77) && !other.is_idle());
        file.set_len(1000).expect("another size");
        assert_eq!(SessionTable::open(&file).expect_err("no set").kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn an_ended_worker_is_forgotten() {
        let table = table(4);
        let ports: Ports = [53, 443].into_iter().collect();
        table.set_reading(ports);
        table.insert(77);
        assert!(table.reading().meets([53].into_iter().collect()) && table.contains(77));
        assert!(!table.reading().meets([54].into_iter().collect()));
        table.clear();
        assert!(table.reading() == Ports::default() && !table.contains(77));
    }

    #[test]
    fn one_that_nobody_buried_reads_nothing() {
        let table = table(4);
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("a child");
        table.set_owner(Pid::from_raw(child.id() as i32));
        table.set_reading([53].into_iter().collect());
        table.insert(77);
        assert!(table.reading() != Ports::default() && !table.is_idle());
        child.kill().and_then(|()| child.wait()).expect("its end");
        assert!(table.reading() == Ports::default() && table.is_idle());
    }
}
