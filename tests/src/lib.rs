//! What the black-box tests and the benchmark share.
//!
//! A test takes a fresh [`Directory`] and a [`Port`] of its own, writes a [`Config`], starts the real
//! binary as [`Drover`] and talks to it as anyone could: over sockets, by signals, through its logs,
//! its status and `/proc`. Everything is given back when the test ends, also when it fails: dropping a
//! [`Drover`] ends the master and all its workers, and nothing that the test did not start.
//!
//! Nothing here sleeps for a fixed time and hopes. Waiting means [`eventually`]: ask again until a
//! deadline, then fail and say what was waited for.

pub mod backend;
pub mod binary;
pub mod chunked;
pub mod client_hello;
pub mod config;
pub mod daemon;
pub mod datagrams;
pub mod descriptors;
pub mod directory;
pub mod dns;
pub mod example;
pub mod http;
pub mod http_backend;
pub mod load;
pub mod masters;
pub mod name_servers;
pub mod nginx;
pub mod openmetrics;
pub mod packages;
pub mod port;
pub mod process;
pub mod program;
pub mod proxying;
pub mod random;
pub mod rounds;
pub mod schema;
pub mod sockets;
pub mod status;
pub mod strace;
pub mod stream_log;
pub mod systemd;
pub mod variants;
pub mod wait;

pub use backend::Backend;
pub use config::Config;
pub use daemon::Drover;
pub use directory::Directory;
pub use example::Example;
pub use http::{Client, Response};
pub use http_backend::HttpBackend;
pub use load::Load;
pub use port::Port;
pub use program::Program;
pub use proxying::Proxying;
pub use random::Random;
pub use strace::Strace;
pub use wait::{eventually, eventually_within};
