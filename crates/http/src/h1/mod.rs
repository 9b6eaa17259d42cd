//! HTTP/1.1 and 1.0: heads, bodies and the connection that carries them.

pub(crate) mod body;
pub(crate) mod connection;
pub(crate) mod head;
pub(crate) mod name;
pub(crate) mod rule;
mod scan;
pub(crate) mod target;
pub(crate) mod work;

#[cfg(test)]
mod head_tests;
