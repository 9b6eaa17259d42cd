//! HTTP as a service on the event core: codec, exchange, router and handlers.
//!
//! The master makes a [`Plan`] of its config, before it forks; each worker [starts](Plan::start) it after the
//! fork and gives the services to its listeners:
//!
//! ```no_run
//! # fn worker(config: &drover_http::config::Http, core: &drover_event::Core) -> Result<(), Box<dyn std::error::Error>> {
//! let plan = drover_http::Plan::new(config, 1)?;
//! let started = plan.start(core)?;
//! for (listener, service) in plan.listeners().iter().zip(&started.services) {
//!     println!("{} is served", listener.socket.address);
//!     // core.listen(socket, options, service.clone())?;
//! }
//! started.logs.flush();
//! # Ok(())
//! # }
//! ```
//!
//! Where to read first: `h1/head.rs` (a request's head), `h1/work.rs` (the protocol between two waits),
//! `h1/connection.rs` (the waits), `handler/` (what answers).
//! Which requirement of RFC 9110 and RFC 9112 is fulfilled where: `CONFORMANCE.md` in this crate's folder.

mod access;
mod basic_auth;
mod conditional;
pub mod config;
mod encoding;
mod error_pages;
mod exchange;
mod facts;
#[doc(hidden)]
pub mod fuzz;
pub(crate) mod h1;
mod handler;
mod header_changes;
mod limits;
mod log_budget;
mod map;
mod networks;
mod open;
mod open_file_cache;
mod own;
pub(crate) mod path;
mod pattern;
mod plan;
mod random;
mod range;
mod request_id;
mod response;
mod reused_future;
mod router;
mod rules;
mod server;
mod types;
mod upstreams;
mod values;
mod variables;

pub use basic_auth::UsersError;
pub use error_pages::ErrorPageError;
pub use h1::rule::{Refusal, Rule};
pub use handler::files::try_files::TryFilesError;
pub use handler::status::StatusSource;
pub use own::MapError;
pub use plan::{Plan, PlanError};
pub use rules::RuleError;
pub use server::{StartError, Started};
