//! HTTP/1.1 and 1.0: heads, bodies and the connection that carries them.

pub(crate) mod body;
pub(crate) mod head;
pub(crate) mod name;
pub mod rule;
mod scan;
pub(crate) mod target;

#[cfg(test)]
mod head_tests;
