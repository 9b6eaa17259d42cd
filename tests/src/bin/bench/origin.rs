//! What stands behind the proxies: one more drover, on the core of the load generator.

use std::net::SocketAddrV4;
use std::path::Path;

use drover_tests::daemon::Surroundings;
use drover_tests::{Directory, Drover, Port};

use crate::configs;

/// The server that requests are passed on to.
#[derive(Debug)]
pub(crate) struct Origin {
    // Before its directory: fields are dropped in this order.
    _drover: Drover,
    port: Port,
    _directory: Directory,
}

impl Origin {
    /// Starts it; it serves the files beneath `root` too.
    ///
    /// # Panics
    /// When it does not come up: without it nothing can be measured.
    pub(crate) fn start(root: &Path) -> Origin {
        let (directory, port) = (Directory::new(), Port::new());
        let wrapper = ["taskset", "-c", "1"].map(Into::into).to_vec();
        let surroundings = Surroundings { wrapper, ..Surroundings::default() };
        let config = configs::origin(&directory, root, &port);
        let drover = Drover::try_start(&directory, &config, &surroundings);
        let drover = drover.unwrap_or_else(|failure| panic!("the origin ended: {}", failure.stderr));
        Origin { _drover: drover, port, _directory: directory }
    }

    pub(crate) fn address(&self) -> SocketAddrV4 {
        self.port.address()
    }
}
