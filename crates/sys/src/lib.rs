//! The kernel, made safe: system calls that nix lacks, shared memory, fork and the raw waker.
//!
//! This is the only crate of drover in which `unsafe` may stand. Each module is one concern and
//! exposes nothing that a caller could use to break memory safety. Where nix has a safe call that
//! costs no more, drover uses nix and nothing stands here.

mod address;
pub mod capability;
pub mod datagram;
pub mod descriptors;
pub mod epoll;
pub mod exec;
pub mod fork;
pub mod listen;
pub mod memory;
mod named_words;
pub mod poll;
pub mod priority;
pub mod process;
pub mod select;
pub mod signal;
pub mod sock_diag;
pub mod socket;
mod time;
pub mod title;
pub mod waker;
