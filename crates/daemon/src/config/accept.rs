//! Which accept strategy a listener really gets.

use drover_config::ListenAddress;
use drover_service::{Accept, Listener};

use super::system::System;
use super::{Backend, Config};

/// A strategy, and why it is not the one that was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct InForce {
    /// The strategy.
    pub(crate) accept: Accept,
    /// The reason, where it is a fallback that the operator should hear of.
    pub(crate) reason: Option<&'static str>,
}

impl Config {
    /// The strategy of a listener: its own or that of `[events]`, or what that falls back to.
    pub(crate) fn accept_in_force(&self, listener: &Listener, system: &System) -> InForce {
        let workers = self.worker_count(system);
        if listener.udp {
            // Not a matter of choice, and of no warning.
            let accept = if workers > 1 { Accept::Reuseport } else { Accept::Shared };
            return InForce { accept, reason: None };
        }
        let wanted = listener.accept.unwrap_or(*self.events.accept);
        let exclusive = self.events.backend == Backend::Epoll;
        in_force(wanted, &listener.address, workers, *self.process.master, exclusive)
    }
}

/// `exclusive` of a worker alone becomes `shared` without a word: it makes no difference to anybody.
fn in_force(wanted: Accept, address: &ListenAddress, workers: u32, master: bool, exclusive: bool) -> InForce {
    let alone = workers == 1;
    let (accept, reason) = match wanted {
        Accept::Reuseport if !master => {
            (Accept::Shared, Some("without a master there is one process and one socket"))
        }
        Accept::Reuseport if why_one_socket(address).is_some() => {
            (if alone { Accept::Shared } else { Accept::Exclusive }, why_one_socket(address))
        }
        Accept::Mutex if alone => (Accept::Shared, Some("one worker alone has nobody to take turns with")),
        Accept::Balanced if alone => (Accept::Shared, Some("one worker alone has nobody to share with")),
        Accept::Exclusive if alone => (Accept::Shared, None),
        Accept::Exclusive if !exclusive => {
            (Accept::Shared, Some("this backend cannot wake one worker and not the others"))
        }
        wanted => (wanted, None),
    };
    InForce { accept, reason }
}

/// Why there cannot be a socket for each worker.
fn why_one_socket(address: &ListenAddress) -> Option<&'static str> {
    match address {
        ListenAddress::Tcp(_) => None,
        ListenAddress::Unix(_) => Some("unix sockets cannot share a path"),
        ListenAddress::Systemd(_) => Some("systemd passes one socket"),
    }
}
