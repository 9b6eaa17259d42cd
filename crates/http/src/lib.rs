//! HTTP as a service on the event core: codec, exchange, router and handlers.

mod access_log;
mod conditional;
pub mod config;
pub(crate) mod h1;
mod open;
pub(crate) mod path;
mod response;
mod router;
mod text;
mod types;
mod variables;

pub use h1::rule::{Refusal, Rule};
pub use variables::{Template, TemplateError, variable_names};
