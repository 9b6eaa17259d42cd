//! The `drover` program.

mod config;

fn main() {}
