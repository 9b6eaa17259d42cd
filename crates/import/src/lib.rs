//! Moving over from nginx.
//!
//! 1. [`tree`] reads nginx's configuration language, with the file and line of every node.
mod lexer;
pub mod tree;
