//! What became of each request, and which losses are excused: those of connections that were on a worker at the
//! moment it was killed.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddrV4;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

/// Losses that are told in full.
const TOLD_MOST: usize = 10;

/// The book that all clients write to.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    kinds: BTreeMap<&'static str, Counts>,
    lost: Vec<String>,
    /// Which connections, by the client's end, were on a worker that was killed, and when that was.
    killed: BTreeMap<SocketAddrV4, Instant>,
    last_kill: Option<Instant>,
    /// Until when workers may have no descriptor for a file.
    short_until: Option<Instant>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    answered: u64,
    turned_away: u64,
    asked_again: u64,
    excused: u64,
    lost: u64,
}

/// Which connection a request went over.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Way {
    /// From this address.
    Tcp(SocketAddrV4),
    /// Over a unix socket or by datagrams, of which nobody can say which worker has them: a kill of any worker meanwhile
    /// is an excuse.
    Unknown,
}

impl Ledger {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These connections are on a worker that is about to be killed.
    pub(crate) fn will_be_killed(&self, peers: &[SocketAddrV4]) {
        let (mut book, now) = (self.book(), Instant::now());
        book.killed.extend(peers.iter().map(|peer| (*peer, now)));
        book.last_kill = Some(now);
    }

    /// A request was answered as it should be.
    pub(crate) fn answered(&self, kind: &'static str) {
        self.book().kinds.entry(kind).or_default().answered += 1;
    }

    /// Descriptors run out now, and are back by then.
    pub(crate) fn short_until(&self, end: Instant) {
        self.book().short_until = Some(end);
    }

    /// A request that began then was not served in a way that is right where there are no descriptors to open a file
    /// or a connection, and a failure elsewhere.
    pub(crate) fn turned_away(&self, kind: &'static str, way: Way, begun: Instant, reason: &str) {
        if self.book().short_until.is_some_and(|end| begun <= end) {
            self.book().kinds.entry(kind).or_default().turned_away += 1;
        } else {
            self.failed(kind, Some(way), begun, reason);
        }
    }

    /// A kept connection was closed before the request on it was answered, and the client asked again on a new
    /// one, as every client of HTTP has to be able to (RFC 9112, 9.3.1).
    pub(crate) fn asked_again(&self, kind: &'static str) {
        self.book().kinds.entry(kind).or_default().asked_again += 1;
    }

    /// A request that began then was not answered as it should be.
    pub(crate) fn failed(&self, kind: &'static str, way: Option<Way>, begun: Instant, reason: &str) {
        let mut book = self.book();
        let killed = match way {
            Some(Way::Tcp(local)) => book.killed.get(&local).copied(),
            Some(Way::Unknown) => book.last_kill,
            None => None,
        };
        let excused = killed.is_some_and(|at| at >= begun);
        let counts = book.kinds.entry(kind).or_default();
        match excused {
            true => counts.excused += 1,
            false => {
                counts.lost += 1;
                let at = time_of_day();
                book.lost.push(format!("{at} {kind}: {reason} after {:.1?}, {way:?}", begun.elapsed()));
            }
        }
    }

    /// How many requests were answered.
    pub(crate) fn total(&self) -> u64 {
        self.book().kinds.values().map(|counts| counts.answered).sum()
    }

    /// The losses without an excuse.
    pub(crate) fn lost(&self) -> Vec<String> {
        self.book().lost.clone()
    }

    /// The losses without an excuse, the first of them in full.
    pub(crate) fn losses(&self) -> Vec<String> {
        let book = self.book();
        let mut told: Vec<String> =
            book.lost.iter().take(TOLD_MOST).map(|loss| format!("lost: {loss}")).collect();
        if book.lost.len() > TOLD_MOST {
            told.push(format!("{} requests were lost in all", book.lost.len()));
        }
        told
    }
}

/// Of UTC, as the log has it.
fn time_of_day() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (seconds, millis) = (since.as_secs() % 86_400, since.subsec_millis());
    format!("{:02}:{:02}:{:02}.{millis:03}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

impl fmt::Display for Ledger {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            formatter,
            "{:<10} {:>9} {:>12} {:>12} {:>8} {:>6}",
            "requests", "answered", "turned away", "asked again", "excused", "lost"
        )?;
        for (kind, counts) in &self.book().kinds {
            let Counts { answered, turned_away, asked_again, excused, lost } = counts;
            writeln!(
                formatter,
                "{kind:<10} {answered:>9} {turned_away:>12} {asked_again:>12} {excused:>8} {lost:>6}"
            )?;
        }
        Ok(())
    }
}
