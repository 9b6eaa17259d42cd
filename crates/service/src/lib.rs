//! What drover's services share, and protocols have no say in.
//!
//! * [`accept`]: accept strategies as the config names them, and the [`Listener`]s that a service asks for;
//! * [`access_log`] and [`Logs`]: lines that are gathered and written without ever making anybody wait;
//! * [`access`]: who is let in by address;
//! * [`template`]: texts with variables, such as the formats of access logs; each service has its own
//!   [`Variable`]s;
//! * [`output`]: writing to pipes, terminals and sockets without waiting;
//! * [`log_format`]: what the lines are, text or JSON; [`syslog`]: lines sent to a syslog daemon;
//! * [`mod@check`]: what is checked of all that in a config;
//! * [`limits`]: of what clients with one key may do, over all workers;
//! * [`names`]: names of servers, exact and with a star;
//! * [`text`]: numbers, addresses and hostile bytes written without `fmt`.
//!
//! Architecture invariant: no protocol and no socket; a service depends on this crate and never on another
//! service.

pub mod accept;
pub mod access;
pub mod access_log;
pub mod check;
pub mod limits;
pub mod log_format;
mod logs;
pub mod names;
pub mod outlet;
pub mod output;
pub mod syslog;
pub mod template;
pub mod text;

pub use accept::{Accept, Listener, Probes};
pub use log_format::{Escape, LogFormat, LogFormatConfig};
pub use logs::{Logs, OpenLogError};
pub use names::Names;
pub use outlet::Outlet;
pub use output::Output;
pub use syslog::Syslog;
pub use template::{
    Template, TemplateError, Variable, WrongVariable, check_variables, check_variables_with, variables_in,
};
