//! The `drover` program.
#![allow(dead_code)]
mod budget;
mod lock;
mod log;
mod log_line;
mod pidfile;
mod plan;
mod privileges;
mod respawn;
mod scoreboard;
mod signals;
mod sockets;
mod systemd;
mod unix_socket;

mod config;

fn main() {}
