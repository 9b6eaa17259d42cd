//! An example of `config/examples/` at work: as it is but for its directories and its ports.

use std::fs;
use std::path::Path;

use crate::binary::source_root;
use crate::config::toml_string;
use crate::http::{Response, exchange, get};
use crate::{Directory, Drover, Port};

/// An example at work.
#[derive(Debug)]
pub struct Example {
    /// Where it listens.
    pub port: Port,
    /// The daemon.
    pub drover: Drover,
    // After the daemon, which uses it: fields are dropped in this order.
    _directory: Directory,
}

impl Example {
    /// Starts the example of this name, which listens on this port of 127.0.0.1.
    #[track_caller]
    pub fn start(name: &str, port_in_file: u16) -> Example {
        Example::before(name, port_in_file, &[])
    }

    /// Starts one that passes requests on: to the second port of each pair where its file has the first.
    ///
    /// # Panics
    ///
    /// When the file has not what is to be replaced in it.
    #[track_caller]
    pub fn before(name: &str, port_in_file: u16, servers: &[(u16, u16)]) -> Example {
        let (directory, port) = (Directory::new(), Port::new());
        let examples = source_root().join("config/examples");
        let mut text =
            fs::read_to_string(examples.join(format!("{name}.toml"))).expect("the example is there");
        let mut replace = |old: String, new: String| {
            assert!(text.contains(&old), "{name}.toml has no {old}");
            text = text.replace(&old, &new);
        };
        let place = |path: &Path| toml_string(&path.display().to_string());
        let run = format!("runtime_dir = {}", place(&directory.join("run")));
        let pid_file = format!("pid_file = {}", place(&directory.join("drover.pid")));
        replace(format!("runtime_dir = \"/tmp/drover-{name}\""), format!("{run}\n{pid_file}"));
        for (in_file, own) in servers.iter().chain(&[(port_in_file, port.number())]) {
            replace(format!("127.0.0.1:{in_file}\""), format!("127.0.0.1:{own}\""));
        }
        let text = text.replace("root = \"site\"", &format!("root = {}", place(&examples.join("site"))));
        let drover = Drover::start_text(&directory, &text);
        Example { port, drover, _directory: directory }
    }

    /// The answer to a request for `target`.
    #[track_caller]
    pub fn get(&self, target: &str) -> Response {
        get(self.port.address(), target)
    }

    /// The answer to these bytes.
    ///
    /// # Panics
    ///
    /// When there is none.
    #[track_caller]
    pub fn ask(&self, bytes: impl AsRef<[u8]>) -> Response {
        exchange(self.port.address(), bytes).expect("an answer")
    }
}
