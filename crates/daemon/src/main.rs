//! The `drover` program.

fn main() {}
