//! TCP and UDP proxying as a service on the event core.
//!
//! The master makes a [`Plan`] of its config, before it forks; each worker [starts](Plan::start) it after the
//! fork and gives the services to its listeners:
//!
//! ```no_run
//! # fn worker(config: &drover_stream::config::Stream, core: &drover_event::Core) -> Result<(), Box<dyn std::error::Error>> {
//! let plan = drover_stream::Plan::new(config, 1)?;
//! let started = plan.start(core)?;
//! for (listener, _service) in plan.listeners().zip(&started.services) {
//!     println!("{} is passed on", listener.address);
//!     // core.listen(socket, options, ...)?, or core.listen_datagrams, as the service is.
//! }
//! started.logs.flush();
//! # Ok(())
//! # }
//! ```
//!
//! Where to read first: `tcp.rs` (a connection from accept to close), `udp.rs` (a session of datagrams), `record.rs` (what is known of it, for the
//! log), `client_hello.rs` (the name that a TLS client asks for).
//!
//! Architecture invariant: which server is chosen, and what its failures mean, is the business of
//! `drover-upstream`; how bytes pass is that of the core's pipe.

mod client_hello;
mod complaint;
pub mod config;
mod limits;
mod plan;
mod preread;
mod reason;
mod record;
mod server;
mod tcp;
mod udp;
mod variables;

pub use plan::{Plan, PlanError};
pub use reason::CloseReason;
pub use server::{Behind, StartError, Started};
