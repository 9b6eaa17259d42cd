//! Moving over from nginx: its configuration in drover's terms.
//!
//! 1. [`tree`] reads the language, with the file and line of every directive;
//! 2. [`convert()`] walks over the tree and writes tables, and notes in the [`report`] what became of each directive;
//! 3. [`reference()`] is the mapping as a table, made from what the conversion itself goes by.
//!
//! Architecture invariant: this crate knows the names of drover's keys and nothing else of drover. Whether what it
//! writes can be used is for the daemon's check to say.

mod contexts;
mod convert;
mod directories;
mod document;
mod lexer;
mod mapping;
pub mod report;
pub mod tree;
mod values;

pub use convert::{Converted, convert};
pub use directories::Directories;
pub use mapping::reference;
