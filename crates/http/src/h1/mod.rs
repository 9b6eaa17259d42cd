//! HTTP/1.1 and 1.0: heads, bodies and the connection that carries them.

mod at_length;
mod block;
pub(crate) mod body;
mod chunks;
mod complete;
pub(crate) mod connection;
mod gate;
pub(crate) mod head;
pub(crate) mod method;
pub(crate) mod name;
mod replaced;
mod report;
mod route;
pub(crate) mod rule;
mod scan;
mod send;
mod step;
pub(crate) mod target;
mod usual;
pub(crate) mod work;

#[cfg(test)]
mod head_tests;
