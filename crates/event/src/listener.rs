//! Listeners: a listening socket of the worker, the service behind it and its accept strategy.

use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::str::FromStr;

use crate::stream::Stream;

/// Who gets a new connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Strategy {
    /// All workers watch one socket and all are woken.
    Shared,
    /// All workers watch one socket and the kernel wakes one or a few.
    #[default]
    Exclusive,
    /// Only the worker that holds a lock watches the socket.
    Mutex,
    /// Each worker has a socket of its own and the kernel spreads connections over them.
    ReusePort,
    /// As `Exclusive`, and workers with more connections than others leave new ones to them.
    Balanced,
}

impl Strategy {
    /// All strategies.
    pub const ALL: &'static [Strategy] =
        &[Self::Shared, Self::Exclusive, Self::Mutex, Self::ReusePort, Self::Balanced];

    /// The word used in the config, in logs and on the scoreboard.
    pub const fn name(self) -> &'static str {
        match self {
            Strategy::Shared => "shared",
            Strategy::Exclusive => "exclusive",
            Strategy::Mutex => "mutex",
            Strategy::ReusePort => "reuseport",
            Strategy::Balanced => "balanced",
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(text: &str) -> Result<Self, UnknownStrategy> {
        Self::ALL
            .iter()
            .copied()
            .find(|strategy| strategy.name() == text)
            .ok_or_else(|| UnknownStrategy(text.to_owned()))
    }
}

/// A word that names no accept strategy.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is no accept strategy: use shared, exclusive, mutex, reuseport or balanced")]
pub struct UnknownStrategy(String);

/// The protocol behind a listener.
pub trait Service {
    /// The connection that just began, as a future that ends with it.
    fn connection(&self, stream: Stream) -> Pin<Box<dyn Future<Output = ()>>>;
}

/// How connections of a listener are taken.
#[derive(Clone, Debug)]
pub struct ListenerOptions {
    /// The address, for logs.
    pub address: String,
    /// Who gets a new connection.
    pub strategy: Strategy,
    /// The kernel hands over a connection only once data has come (`TCP_DEFER_ACCEPT`, set on the
    /// socket by whoever opened it), so the first receive is tried straight after the accept.
    pub deferred: bool,
    /// The client speaks first, so a first receive straight after the accept may be worth trying.
    pub client_first: bool,
}

/// One listener of a worker.
pub(crate) struct Listener {
    pub(crate) slot: u32,
    pub(crate) options: ListenerOptions,
    /// What the strategy amounts to with this backend and this number of workers.
    pub(crate) strategy: Strategy,
    pub(crate) service: Rc<dyn Service>,
    /// Accepts since the worker started, by which re-adding is timed.
    pub(crate) accepts: u32,
    pub(crate) hope: Hope,
    /// A socket that is on its way out: it is only accepted from until it is released.
    pub(crate) surplus: bool,
}

/// Whether the first receive straight after an accept is likely to find data.
///
/// Each try that finds some adds to the credit, each that finds none takes twice as much. Without
/// credit every 32nd connection is tried all the same, so that a change of habit is noticed.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Hope {
    credit: u8,
    untried: u8,
}

impl Hope {
    const ENOUGH: u8 = 4;
    const MOST: u8 = 8;
    const PROBE_EVERY: u8 = 32;

    /// Whether to try on the connection that was just accepted.
    pub(crate) fn worth_trying(&mut self) -> bool {
        if self.credit >= Self::ENOUGH {
            return true;
        }
        self.untried += 1;
        if self.untried < Self::PROBE_EVERY {
            return false;
        }
        self.untried = 0;
        true
    }

    /// Takes note of what a try found.
    pub(crate) fn tried(&mut self, found: bool) {
        self.credit = match (found, self.credit >= Self::ENOUGH) {
            (true, true) => (self.credit + 1).min(Self::MOST),
            (true, false) => Self::ENOUGH,
            (false, _) => self.credit.saturating_sub(2),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strategies_are_read_as_they_are_written() {
        for &strategy in Strategy::ALL {
            assert_eq!(strategy.to_string().parse::<Strategy>().expect("its own name"), strategy);
        }
        assert!("balance".parse::<Strategy>().is_err());
    }

    #[test]
    fn hope_is_probed_earned_and_lost() {
        let mut hope = Hope::default();
        assert_eq!((1..=64).filter(|_| hope.worth_trying()).count(), 2, "two probes in 64 accepts");
        hope.tried(true);
        assert!(hope.worth_trying());
        (0..10).for_each(|_| hope.tried(true));
        hope.tried(false);
        hope.tried(false);
        assert!(hope.worth_trying(), "two misses among many hits");
        hope.tried(false);
        assert!(!hope.worth_trying());
    }
}
