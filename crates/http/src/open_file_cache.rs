//! What a worker keeps of files it served: bounded, the longest unused goes first.
//!
//! An entry is found by the number of its root and the path asked for. It is handed out as fresh until
//! `valid` has passed since it was checked against the file, then as stale: whoever asked checks it and puts it
//! back. Time is a parameter.

use std::time::Duration;

use drover_event::Millis;
use foldhash::{HashMap, HashMapExt};

/// Ends the list of entries.
const NONE: u32 = u32::MAX;

struct Entry<T> {
    root: u32,
    path: Box<[u8]>,
    value: T,
    checked: Millis,
    newer: u32,
    older: u32,
}

/// A cache of values that are cheap to clone.
pub(crate) struct OpenFileCache<T> {
    limit: usize,
    valid_ms: u64,
    /// One map for each root.
    numbers: Vec<HashMap<Box<[u8]>, u32>>,
    entries: Vec<Entry<T>>,
    newest: u32,
    oldest: u32,
}

/// What the cache has for a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cached<T> {
    /// Checked a short time ago.
    Fresh(T),
    /// To be checked.
    Stale(T),
    Missing,
}

impl<T: Clone> OpenFileCache<T> {
    /// A cache of at most `limit` entries; 0 keeps none.
    pub(crate) fn new(limit: u32, valid: Duration) -> OpenFileCache<T> {
        OpenFileCache {
            limit: (limit as usize).min(NONE as usize - 1),
            valid_ms: u64::try_from(valid.as_millis()).unwrap_or(u64::MAX),
            numbers: Vec::new(),
            entries: Vec::new(),
            newest: NONE,
            oldest: NONE,
        }
    }

    /// Looks up `path` beneath `root` and marks it as used.
    pub(crate) fn get(&mut self, root: u32, path: &[u8], now: Millis) -> Cached<T> {
        let Some(number) = self.number(root, path) else { return Cached::Missing };
        if self.newest != number {
            self.unlink(number);
            self.link_newest(number);
        }
        let entry = &self.entries[number as usize];
        if now.since(entry.checked) < self.valid_ms {
            Cached::Fresh(entry.value.clone())
        } else {
            Cached::Stale(entry.value.clone())
        }
    }

    fn number(&self, root: u32, path: &[u8]) -> Option<u32> {
        self.numbers.get(root as usize)?.get(path).copied()
    }

    /// Keeps `value`, which was checked `now`.
    pub(crate) fn put(&mut self, root: u32, path: &[u8], value: T, now: Millis) {
        if let Some(number) = self.number(root, path) {
            let entry = &mut self.entries[number as usize];
            entry.value = value;
            entry.checked = now;
            return;
        }
        if self.limit == 0 {
            return;
        }
        if self.entries.len() >= self.limit {
            self.take_out(self.oldest);
        }
        if self.numbers.len() <= root as usize {
            self.numbers.resize_with(root as usize + 1, HashMap::new);
        }
        let number = self.entries.len() as u32;
        let path: Box<[u8]> = path.into();
        self.numbers[root as usize].insert(path.clone(), number);
        self.entries.push(Entry { root, path, value, checked: now, newer: NONE, older: NONE });
        self.link_newest(number);
    }

    /// Forgets `path`.
    pub(crate) fn remove(&mut self, root: u32, path: &[u8]) {
        if let Some(number) = self.number(root, path) {
            self.take_out(number);
        }
    }

    /// Takes an entry out; the last one moves into its place.
    fn take_out(&mut self, number: u32) {
        self.unlink(number);
        let last = self.entries.len() as u32 - 1;
        if last != number {
            self.unlink_for_move(last, number);
        }
        let gone = self.entries.swap_remove(number as usize);
        self.numbers[gone.root as usize].remove(&gone.path);
    }

    /// Has everything that points to entry `from` point to `to`.
    fn unlink_for_move(&mut self, from: u32, to: u32) {
        let (newer, older) = (self.entries[from as usize].newer, self.entries[from as usize].older);
        *self.older_of(newer) = to;
        *self.newer_of(older) = to;
        let entry = &self.entries[from as usize];
        if let Some(number) = self.numbers[entry.root as usize].get_mut(&entry.path) {
            *number = to;
        }
    }

    fn unlink(&mut self, number: u32) {
        let (newer, older) = (self.entries[number as usize].newer, self.entries[number as usize].older);
        *self.older_of(newer) = older;
        *self.newer_of(older) = newer;
    }

    fn link_newest(&mut self, number: u32) {
        let second = self.newest;
        let entry = &mut self.entries[number as usize];
        (entry.newer, entry.older) = (NONE, second);
        *self.newer_of(second) = number;
        self.newest = number;
    }

    /// The link from `number` to the next older one; from the end of the list, its beginning.
    fn older_of(&mut self, number: u32) -> &mut u32 {
        match self.entries.get_mut(number as usize) {
            Some(entry) => &mut entry.older,
            None => &mut self.newest,
        }
    }

    fn newer_of(&mut self, number: u32) -> &mut u32 {
        match self.entries.get_mut(number as usize) {
            Some(entry) => &mut entry.newer,
            None => &mut self.oldest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(millis: u64) -> Millis {
        Millis::new(millis)
    }

    fn cache(limit: u32) -> OpenFileCache<u32> {
        OpenFileCache::new(limit, Duration::from_millis(100))
    }

    #[test]
    fn entries_grow_stale_until_they_are_put_again() {
        let mut cache = cache(2);
        assert_eq!(cache.get(0, b"/a", at(0)), Cached::Missing);
        cache.put(0, b"/a", 1, at(0));
        assert_eq!(cache.get(0, b"/a", at(99)), Cached::Fresh(1));
        assert_eq!(cache.get(1, b"/a", at(99)), Cached::Missing);
        assert_eq!(cache.get(0, b"/a", at(100)), Cached::Stale(1));
        cache.put(0, b"/a", 2, at(100));
        assert_eq!(cache.get(0, b"/a", at(199)), Cached::Fresh(2));
        cache.remove(0, b"/a");
        assert_eq!(cache.get(0, b"/a", at(199)), Cached::Missing);
    }

    #[test]
    fn the_longest_unused_goes_first() {
        let mut cache = cache(2);
        cache.put(0, b"/a", 1, at(0));
        cache.put(0, b"/b", 2, at(0));
        cache.get(0, b"/a", at(0));
        cache.put(0, b"/c", 3, at(0));
        assert_eq!(cache.get(0, b"/b", at(0)), Cached::Missing);
        assert_eq!(cache.get(0, b"/a", at(0)), Cached::Fresh(1));
        assert_eq!(cache.get(0, b"/c", at(0)), Cached::Fresh(3));
    }

    #[test]
    fn a_cache_without_room_keeps_nothing() {
        let mut cache = cache(0);
        cache.put(0, b"/a", 1, at(0));
        assert_eq!(cache.get(0, b"/a", at(0)), Cached::Missing);
    }

    proptest! {
        #[test]
        fn it_does_what_a_plain_list_does(steps in proptest::collection::vec((0_u8..3, 0_u8..2, 0_u8..6), 0..60)) {
            let mut cache = cache(3);
            // The newest last.
            let mut plain: Vec<((u8, u8), u32)> = Vec::new();
            for (at_step, (what, root, path)) in steps.into_iter().enumerate() {
                let key = (root, path);
                let place = plain.iter().position(|(known, _)| *known == key);
                let value = at_step as u32;
                match what {
                    0 => {
                        cache.put(u32::from(root), &[path], value, at(0));
                        match place {
                            Some(place) => plain[place].1 = value,
                            None => {
                                if plain.len() == 3 {
                                    plain.remove(0);
                                }
                                plain.push((key, value));
                            }
                        }
                    }
                    1 => {
                        cache.remove(u32::from(root), &[path]);
                        place.map(|place| plain.remove(place));
                    }
                    _ => {
                        let want = match place {
                            Some(place) => {
                                let entry = plain.remove(place);
                                plain.push(entry);
                                Cached::Fresh(entry.1)
                            }
                            None => Cached::Missing,
                        };
                        prop_assert_eq!(cache.get(u32::from(root), &[path], at(0)), want);
                    }
                }
            }
        }
    }
}
