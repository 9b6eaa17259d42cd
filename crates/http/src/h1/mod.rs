//! HTTP/1.1 and 1.0: heads, bodies and the connection that carries them.

pub(crate) mod asked;
pub(crate) mod at_length;
mod block;
pub(crate) mod body;
mod chunks;
pub(crate) mod complete;
pub(crate) mod connection;
pub(crate) mod framing;
mod gate;
pub(crate) mod hand_over;
pub(crate) mod head;
mod identify;
pub(crate) mod incoming;
pub(crate) mod lines;
pub(crate) mod method;
pub(crate) mod name;
mod proxied;
mod remnant;
mod replaced;
pub(crate) mod report;
pub(crate) mod response_head;
pub(crate) mod route;
pub(crate) mod rule;
mod scan;
mod send;
mod sending;
mod step;
pub(crate) mod target;
mod unwanted;
mod usual;
pub(crate) mod work;

#[cfg(test)]
mod head_tests;
