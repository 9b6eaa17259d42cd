//! Moving over from nginx.
//!
//! 1. [`tree`] reads nginx's configuration language, with the file and line of every node.
mod document;
mod lexer;
pub mod report;
pub mod tree;
mod values;
