//! HTTP as a service on the event core: codec, exchange, router and handlers.

pub mod config;
